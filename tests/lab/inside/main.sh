#!/bin/sh
# Runs inside the virtual machine: a soft-RoCE device for everybody, then the scripts that /lab/what names, one after the other.
set -u
cd /lab
ip link add v0 type veth peer name v1
ip address add 10.0.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
rdma link add rxe0 type rxe netdev v0 || { echo "lab: no soft-RoCE device"; exit 1; }
export RUST_BACKTRACE=1
failed=0
for what in $(cat what); do
    [ -e "inside/$what.sh" ] || { echo "lab: nothing is called $what"; failed=1; continue; }
    sh "inside/$what.sh" || failed=1
done
if [ "$failed" != 0 ]; then
    # What the kernel has to say, and whom it keeps waiting.
    echo w > /proc/sysrq-trigger
    dmesg | grep -v "^\[[ 0-9.]*\]  ?" | tail -n 120
fi
exit "$failed"
