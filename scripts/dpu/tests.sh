#!/bin/sh
# Builds the unit tests of packages for the DPU's Arm cores and runs them, in QEMU's user mode where this is another processor.
# left-out.txt names the tests that cannot run there, each with its reason. QEMU's pages are this machine's: what depends on their
# size is computed by functions of it, whose tests try every size.
#
# Usage: tests.sh CACHE TARGET GLIBC PACKAGE...
# QEMU_LD_PREFIX is where arm64's C library is; without it, that of Debian's libc6-arm64-cross is fetched. DPU_SECONDS (1200) bounds
# each program.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: tests.sh CACHE TARGET GLIBC PACKAGE...}
target=$2
glibc=$3
shift 3
fail() { echo "dpu: $*" >&2; exit 1; }

qemu=
if [ "$(uname -m)" != aarch64 ]; then
    find_qemu() { command -v "$cache/debian/usr/bin/qemu-aarch64" || command -v qemu-aarch64 || command -v qemu-aarch64-static; }
    find_qemu >/dev/null || "$here/install.sh" qemu-user
    qemu=$(find_qemu)
    prefix=${QEMU_LD_PREFIX:-$cache/libc/usr/aarch64-linux-gnu}
    if [ ! -e "$prefix/lib/ld-linux-aarch64.so.1" ]; then
        [ -z "${QEMU_LD_PREFIX:-}" ] || fail "there is no lib/ld-linux-aarch64.so.1 in $prefix (QEMU_LD_PREFIX)"
        rm -rf "$cache/libc"
        mkdir -p "$cache/libc"
        fetch() { (cd "$cache/libc" && apt-get download -qq libc6-arm64-cross 2>&1 | grep -v unsandboxed >&2; ls ./*.deb >/dev/null 2>&1); }
        command -v apt-get >/dev/null || fail 'arm64 has no C library here: set QEMU_LD_PREFIX'
        fetch || { [ "$(id -u)" != 0 ] || apt-get update -qq >&2; fetch; } || fail 'apt-get cannot fetch libc6-arm64-cross: set QEMU_LD_PREFIX'
        dpkg -x "$cache"/libc/*.deb "$cache/libc"
    fi
    export QEMU_LD_PREFIX="$prefix"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-dpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
sed 's/#.*//' "$here/left-out.txt" | awk 'NF == 2 {print}' > "$work/left-out"
passed=0 failed=0 ignored=0 left_out=0
for package in "$@"; do
    echo "dpu: building the tests of $package"
    directory=$("${CARGO:-cargo}" pkgid --locked --package "$package" | sed 's|^path+file://||; s|#.*||')
    # A program beside a library has no tests of its own, as a rule; to link one is the dearest part.
    kinds=
    [ ! -e "$directory/src/lib.rs" ] || kinds=--lib
    [ -n "$kinds" ] && ! grep -rqs '#\[test\]\|#\[cfg(test)\]' "$directory/src/main.rs" "$directory/src/bin" || kinds="$kinds --bins"
    build() {
        # shellcheck disable=SC2086
        "$here/cargo.sh" "$cache" "$target" test --no-run --locked --release $kinds --target "$target.$glibc" --package "$package" "$@"
    }
    build
    # Once more, for the names: there is nothing left to build.
    build --quiet --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' > "$work/programs"
    [ -s "$work/programs" ] || fail "no test of $package was built"
    awk -v package="$package" '$1 == package {print $2}' "$work/left-out" | sort > "$work/names"
    found=0
    while read -r program; do
        (
            cd "$directory"
            $qemu "$program" --list --format terse | sed -n 's/: test$//p' > "$work/listed"
        ) < /dev/null
        [ -s "$work/listed" ] || continue
        here_left_out=$(sort "$work/listed" | comm -12 "$work/names" - | wc -l)
        found=$((found + here_left_out))
        echo "dpu: running $(wc -l < "$work/listed") tests of $package, $here_left_out left out"
        status=0
        # shellcheck disable=SC2046,SC2086
        (
            cd "$directory"
            exec timeout "${DPU_SECONDS:-1200}" $qemu "$program" --quiet --exact $(sed 's/^/--skip /' "$work/names")
        ) < /dev/null > "$work/out" 2>&1 || status=$?
        [ "$status" = 0 ] || cat "$work/out" >&2
        result=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$work/out" | tail -n 1)
        [ -n "$result" ] || fail "the tests of $package ended without a result, with status $status"
        # shellcheck disable=SC2086
        set -- $result
        passed=$((passed + $1)) failed=$((failed + $2)) ignored=$((ignored + $3)) left_out=$((left_out + here_left_out))
    done < "$work/programs"
    [ "$found" = "$(wc -l < "$work/names")" ] || fail "left-out.txt names tests that $package does not have"
done
[ "$ignored" = 0 ] || echo "dpu: $ignored more say themselves what they need that is not here"
echo "dpu: $passed passed, $failed failed, $left_out skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
