#!/bin/sh
# Looks whether a .deb is what it should be: check-deb.sh FILE. What is in it, what it asks for, what lintian finds; and, as root, that it
# is installed into a throw-away root (what this machine has, and an overlay over it), runs there, and is purged without a trace.
set -eu

deb=$(realpath "${1:?check-deb.sh FILE}")
cd "$(dirname "$0")/.."
die() { echo "check-deb.sh: $deb: $*" >&2; exit 1; }
field() { dpkg-deb --field "$deb" "$1"; }

package=$(field Package) arch=$(field Architecture) version=$(field Version)
work=$(mktemp -d)
trap 'umount "$work" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM

# All files, their modes and whose they are.
dpkg-deb --fsys-tarfile "$deb" | tar --numeric-owner -tv | awk '{ print $1, $2, $6 }' | grep -v '^d' | LC_ALL=C sort -k 3 >"$work/contents"
diff -u "packaging/deb/$package.contents" "$work/contents" || die 'has other contents than packaging/deb says'

# The version is that of the crate, and of Debian's changelog.
[ "$version" = "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1" ] || die "has version $version"
dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/share/doc/$package/changelog.Debian.gz" | gzip -d | head -n 1 |
    grep -qF "($version)" || die "its changelog does not begin with version $version"

# The C library that the binary was linked with asks for no later one than the package does.
dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/bin/$package" >"$work/binary"
wanted=$(LC_ALL=C readelf --version-info --wide "$work/binary" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
asked=$(field Depends | sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p')
[ "$(printf '%s\n%s\n' "$wanted" "$asked" | sort -V | tail -n 1)" = "$asked" ] ||
    die "needs glibc $wanted, and depends on $asked: build it on an older system, or raise it"
for library in $(LC_ALL=C readelf --dynamic --wide "$work/binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
        libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-*) ;;
        libgcc_s.so.1) field Depends | grep -q libgcc-s1 || die 'does not depend on libgcc-s1' ;;
        *) die "needs $library, which no dependency brings" ;;
    esac
done

LC_ALL=C.UTF-8 lintian --allow-root --fail-on error --no-tag-display-limit "$deb" >"$work/lintian" 2>&1 ||
    { cat "$work/lintian" >&2; die 'lintian finds errors'; }

if [ "$arch" != "$(dpkg --print-architecture)" ]; then
    echo "$package $version $arch: contents, dependencies and lintian are well (it is for another processor: not installed)"
    exit 0
fi
unshare --mount true 2>/dev/null || {
    [ "${LAB_REQUIRED:-0}" = 0 ] || die 'it cannot be installed for a look: that takes root'
    echo "$package $version $arch: contents, dependencies and lintian are well (only root can install it for a look)"
    exit 0
}

# The throw-away root. Its own mounts go with the namespace.
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
export deb work package version
unshare --mount sh -c 'mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"' 2>/dev/null || {
    echo "$package $version $arch: contents, dependencies and lintian are well (not installed: no overlay of this machine's files can be made)"
    exit 0
}
unshare --mount --pid --fork sh -eu -c '
    mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
    mount -t proc proc "$work/root/proc"
    mount --bind /dev "$work/root/dev"
    # Somebody may have the package on this machine.
    in_root() { chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
    in_root dpkg --purge "$package" >/dev/null 2>&1 || true
    cp "$deb" "$work/root/root/package.deb"

    in_root dpkg --install /root/package.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    said=$(in_root "$package" --version)
    [ "$said" = "$package ${version%-*}" ] || { echo "--version says: $said" >&2; exit 1; }
    in_root getent passwd ringleader >/dev/null
    for unit in $(in_root dpkg --listfiles "$package" | grep /systemd/system/.*service$); do
        # A template is looked at by one of its instances.
        said=$(in_root systemd-analyze verify --man=no "$(echo "$unit" | sed "s/@/@check/")" 2>&1) && [ -z "$said" ] ||
            { echo "$unit: $said" >&2; exit 1; }
    done
    # What was changed in a configuration stays when the package comes again.
    for file in $(in_root dpkg-query --show --showformat "\${Conffiles}" "$package" | awk "{ print \$1 }"); do
        echo "# changed" >>"$work/root$file"
        in_root dpkg --install --force-confold /root/package.deb >"$work/log" 2>&1
        [ "$(tail -n 1 "$work/root$file")" = "# changed" ] || { echo "$file was changed, and that is lost" >&2; exit 1; }
    done
    install -d -o 0 "$work/root/var/lib/ringleader"
    touch "$work/root/var/lib/ringleader/orders.applied"

    in_root dpkg --purge "$package" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    ! in_root getent passwd ringleader >/dev/null
    # What is in the layer above and was not below. dpkg and the lists of users keep what was before them.
    left=$(cd "$work/upper" && find . ! -type c | while read -r path; do [ -e "/$path" ] || echo "$path"; done |
        grep -Ev "^\./(root/package\.deb|run/systemd/systemd-units-load|(var/(lib/dpkg|log|cache|backups)|tmp)/.*|etc/(passwd|group|shadow|gshadow|subuid|subgid)-)$" || true)
    for users in /etc/passwd /etc/group; do
        cmp -s "$users" "$work/root$users" || left="$left $users"
    done
    [ -z "$left" ] || { echo "purged, and still there: $left" >&2; exit 1; }
' || die 'is not installed, run and purged as it should be'
echo "$package $version $arch: contents, dependencies and lintian are well; installed, ran, kept a changed configuration, purged"
