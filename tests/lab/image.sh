#!/bin/sh
# Makes the lab's virtual machine out of Debian's own packages: a kernel that has soft-RoCE, and a root of a few megabytes.
# Nothing is installed and nothing needs root: packages are fetched, unpacked, and picked from.
#
# Usage: image.sh CACHE
# Leaves CACHE/vmlinuz and CACHE/root.cpio.gz; does nothing when both are there for this script and this kernel.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: image.sh CACHE}
mkdir -p "$cache/debs"
cache=$(cd "$cache" && pwd)

find_kernel() { apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1; }
# The lists of packages, where they are missing or too old, as far as one may.
refresh() { [ "$(id -u)" != 0 ] || apt-get update -qq >&2 || true; }

kernel=$(find_kernel)
[ -n "$kernel" ] || { refresh; kernel=$(find_kernel); }
[ -n "$kernel" ] || { echo "lab: apt knows no kernel package (linux-image-amd64): run apt-get update" >&2; exit 1; }
stamp="$kernel $(cat "$here/image.sh" "$here/init" | cksum)"
[ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
echo "lab: making the virtual machine's image from $kernel" >&2

# The programs of the machine, and the packages of every library that they load.
packages="$kernel busybox-static dash kmod iproute2 rdma-core libibverbs1 ibverbs-providers
    libc6 libgcc-s1 libbpf1 libbsd0 libcap2 libelf1 libmd0 libmnl0 libxtables12 zlib1g libnl-3-200 libnl-route-3-200
    liblzma5 libzstd1 libssl3"
cd "$cache/debs"
has() { ls "$1"_*.deb >/dev/null 2>&1; }
fetch() { has "$1" || apt-get download -qq "$1" 2>&1 | grep -v unsandboxed >&2 || true; }
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
ln -s ../../lib usr/lib/x86_64-linux-gnu 2>/dev/null || true
ln -s . lib/x86_64-linux-gnu
cp "$from/bin/busybox" bin/busybox
for applet in cat chmod cmp cp cut date dmesg echo env grep head hostname httpd kill ln ls md5sum mkdir mkfifo mount mv nc poweroff printf ps pwd reboot rm \
    sed seq sleep sort stty sync tail tee test timeout touch tr true umount uname uniq wc xargs; do
    ln -s busybox "bin/$applet"
done
# Debian's own shell: busybox's would prefer its own ip, which knows no veth.
cp "$from/bin/dash" bin/sh
cp "$from/bin/kmod" bin/kmod
ln -s ../bin/kmod sbin/modprobe
ln -s ../bin/kmod sbin/insmod
cp "$from/bin/ip" "$from/sbin/tc" "$from/usr/bin/rdma" bin/ 2>/dev/null || cp "$from/sbin/ip" "$from/sbin/tc" "$from/usr/bin/rdma" bin/

find_library() { find "$from/lib" "$from/usr/lib" -name "$1" | head -n 1; }
needs() { readelf -d "$1" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
cp -L "$(find_library ld-linux-x86-64.so.2)" lib64/
pending="bin/kmod bin/sh bin/ip bin/tc bin/rdma"
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

# The modules, and what they need.
release=$(basename "$from"/lib/modules/*)
mkdir -p "$cache/tools"
ln -sf "$from/bin/kmod" "$cache/tools/depmod"
ln -sf "$from/bin/kmod" "$cache/tools/modprobe"
kmod() { LD_LIBRARY_PATH="$from/lib/x86_64-linux-gnu:$from/usr/lib/x86_64-linux-gnu" "$cache/tools/$@"; }
kmod depmod -b "$from" "$release"
mkdir -p "lib/modules/$release"
for module in crc32_generic rdma_rxe ib_uverbs rdma_ucm veth bridge dummy virtio_net virtio_pci sch_netem; do
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
echo "$stamp" > "$cache/stamp"
echo "lab: image of $(du -k "$cache/root.cpio.gz" | cut -f1) KiB" >&2
