#!/bin/sh
# Several virtual machines on one Ethernet segment, a node in each; the one that leads is cut off for a while. All must end with
# the same entries.
#
# Usage: several.sh CACHE DIRECTORY: an image, and a directory with the program, as for boot.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: several.sh CACHE DIRECTORY}
lab=${2:?usage: several.sh CACHE DIRECTORY}
nodes=3
work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-several.XXXXXX")
children=
finish() {
    [ -z "$children" ] || kill $children 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# A group of its own for each run: the frames of another lab on this host are not ours.
group="239.$(($$ % 250)).$(($(date +%s) % 250)).7:$((20000 + $$ % 20000))"
"$lab/ringleader" key "$work/key" >/dev/null
for node in $(seq 1 $nodes); do
    mkdir "$work/$node"
    cp -rp "$lab/ringleader" "$lab/main" "$lab/inside" "$work/key" "$work/$node/"
    echo member > "$work/$node/what"
    echo "$node $nodes" > "$work/$node/member"
    LAB_SECONDS=${LAB_SECONDS:-500} LAB_MEMORY=512 "$here/boot.sh" "$cache" "$work/$node" \
        -netdev "socket,id=net,mcast=$group,localaddr=127.0.0.1" \
        -device "virtio-net-pci,netdev=net,mac=52:54:00:00:00:0$node" > "$work/$node.log" 2>&1 &
    children="$children $!"
done
failed=0
for child in $children; do
    wait "$child" || failed=1
done
children=
for node in $(seq 1 $nodes); do
    sed -n "s/^lab: /lab: machine $node: /p" "$work/$node.log"
done
sums=$(sed -n 's/^lab: applied .* \([0-9a-f]*\)$/\1/p' "$work"/*.log | sort | uniq -c)
[ "$(echo "$sums" | wc -l)" = 1 ] && [ "$(echo "$sums" | sed 's/^ *\([0-9]*\) .*/\1/')" = $nodes ] || {
    echo "lab: FAILED: the machines do not end with the same entries" >&2
    failed=1
}
[ "$failed" = 0 ] || tail -n 30 "$work"/*.log
exit $failed
