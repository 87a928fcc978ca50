#!/bin/sh
# Inside the virtual machine: three nodes by their configuration, as on three hosts. They form a group, apply what the leader's
# input says, lose the leader, and go on; a node with another key or another ring is turned away with a clear word.
set -u
work=/tmp/service
mkdir -p "$work"
cd "$work"
program=/lab/ringleader
. /lab/inside/lines.sh
say() { echo "lab: service: $*"; }
fail() {
    echo "lab: service: $*"
    for log in "$work"/log-*; do echo "-- $log"; tail -n 15 "$log"; done
    exit 1
}
configuration() {
    echo "group = \"lab\""
    echo "fabric = \"verbs\""
    echo "timing = \"soft-roce\""
    echo "ring = \"$1\""
    echo "control = \"$work/control-$2\""
    echo "[members]"
    for node in 1 2 3; do echo "$node = \"127.0.0.1:740$node\""; done
    echo "[verbs]"
    echo "key_file = \"$3\""
    echo "device = \"rxe0\""
}
"$program" key group.key || fail "no key"
"$program" key other.key || fail "no other key"
for node in 1 2 3; do configuration 1M "$node" group.key > "node-$node.toml"; done
"$program" doctor --config node-1.toml --node 1 || fail "the doctor is not content"

# Its input stays open, at descriptor 3 + node.
start() {
    node=$1 config=$2
    rm -f "in-$node"
    mkfifo "in-$node"
    "$program" run --config "$config" --node "$node" --applied "applied-$node" < "in-$node" > "out-$node" 2>> "log-$node" &
    eval "pid_$node=$!"
    eval "exec $((3 + node))> in-$node"
}
stop() {
    eval "kill -TERM \$pid_$1"
    eval "wait \$pid_$1" || fail "node $1 ended with $?"
    eval "exec $((3 + $1))>&-"
}
# The third has another key at first, then another ring.
start 1 node-1.toml
start 2 node-2.toml
configuration 1M 3 other.key > wrong.toml
start 3 wrong.toml
until_true grep -q "it has another key" log-1
until_true grep -q "has another key" log-3
stop 3
rm -f applied-3
configuration 2M 3 group.key > wrong.toml
start 3 wrong.toml
until_true grep -q "its ring has 2097152 bytes, and this node's has 1048576" log-1
until_true grep -q "its ring has 1048576 bytes, and this node's has 2097152" log-3
"$program" form --config node-1.toml --node 1 --timeout 1 && fail "formed with a wrong node"
stop 3
rm -f applied-3
# One that speaks another version of the exchange is told this one.
printf 'RINGLDR\011' | nc -w 2 127.0.0.1 7401 > answer
[ "$(cat answer)" = "$(printf 'RINGLDR\002')" ] || fail "answers another version with $(cat answer)"
until_true grep -q "it speaks version 9 of the exchange, and this node version 2" log-1
start 3 node-3.toml
until_true grep -q "waits for its group" log-3
"$program" form --config node-1.toml --node 1 --timeout 60 || fail "not formed"

leads() { "$program" status --config "node-$1.toml" --node "$1" 2>/dev/null | grep -q "leads in term"; }
find_leader 1 2 3
replicate 2000 1 2 3
echo "lab: service: 2000 lines on three nodes, node $leader leads"
stop "$leader"
gone=$leader
others=$(echo 1 2 3 | sed "s/$leader//")
# shellcheck disable=SC2086
replicate 2000 $others
echo "lab: service: node $gone ended, node $leader took over, the others have the same"
for node in $others; do stop "$node"; done
[ -z "$(ls "$work" | grep control)" ] || fail "a control socket is left: $(ls "$work")"
