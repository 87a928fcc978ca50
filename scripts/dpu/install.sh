#!/bin/sh
# Installs Debian packages where one may; says what is missing where not.
#
# Usage: install.sh PACKAGE...
set -eu
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" >&2; }
    echo "dpu: installing $*" >&2
    apt update && apt install -y --no-install-recommends "$@" && exit 0
fi
echo "dpu: missing: $* (on Debian and Ubuntu: apt-get install $*)" >&2
exit 1
