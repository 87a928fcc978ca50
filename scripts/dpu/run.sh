#!/bin/sh
# Builds what runs on a DPU, looks at it, and runs its unit tests, without a DPU: `make dpu` runs this.
#
# Usage: run.sh [STEP...]
#   STEP is `agent` (programs for the DPU's Arm cores), `tests` (their unit tests, under QEMU) or `bare` (the core and
#   the acceptor without an operating system, with sizes); without one, all of them.
# DPU_CACHE (target/dpu) keeps tools and builds. Where the Rust toolchain has a target, it is used; where not, Debian's own in a root
# below DPU_CACHE, which takes root and 3 GB. DPU_MIRROR and DPU_SUITE say whence that comes.
set -eu
export LC_ALL=C
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac

# What the DPU's Arm side runs: packages whose programs are built, and whose tests are run together with the core's.
packages='ringleader ringleader-dpu'
# The C library of Ubuntu 22.04, the oldest system that BlueField ships with.
glibc=2.35
# Its kernel may have pages of this size.
page=65536
arm=aarch64-unknown-linux-gnu
# Target, and its name for the linker.
bare='aarch64-unknown-none:aarch64-freestanding riscv64imac-unknown-none-elf:riscv64-freestanding'

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
cache=${DPU_CACHE:-${CARGO_TARGET_DIR:-$root/target}/dpu}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
zig=$cache/python/ziglang/zig
export ZIG_GLOBAL_CACHE_DIR="$cache/zig" ZIG_LOCAL_CACHE_DIR="$cache/zig"

say() { echo "dpu: $*"; }
fail() { echo "dpu: $*" >&2; exit 1; }
with_cargo() { "$here/cargo.sh" "$cache" "$@"; }
named() { for package in "$@"; do printf ' --package %s' "$package"; done; }

agent() {
    say "building for $arm, glibc $glibc: $packages"
    # shellcheck disable=SC2046,SC2086
    set -- build --locked --release --bins --target "$arm.$glibc" $(named $packages)
    with_cargo "$arm" "$@"
    # Once more, for the names: there is nothing left to build.
    programs=$(with_cargo "$arm" "$@" --quiet --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    [ -n "$programs" ] || fail "no program was built of $packages"
    for program in $programs; do "$here/elf.sh" program "$program" "$glibc" "$page"; done
}

bare() {
    for pair in $bare; do
        target=${pair%%:*}
        say "building the core and the acceptor for $target"
        with_cargo "$target" rustc --locked --package ringleader-acceptor --profile freestanding --features freestanding \
            --crate-type staticlib --target "$target"
        "$here/elf.sh" bare "$cache/build/$target/freestanding/libringleader_acceptor.a" "$zig" "${pair##*:}"
    done
}

tests() {
    # shellcheck disable=SC2086
    "$here/tests.sh" "$cache" "$arm" "$glibc" ringleader-core $packages
}

"$here/tools.sh" "$cache"
began=$(date +%s)
for step in "${@:-all}"; do
    case $step in
        agent | tests | bare) "$step" ;;
        all) agent && tests && bare ;;
        *) echo "dpu: there is no step $step (see --help)" >&2; exit 64 ;;
    esac
done
say "done in $(($(date +%s) - began)) s"
