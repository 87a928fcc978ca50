# The machines of dpu.sh: to boot one, to tell it something, to kill it. Sourced; `work`, `cache`, `here` and `keep` are set.
#
# A machine is called by its role: `dpu`, `host` or `rest`. $work/ROLE.pid is that of its boot.sh, $work/ROLE.log what it says on its
# console. It is told things through a pair of pipes that QEMU hands on as a virtio port. The DPU's machine has a second port, which
# leads to the monitor of its host's machine: it stops that one by itself, so that what follows is measured by its own clock.

# Cables between two machines each: datagrams from port to port of the loopback, for which it does not matter who is there.
ports=$((20000 + $$ % 10000 * 4))
uplink_dpu=127.0.0.1:$ports uplink_rest=127.0.0.1:$((ports + 1)) pci_dpu=127.0.0.1:$((ports + 2)) pci_host=127.0.0.1:$((ports + 3))

say() { echo "lab-dpu: $*"; }
hearing=
clean_up() {
    [ -z "$hearing" ] || kill "$hearing" 2>/dev/null || true
    for role in dpu host rest; do kill_machine "$role"; done
    if [ "$keep" = 1 ]; then say "what the machines said is in $work"; else rm -rf "$work"; fi
}
fail() {
    trap - EXIT
    echo "lab-dpu: FAILED: $*" >&2
    for role in dpu host rest; do
        [ -e "$work/$role.pid" ] || continue
        echo "== $role" >&2
        tail -n 15 "$work/$role.log" >&2
        PATIENCE=60
        ask "$role" logs || true
        echo "$said" >&2
    done
    clean_up
    exit 1
}
# nic ID MAC OWN OTHER
nic() { echo "-netdev socket,id=$1,udp=$4,localaddr=$3 -device virtio-net-pci,netdev=$1,mac=52:54:00:00:00:$2,romfile="; }
boot_machine() {
    role=$1
    of=$cache programs=$work/x86
    case $role in
        dpu)
            of=$cache/arm64 programs=$work/arm64
            devices="$(nic up 11 "$uplink_dpu" "$uplink_rest") $(nic pci 12 "$pci_dpu" "$pci_host")
                -chardev socket,id=monitor,path=$work/monitor,reconnect=1 -device virtserialport,nr=2,chardev=monitor"
            ;;
        host)
            devices="$(nic pci 21 "$pci_host" "$pci_dpu")
                -chardev socket,id=monitor,path=$work/monitor,server=on,wait=off -mon chardev=monitor,mode=readline"
            ;;
        rest) devices=$(nic up 31 "$uplink_rest" "$uplink_dpu") ;;
    esac
    rm -rf "$work/$role" "$work/$role.in" "$work/$role.out"
    mkdir -p "$work/$role/inside"
    cp "$programs"/* "$work/key" "$work/$role/"
    cp "$here/inside/common.sh" "$work/$role/inside/"
    cp "$here/dpu/inside.sh" "$work/$role/main"
    chmod 755 "$work/$role/main"
    echo "$role" > "$work/$role/role"
    mkfifo "$work/$role.in" "$work/$role.out"
    # shellcheck disable=SC2086
    LAB_SECONDS=${LAB_SECONDS:-7200} "$here/boot.sh" "$of" "$work/$role" -device virtio-serial-pci \
        -chardev "pipe,id=told,path=$work/$role" -device virtserialport,nr=1,chardev=told $devices >> "$work/$role.log" 2>&1 &
    echo "$!" > "$work/$role.pid"
}
# Reads what a machine says up to a line. A shell that waits hears a signal at once; one that runs a program, after that.
hear() {
    timeout "$3" sed -u "/^lab: $2/q" 0<> "$work/$1.out" > "$work/said" &
    hearing=$!
    code=0
    wait "$hearing" || code=$?
    hearing=
    return $code
}
# Waits until it is there.
await_machine() { hear "$1" ready 900 || fail "the machine $1 does not start"; }
kill_machine() {
    [ -e "$work/$1.pid" ] || return 0
    kill "$(cat "$work/$1.pid")" 2>/dev/null || true
    wait "$(cat "$work/$1.pid")" 2>/dev/null || true
    rm -f "$work/$1.pid"
}
# ask ROLE COMMAND...: has it done there, and is as that is. What that says is `said`.
ask() {
    role=$1
    shift
    echo "$*" 1<> "$work/$role.in"
    hear "$role" 'end ' "${PATIENCE:-1800}" || { said="the machine $role does not answer to: $*"; return 125; }
    said=$(sed '/^lab: end /d' "$work/said")
    return "$(sed -n 's/^lab: end //p' "$work/said")"
}
# Waits some minutes until something is so.
until_told() {
    tries=0
    until ask "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt "${TRIES:-400}" ] || fail "never: $*${said:+, but: $said}"
        sleep 0.3
    done
}
