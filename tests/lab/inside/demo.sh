# Five nodes on one device, the leader killed, then stopped, while all nodes read.
. /lab/inside/common.sh
for fault in "--kill leader" "--pause leader"; do
    run ./ringleader demo --fabric verbs --ring 8M --samples 0 --nodes 5 --reads 1 $fault
done
exit $failed
