#!/bin/sh
# Boots the lab's virtual machine, runs a program in it and exits as it does. What the machine says goes to standard output.
#
# Usage: boot.sh CACHE DIRECTORY [QEMU ARGUMENT...]
# DIRECTORY becomes /lab in the machine; /lab/main is run. LAB_SECONDS (600) bounds it, LAB_CPUS (2) and LAB_MEMORY (1024, MiB)
# size it, LAB_ACCEL (tcg,thread=multi) is QEMU's -accel. The machine is of the architecture that image.sh has made CACHE for.
# LAB_SLOWER makes all its clocks go so many times slower than this host's, so that what has a deadline gets the more done before it:
# its kernel is told that the counter that it takes the time from is faster than it is. Of amd64 that takes LAB_MHZ, how fast it is.
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
size="-smp ${LAB_CPUS:-2} -m ${LAB_MEMORY:-1024} -nodefaults -no-user-config -display none"
slower=${LAB_SLOWER:-1}
case $(cat "$cache/architecture") in
    arm64)
        # A BlueField-2 has this processor.
        machine="qemu-system-aarch64 -machine virt -cpu cortex-a72" console=ttyAMA0 options=
        if [ "$slower" != 1 ]; then
            # shellcheck disable=SC2086
            $machine $size -machine "dumpdtb=$work/dtb" 2> "$work/dumped" || { cat "$work/dumped" >&2; exit 1; }
            # QEMU's counter has 62.5 MHz.
            fdtput -t u "$work/dtb" /timer clock-frequency $((62500000 * slower))
            machine="$machine -dtb $work/dtb"
        fi
        ;;
    *)
        machine="qemu-system-x86_64 -cpu max" console=ttyS0 options="tsc=reliable clocksource=tsc"
        # No other clock is there to find that out by.
        [ "$slower" = 1 ] || options="$options tsc_early_khz=$((${LAB_MHZ:?the frequency of the counter} * 1000 * slower)) pmtmr=0 hpet=disable"
        ;;
esac
mkdir "$work/tree"
cp -rL "$lab" "$work/tree/lab"
(cd "$work/tree" && find . | cpio --quiet -o -H newc -R 0:0) > "$work/lab.cpio"
cat "$cache/root.cpio.gz" "$work/lab.cpio" > "$work/initrd"
mkfifo "$work/serial"
sed -u 's/\r$//' "$work/serial" | tee "$work/out" &
shown=$!
# No KVM: it is not everywhere, and figures are ratios. The clock of the processor is good enough, and reading it stays inside.
# shellcheck disable=SC2086
timeout "$seconds" $machine -accel "${LAB_ACCEL:-tcg,thread=multi}" $size \
    -serial stdio -monitor none -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$work/initrd" \
    -append "console=$console quiet panic=-1 $options mitigations=off" "$@" </dev/null > "$work/serial" 2>&1 &
child=$!
status=0
wait "$child" || status=$?
child=
wait "$shown" || true
[ "$status" != 124 ] || { echo "lab: the machine did not end within $seconds s" >&2; exit 124; }
code=$(sed -n 's/^lab: exit \([0-9]*\)$/\1/p' "$work/out" | tail -n 1)
[ -n "$code" ] || { echo "lab: the machine ended without saying how" >&2; exit 125; }
exit "$code"
