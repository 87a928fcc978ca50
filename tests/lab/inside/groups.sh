# Several groups on one device a node, with one completion queue a plane: the leads spread, a node killed that leads its share.
. /lab/inside/common.sh
fleet 3
run ./ringleader demo --fabric verbs $devices --groups 4 --ring 1M --entries 2000 --kill leader
run ./ringleader demo --fabric verbs --groups 4 --ring 1M --entries 2000 --samples 0 --kill none
exit $failed
