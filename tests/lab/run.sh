#!/bin/sh
# The lab: builds the tests that need an RDMA device, boots a virtual machine that has soft-RoCE, and runs them there.
#
# Usage: run.sh [NAME...]: what to run (see `case` in main.sh), everything short by default. LAB_CACHE (target/lab) keeps the image.
# Without QEMU, or without a way to make the image, says so and is well: exit status 0, unless LAB_REQUIRED=1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=${LAB_CACHE:-$target/lab}
skip() {
    echo "lab: SKIPPED: $1" >&2
    [ "${LAB_REQUIRED:-0}" = 0 ] || exit 1
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is for x86_64"
for program in qemu-system-x86_64 cpio gzip dpkg readelf; do
    command -v "$program" >/dev/null || skip "$program is missing (apt-get install qemu-system-x86 cpio binutils)"
done
"$here/image.sh" "$cache" || skip "the image cannot be made here (it is made of Debian's packages, with apt-get download)"

# Every test program, as cargo names it, and the program itself.
cd "$root"
programs=$(cargo test --no-run --package ringleader --lib --test verbs_lab --message-format=json 2>/dev/null |
    sed -n 's/.*"target":{"kind":\["\(lib\|test\)"[^}]*"name":"\([a-z_]*\)".*"executable":"\([^"]*\)".*/\2 \3/p')
cargo build --release --quiet --package ringleader --bin ringleader
lab=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-lab.XXXXXX")
trap 'rm -rf "$lab"' EXIT
cp "$here/main.sh" "$lab/main"
chmod 755 "$lab/main"
echo "${*:-short}" > "$lab/what"
echo "$programs" | while read -r name path; do
    [ -z "$name" ] || strip -o "$lab/$name" "$path"
done
strip -o "$lab/ringleader-program" "$target/release/ringleader"
"$here/boot.sh" "$cache" "$lab"
