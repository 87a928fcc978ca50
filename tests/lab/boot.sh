#!/bin/sh
# Boots the lab's virtual machine, runs a program in it and exits as it does. What the machine says goes to standard output.
#
# Usage: boot.sh CACHE DIRECTORY [QEMU ARGUMENT...]
# DIRECTORY becomes /lab in the machine; /lab/main is run. LAB_SECONDS (600) bounds it, LAB_CPUS (2) and LAB_MEMORY (1024, MiB)
# size it, LAB_ACCEL (tcg,thread=multi) is QEMU's -accel.
set -eu
cache=${1:?usage: boot.sh CACHE DIRECTORY [QEMU ARGUMENT...]}
lab=${2:?usage: boot.sh CACHE DIRECTORY [QEMU ARGUMENT...]}
shift 2
seconds=${LAB_SECONDS:-600}
work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-lab.XXXXXX")
child=
finish() {
    [ -z "$child" ] || kill "$child" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/tree"
cp -rL "$lab" "$work/tree/lab"
(cd "$work/tree" && find . | cpio --quiet -o -H newc -R 0:0) > "$work/lab.cpio"
cat "$cache/root.cpio.gz" "$work/lab.cpio" > "$work/initrd"
mkfifo "$work/serial"
sed -u 's/\r$//' "$work/serial" | tee "$work/out" &
shown=$!
# No KVM: it is not everywhere, and figures are ratios. The clock of the processor is good enough, and reading it stays inside.
timeout "$seconds" qemu-system-x86_64 -accel "${LAB_ACCEL:-tcg,thread=multi}" -cpu max -smp "${LAB_CPUS:-2}" -m "${LAB_MEMORY:-1024}" \
    -nodefaults -no-user-config -display none -serial stdio -monitor none -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 tsc=reliable clocksource=tsc mitigations=off" "$@" </dev/null > "$work/serial" 2>&1 &
child=$!
status=0
wait "$child" || status=$?
child=
wait "$shown" || true
[ "$status" != 124 ] || { echo "lab: the machine did not end within $seconds s" >&2; exit 124; }
code=$(sed -n 's/^lab: exit \([0-9]*\)$/\1/p' "$work/out" | tail -n 1)
[ -n "$code" ] || { echo "lab: the machine ended without saying how" >&2; exit 125; }
exit "$code"
