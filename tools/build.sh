#!/bin/sh
# Builds into FOLDER (default build) with the given meson options; quick when nothing changed.
#   tools/build.sh [FOLDER] [MESON OPTION...]
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build}
case $folder in
-*) echo "usage: tools/build.sh [FOLDER] [MESON OPTION...]" >&2; exit 2 ;;
esac
[ $# -gt 0 ] && shift
[ -f "$folder/build.ninja" ] || meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 3; }
rm -f "$folder.log"
exec ninja -C "$folder" --quiet
