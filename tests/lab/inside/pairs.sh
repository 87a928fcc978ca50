# To be sourced by a scene of nodes whose host and acceptor are two processes, each on a device of its own (acceptors on rxe1 to rxe3, their
# hosts on rxe4 to rxe6). `scene`: its name; `host`, `dpu`: the programs; `port`: of node 0; `in_machine NODE DEVICE PROGRAM…` runs a program
# in what stands for a node's machine.

fleet 6
work=/tmp/$scene
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
say() { echo "lab: $scene: $*"; }
fail() {
    say "FAILED: $*"
    for log in "$work"/log-*; do echo "-- $log"; tail -n 12 "$log"; done
    # shellcheck disable=SC2046
    kill -9 $(cat "$work"/pid-* 2>/dev/null) 2>/dev/null
    exit 1
}
# Of a node, on a device; its last table is [dpu].
configuration() {
    echo "group = \"lab\""
    echo "fabric = \"verbs\""
    echo "timing = \"soft-roce\""
    echo "ring = \"1M\""
    echo "control = \"$work/control-$1\""
    echo "[members]"
    for id in 1 2 3; do echo "$id = \"127.0.0.1:$((port + id))\""; done
    echo "[verbs]"
    echo "key_file = \"group.key\""
    echo "device = \"rxe$2\""
    echo "[dpu]"
    echo "control = \"$work/dpu-$1\""
}
"$host" key group.key || fail "no key"
for node in 1 2 3; do
    configuration "$node" "$node" > "dpu-$node.toml"
    configuration "$node" "$((node + 3))" > "host-$node.toml"
done
start_dpu() {
    in_machine "$1" DPU "$dpu" run --config "dpu-$1.toml" --node "$1" > /dev/null 2>> "log-dpu-$1" &
    echo "$!" > "pid-dpu-$1"
}
# Its input stays open, at descriptor 3 + node.
start_host() {
    rm -f "in-$1" "applied-$1"
    mkfifo "in-$1"
    in_machine "$1" HOST "$host" run --config "host-$1.toml" --node "$1" --applied "applied-$1" < "in-$1" > /dev/null 2>> "log-host-$1" &
    echo "$!" > "pid-host-$1"
    eval "exec $((3 + $1))> in-$1"
}
signal() { kill "-$1" "$(cat "pid-$2-$3")"; }
ended() {
    wait "$(cat "pid-$1-$2")"
    code=$?
    [ "$1" = dpu ] || eval "exec $((3 + $2))>&-"
    return "$code"
}
leads() { timeout 20 "$host" status --config "host-$1.toml" --node "$1" 2>/dev/null | grep -q "leads in term"; }
host_is() { "$dpu" status --config "dpu-$1.toml" --node "$1" | grep -q "$([ "$2" = up ] && echo 'its host is up\|its host leads' || echo 'its host is down')"; }
readmit() { find_leader 1 2 3; "$host" member readmit "$1" --config "host-$leader.toml" --node "$leader" --timeout 20; }
all_end() {
    for node in 1 2 3; do
        signal TERM host "$node"
        ended host "$node" || fail "the host of node $node ended with $?"
    done
    for node in 1 2 3; do
        signal TERM dpu "$node"
        ended dpu "$node" || fail "the DPU of node $node ended with $?"
    done
    left=$(find "$work" -type s)
    [ -z "$left" ] || fail "sockets are left: $left"
    say "all ended well"
}
