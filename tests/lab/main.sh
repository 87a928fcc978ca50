#!/bin/sh
# Runs inside the virtual machine: a soft-RoCE device for everybody, then what /lab/what names, one line a result.
set -u
cd /lab
ip link add v0 type veth peer name v1
ip address add 10.0.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
rdma link add rxe0 type rxe netdev v0 || { echo "lab: no soft-RoCE device"; exit 1; }
export RUST_BACKTRACE=1
failed=0
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
run() {
    echo "lab: == $*"
    "$@" 2>/tmp/err
    status=$?
    [ "$status" = 0 ] || tail -n 60 /tmp/err
    [ "$status" = 0 ] || { echo "lab: FAILED ($status): $*"; failed=1; }
}
for what in $(cat what); do
    case $what in
        demo)
            for fault in "--kill leader" "--pause leader"; do
                run ./ringleader demo --fabric verbs --ring 8M --samples 0 --nodes 5 $fault
            done
            ;;
        service) run sh /lab/service ;;
        many)
            # What must end identical every time: 20,000 entries, the leader killed or stopped.
            for round in $(seq 1 10); do
                for nodes in 3 5; do
                    for fault in "--kill leader" "--pause leader"; do
                        rm -rf /tmp/out
                        run ./ringleader demo --fabric verbs --ring 8M --samples 0 --dir /tmp/out --nodes $nodes $fault
                        echo "lab: $(grep MemAvailable /proc/meminfo)"
                        # The rest would only fail after it.
                        [ "$failed" = 0 ] || break 3
                    done
                done
            done
            ;;
        member)
            # One node of a group whose others are in other machines (several.sh). Whoever leads when half of the time is over
            # is cut off for ten seconds.
            read -r node nodes < member
            modprobe virtio_pci
            modprobe virtio_net
            sleep 1
            ip address add 10.2.0.$node/24 dev eth0
            ip link set eth0 up
            rdma link add rxe9 type rxe netdev eth0
            chmod 600 key
            {
                echo 'group = "lab"'
                echo "node = $node"
                echo 'fabric = "verbs"'
                echo 'timing = "soft-roce"'
                echo 'ring = "4M"'
                echo 'control = "/tmp/control"'
                echo '[members]'
                for other in $(seq 1 "$nodes"); do echo "$other = \"10.2.0.$other:7400\""; done
                echo '[verbs]'
                echo 'key_file = "/lab/key"'
                echo 'device = "rxe9"'
            } > node.toml
            mkfifo lines
            ./ringleader run --config node.toml --applied /tmp/applied < lines 2>/tmp/err &
            server=$!
            exec 3> lines
            [ "$node" != 1 ] || run ./ringleader form --config node.toml --timeout 120
            until ./ringleader status --config node.toml --json 2>/dev/null | grep -q '"formed":true'; do sleep 1; done
            leads() { ./ringleader status --config node.toml --json 2>/dev/null | grep -q '"role":"leader"'; }
            for second in $(seq 1 60); do
                for line in $(seq 1 20); do echo "$node-$second-$line" >&3; done
                if [ "$second" = 20 ] && leads; then
                    echo "lab: node $node leads, and is cut off"
                    ip link set eth0 down
                    cut=1
                fi
                if [ "$second" = 30 ] && [ -n "${cut:-}" ]; then
                    ip link set eth0 up
                    echo "lab: node $node is back"
                fi
                sleep 1
            done
            sleep 15
            echo "lab: applied $(wc -l < /tmp/applied) entries: $(md5sum < /tmp/applied | cut -d ' ' -f 1)"
            ./ringleader status --config node.toml
            # The others may still have to read from this one.
            sleep 10
            kill -TERM $server
            wait $server || { tail -n 30 /tmp/err; failed=1; }
            ;;
        links)
            fleet 3
            run ./verbs_lab --ignored --test-threads=1 --nocapture --skip device_breaks
            run env RINGLEADER_TEST_DEVICE_FATAL=1:8000 ./verbs_lab --ignored --nocapture device_breaks
            ;;
        wire)
            # The demo over real packets: every node on a device and a network interface of its own.
            fleet 5
            run ./ringleader demo --fabric verbs --ring 8M --samples 0 $devices
            run ./ringleader demo --fabric verbs --ring 8M --samples 0 --nodes 5 --pause leader $devices
            ;;
        bench)
            run ./ringleader bench fence
            run ./ringleader bench commit --fabric verbs --samples 3000
            ;;
        commit) run ./ringleader bench commit --fabric verbs --samples 1000 ;;
        without)
            # Without the library the program starts, does what it can, and says in one line what it cannot.
            mv /lib/libibverbs.so.1 /lib/away
            run ./ringleader demo --ring 1M --entries 1000 --samples 0
            run ./ringleader --version
            ./ringleader demo --fabric verbs --ring 1M 2>&1 | tee /tmp/said
            grep -q "libibverbs is not installed" /tmp/said || { echo "lab: FAILED: says nothing"; failed=1; }
            mv /lib/away /lib/libibverbs.so.1
            ;;
        unit) run ./unit_tests --ignored --test-threads=1 --nocapture --skip weak_fences fabric::verbs ;;
        weak) run ./unit_tests --ignored --test-threads=1 --nocapture weak_fences ;;
        *) echo "lab: nothing is called $what"; failed=1 ;;
    esac
done
if [ "$failed" != 0 ]; then
    # What the kernel has to say, and whom it keeps waiting.
    echo w > /proc/sysrq-trigger
    dmesg | grep -v "^\[[ 0-9.]*\]  ?" | tail -n 120
fi
exit "$failed"
