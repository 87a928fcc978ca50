# What must end identical every time: 20,000 entries, 3 and 5 nodes, the leader killed or stopped, ten times each.
. /lab/inside/common.sh
for round in $(seq 1 10); do
    for nodes in 3 5; do
        for fault in "--kill leader" "--pause leader"; do
            rm -rf /tmp/out
            run ./ringleader demo --fabric verbs --ring 8M --samples 0 --dir /tmp/out --nodes $nodes $fault
            [ "$failed" = 0 ] || exit 1
        done
    done
done
echo "lab: 40 of 40 demos ended well"
