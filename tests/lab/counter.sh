#!/bin/sh
# Says how fast the counter is that the amd64 machine takes its time from, in MHz, as its kernel finds it out by another clock: what
# boot.sh wants to know as LAB_MHZ, to have clocks go slower.
#
# Usage: counter.sh CACHE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: counter.sh CACHE}
work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-lab.XXXXXX")
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/lab"
printf '#!/bin/sh\ndmesg\n' > "$work/lab/main"
chmod 755 "$work/lab/main"
LAB_SLOWER=1 "$here/boot.sh" "$cache" "$work/lab" > "$work/log" 2>&1 &
child=$!
status=0
wait "$child" || status=$?
child=
[ "$status" = 0 ] || { echo "lab: no machine starts:" >&2; tail -n 3 "$work/log" >&2; exit "$status"; }
mhz=$(sed -n 's/.* tsc: Detected \([0-9]*\)\.[0-9]* MHz.*/\1/p' "$work/log" | head -n 1)
[ -n "$mhz" ] || { echo "lab: the machine does not say how fast its counter is" >&2; exit 1; }
echo "$mhz"
