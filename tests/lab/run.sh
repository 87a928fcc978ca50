#!/bin/sh
# The lab: boots a virtual machine that has soft-RoCE devices, and runs there what needs an RDMA device.
#
# Usage: run.sh [NAME...]: what to run (the names are those of main.sh); the short form by default, `long` for the long one.
# LAB_CACHE (target/lab) keeps the machine's image. Without QEMU, or where the image cannot be made, it says so and is well;
# with LAB_REQUIRED=1 that is a failure.
set -eu
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
"$cargo" test --no-run --package ringleader --lib --test verbs_lab 2> "$lab/built" || { cat "$lab/built" >&2; exit 1; }
built() { sed -n "s|.*Executable $1 (\(.*\))|\1|p" "$lab/built"; }
strip -o "$lab/unit_tests" "$(built 'unittests src/lib.rs')"
strip -o "$lab/verbs_lab" "$(built 'tests/verbs_lab.rs')"
strip -o "$lab/ringleader" "$target/debug/ringleader"
cp "$here/main.sh" "$lab/main"
cp "$here/service.sh" "$lab/service"
chmod 755 "$lab/main"

# boot NAME...: in one machine.
boot() {
    echo "$*" > "$lab/what"
    "$here/boot.sh" "$cache" "$lab"
}
case ${*:-short} in
    short) boot unit links wire demo service without bench ;;
    long)
        boot unit links wire service without bench
        LAB_SECONDS=3600 boot many
        # A clock that counts instructions: figures repeat, whatever else the host does.
        echo commit > "$lab/what"
        LAB_CPUS=4 LAB_ACCEL=tcg,thread=single "$here/boot.sh" "$cache" "$lab" -icount shift=0,sleep=off
        # Apart, for it may take the machine down; that the others are as they are is shown without it.
        boot weak || echo "lab: the weak fences took the machine down" >&2
        ;;
    several) "$here/several.sh" "$cache" "$lab" ;;
    *) boot "$@" ;;
esac
