# The fabric's own tests, on a device.
. /lab/inside/common.sh
run ./unit_tests --ignored --test-threads=1 --nocapture --skip weak_fences fabric::verbs
exit $failed
