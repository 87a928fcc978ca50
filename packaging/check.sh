#!/bin/sh
# Looks at everything in packaging that needs no build: the units by systemd's own eyes, the chart and the static pod by Helm's and
# Kubernetes', the scripts by the shell's. What it needs is installed by `make package-tools`.
set -eu

cd "$(dirname "$0")/.."
venv=${VENV:-${CARGO_TARGET_DIR:-target}/packaging-venv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
die() { echo "packaging/check.sh: $*" >&2; exit 1; }

for script in packaging/*.sh packaging/deb/p*; do
    sh -n "$script" || die "$script is no shell script"
done

# The programs that they start are not on this machine: another takes their place.
verify() { systemd-analyze verify --man=no "$1" 2>&1; }
for unit in packaging/systemd/*.service; do
    name=$(basename "$unit" | sed 's/@/@check/')
    sed 's,/usr/bin/ringleader[a-z-]*,/bin/true,' "$unit" >"$work/$name"
    said=$(verify "$work/$name") && [ -z "$said" ] || die "$unit: $said"
    # What it would say of a mistake, it says.
    sed 's/^WatchdogSec=.*/WatchdogSec=soon/' "$work/$name" >"$work/wrong-$name"
    said=$(verify "$work/wrong-$name") && [ -z "$said" ] && die "a wrong WatchdogSec is not seen in $unit"
    for line in Type=notify WatchdogSec=30s Restart=on-failure LimitMEMLOCK=infinity User=ringleader RestartPreventExitStatus=2 \
        'DeviceAllow=char-infiniband_verbs rw'; do
        grep -qxF "$line" "$unit" || die "$unit: no $line"
    done
    ! grep -q '^PrivateDevices=' "$unit" || die "$unit: PrivateDevices= takes /dev/infiniband away"
done

# They are alike but for what they start.
alike() { sed -n '/^User=/,$p' "$1" | grep -v '^#'; }
for unit in packaging/systemd/*.service; do
    alike "$unit" >"$work/this"
    alike packaging/systemd/ringleader@.service | diff -u - "$work/this" || die "$unit differs from ringleader@.service"
done
echo 'units: verified'

"$venv/bin/python" packaging/check.py
