#!/bin/sh
# A build by pkg-config, as a program's own: pkg-config.sh PREFIX SOURCE.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH="$1/lib/pkgconfig"
version=$(pkg-config --modversion ringleader)
cat >"$work/version.c" <<'C'
#include <ringleader.h>
#include <stdio.h>
int main(void) {
    printf("%s\n", ringleader_version_text());
    return 0;
}
C
# shellcheck disable=SC2046
cc -std=c99 -Wall -Wextra -Werror $(pkg-config --cflags ringleader) "$work/version.c" -o "$work/version" $(pkg-config --libs ringleader)
[ "$(LD_LIBRARY_PATH=$1/lib "$work/version")" = "$version" ]
# And without a shared library at run time.
# shellcheck disable=SC2046
cc -std=c99 $(pkg-config --cflags ringleader) "$work/version.c" -o "$work/static" "$1/lib/libringleader.a" $(pkg-config --libs-only-l --static ringleader | sed 's/-lringleader//')
[ "$("$work/static")" = "$version" ]
pkg-config --atleast-version=0.1 ringleader
echo "pkg-config finds $version"
