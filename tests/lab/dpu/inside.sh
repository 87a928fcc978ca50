#!/bin/sh
# Runs inside each machine of the DPU lab: sets its devices up, then does what it is told over a virtio port, a line of shell at a
# time. What that says goes back, and a last line with its status.
#
# /lab/role is `dpu`, `host` or `rest`. One Ethernet segment, 10.1.0.0/24, leads through the DPU, as on a BlueField: its uplink `p0`,
# the port `pf0hpf` to its host, and the other end of its own sub-function `sf0` are joined in a bridge.
set -u
. /lab/inside/common.sh
modprobe virtio_pci
modprobe virtio_net
modprobe virtio_console
role=$(cat /lab/role)
work=/tmp/node
mkdir -p "$work"
cd "$work" || exit 1
cp /lab/key group.key
chmod 600 group.key
export RINGLEADER_LOG=info RUST_BACKTRACE=1
appears() { for _ in $(seq 1 100); do [ -e "$1" ] && return; sleep 0.1; done; echo "lab: $1 does not appear"; exit 1; }

appears /sys/class/net/eth0
case $role in
    dpu)
        # The first interface is the uplink, the second that of the host.
        appears /sys/class/net/eth1
        modprobe bridge
        # Only sf0 answers for its address, and not the bridge, too.
        echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore
        ip link set eth0 name p0
        ip link set eth1 name pf0hpf
        ip link add br0 type bridge
        # As hardware does, it keeps its address over a restart.
        ip link add sf0 address 52:54:00:00:00:13 type veth peer name sf0r
        for port in p0 pf0hpf sf0r; do ip link set "$port" master br0; ip link set "$port" up; done
        ip link set br0 up
        ip address add 10.1.0.1/24 dev sf0
        ip link set sf0 up
        rdma link add rxe1 type rxe netdev sf0
        ;;
    host)
        ip address add 10.1.0.10/24 dev eth0
        ip link set eth0 up
        rdma link add rxe1 type rxe netdev eth0
        ;;
    rest)
        # Acceptors of nodes 2 and 3 on rxe2 and rxe3, their hosts on rxe4 and rxe5; TCP by the bridge's own address. That of node 1
        # is elsewhere.
        fleet 5
        rdma link del rxe1
        ip link del n1
        ip rule del pref 101
        ip link set eth0 master br0
        ip link set eth0 up
        ip address add 10.1.0.9/24 dev br0
        ;;
esac
configuration() {
    echo 'group = "lab"'
    echo 'fabric = "verbs"'
    echo 'timing = "soft-roce"'
    echo 'ring = "4M"'
    echo "control = \"$work/control-$1\""
    echo '[members]'
    echo '1 = "10.1.0.1:7401"'
    echo '2 = "10.1.0.9:7402"'
    echo '3 = "10.1.0.9:7403"'
    echo '[verbs]'
    echo 'key_file = "group.key"'
    echo "device = \"$2\""
    echo '[dpu]'
    echo "control = \"$work/dpu-$1\""
}
device() { case $role-$1-$2 in *-1-*) echo rxe1 ;; *-dpu) echo "rxe$1" ;; *) echo "rxe$(($1 + 2))" ;; esac; }
for node in 1 2 3; do
    for half in dpu host; do configuration "$node" "$(device "$node" "$half")" > "$half-$node.toml"; done
done

# What may be told. $1 is a node.
start_dpu() {
    /lab/ringleader-dpu run --config "dpu-$1.toml" --node "$1" > /dev/null 2>> "log-dpu-$1" < /dev/null &
    echo "$!" > "pid-dpu-$1"
    until dpu_status "$1" > /dev/null 2>&1; do is_over dpu "$1" && return 1; sleep 0.2; done
}
# Its input stays open, at descriptor 3 + node.
start_host() {
    rm -f "in-$1" "applied-$1"
    mkfifo "in-$1"
    /lab/ringleader run --config "host-$1.toml" --node "$1" --applied "applied-$1" < "in-$1" > /dev/null 2>> "log-host-$1" &
    echo "$!" > "pid-host-$1"
    eval "exec $((3 + $1))> in-$1"
    until host status "$1" > /dev/null 2>&1; do is_over host "$1" && return 1; sleep 0.2; done
}
host() { what=$1 node=$2; shift 2; timeout 90 /lab/ringleader $what --config "host-$node.toml" --node "$node" "$@"; }
dpu_status() { timeout 20 /lab/ringleader-dpu status --config "dpu-$1.toml" --node "$1"; }
leads() { timeout 20 /lab/ringleader status --config "host-$1.toml" --node "$1" 2>/dev/null | grep -q "leads in term"; }
has_given_up() { timeout 20 /lab/ringleader status --config "host-$1.toml" --node "$1" > status && ! grep -q "leads in term" status; }
host_is() {
    case $2 in
        up) dpu_status "$1" | grep -q "its host is up\|its host leads" ;;
        leads) dpu_status "$1" | grep -q "its host leads" ;;
        down) dpu_status "$1" | grep -q "its host is down" ;;
    esac
}
follows() { dpu_status "$1" | grep -q "follows node $2 in term"; }
signal() { kill "-$1" "$(cat "pid-$2-$3")"; }
# Waits for the end of a half, and says how it ended.
ended() {
    wait "$(cat "pid-$1-$2")"
    code=$?
    [ "$1" = dpu ] || eval "exec $((3 + $2))>&-"
    echo "$code"
}
is_over() { ! kill -0 "$(cat "pid-$1-$2")" 2>/dev/null || grep -q '^State:.*Z' "/proc/$(cat "pid-$1-$2")/status"; }
# Gives 500 lines of a batch.
give() { seq 1 500 | sed "s/^/$2-/" > given; eval "cat given >&$((3 + $1))"; }
# How many lines of a batch there are, how many in all, how many of them twice, and a sum of all.
applied() {
    echo "$(grep -c "^$2-" "applied-$1")" "$(wc -l < "applied-$1")" "$(sort "applied-$1" | uniq -d | wc -l)" "$(md5sum < "applied-$1" | cut -c1-32)"
}
has_applied() { [ "$(applied "$1" "$2")" = "$3 $4 $5 $6" ]; }
term() { dpu_status "$1" | sed -n 's/.*[ (]term \([0-9]*\).*/\1/p'; }
said() { grep -q "$2" "log-host-$1"; }
sockets() { find "$work" -type s; }
logs() { for log in "$work"/log-*; do echo "-- $log"; tail -n 25 "$log"; done; }

# Stops the machine of this DPU's host by its monitor, which leads here as another port, and waits for the mark. Says how many
# microseconds that took, from before the word was said to the line in the agent's log: one clock, this machine's.
stop_host() {
    before=$(grep -c "marked down" log-dpu-1)
    date -u +%s%N > began
    echo stop >&9
    for _ in $(seq 1 200); do
        [ "$(grep -c "marked down" log-dpu-1)" = "$before" ] || break
        usleep 20000
    done
    at=$(grep "marked down" log-dpu-1 | tail -n +$((before + 1)) | head -n 1 | cut -d ' ' -f 1)
    [ -n "$at" ] || { echo "it is never marked down"; return 1; }
    echo $((($(date -u -d "$at" +%s%N) - $(cat began)) / 1000))
}
continue_host() { echo cont >&9; }
# The host reaches all but its own DPU; or the DPU's end of its cable is pulled.
isolate() { for port in pf0hpf sf0r; do ip link set dev "$port" type bridge_slave isolated "$1" || return; done; }
reaches() { nc -w 5 "$1" "$2"; }
cable() { ip link set pf0hpf "$1"; }

if [ "$role" = dpu ]; then
    appears /dev/vport0p2
    exec 9<> /dev/vport0p2
    # What a monitor says is read, and dropped; the reading ends with each machine.
    while :; do cat <&9; sleep 1; done > /dev/null &
fi
appears /dev/vport0p1
exec 3<> /dev/vport0p1
echo "lab: ready" >&3
while read -r line <&3; do
    case $line in "") continue ;; bye) break ;; esac
    eval "$line" > /tmp/said 2>&1 < /dev/null
    code=$?
    cat /tmp/said >&3
    echo "lab: end $code" >&3
done
exit 0
