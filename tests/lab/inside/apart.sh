#!/bin/sh
# Inside the virtual machine: three nodes whose host and acceptor are two processes, each on a device of its own (acceptors on rxe1 to
# rxe3, their hosts on rxe4 to rxe6). Hosts hang and die while their acceptors vote on, come back, and find the log there; an acceptor
# dies, and takes its host with it; the way between the two is cut.
set -u
. /lab/inside/common.sh
. /lab/inside/lines.sh
scene=apart
host=/lab/ringleader
dpu=/lab/ringleader-dpu
port=7410
in_machine() {
    shift 2
    exec "$@"
}
. /lab/inside/pairs.sh
for node in 1 2 3; do start_dpu "$node"; start_host "$node"; done
say "three nodes of two processes run"
for node in 1 2 3; do until_true host_is "$node" up; done
"$host" form --config host-1.toml --node 1 --timeout 60 || fail "not formed"
replicate 500 1 2 3
say "500 lines on three nodes, node $leader leads"

# A host hangs while it leads; another machine's host takes over, with the vote of its DPU.
gone=$leader
others=$(echo 1 2 3 | sed "s/$gone//")
signal STOP host "$gone"
until_true host_is "$gone" down
# shellcheck disable=SC2086
replicate 500 $others
say "the host of node $gone was stopped, node $leader took over"
signal CONT host "$gone"
until_true host_is "$gone" up
replicate 500 1 2 3
say "it goes on, and has the same"

# It dies. With another node gone, nothing is committed without the vote of its DPU.
find_leader 1 2 3
gone=$leader
signal KILL host "$gone"
ended host "$gone"
until_true host_is "$gone" down
# shellcheck disable=SC2046
find_leader $(echo 1 2 3 | sed "s/$gone//")
third=$(echo 1 2 3 | sed "s/$gone//; s/$leader//" | tr -d ' ')
signal STOP host "$third"
signal STOP dpu "$third"
replicate 500 "$leader"
say "committed by node $leader and the DPU of node $gone, whose host is dead; node $third hangs"
start_host "$gone"
until_true cmp "applied-$gone" "applied-$leader"
say "its host came back, and found all of it there"
signal CONT dpu "$third"
signal CONT host "$third"
replicate 500 1 2 3

# A DPU dies, and its log with it: the host ends, and both come as another life.
find_leader 1 2 3
gone=$(echo 1 2 3 | sed "s/$leader//" | tr -d ' ' | cut -c1)
signal KILL dpu "$gone"
ended dpu "$gone"
start_dpu "$gone"
ended host "$gone" && fail "the host of node $gone did not say that its acceptor is another one"
grep -q "start the host anew" "log-host-$gone" || fail "the host of node $gone does not say why it ended"
start_host "$gone"
until_true host_is "$gone" up
until_true readmit "$gone"
replicate 500 1 2 3
say "the DPU of node $gone died, and was let in again as another life"

# The way of a leader's host to all acceptors is cut, its own among them.
find_leader 1 2 3
gone=$leader
ip link set "n$((gone + 3))" down
# shellcheck disable=SC2046
replicate 500 $(echo 1 2 3 | sed "s/$gone//")
ip link set "n$((gone + 3))" up
ip route add 10.1.0.0/24 dev "n$((gone + 3))" src "10.1.0.$((gone + 3))" table "$((103 + gone))" 2>/dev/null
ip route add local "10.1.0.$((gone + 3))" dev "n$((gone + 3))" table "$((103 + gone))" 2>/dev/null
replicate 500 1 2 3
say "the link of the host of node $gone was down, and is up again"

all_end
