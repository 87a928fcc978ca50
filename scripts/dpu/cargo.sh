#!/bin/sh
# Runs cargo for a target: that of this machine's Rust where it has the target, else Debian's, in the root that root.sh makes.
# What is built is in CACHE/build, either way.
#
# Usage: cargo.sh CACHE TARGET COMMAND [ARGUMENT...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: cargo.sh CACHE TARGET COMMAND [ARGUMENT...]}
target=$2
command=$3
shift 3
source=$(cd "$here/../.." && pwd)
# Not from the source: of what lies below the directory that it is called from zig names its headers from there, which a crate's build
# script, called from another one, does not find.
mkdir -p "$cache/build"
cd "$cache/build"
set -- --manifest-path "$source/Cargo.toml" "$@"
cargo=${CARGO:-cargo}
# zig serves where there is an operating system; where there is none nothing is linked.
case $target in *-linux-*) program='cargo-zigbuild' ;; *) program=cargo ;; esac

library=$(${RUSTC:-rustc} --print target-libdir --target "$target" 2>/dev/null) || library=
if [ -n "$library" ] && [ -d "$library" ]; then
    [ "$program" != cargo ] || program=$cargo
    export CARGO="$cargo" CARGO_TARGET_DIR="$cache/build" PATH="$cache/python/bin:$PATH"
    export XDG_CACHE_HOME="$cache/cache" CARGO_ZIGBUILD_ZIG_PATH="$cache/python/ziglang/zig"
    exec "$program" "$command" "$@"
fi

[ "$(id -u)" = 0 ] || {
    echo "dpu: this Rust has no $target: rustup target add $target (or, as root, Debian's Rust is used)" >&2
    exit 1
}
"$here/root.sh" "$cache"
# Debian has no package of core for these: it is built, which is not yet stable.
bootstrap=
[ "$program" = cargo-zigbuild ] || { bootstrap=1; set -- -Zbuild-std=core "$@"; }
# Nothing but the source, which is only read, and CACHE is seen in there, and nothing stays mounted.
exec bwrap --die-with-parent --unshare-pid --bind "$cache/debian" / --proc /proc --dev /dev --tmpfs /tmp \
    --ro-bind "$source" "$source" --bind "$cache" "$cache" --ro-bind "$cache/cargo.toml" /cargo/config.toml --chdir "$cache/build" \
    --clearenv --setenv PATH "$cache/python/bin:/usr/bin" --setenv HOME /tmp ${bootstrap:+--setenv RUSTC_BOOTSTRAP 1} \
    --setenv CARGO_HOME /cargo --setenv CARGO_NET_OFFLINE true --setenv CARGO_TARGET_DIR "$cache/build" \
    --setenv CARGO_TERM_COLOR "${CARGO_TERM_COLOR:-auto}" --setenv XDG_CACHE_HOME "$cache/cache" \
    --setenv CARGO_ZIGBUILD_ZIG_PATH "$cache/python/ziglang/zig" --setenv ZIG_GLOBAL_CACHE_DIR "$cache/zig" \
    "$program" "$command" "$@"
