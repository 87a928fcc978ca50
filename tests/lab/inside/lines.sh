# Lines through a group whose nodes are processes: what the scripts share that give a leader its input and look at what all apply. They
# bring `say`, `fail`, and `leads NODE`; a node's input is at descriptor 3 + its id, and what it has applied in `applied-ID`.

# Waits up to a minute until a command succeeds.
until_true() {
    waited=0
    until "$@" >/dev/null 2>&1; do
        waited=$((waited + 1))
        [ "$waited" -lt 300 ] || fail "never: $*"
        sleep 0.2
    done
}
# Which of these leads: $leader.
find_leader() {
    tries=0
    while :; do
        for leader in "$@"; do leads "$leader" && return; done
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "nobody leads of $*"
        sleep 0.2
    done
}
# Gives $1 lines to whoever leads until all of a batch are applied on the other arguments. On a busy host a leader may fall in the
# middle: of that batch nothing is known then, but that all nodes have the same of it, and no line twice.
batch=0
replicate() {
    lines=$1
    shift
    for _ in 1 2 3 4 5 6; do
        batch=$((batch + 1))
        find_leader "$@"
        seq 1 "$lines" | sed "s/^/$batch-/" > given
        eval "cat given >&$((3 + leader))"
        for _ in $(seq 1 100); do
            whole=1
            for node in "$@"; do [ "$(grep -c "^$batch-" "applied-$node")" = "$lines" ] || whole=0; done
            [ "$whole" = 0 ] || break
            sleep 0.2
        done
        [ "$whole" = 0 ] || break
        say "node $leader lost the lead with lines under way"
    done
    [ "$whole" = 1 ] || fail "$lines lines are never applied in one piece"
    for node in "$@"; do
        until_true cmp "applied-$1" "applied-$node"
        [ -z "$(sort "applied-$node" | uniq -d)" ] || fail "node $node has lines twice"
    done
}
