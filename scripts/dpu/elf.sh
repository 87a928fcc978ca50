#!/bin/sh
# Looks at what was built, by readelf, and says what it is; an error where it would not run on a DPU.
#
# Usage: elf.sh program FILE GLIBC PAGE          a program for Linux: its processor, symbols no newer than GLIBC, segments on pages of PAGE
#        elf.sh bare ARCHIVE ZIG ZIG_TARGET      a static library without an operating system: linked by itself, its sizes
set -eu
export LC_ALL=C
fail() { echo "dpu: $*" >&2; exit 1; }
machine() { readelf -hW "$1" | sed -n 's/^ *Machine: *//p' | sort -u; }

# As size(1) counts: text is what is only read, too; data what is in the file and written; bss what is only zeroes.
sizes() {
    readelf -SW "$1" | sed -n 's/^ *\[ *[0-9]*\] *//p' | {
        text=0 data=0 bss=0
        while read -r _ type _ _ size _ flags _; do
            case "$flags $type" in
                *W*A*' NOBITS') bss=$((bss + 0x$size)) ;;
                *W*A*' '*) data=$((data + 0x$size)) ;;
                *A*' '*) text=$((text + 0x$size)) ;;
            esac
        done
        echo "text $text, data $data, bss $bss bytes"
    }
}

program() {
    file=$1 glibc=$2 page=$3
    is=$(machine "$file")
    [ "$is" = AArch64 ] || fail "$file is for $is"
    newest=$(readelf -VW "$file" | grep -o 'GLIBC_[0-9][0-9.]*' | sort -uV | tail -n 1)
    [ -n "$newest" ] || fail "$file names no version of glibc: it cannot load the providers of RDMA devices"
    newest=${newest#GLIBC_}
    [ "$(printf '%s\n%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] ||
        fail "$file needs glibc $newest, and the DPU's may be $glibc"
    loads=$(readelf -lW "$file" | awk '$1 == "LOAD" {print $NF}')
    [ -n "$loads" ] || fail "$file has no segment"
    for align in $loads; do
        [ $((align)) -ge "$page" ] || fail "$file has a segment aligned to $((align)) bytes: it cannot be loaded where pages have $page"
    done
    echo "dpu: $(basename "$file"): $is, glibc $newest, segments aligned to $((page / 1024)) KiB, $(sizes "$file")"
}

bare() {
    archive=$1 zig=$2 target=$3
    image=$(mktemp "${TMPDIR:-/tmp}/ringleader-bare.XXXXXX")
    trap 'rm -f "$image"' EXIT
    # With every function that the header names, and nothing else: what is missing is an error of the linker.
    wanted=$(readelf -sW "$archive" | awk '$4 == "FUNC" && $5 == "GLOBAL" && $7 != "UND" && $8 ~ /^ringleader_/ {print $8}' | sort -u)
    [ -n "$wanted" ] || fail "$archive exports nothing"
    # shellcheck disable=SC2046,SC2086
    "$zig" cc -target "$target" -nostdlib -static -Wl,--gc-sections -Wl,-e,0 $(printf ' -Wl,-u,%s' $wanted) "$archive" -o "$image" ||
        fail "$archive does not stand alone"
    count=$(echo "$wanted" | wc -l)
    echo "dpu: $(basename "$archive" .a | tr _ -) for $(basename "$(dirname "$(dirname "$archive")")"): $(machine "$image"), $count functions, $(sizes "$image")"
}

"$@"
