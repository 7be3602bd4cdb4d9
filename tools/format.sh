#!/bin/sh
# Lays every C file out by .clang-format. Other versions of clang-format lay out differently: it takes Debian 12's.
#   tools/format.sh            rewrites them
#   tools/format.sh --check    names what it would rewrite, and fails; ends with 77 where there is no such clang-format
set -eu
case "$*" in
"") how=-i ;;
--check) how="--dry-run -Werror" ;;
*) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
version=14
program=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$program" ] || ! "$program" --version | grep -q "version $version\."; then
    echo "tools/format.sh: needs clang-format $version (Debian: clang-format)" >&2
    exit 77
fi
# tests/standin/include follows the headers that it stands in for.
# shellcheck disable=SC2086
find ir report frontend strategies search proof compiler runtime tests -name '*.[ch]' ! -path 'tests/standin/include/*' -print0 | xargs -0 -P 2 -n 8 "$program" $how
