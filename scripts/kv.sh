#!/bin/sh
# The figures of `ringleader kv` in docs/benchmarks.md: redis-benchmark against a plain redis-server, and against the leader and a
# follower of three nodes, all on this machine; as many rounds as the argument says (3), of each the median. PROGRAM names another
# program than the release build.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3}
program=${PROGRAM:-${CARGO_TARGET_DIR:-target}/release/ringleader}
[ -x "$program" ] || { echo "$program is missing: cargo build --release" >&2; exit 1; }
command -v redis-benchmark >/dev/null || { echo 'redis-benchmark is missing: install redis-tools' >&2; exit 1; }
dir=$(mktemp -d)
running=
trap 'kill $running 2>/dev/null || true; wait; rm -rf "$dir"' EXIT INT TERM
redis=$(command -v redis-server || true)
# Debian's redis-server is this program of redis-tools under another name.
if [ -z "$redis" ]; then
    ln -s "$(command -v redis-check-rdb || { echo 'redis-server is missing: install it' >&2; exit 1; })" "$dir/redis-server"
    redis=$dir/redis-server
fi

# who port what options...: adds a line for each test, "who what test rate p50"
measure() {
    who=$1 port=$2 what=$3
    shift 3
    redis-benchmark -p "$port" -q "$@" | tr '\r' '\n' |
        sed -n "s/^ *\([A-Z]*\): \([0-9.]*\) requests per second, p50=\([0-9.]*\) msec.*/$who $what \1 \2 \3/p" >>"$dir/lines"
}

all() {
    measure "$1" "$2" 50-clients -n 200000 -t set,get,incr
    measure "$1" "$2" 50-clients,-P-16 -n 500000 -P 16 -t set,get
    measure "$1" "$2" 1-client -n 20000 -c 1 -t set,get
}

leads() { redis-cli -p "$1" ROLE | head -n 1 | grep -q master; }

for _ in $(seq "$rounds"); do
    "$redis" --port 7100 --save '' --appendonly no >/dev/null &
    running=$!
    until redis-cli -p 7100 PING >/dev/null 2>&1; do sleep 0.1; done
    all redis-server 7100
    kill "$running"
    wait "$running" || true
    "$program" kv --nodes 3 --port 7101 >"$dir/said" 2>&1 &
    running=$!
    until grep -q '^ready' "$dir/said"; do kill -0 "$running" || { cat "$dir/said" >&2; exit 1; }; sleep 0.1; done
    leader=
    until [ -n "$leader" ]; do
        for port in 7101 7102 7103; do leads $port && leader=$port; done
    done
    follower=7101
    [ "$leader" != 7101 ] || follower=7102
    all leader "$leader"
    measure follower "$follower" 50-clients -n 200000 -t get
    kill "$running"
    wait "$running"
    running=
done

sort -k1,3 -k4,4n "$dir/lines" | awk '
    { key = $1 " " $2 " " $3; if (key != last) { show(); last = key; n = 0 } rate[++n] = $4; p50[n] = $5 }
    function show() { if (n) { m = int((n + 1) / 2); printf "%-13s %-17s %-5s %10d /s   p50 %s ms\n", a[1], a[2], a[3], rate[m], p50[m] } }
    { split(key, a, " ") }
    END { show() }'
