#!/bin/sh
# The commands of docs/embedding.md, in an empty folder, as they stand there: text.sh PREFIX SOURCE. Installing, whose commands are the
# only ones that are no ```sh, was done before.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export PKG_CONFIG_PATH="$1/lib/pkgconfig" LD_LIBRARY_PATH="$1/lib"
# Blocks of commands come out as they are, files as what writes them: where `mkdir` and `cd` have been by then.
awk '
    /^<!-- file: .* -->$/ { file = $3; next }
    /^```sh$/ { shell = 1; next }
    /^```c$/ && file != "" { writes = 1; printf "cat >%s <<'"'"'END OF FILE'"'"'\n", file; next }
    /^```$/ { if (writes) print "END OF FILE"; if (shell || writes) file = ""; shell = writes = 0; next }
    shell || writes { print }
' "$2/docs/embedding.md" >commands
[ "$(grep -c . commands)" -gt 100 ] || { echo 'the text has no commands' >&2; exit 1; }
cat commands >&2
{ echo 'set -eu'; cat commands; } >script
timeout 300 sh script >said 2>&1 || { cat said >&2; exit 1; }
cat said >&2
cmp counter/counter.c "$2/ffi/examples/counter.c"
grep -q '^anna 2 2 ok 42$' said
[ "$(grep '^out[123]:=' said | cut -d : -f 1 | sort -u | wc -l)" -eq 2 ]
[ "$(grep '^out[123]:=' said | cut -d : -f 2 | sort -u)" = '= 142' ]
# README names the page, and what it promises of it.
grep -q 'docs/embedding.md' "$2/README.md"
grep -q 'make install' "$2/README.md"
echo 'the text leads from an empty folder to 142, twice'
