# Links down and up, loss and delay, wrong keys, a device that breaks: each node on a device and an interface of its own.
. /lab/inside/common.sh
fleet 4
run ./verbs_lab --ignored --test-threads=1 --nocapture --skip device_breaks
run env RINGLEADER_TEST_DEVICE_FATAL=1:8000 ./verbs_lab --ignored --nocapture device_breaks
exit $failed
