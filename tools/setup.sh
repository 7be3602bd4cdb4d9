#!/bin/sh
# Installs what is missing of the Debian packages that pcc and prun need. As root, or with sudo. Quick when nothing is missing.
#   tools/setup.sh            what the build and prun need
#   tools/setup.sh --tests    and what the tests need
set -eu
packages="gcc libc6-dev meson ninja-build pkg-config flex bison libfl-dev openmpi-bin libopenmpi-dev libopenblas-dev libdnnl-dev libxxhash-dev zlib1g-dev libcjson-dev libutf8proc-dev libpng-dev libjpeg62-turbo-dev"
for arg in "$@"; do
    case $arg in
    --tests) packages="$packages libcriterion-dev python3 g++ iproute2 clang-format" ;;
    *) echo "usage: tools/setup.sh [--tests]" >&2; exit 2 ;;
    esac
done
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "tools/setup.sh: missing:$missing; run this as root, or install sudo" >&2; exit 3; }
    sudo=sudo
fi
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { # prints apt's own words only when it fails
    DEBIAN_FRONTEND=noninteractive $sudo apt-get "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "tools/setup.sh: apt-get $1 failed" >&2; exit 3; }
}
install update
# shellcheck disable=SC2086
install install -y --no-install-recommends $missing
