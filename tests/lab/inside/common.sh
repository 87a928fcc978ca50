# What the scripts in the machine share. Each ends with `exit $failed`.
failed=0
cd /lab || exit 1

# Runs a command; what it says to standard error is shown when it fails.
run() {
    echo "lab: == $*"
    "$@" 2>/tmp/err
    status=$?
    [ "$status" = 0 ] && return
    tail -n 60 /tmp/err
    echo "lab: FAILED ($status): $*"
    failed=1
}

# A device for each of $1 nodes, each on a network interface of its own, all joined by a bridge. The kernel would take the
# short way between two addresses of one machine: rules send what leaves by an interface to its table, not to `local`.
fleet() {
    if [ ! -e /sys/class/net/br0 ]; then
        modprobe bridge
        ip link add br0 type bridge
        ip link set br0 up
        for file in /proc/sys/net/ipv4/conf/all /proc/sys/net/ipv4/conf/default; do
            echo 0 > $file/rp_filter
            echo 1 > $file/accept_local
            echo 2 > $file/arp_ignore
            echo 1 > $file/arp_announce
        done
        ip rule add pref 300 lookup local
        ip rule del pref 0
    fi
    for node in $(seq 1 "$1"); do
        [ ! -e /sys/class/net/n$node ] || continue
        ip link add n$node type veth peer name b$node
        echo 1 > /proc/sys/net/ipv4/conf/n$node/accept_local
        echo 0 > /proc/sys/net/ipv4/conf/n$node/rp_filter
        ip address add 10.1.0.$node/24 dev n$node noprefixroute
        ip link set n$node up
        ip link set b$node master br0
        ip link set b$node up
        ip route add 10.1.0.0/24 dev n$node src 10.1.0.$node table $((100 + node))
        ip route add local 10.1.0.$node dev n$node table $((100 + node))
        ip rule add pref $((100 + node)) iif lo oif n$node lookup $((100 + node))
        rdma link add rxe$node type rxe netdev n$node
    done
    devices=$(for node in $(seq 1 "$1"); do echo "--device rxe$node"; done)
}
