#!/bin/sh
# The lab of a DPU: three virtual machines with soft-RoCE. An arm64 one is the DPU of node 1 and runs `ringleader-dpu`, cross-built;
# an x86 one is its host, whose only network is through that DPU; a third one has nodes 2 and 3, two processes each. Scenes, one
# line each or more of what was seen: a group forms; the host's machine is stopped, and marked down, while its DPU votes; it is
# killed while it leads; the DPU is killed; the two are cut from each other. `make lab-dpu` runs this; no part of `make test`.
#
# Usage: dpu.sh [--keep] [SCENE...]
#   SCENE is 2 to 5; without one, all. The first, in which the group forms, is always played.
#   --keep leaves what the machines said in the directory that is named.
# LAB_CACHE (target/lab) keeps the machines' images, LAB_AGENT names an aarch64 `ringleader-dpu` in place of building one, and
# LAB_STOPS (10) is how often the host is stopped. The clocks of all machines go LAB_SLOWER (20) times slower than real ones: they
# share this host's processors, and have to keep the beats of a NIC in software. Without QEMU, or where an image cannot be made, it
# says so and is well; with LAB_REQUIRED=1 that is a failure. It takes some minutes; the first time, the cross-build takes ten more
# (scripts/dpu/run.sh).
set -eu
export LC_ALL=C
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=${LAB_CACHE:-$target/lab}
cargo=${CARGO:-cargo}
keep=0
[ "${1:-}" != --keep ] || { keep=1; shift; }
for scene in "$@"; do
    case $scene in [2-5]) ;; *) echo "lab-dpu: there is no scene $scene (see --help)" >&2; exit 64 ;; esac
done
skip() {
    echo "lab-dpu: SKIPPED: $1" >&2
    [ "${LAB_REQUIRED:-0}" = 0 ] || exit 1
    exit 0
}
for program in qemu-system-x86_64 qemu-system-aarch64 fdtput cpio gzip dpkg apt-get readelf; do
    command -v "$program" >/dev/null ||
        skip "$program is missing (on Debian and Ubuntu: apt-get install qemu-system-x86 qemu-system-arm device-tree-compiler cpio binutils)"
done
{ "$here/image.sh" "$cache" amd64 && "$here/image.sh" "$cache/arm64" arm64; } ||
    skip "the machines' images cannot be made here: they are made of packages that apt-get fetches"

cd "$root"
work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-lab-dpu.XXXXXX")
. "$here/dpu/machines.sh"
trap 'ended=$?; case $ended in 0 | 130 | 143) ;; *) echo "lab-dpu: ended with $ended${said:+ after: $said}" >&2 ;; esac; clean_up; exit "$ended"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
agent=${LAB_AGENT:-}
if [ -z "$agent" ]; then
    CARGO=$cargo "$root/scripts/dpu/run.sh" agent
    agent=${DPU_CACHE:-$target/dpu}/build/aarch64-unknown-linux-gnu/release/ringleader-dpu
fi
readelf -h "$agent" | grep -q 'Machine: *AArch64' || { echo "lab-dpu: $agent is no program for arm64" >&2; exit 1; }
# As optimised as tests are.
"$cargo" build --quiet --profile test --package ringleader --package ringleader-dpu
mkdir "$work/x86" "$work/arm64"
strip -o "$work/x86/ringleader" "$target/debug/ringleader"
strip -o "$work/x86/ringleader-dpu" "$target/debug/ringleader-dpu"
cp "$agent" "$work/arm64/ringleader-dpu"
"$work/x86/ringleader" key "$work/key" > /dev/null
. "$here/dpu/scenes.sh"
forms
[ $# != 0 ] || set -- 2 3 4 5
for scene in "$@"; do
    case $scene in
        2) host_hangs ;;
        3) host_dies ;;
        4) dpu_dies ;;
        5) link_is_cut ;;
    esac
done
all_end
