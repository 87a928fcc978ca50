#!/bin/sh
# Makes a .deb of a binary that is there: deb.sh BINARY ARCH [PACKAGE]. ARCH is amd64 or arm64; PACKAGE, ringleader when not given, is
# the crate whose [package.metadata.deb] says what else is in it. Prints the path of the package, below OUT (target/debian).
set -eu

binary=${1:?deb.sh BINARY ARCH [PACKAGE]} arch=${2:?deb.sh BINARY ARCH [PACKAGE]} package=${3:-ringleader}
cd "$(dirname "$0")/.."
out=${OUT:-${CARGO_TARGET_DIR:-target}/debian}

case $arch in
    amd64) triple=x86_64-unknown-linux-gnu machine='X86-64' gnu=x86_64-linux-gnu ;;
    arm64) triple=aarch64-unknown-linux-gnu machine='AArch64' gnu=aarch64-linux-gnu ;;
    *) echo "deb.sh: $arch: amd64 or arm64" >&2; exit 2 ;;
esac
[ -f "$binary" ] || { echo "deb.sh: $binary: there is no such file: build it first" >&2; exit 2; }
LC_ALL=C readelf --file-header "$binary" 2>/dev/null | grep -q "Machine:.*$machine" ||
    { echo "deb.sh: $binary is no program for $arch" >&2; exit 2; }
command -v cargo-deb >/dev/null || { echo 'deb.sh: cargo-deb is missing: cargo install cargo-deb --locked' >&2; exit 2; }
strip=$(command -v "$gnu-strip" || { [ "$(dpkg --print-architecture)" = "$arch" ] && command -v strip; }) ||
    { echo "deb.sh: $gnu-strip is missing: install binutils-$(echo "$gnu" | tr _ -)" >&2; exit 2; }

# cargo-deb takes programs from a target directory: it gets one of its own, with nothing in it but this one.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT INT TERM
mkdir -p "$stage/$triple/release" "$out"
"$strip" --strip-unneeded -o "$stage/$triple/release/$package" "$binary"
chmod 755 "$stage/$triple/release/$package"
CARGO_TARGET_DIR=$stage cargo deb --quiet --no-build --no-strip --package "$package" --target "$triple" --output "$stage/" >/dev/null
mv "$stage"/*.deb "$out/"
ls -t "$out/${package}"_*"_$arch.deb" | head -n 1
