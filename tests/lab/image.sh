#!/bin/sh
# Makes the lab's virtual machine out of Debian's own packages: a kernel that has soft-RoCE, and a root of a few megabytes.
# Nothing is installed and nothing needs root: packages are fetched, unpacked, and picked from.
#
# Usage: image.sh CACHE [ARCHITECTURE]
# Leaves CACHE/vmlinuz and CACHE/root.cpio.gz; does nothing when both are there for this script and this kernel. ARCHITECTURE is
# amd64 (the default) or arm64, as Debian calls them: that of the virtual machine.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: image.sh CACHE [ARCHITECTURE]}
architecture=${2:-amd64}
case $architecture in
    amd64) triplet=x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 ;;
    arm64) triplet=aarch64-linux-gnu loader=lib/ld-linux-aarch64.so.1 ;;
    *) echo "lab: there is no image for $architecture" >&2; exit 64 ;;
esac
mkdir -p "$cache/debs"
cache=$(cd "$cache" && pwd)

# Packages of another architecture have lists of their own here: what this machine's apt knows and has stays as it is.
native=$(dpkg --print-architecture)
if [ "$architecture" != "$native" ]; then
    mkdir -p "$cache/apt/state/lists/partial" "$cache/apt/cache/archives/partial"
    : > "$cache/apt/status"
    foreign="-o APT::Architecture=$architecture -o APT::Sandbox::User=root -o Dir::State=$cache/apt/state
        -o Dir::State::status=$cache/apt/status -o Dir::Cache=$cache/apt/cache"
fi
# shellcheck disable=SC2086
apt() { program=$1; shift; "$program" ${foreign:-} "$@"; }
find_kernel() { apt apt-cache depends "linux-image-$architecture" 2>/dev/null | sed -n "s/ *Depends: \(linux-image-[0-9].*-$architecture\)$/\1/p" | head -n 1; }
# The lists of packages, where they are missing or too old, as far as one may.
refresh() { { [ "$(id -u)" != 0 ] && [ -z "${foreign:-}" ]; } || apt apt-get update -qq >&2 || true; }

kernel=$(find_kernel)
[ -n "$kernel" ] || { refresh; kernel=$(find_kernel); }
[ -n "$kernel" ] || { echo "lab: apt knows no kernel package (linux-image-$architecture): run apt-get update" >&2; exit 1; }
stamp="$kernel $(cat "$here/image.sh" "$here/init" | cksum)"
[ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
echo "lab: making the virtual machine's image from $kernel" >&2

# The programs of the machine, and the packages of every library that they load.
packages="$kernel busybox-static coreutils dash kmod iproute2 rdma-core libibverbs1 ibverbs-providers
    libc6 libgcc-s1 libbpf1 libbsd0 libcap2 libelf1 libmd0 libmnl0 libxtables12 zlib1g libnl-3-200 libnl-route-3-200
    liblzma5 libzstd1 libssl3"
cd "$cache/debs"
has() { ls "$1"_*.deb >/dev/null 2>&1; }
fetch() { has "$1" || apt apt-get download -qq "$1" 2>&1 | grep -v unsandboxed >&2 || true; }
for package in $packages; do
    fetch "$package"
    has "$package" || { refresh; fetch "$package"; }
    has "$package" || { echo "lab: cannot fetch $package" >&2; exit 1; }
done

rm -rf "$cache/unpacked" "$cache/root"
mkdir -p "$cache/unpacked" "$cache/root"
for package in $packages; do
    for deb in "${package}"_*.deb; do dpkg -x "$deb" "$cache/unpacked"; done
done
from=$cache/unpacked
root=$cache/root
cd "$root"
mkdir -p bin sbin lib lib64 dev proc sys run tmp root etc dev/shm usr/lib
ln -s ../../lib usr/lib/$triplet 2>/dev/null || true
ln -s . lib/$triplet
cp "$from/bin/busybox" bin/busybox
for applet in awk cat chmod cmp cp cut dmesg echo env find grep head hostname httpd kill ln ls md5sum mkdir mkfifo mount mv nc poweroff printf ps pwd reboot rm \
    sed seq sleep sort stty sync tail tee test timeout touch tr true umount uname uniq usleep wc xargs; do
    ln -s busybox "bin/$applet"
done
# Debian's own shell: busybox's would prefer its own ip, which knows no veth.
cp "$from/bin/dash" bin/sh
# Busybox's knows no fractions of a second.
cp "$from/bin/date" bin/date
cp "$from/bin/kmod" bin/kmod
ln -s ../bin/kmod sbin/modprobe
ln -s ../bin/kmod sbin/insmod
cp "$from/bin/ip" "$from/sbin/tc" "$from/usr/bin/rdma" bin/ 2>/dev/null || cp "$from/sbin/ip" "$from/sbin/tc" "$from/usr/bin/rdma" bin/

find_library() { find "$from/lib" "$from/usr/lib" -name "$1" | head -n 1; }
needs() { readelf -d "$1" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
cp -L "$(find_library "$(basename "$loader")")" "$loader"
pending="bin/kmod bin/date bin/sh bin/ip bin/tc bin/rdma"
cp -L "$(find_library 'libibverbs.so.1')" lib/
mkdir -p etc/libibverbs.d lib/libibverbs
provider=$(find "$from" -name 'librxe-rdmav*.so' | head -n 1)
cp "$provider" lib/libibverbs/
echo 'driver rxe' > etc/libibverbs.d/rxe.driver
pending="$pending lib/libibverbs.so.1 lib/libibverbs/$(basename "$provider")"
# What a Rust program loads.
for library in libc.so.6 libm.so.6 libgcc_s.so.1 libpthread.so.0 libdl.so.2 librt.so.1; do
    cp -L "$(find_library "$library")" lib/
done
while [ -n "$pending" ]; do
    next=
    for file in $pending; do
        for library in $(needs "$file"); do
            [ -e "lib/$library" ] || [ -e "lib64/$library" ] && continue
            found=$(find_library "$library")
            [ -n "$found" ] || { echo "lab: no package here has $library, which $file needs" >&2; exit 1; }
            cp -L "$found" lib/
            next="$next lib/$library"
        done
    done
    pending=$next
done

# The modules, and what they need, by a program of this machine's architecture.
release=$(basename "$from"/lib/modules/*)
mkdir -p "$cache/tools"
tools=$from
if [ "$architecture" != "$native" ]; then
    tools=$cache/tools
    for package in kmod liblzma5 libzstd1 libssl3; do
        (cd "$tools" && { has "$package" || apt-get download -qq "$package" 2>&1 | grep -v unsandboxed >&2 || true; } && has "$package") ||
            { echo "lab: cannot fetch $package of this machine" >&2; exit 1; }
        dpkg -x "$tools/${package}"_*.deb "$tools"
    done
fi
ln -sf "$tools/bin/kmod" "$cache/tools/depmod"
ln -sf "$tools/bin/kmod" "$cache/tools/modprobe"
libraries=$(echo "$tools"/lib/*-linux-gnu):$(echo "$tools"/usr/lib/*-linux-gnu)
kmod() { LD_LIBRARY_PATH="$libraries" "$cache/tools/$@"; }
kmod depmod -b "$from" "$release"
mkdir -p "lib/modules/$release"
for module in crc32_generic rdma_rxe ib_uverbs rdma_ucm veth bridge dummy virtio_net virtio_pci virtio_console sch_netem; do
    kmod modprobe -d "$from" -S "$release" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r path; do
    relative=${path#"$from"}
    mkdir -p ".$(dirname "$relative")"
    cp "$path" ".$relative"
done
cp "$from/lib/modules/$release/"modules.order "$from/lib/modules/$release/"modules.builtin* "lib/modules/$release/" 2>/dev/null || true
kmod depmod -b "$root" "$release"
cp "$here/init" init
chmod 755 init
find . | cpio --quiet -o -H newc -R 0:0 | gzip -9 > "$cache/root.cpio.gz"
# Another archive is put behind it, which must begin at a multiple of four bytes.
truncate -s %4 "$cache/root.cpio.gz"
cp "$from/boot/vmlinuz-$release" "$cache/vmlinuz"
rm -rf "$cache/unpacked" "$cache/root" "$cache/tools"
echo "$architecture" > "$cache/architecture"
echo "$stamp" > "$cache/stamp"
echo "lab: image of $(du -k "$cache/root.cpio.gz" | cut -f1) KiB" >&2
