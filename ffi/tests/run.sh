#!/bin/sh
# All tests of the library for C and C++: ffi/tests/run.sh TARGET_DIR, after `make libraries`. `make embed` runs it.
# LEAK_ROUNDS (10000), SEEDS (20) and ONLY (a pattern of names) are for the long form, and for looking at one.
set -eu
export LC_ALL=C
target=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ringleader-embed-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
began=$(date +%s)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")
# What the soname ends with: see ffi/build.rs.
abi=${version%%.*}
[ "$abi" != 0 ] || abi=${version%.*}

say() { echo "embed: $*"; }
fail() { echo "embed: $*" >&2; exit 1; }
compared() { # what, the committed list, what there is
    diff -u "$2" "$3" >&2 || fail "$1 is another one: look at it, and if it is meant: cp $3 $2 (RINGLEADER_BLESS=1)"
}
bless() { [ -z "${RINGLEADER_BLESS:-}" ] || cp "$2" "$1"; }

# Installed twice: where it is used, and below another root, as packagers do.
env -u DESTDIR -u LIBDIR -u INCLUDEDIR PREFIX="$work/usr" "$source/ffi/install.sh" "$target"
env -u INCLUDEDIR CARGO_TARGET_DIR="$target" make -s -C "$source" install DESTDIR="$work/root" PREFIX=/opt/ringleader LIBDIR=/opt/ringleader/lib64
lib=$work/usr/lib
grep -q "^libdir=/opt/ringleader/lib64$" "$work/root/opt/ringleader/lib64/pkgconfig/ringleader.pc" || fail 'DESTDIR is in the pkg-config file'
(cd "$work/root" && find . -type f -o -type l) | sort >"$work/files"
sed "s/@VERSION@/$version/; s/@ABI@/$abi/" "$here/installed.txt" >"$work/wanted"
compared 'what is installed' "$work/wanted" "$work/files"
say 'installed'

# The header by itself, in every language that it is for.
for header in ringleader.h ringleader.hpp; do
    echo "#include <$header>" >"$work/alone.c"
    for compiler in gcc clang; do
        [ $header = ringleader.hpp ] || for standard in c99 c11; do
            $compiler -x c -std=$standard -Wall -Wextra -Wpedantic -Werror -I"$work/usr/include" -fsyntax-only "$work/alone.c"
        done
        for standard in c++17 c++20; do
            $compiler -x c++ -std=$standard -Wall -Wextra -Wpedantic -Werror -I"$work/usr/include" -fsyntax-only "$work/alone.c"
        done
    done
done
say 'the headers compile as C99, C11, C++17 and C++20, by gcc and clang'

# What is exported, and what structs look like, as it was when it was last looked at.
nm -D --defined-only "$lib/libringleader.so" | awk '{print $3}' | sort >"$work/symbols"
bless "$here/symbols.txt" "$work/symbols"
compared 'what the shared library exports' "$here/symbols.txt" "$work/symbols"
nm -g --defined-only "$lib/libringleader.a" | awk 'NF == 3 {print $3}' | sort >"$work/symbols-static"
compared 'what the static library exports' "$here/symbols.txt" "$work/symbols-static"
grep '^ringleader_core_\|^ringleader_status_\|^ringleader_timing_' "$here/symbols.txt" >"$work/symbols-core"
nm -g --defined-only "$lib/libringleader-acceptor.a" | awk 'NF == 3 {print $3}' | sort >"$work/symbols-acceptor"
compared 'what the freestanding library exports' "$work/symbols-core" "$work/symbols-acceptor"
nm -u "$lib/libringleader-acceptor.a" | awk '$1 == "U" {print $2}' | sort >"$work/needed"
grep -v -x 'bcmp\|memcmp\|memcpy\|memmove\|memset' "$work/needed" && fail 'the freestanding library needs more than memcpy and its like'
readelf -d "$lib/libringleader.so" | grep -q "SONAME.*\[libringleader.so.$abi\]" || fail 'the soname is another one'
awk '
    /^typedef struct ringleader_[a-z_]* \{/ { name = $3; printf "SIZE(%s)\n", name; next }
    /^\}/ { name = "" }
    name != "" && /;$/ && !/^ *\/\// {
        field = $NF; sub(/;$/, "", field); sub(/\[.*/, "", field); sub(/^\**/, "", field)
        printf "FIELD(%s, %s)\n", name, field
    }' "$work/usr/include/ringleader.h" >"$work/structs.inc"
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/usr/include" -I"$work" "$here/layout.c" -o "$work/layout"
"$work/layout" >"$work/layout.txt"
bless "$here/layout.txt" "$work/layout.txt"
compared 'the layout of structs' "$here/layout.txt" "$work/layout.txt"
say "$(wc -l <"$here/symbols.txt") symbols and $(grep -c ' bytes' "$here/layout.txt") structs are what they were, $(wc -l <"$work/needed") are needed by the freestanding library"

# Programs by name: compiled with a sanitizer each, and plainly for valgrind.
sed -n '/^enum ringleader_status/,/^}/s/^ *\(RINGLEADER_[A-Z_]*\) = .*/STATUS(\1)/p' "$work/usr/include/ringleader.h" >"$work/statuses.inc"
strict='-Wall -Wextra -Wpedantic -Werror -g -pthread'
flags="-I$work/usr/include -I$work -I$here"
link="-L$lib -lringleader -Wl,-rpath,$lib"
asan='-O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
names='status handles structs node lane busy reader polled group log core order leak'
mkdir "$work/asan" "$work/plain" "$work/clang"
for name in $names; do
    echo "gcc -std=c11 $strict $asan $flags $here/$name.c -o $work/asan/$name $link"
    echo "gcc -std=c11 $strict -O1 $flags $here/$name.c -o $work/plain/$name $link"
    echo "clang -std=c11 $strict -O1 -fsanitize=undefined -fno-sanitize-recover=all $flags $here/$name.c -o $work/clang/$name $link"
done >"$work/compile"
{
    echo "g++ -std=c++17 $strict $asan $flags $here/cpp.cpp -o $work/asan/cpp $link"
    echo "clang++ -std=c++17 $strict -O1 $flags $here/cpp.cpp -o $work/plain/cpp $link"
    echo "gcc -std=c11 $strict -O2 $flags $here/trio.c -o $work/plain/trio $link"
    # The static library, with all that it needs.
    echo "gcc -std=c11 $strict -O1 $flags $here/lane.c -o $work/plain/static $lib/libringleader.a -lgcc_s -lm -ldl"
    for compiler in gcc clang; do
        echo "$compiler -std=c11 -O2 -ffreestanding -fno-stack-protector -fno-builtin -nostdlib -static -Wall -Wextra -Wpedantic -Werror $flags $here/freestanding.c -o $work/plain/freestanding-$compiler -L$lib -lringleader-acceptor"
    done
    for name in counter lock; do
        echo "gcc -std=c11 $strict -O2 $flags $source/ffi/examples/$name.c -o $work/plain/$name $link"
    done
    echo "g++ -std=c++17 $strict -O2 $flags $source/ffi/examples/book.cpp -o $work/plain/book $link"
} >>"$work/compile"
xargs -P 2 -I '{}' sh -c '{}' <"$work/compile" || fail 'a program does not compile'
say "$(wc -l <"$work/compile") programs compiled"

# What is run: a name, then a command. Two at a time; what fails shows what it said.
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
valgrind='valgrind -q --fair-sched=yes --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect --error-exitcode=9'
mkdir "$work/out"
seeds=${SEEDS:-20}
# Debian 12's does not know the system call by which nodes of one machine watch each other.
cat >"$work/pidfd.c" <<'C'
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { return syscall(SYS_pidfd_open, getpid(), 0) < 0; }
C
gcc "$work/pidfd.c" -o "$work/pidfd"
several=yes
valgrind -q "$work/pidfd" >"$work/pidfd.said" 2>&1 || several=
slow="TEST_TIMING=40 TEST_SHORT=1 ${several:-TEST_ALONE=1}"
[ -n "$several" ] || say 'this valgrind does not know pidfd_open: groups have one node under it, and group.c is not run'
slow=${slow%yes}
for name in $names; do
    case $name in
    order)
        echo "asan-order env TEST_TIMING=1 $work/asan/order 1 $seeds 3000"
        echo "clang-order env TEST_TIMING=1 $work/clang/order 1001 $seeds 3000"
        echo "valgrind-order env $slow $valgrind $work/plain/order 1 1 700"
        ;;
    leak)
        echo "asan-leak $work/asan/leak 200"
        echo "valgrind-leak env $slow $valgrind $work/plain/leak 20"
        echo "leak $work/plain/leak ${LEAK_ROUNDS:-10000}"
        ;;
    *)
        echo "asan-$name $work/asan/$name"
        echo "clang-$name $work/clang/$name"
        [ "$name$several" = group ] || echo "valgrind-$name env $slow $valgrind $work/plain/$name"
        ;;
    esac
done >"$work/run"
awk 'BEGIN { for (i = 1; i <= 200; i++) printf "%s %d %d => ok %d\n", "a", i, i, i * (i + 1) / 2; print "a 100 100 => ok 20100" }' >"$work/counter.script"
alone=$("$work/plain/book" --alone <"$source/ffi/examples/orders.txt")
{
    echo "asan-cpp $work/asan/cpp"
    echo "valgrind-cpp env $slow $valgrind $work/plain/cpp"
    echo "static $work/plain/static"
    echo "freestanding-gcc $work/plain/freestanding-gcc"
    echo "freestanding-clang $work/plain/freestanding-clang"
    echo "example-counter $work/plain/trio -k 101 -s '= 20100' $work/plain/counter $work/counter.script"
    echo "example-lock $work/plain/trio $work/plain/lock $source/ffi/examples/lock.script"
    echo "example-book $work/plain/trio -k 501 -s '$alone' $work/plain/book $source/ffi/examples/orders.txt"
    echo "pkg-config $here/pkg-config.sh $work/usr $source"
    echo "cmake $here/cmake.sh $work/usr $source"
    echo "text $here/text.sh $work/usr $source"
} >>"$work/run"
[ -z "${ONLY:-}" ] || { grep -e "$ONLY" "$work/run" >"$work/some" && mv "$work/some" "$work/run"; } || fail "nothing is called like $ONLY"
cat >"$work/one.sh" <<'ONE'
name=${1%% *}
command=${1#* }
before=$(date +%s)
if timeout 600 sh -c "$command" >"$2/out/$name" 2>&1; then
    echo "embed: ok $name ($(($(date +%s) - before)) s) $(tail -n 1 "$2/out/$name" | cut -c 1-100)"
else
    status=$?
    tail -n 60 "$2/out/$name" >&2
    echo "embed: FAILED $name ($status): $command" >&2
    exit 1
fi
ONE
tr '\n' '\0' <"$work/run" | xargs -0 -P 2 -I '{}' sh "$work/one.sh" '{}' "$work" || fail 'a program failed'
say "$(wc -l <"$work/run") programs, $(($(date +%s) - began)) s"
