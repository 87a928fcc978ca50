#!/bin/sh
# Installs what C and C++ programs need, from what cargo has built: ffi/install.sh TARGET_DIR. DESTDIR, PREFIX, LIBDIR and INCLUDEDIR are
# as usual. Nothing is built here, so that it may be run as root.
set -eu
target=$1
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
root=${DESTDIR:-}
case $prefix$libdir$includedir in
/*) ;;
*) echo "install: PREFIX, LIBDIR and INCLUDEDIR are absolute paths" >&2; exit 1 ;;
esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml")
major=${version%%.*}
minor=${version#*.}
minor=${minor%%.*}
# What is compatible has one name (ffi/build.rs): before 1.0 that ends with the minor version.
abi=$major
[ "$major" != 0 ] || abi=$major.$minor
for file in release/libringleader_ffi.so release/libringleader_ffi.a freestanding/libringleader_acceptor.a; do
    [ -e "$target/$file" ] || { echo "install: $target/$file is missing: make libraries" >&2; exit 1; }
done
mkdir -p "$root$libdir/pkgconfig" "$root$libdir/cmake/ringleader" "$root$includedir"

install -m 644 "$here/../include/ringleader.h" "$here/../include/ringleader.hpp" "$root$includedir/"
install -m 755 "$target/release/libringleader_ffi.so" "$root$libdir/libringleader.so.$version"
ln -sf "libringleader.so.$version" "$root$libdir/libringleader.so.$abi"
ln -sf "libringleader.so.$abi" "$root$libdir/libringleader.so"

# Static libraries of one object each, in which nothing but the library's own functions is global: what else is in them (the Rust
# library, C code of other projects) does not meet what a program links besides.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
close_up() {
    ld -r --whole-archive "$1" -o "$scratch/$3.o"
    # The bitcode of another LLVM than the system's, which its ar would read.
    objcopy --wildcard --keep-global-symbol='ringleader_*' --strip-debug \
        --remove-section=.llvmbc --remove-section=.llvmcmd "$scratch/$3.o"
    rm -f "$2"
    ar rcsD "$2" "$scratch/$3.o"
    chmod 644 "$2"
}
close_up "$target/release/libringleader_ffi.a" "$root$libdir/libringleader.a" ringleader
close_up "$target/freestanding/libringleader_acceptor.a" "$root$libdir/libringleader-acceptor.a" acceptor

fill() {
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@INCLUDEDIR@|$includedir|g" \
        -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@MINOR@|$minor|g" -e "s|@ABI@|$abi|g" "$here/install/$1.in" >"$2"
    chmod 644 "$2"
}
fill ringleader.pc "$root$libdir/pkgconfig/ringleader.pc"
fill ringleaderConfig.cmake "$root$libdir/cmake/ringleader/ringleaderConfig.cmake"
fill ringleaderConfigVersion.cmake "$root$libdir/cmake/ringleader/ringleaderConfigVersion.cmake"
