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
run() {
    echo "lab: == $*"
    "$@"
    status=$?
    [ "$status" = 0 ] || { echo "lab: FAILED ($status): $*"; failed=1; }
}
for what in $(cat what); do
    case $what in
        demo)
            for nodes in 3 5; do
                for fault in --kill --pause; do
                    run ./ringleader-program demo --fabric verbs --ring 8M --samples 500 --nodes "$nodes" "$fault" leader
                done
            done
            ;;
        demo1) run env RINGLEADER_LOG=${LOG:-info} ./ringleader-program demo --fabric verbs --ring 8M --samples 500 ;;
        without)
            # Without the library the program starts, does what it can, and says in one line what it cannot.
            mv /lib/libibverbs.so.1 /lib/away
            run ./ringleader-program demo --ring 1M --entries 1000 --samples 0
            ./ringleader-program demo --fabric verbs --ring 1M 2>&1 | tee /tmp/said
            grep -q "libibverbs is not installed" /tmp/said || { echo "lab: FAILED: says nothing"; failed=1; }
            mv /lib/away /lib/libibverbs.so.1
            ;;
        unit) run ./ringleader --ignored --test-threads=1 --nocapture --skip weak_fences fabric::verbs ;;
        weak) run ./ringleader --ignored --test-threads=1 --nocapture weak_fences ;;
        *) echo "lab: nothing is called $what"; failed=1 ;;
    esac
done
[ "$failed" = 0 ] || dmesg | grep -v "^\[[ 0-9.]*\]  ?" | grep -A25 "cut here" | head -n 60
exit "$failed"
