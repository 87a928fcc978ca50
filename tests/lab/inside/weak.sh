# What weak fences let through. On soft-RoCE this breaks the kernel's own books, and perhaps the machine.
. /lab/inside/common.sh
run ./unit_tests --ignored --test-threads=1 --nocapture weak_fences
exit $failed
