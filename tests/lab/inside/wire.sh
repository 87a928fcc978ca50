# The demo over real packets: every node on a device and a network interface of its own.
. /lab/inside/common.sh
fleet 5
run ./ringleader demo --fabric verbs --ring 8M --samples 0 $devices
run ./ringleader demo --fabric verbs --ring 8M --samples 0 --nodes 5 --pause leader $devices
exit $failed
