#!/bin/sh
# Boots systemd in a throw-away container that has the package (what this machine has, and an overlay over it), and acts out what
# docs/operating.md says of its units: boot-deb.sh FILE. A group of three, formed; a node that is killed, one that hangs, one with a wrong
# configuration. Takes root, systemd-nspawn, and a minute.
set -eu

deb=$(realpath "${1:?boot-deb.sh FILE}")
package=$(dpkg-deb --field "$deb" Package)
case $package in
    ringleader | ringleader-dpu) ;;
    *) echo "boot-deb.sh: $package: there is no scene for it" >&2; exit 2 ;;
esac
unshare --mount true 2>/dev/null || {
    [ "${LAB_REQUIRED:-0}" = 0 ] || { echo 'boot-deb.sh: only root can boot a container' >&2; exit 1; }
    echo "$package: its units were not tried: only root can boot a container"
    exit 0
}
work=$(mktemp -d) container=
finish() {
    [ -z "$container" ] || { kill "$container" 2>/dev/null && wait "$container" || true; }
    umount "$work/root" "$work" 2>/dev/null || true
    rmdir "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
die() { echo "boot-deb.sh: $*" >&2; inside journalctl --no-pager --unit 'ringleader*' | tail -n 40 >&2 || true; exit 1; }

mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" 2>/dev/null || {
    echo "$package: its units were not tried: no overlay of this machine's file system can be made here"
    exit 0
}
cp "$deb" "$work/root/root/package.deb"
chroot "$work/root" dpkg --install /root/package.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

configure() { # FILE NODE MORE
    cat >"$work/root/etc/ringleader/$1.toml" <<END
group = "orders"
node = $2
members = [1, 2, 3]
fabric = "shm"
ring = "1M"
readmit = "auto"
[shm]
directory = "/dev/shm/ringleader"
$3
END
}
for node in 1 2 3; do
    configure "n$node" "$node" ''
done
configure wrong 3 'rnig = 1'
configure dpu 1 '[dpu]'
# As in the units, and sooner.
for unit in ringleader@ ringleader-dpu; do
    mkdir -p "$work/root/etc/systemd/system/$unit.service.d"
    printf '[Service]\nWatchdogSec=4s\n' >"$work/root/etc/systemd/system/$unit.service.d/sooner.conf"
done

systemd-nspawn --quiet --register=no --keep-unit --private-network --machine=ringleader-check --directory "$work/root" \
    --console=pipe --boot systemd.unit=basic.target </dev/null >"$work/console" 2>&1 &
container=$!
# Its first process, which is nspawn's child, is where everything else is asked.
inside() {
    leader=$(pgrep --parent "$container" | head -n 1)
    nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C SYSTEMD_PAGER=cat SYSTEMD_COLORS=0 "$@"
}
until_true() {
    for _ in $(seq 300); do
        if "$@" 2>/dev/null; then return 0; fi
        sleep 0.2
    done
    die "never: $*"
}
property() { inside systemctl show --property "$2" --value "$1"; }
is() { [ "$(property "$1" "$2")" = "$3" ]; }
says() { property "$1" StatusText | grep -q "$2"; }
# So many times, and is up again.
came_back() { is "$1" NRestarts "$2" && is "$1" ActiveState active; }
is_up() { pgrep --parent "$container" >/dev/null && inside systemctl is-active --quiet basic.target; }

until_true is_up

a_group() {
    inside systemctl start ringleader@n1 ringleader@n2 ringleader@n3
    says ringleader@n1 'waits for its group to be formed' || die 'the status does not say that the group is to be formed'
    inside ringleader form --config /etc/ringleader/n1.toml >/dev/null
    for node in 1 2 3; do
        until_true says "ringleader@n$node" 'leads in term\|follows node'
    done

    inside systemctl kill --signal KILL ringleader@n3
    until_true came_back ringleader@n3 1
    until_true says ringleader@n3 'leads in term\|follows node'
    [ -e "$work/root/var/lib/ringleader/n3.applied.old" ] || die 'what was applied before is not there'

    # Stopped, it makes no rounds, and the watchdog ends it.
    inside systemctl kill --signal STOP ringleader@n2
    until_true came_back ringleader@n2 1
    until_true says ringleader@n2 'leads in term\|follows node'
    inside journalctl --no-pager --unit ringleader@n2 | grep -q "Failed with result 'watchdog'" || die 'it was not the watchdog'

    inside systemctl start ringleader@wrong 2>/dev/null && die 'a wrong configuration is started'
    is ringleader@wrong ExecMainStatus 2 && is ringleader@wrong NRestarts 0 || die 'a wrong configuration is tried again'
    inside systemctl stop 'ringleader@*'
}

an_acceptor() {
    inside systemctl start ringleader-dpu
    until_true says ringleader-dpu 'acceptor of node 1 of orders: waits for its group'
    inside systemctl kill --signal KILL ringleader-dpu
    until_true came_back ringleader-dpu 1
    inside systemctl kill --signal STOP ringleader-dpu
    until_true came_back ringleader-dpu 2
    inside journalctl --no-pager --unit ringleader-dpu | grep -q "Failed with result 'watchdog'" || die 'it was not the watchdog'
    until_true says ringleader-dpu 'acceptor of node 1 of orders: waits for its group'
    inside systemctl stop ringleader-dpu
}

case $package in
    ringleader) a_group ;;
    ringleader-dpu) an_acceptor ;;
esac
left=$(inside find /dev/shm /run/ringleader -type f -o -type s)
[ -z "$left" ] || die "stopped, and still there: $left"
echo "$package: ran under systemd, came back after a kill and by the watchdog, and left nothing"
