#!/bin/sh
# Makes CACHE/debian, a root with Debian's Rust: it has std for arm64 as a package, and the source of core for targets that have no
# package. And CACHE/vendor, the source of every crate, fetched by this machine's cargo, for nothing in that root reaches the network.
#
# Usage: root.sh CACHE
# Needs root. Does nothing when both are there for this script and this Cargo.lock.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: root.sh CACHE}
mirror=${DPU_MIRROR:-http://deb.debian.org/debian}
# The first release whose Rust is recent enough.
suite=${DPU_SUITE:-forky}
# The C compiler and cmake are for build scripts; QEMU is for tests.sh.
packages=base-files,dash,coreutils,rustc,cargo,rust-src,libstd-rust-dev:arm64,libc6-dev,gcc,cmake,make,libclang-dev,qemu-user

missing=
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
command -v bwrap >/dev/null || missing="$missing bubblewrap"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
# shellcheck disable=SC2086
[ -z "$missing" ] || "$here/install.sh" $missing

native=$(dpkg --print-architecture)
architectures=$native
[ "$native" = arm64 ] || architectures=$native,arm64
stamp="$mirror $suite $architectures $packages"
if [ "$(cat "$cache/debian/stamp" 2>/dev/null)" != "$stamp" ]; then
    echo "dpu: making a root with the Rust of Debian's $suite: about a minute, 2.3 GB in $cache/debian" >&2
    # Snapshots of a mirror are older than they ought to be, and well.
    rm -rf "$cache/debian"
    # shellcheck disable=SC2016
    mmdebstrap --quiet --mode=root --variant=extract --architectures="$architectures" --include="$packages" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
        --extract-hook='ln -s gcc "$1/usr/bin/cc" && mkdir "$1/cargo" && touch "$1/cargo/config.toml"' \
        "$suite" "$cache/debian" "$mirror" >&2 ||
        { rm -rf "$cache/debian"; echo "dpu: cannot make a root of $suite from $mirror" >&2; exit 1; }
    echo "$stamp" > "$cache/debian/stamp"
fi

stamp="$stamp $(cksum < "$here/../../Cargo.lock")"
if [ "$(cat "$cache/vendor/stamp" 2>/dev/null)" != "$stamp" ]; then
    echo 'dpu: gathering the source of all crates' >&2
    rm -rf "$cache/vendor"
    # Versions in the names: core's own build has some crates in other versions.
    "${CARGO:-cargo}" vendor --quiet --locked --versioned-dirs --manifest-path "$here/../../Cargo.toml" "$cache/vendor" >/dev/null
    cp -r "$cache"/debian/usr/lib/rustlib/src/rust/library/vendor/* "$cache/vendor/"
    printf '[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "%s"\n' "$cache/vendor" > "$cache/cargo.toml"
    echo "$stamp" > "$cache/vendor/stamp"
fi
