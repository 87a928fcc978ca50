#!/usr/bin/env bash
# Runs the demo many times in each mode and prints a table of medians: the long form of the process tests.
#
#   scripts/acceptance.sh [RUNS [LINES]]      default: 20 runs on a file of 100000 lines
#   MODES="kill-leader-3 pause-follower-3" scripts/acceptance.sh
#
# Each run's files are compared with the input here too, by cmp. Exit status 0 only if all runs ended as they must.
# PROGRAM names another program than a fresh release build, OUT a directory for the JSON of every run.
set -euo pipefail

runs=${1:-20}
lines=${2:-100000}
cd "$(dirname "$0")/.."
if [ -z "${PROGRAM:-}" ]; then
    cargo build --release --quiet -p ringleader
    PROGRAM=${CARGO_TARGET_DIR:-target}/release/ringleader
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${OUT:-$work/json}
mkdir -p "$out"

# Lines of 0 to 120 bytes that differ from each other.
awk -v lines="$lines" 'BEGIN {
    srand(7)
    for (i = 1; i <= lines; i++) {
        text = i " "
        while (length(text) < 120) text = text int(rand() * 1000000000) " "
        print substr(text, 1, int(rand() * 120))
    }
}' >"$work/input"

modes=${MODES:-kill-leader-3 kill-follower-3 pause-leader-3 pause-follower-3 kill-none-3 kill-leader-5 kill-follower-5 pause-leader-5 pause-follower-5 small-ring}

# The number behind a key of the JSON object of one line on the standard input; empty when it is null or missing.
field() {
    sed -n "s/.*\"$1\":\([0-9][0-9]*\).*/\1/p"
}
# The number behind a key within an object: field_in failover_ns total.
field_in() {
    sed -n "s/.*\"$1\":{\([^}]*\)}.*/\1/p" | sed -n "s/.*\"$2\":\([0-9][0-9]*\).*/\1/p"
}
# The median of the numbers on the standard input, divided by $1.
median() {
    sort -n | awk -v by="$1" '{ a[NR] = $1 } END {
        if (NR == 0) { print "-"; exit }
        m = NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2
        printf "%.2f", m / by
    }'
}

printf '%-18s %7s %9s %9s %9s %9s %7s %9s %9s %7s %5s\n' mode good 'gap ms' 'fail ms' 'det ms' 'p50 us' 'ratio' 'p99 us' 'retried' 'k/s' shot
failed=0
for mode in $modes; do
    case $mode in
    small-ring) options="--nodes 3 --ring 1M --pause follower" ;;
    *)
        options="--nodes ${mode##*-} --${mode%%-*} $(echo "$mode" | cut -d- -f2)"
        ;;
    esac
    good=0
    : >"$out/$mode.json"
    for run in $(seq "$runs"); do
        dir=$work/dir
        rm -rf "$dir"
        status=0
        # shellcheck disable=SC2086
        "$PROGRAM" demo $options --input "$work/input" --dir "$dir" --json >"$work/one" 2>"$work/said" || status=$?
        cat "$work/one" >>"$out/$mode.json"
        same=1
        for file in "$dir"/node-*.applied; do
            cmp -s "$file" "$work/input" || same=0
        done
        if [ "$status" = 0 ] && [ "$same" = 1 ]; then
            good=$((good + 1))
        else
            failed=1
            echo "$mode, run $run: exit status $status, identical: $same" >&2
            cat "$work/said" "$work/one" >&2
        fi
    done
    all=$out/$mode.json
    ratio=$(paste <(field_in commit_ns p50 <"$all") <(field_in floor_ns p50 <"$all") | awk '$2 { print $1 / $2 }' | median 1)
    printf '%-18s %7s %9s %9s %9s %9s %7s %9s %9s %7s %5s\n' "$mode" "$good/$runs" \
        "$(field longest_gap_ns <"$all" | median 1000000)" \
        "$(field_in failover_ns total <"$all" | median 1000000)" \
        "$(field_in failover_ns detect <"$all" | median 1000000)" \
        "$(field_in commit_ns p50 <"$all" | median 1000)" \
        "$ratio" \
        "$(field_in commit_ns p99 <"$all" | median 1000)" \
        "$(field retried <"$all" | median 1)" \
        "$(field entries_per_s <"$all" | median 1000)" \
        "$(field shot <"$all" | awk '{ sum += $1 } END { print sum + 0 }')"
done
exit $failed
