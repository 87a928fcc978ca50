# What dpu.sh plays, from one scene to the next, in the machines of machines.sh. Sourced. What is asked of them is in inside.sh.

# Where the host, or the acceptor, of a node runs.
host_of() { case $1 in 1) echo host ;; *) echo rest ;; esac; }
dpu_of() { case $1 in 1) echo dpu ;; *) echo rest ;; esac; }
on_host() { node=$1 what=$2; shift 2; ask "$(host_of "$node")" "$what" "$node" "$@"; }
find_leader() {
    tries=0
    while :; do
        for leader in "$@"; do on_host "$leader" leads && return; done
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "nobody leads of $*"
        sleep 0.3
    done
}
# Makes a node the leader, of these.
lead() {
    wanted=$1
    shift
    for _ in $(seq 1 60); do
        find_leader "$@"
        [ "$leader" != "$wanted" ] || return 0
        ask "$(host_of "$leader")" host transfer "$leader" --to "$wanted" || sleep 0.5
    done
    fail "node $wanted is never made to lead: $said"
}
# All of the given nodes have applied the same, and nothing twice.
same() {
    reference=
    for node in "$@"; do
        on_host "$node" applied "$batch" || return 1
        # shellcheck disable=SC2086
        set -- $said
        [ "${reference:=$2 $4}" = "$2 $4" ] || { said="node $node has $2 $4, and not $reference"; return 1; }
        [ "$3" = 0 ] || fail "node $node has lines twice: $said"
    done
}
# Gives 500 lines to whoever leads until all of a batch are applied on the given nodes: of one that a leader lost the lead with nothing
# is known but that all have the same of it.
batch=0
replicate() {
    whole=0
    for _ in 1 2 3 4 5 6; do
        batch=$((batch + 1))
        find_leader "$@"
        on_host "$leader" give "$batch" || fail "node $leader takes no lines"
        for _ in $(seq 1 60); do
            whole=1
            for node in "$@"; do on_host "$node" applied "$batch" && [ "${said%% *}" = 500 ] || whole=0; done
            [ "$whole" = 0 ] || break
            sleep 0.3
        done
        [ "$whole" = 0 ] || break
        say "node $leader lost the lead with lines under way"
    done
    [ "$whole" = 1 ] || fail "500 lines are never applied in one piece"
    tries=0
    until same "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || fail "the nodes $* do not have the same: $said"
        sleep 0.5
    done
}
start_pair() {
    ask "$(dpu_of "$1")" start_dpu "$1" || fail "no acceptor of node $1"
    ask "$(host_of "$1")" start_host "$1" || fail "no host of node $1"
}
third() { for signalled in host dpu; do ask rest signal "$1" "$signalled" 3 || fail "node 3 takes no signal"; done; }

forms() {
    slower=${LAB_SLOWER:-20}
    mhz=$("$here/counter.sh" "$cache") || fail "the counter's frequency is not known"
    export LAB_SLOWER="$slower" LAB_MHZ="$mhz"
    for role in dpu host rest; do boot_machine "$role"; done
    for role in dpu host rest; do await_machine "$role"; done
    are=
    for role in dpu host rest; do ask "$role" uname -m; are="$are $role $said,"; done
    say "machines run:$are clocks $slower times slower than this one's"
    for node in 1 2 3; do start_pair "$node"; done
    for node in 1 2 3; do until_told "$(dpu_of "$node")" host_is "$node" up; done
    ask host host form 1 --timeout 60 || fail "not formed: $said"
    replicate 1 2 3
    say "scene 1: a group of three nodes is formed, and applies 500 lines on all of them; node $leader leads"
}

# The profile's beat, in microseconds, and within how many of them a host that hangs is to be marked down.
beat=10000
within=10
host_hangs() {
    third STOP
    : > "$work/took"
    for stop in $(seq 1 "${LAB_STOPS:-10}"); do
        lead 1 1 2
        until_told dpu host_is 1 leads
        ask dpu term 1
        term=$said
        ask dpu stop_host || fail "stop $stop: $said"
        echo "$said" >> "$work/took"
        # With node 3 down there are two acceptors of three, and the host that asks them is the other one's.
        find_leader 2
        until_told dpu follows 1 2
        ask dpu term 1 && [ "$said" -gt "$term" ] || fail "node 2 leads without a term of its own"
        ask dpu host_is 1 down || fail "the host is up, and stopped"
        ask dpu continue_host
        until_told dpu host_is 1 up
    done
    median=$(sort -n "$work/took" | awk '{took[NR] = $1} END {print (took[int((NR + 1) / 2)] + took[int(NR / 2) + 1]) / 2}')
    beats() { awk -v beat="$beat" '{printf "%s%.1f", (NR > 1 ? " " : ""), $1 / beat}'; }
    say "scene 2: node 1's host was stopped $stop times while it led, node 3 down: each time node 1's DPU gave node 2 the vote that it needed"
    say "scene 2: marked down $(sort -n "$work/took" | beats) beats of 10 ms after the stop, median $(echo "$median" | beats)"
    awk -v median="$median" -v most=$((beat * within)) 'BEGIN {exit median > most}' || fail "the median is more than $within beats"
    replicate 1 2
    third CONT
    replicate 1 2 3
    say "scene 2: it goes on, node 3 too, and all have the same"
}

host_dies() {
    lead 1 1 2 3
    ask dpu term 1
    term=$said
    kill_machine host
    until_told dpu host_is 1 down
    find_leader 2 3
    until_told dpu follows 1 "$leader"
    replicate 2 3
    ask dpu term 1 && [ "$said" -gt "$term" ] || fail "node $leader leads without a term of its own"
    say "scene 3: node 1's host was killed in term $term while it led: its DPU follows node $leader in term $said, 500 lines more"
    ask rest applied 2 "$batch"
    entries=$said
    boot_machine host
    await_machine host
    # Nobody else is there to have the log from.
    third STOP
    for half in host dpu; do ask rest signal STOP "$half" 2; done
    ask host start_host 1
    until_told host has_applied 1 "$batch" "$entries"
    say "scene 3: another machine's host has all $(echo "$entries" | cut -d ' ' -f 2) lines from its own DPU; nodes 2 and 3 were stopped meanwhile"
    third CONT
    for half in dpu host; do ask rest signal CONT "$half" 2; done
    until_told dpu host_is 1 up
    replicate 1 2 3
}

dpu_dies() {
    lead 1 1 2 3
    kill_machine dpu
    replicate 2 3
    say "scene 4: node 1's DPU was killed, and its host is cut off with it: node $leader took over"
    boot_machine dpu
    await_machine dpu
    ask dpu start_dpu 1
    until_told host is_over host 1
    ask host ended host 1
    [ "$said" = 1 ] || fail "the host of a DPU that came back empty ended with $said"
    ask host said 1 "'start the host anew'" || fail "the host does not say why it ended"
    ask host start_host 1
    until_told dpu host_is 1 up
    asked=0
    until find_leader 2 3 && ask rest host "'member readmit 1'" "$leader" --timeout 20; do
        asked=$((asked + 1))
        [ "$asked" -lt 40 ] || fail "not readmitted: $said"
    done
    replicate 1 2 3
    say "scene 4: its DPU is back without its memory, its host ended and was started anew, both were readmitted and have the same"
}

link_is_cut() {
    lead 1 1 2 3
    ask dpu isolate on || fail "the bridge does not isolate"
    until_told dpu host_is 1 down
    until_told host has_given_up 1
    ask host reaches 10.1.0.9 7402 || fail "node 1's host is cut from more than its DPU: $said"
    ! ask host reaches 10.1.0.1 7401 || fail "node 1's host is not cut from its DPU"
    replicate 2 3
    say "scene 5: node 1's host, which led, and its DPU were cut from each other, and from nobody else: node $leader took over"
    ask dpu isolate off
    until_told dpu host_is 1 up
    replicate 1 2 3
    lead 1 1 2 3
    ask dpu cable down || fail "the cable is not pulled"
    until_told dpu host_is 1 down
    until_told host has_given_up 1
    replicate 2 3
    say "scene 5: its cable was pulled while it led: node $leader took over"
    ask dpu cable up
    until_told dpu host_is 1 up
    replicate 1 2 3
    say "scene 5: both are mended, and all have the same"
}

all_end() {
    for node in 1 2 3; do
        for half in host dpu; do
            machine=$("${half}_of" "$node")
            ask "$machine" signal TERM "$half" "$node"
            ask "$machine" ended "$half" "$node"
            [ "$said" = 0 ] || fail "the $half of node $node ended with $said"
        done
    done
    for role in dpu host rest; do
        ask "$role" sockets
        [ -z "$said" ] || fail "sockets are left in the machine $role: $said"
    done
    say "all ended well"
}
