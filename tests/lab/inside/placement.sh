#!/bin/sh
# Inside the virtual machine: three nodes whose host and acceptor are two processes. The logs of nodes 1 and 2 are in the memory of their
# hosts (placement = "host"), over the tests' stand-in for DOCA, whose keys are those of the acceptors' own soft-RoCE devices (rxe1 to
# rxe3; their hosts are on rxe4 to rxe6). A host hangs while its DPU votes with the log in its memory; one dies, comes again with other
# memory, and takes the life of its acceptor with it; an acceptor dies.
set -u
. /lab/inside/common.sh
. /lab/inside/lines.sh
scene=placement
host=/lab/doca/ringleader
dpu=/lab/doca/ringleader-dpu
export LD_LIBRARY_PATH=/lab/doca
port=7420
# Each node is a machine of its own to the stand-in, in which its devices have the names of the RDMA devices.
in_machine() {
    case $2 in
        DPU) device=DOCA_STAND_IN_DPU=rxe$1 ;;
        HOST) device=DOCA_STAND_IN_HOST=rxe$((3 + $1)) ;;
    esac
    machine=DOCA_STAND_IN_DIR=$work/machine-$1
    shift 2
    exec env "$machine" "$device" RINGLEADER_TEST_DOCA_STAND_IN=1 "$@"
}
. /lab/inside/pairs.sh
for node in 1 2 3; do
    mkdir "machine-$node"
    [ "$node" = 3 ] || for file in "dpu-$node.toml" "host-$node.toml"; do
        printf 'placement = "host"\nhost = "0000:3b:00.0"\n' >> "$file"
    done
done

# What is no DOCA serves nobody who does not ask for it.
if DOCA_STAND_IN_DIR=$work/machine-1 DOCA_STAND_IN_DPU=rxe1 "$dpu" run --config dpu-1.toml --node 1 2> refused; then
    fail "it runs with the stand-in"
fi
grep -q "build it with NVIDIA's SDK" refused || fail "it does not say that it has the stand-in: $(cat refused)"

for node in 1 2 3; do start_dpu "$node"; done
until_true grep -q "waits for its host's memory" log-dpu-1
for node in 1 2 3; do start_host "$node"; done
for node in 1 2 3; do until_true host_is "$node" up; done
grep -q "its log is in the memory of this host" log-host-1 || fail "the log is somewhere else"
"$host" form --config host-1.toml --node 1 --timeout 60 || fail "not formed"
replicate 500 1 2 3
say "500 lines on three nodes, node $leader leads; two of the logs are in their hosts' memory"

# Each of the two hangs in turn while it leads or follows; its DPU goes on with the log in its memory.
for gone in 1 2; do
    others=$(echo 1 2 3 | sed "s/$gone//")
    signal STOP host "$gone"
    until_true host_is "$gone" down
    # shellcheck disable=SC2086
    replicate 500 $others
    signal CONT host "$gone"
    until_true host_is "$gone" up
    replicate 500 1 2 3
    say "the host of node $gone hung, and has the same"
done

# With node 3 away nothing is committed without the log in the memory of a host that hangs.
find_leader 1 2 3
signal STOP host 3
signal STOP dpu 3
replicate 500 1 2
gone=$(echo 1 2 | sed "s/$leader//" | tr -d ' ')
signal STOP host "$gone"
until_true host_is "$gone" down
replicate 500 "$leader"
say "committed by node $leader and the DPU of node $gone, in the memory of its host, which hangs"
signal CONT host "$gone"
replicate 500 1 2
signal CONT dpu 3
signal CONT host 3
replicate 500 1 2 3

# A host dies, and its memory with it: its acceptor ends when it comes again, and both begin another life.
gone=1
signal KILL host "$gone"
ended host "$gone"
until_true host_is "$gone" down
replicate 500 2 3
start_host "$gone"
ended dpu "$gone" && fail "the acceptor of node $gone goes on with memory that is gone"
grep -q "its host came again with other memory" "log-dpu-$gone" || fail "it does not say why it ended"
start_dpu "$gone"
until_true host_is "$gone" up
until_true readmit "$gone"
replicate 500 1 2 3
say "the host of node $gone died, and the node was let in again with its new memory"

# An acceptor dies: its host ends with it.
gone=2
signal KILL dpu "$gone"
ended dpu "$gone"
start_dpu "$gone"
ended host "$gone" && fail "the host of node $gone did not say that its acceptor is another one"
start_host "$gone"
until_true host_is "$gone" up
until_true readmit "$gone"
replicate 500 1 2 3
say "the DPU of node $gone died, and the node was let in again"

all_end
