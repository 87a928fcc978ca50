#!/bin/sh
# Brings what every cross-build takes into CACHE: a linker and C compiler that know old glibcs (zig, as a Python package), and
# cargo-zigbuild, which tells cargo and cmake of it.
#
# Usage: tools.sh CACHE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: tools.sh CACHE}
wanted='cargo-zigbuild==0.24.1 ziglang==0.17.1'

command -v readelf >/dev/null || "$here/install.sh" binutils
[ "$(cat "$cache/python/stamp" 2>/dev/null)" != "$wanted" ] || exit 0
echo "dpu: fetching $wanted" >&2
command -v python3 >/dev/null || "$here/install.sh" python3
python3 -m pip --version >/dev/null 2>&1 || "$here/install.sh" python3-pip
rm -rf "$cache/python"
# shellcheck disable=SC2086
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target "$cache/python" $wanted ||
    { echo "dpu: pip cannot install $wanted" >&2; exit 1; }
echo "$wanted" > "$cache/python/stamp"
