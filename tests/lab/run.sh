#!/bin/sh
# The lab: boots a virtual machine that has soft-RoCE devices, and runs there what needs an RDMA device.
#
# Usage: run.sh [NAME...]
#   NAME is `short` (the default), `long`, `several` (three machines, a node in each), `icount` (a commit, by a clock that counts
#   instructions), or that of a script in inside/.
# LAB_ROUNDS (2, in the long form 20) is how many rounds of chaos there are. LAB_CACHE (target/lab) keeps the machine's image.
# Without QEMU, or where the image cannot be made, it says so and is well; with LAB_REQUIRED=1 that is a failure.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=${LAB_CACHE:-$target/lab}
cargo=${CARGO:-cargo}
skip() {
    echo "lab: SKIPPED: $1" >&2
    [ "${LAB_REQUIRED:-0}" = 0 ] || exit 1
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is one of x86_64"
for program in qemu-system-x86_64 cpio gzip dpkg apt-get readelf; do
    command -v "$program" >/dev/null ||
        skip "$program is missing (on Debian and Ubuntu: apt-get install qemu-system-x86 cpio binutils)"
done
"$here/image.sh" "$cache" || skip "the machine's image cannot be made here: it is made of packages that apt-get fetches"

# The test programs, and the program itself, as optimised as tests are.
cd "$root"
lab=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-lab.XXXXXX")
trap 'rm -rf "$lab"' EXIT
"$cargo" test --no-run --package ringleader --package ringleader-dpu --package ringleader-chaos \
    --lib --test verbs_lab --test run --test chaos 2> "$lab/built" ||
    { cat "$lab/built" >&2; exit 1; }
built() { sed -n "s|.*Executable $1 (\(.*\))|\1|p" "$lab/built" | grep "deps/ringleader-\|deps/verbs_lab-"; }
strip -o "$lab/unit_tests" "$(built 'unittests src/lib.rs')"
strip -o "$lab/verbs_lab" "$(built 'tests/verbs_lab.rs')"
strip -o "$lab/ringleader" "$target/debug/ringleader"
strip -o "$lab/ringleader-dpu" "$target/debug/ringleader-dpu"
strip -o "$lab/chaos" "$target/debug/chaos"
cp -r "$here/inside" "$lab/inside"
mv "$lab/inside/main.sh" "$lab/main"
chmod 755 "$lab/main"

# The programs with DOCA, that is with the tests' stand-in for it, which never come where the others are.
with_doca() {
    [ ! -d "$lab/doca" ] || return 0
    mkdir "$lab/doca"
    RINGLEADER_DOCA_STAND_IN=1 "$cargo" build --profile test --quiet --target-dir "$target/stand-in" \
        --package ringleader --package ringleader-dpu --features ringleader/doca,ringleader-dpu/doca --bins
    for program in ringleader ringleader-dpu; do strip -o "$lab/doca/$program" "$target/stand-in/debug/$program"; done
    cp "$(ls -t "$target"/stand-in/debug/build/ringleader-doca-*/out/libringleader_doca_stand_in.so | head -n 1)" "$lab/doca/"
}

# In one machine, one script after the other.
boot() {
    case " $* " in *" placement "*) with_doca ;; esac
    echo "$*" > "$lab/what"
    echo "${LAB_ROUNDS:-2}" > "$lab/rounds"
    "$here/boot.sh" "$cache" "$lab"
}
lab() {
    case $1 in
        # Ten minutes on two processors; more, when others need them, is no failure.
        short)
            LAB_SECONDS=1800 boot unit links wire demo groups service chaos without bench
            lab icount
            ;;
        long)
            lab short
            lab several
            LAB_SECONDS=3600 boot many
            lab apart
            LAB_SECONDS=3600 boot placement
            LAB_SECONDS=3600 LAB_ROUNDS=${LAB_ROUNDS:-20} boot chaos
            # Apart, for it may take the machine down; that the others are as they are is shown without it.
            boot weak || echo "lab: the weak fences took the machine down" >&2
            ;;
        several) "$here/several.sh" "$cache" "$lab" ;;
        apart)
            # Six processes with a device each, on two virtual processors: their clocks go slower, as in the lab of a DPU.
            mhz=$("$here/counter.sh" "$cache")
            LAB_SECONDS=3600 LAB_SLOWER=${LAB_SLOWER:-10} LAB_MHZ=$mhz boot apart
            ;;
        icount)
            # Figures repeat, whatever else the host does. With more than one processor QEMU does not get through the start.
            echo commit > "$lab/what"
            LAB_CPUS=1 LAB_ACCEL=tcg,thread=single "$here/boot.sh" "$cache" "$lab" -icount shift=3,sleep=off
            ;;
        *)
            for name in "$@"; do
                [ -e "$here/inside/$name.sh" ] || { echo "lab: nothing is called $name (see --help)" >&2; exit 64; }
            done
            boot "$@"
            ;;
    esac
}
lab "${@:-short}"
