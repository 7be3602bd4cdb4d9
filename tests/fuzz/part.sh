#!/bin/sh
# Compiles sources into one object that several fuzzers link.
#   part.sh OUT SOURCE.. -- COMPILER FLAG..
set -eu
out=$1
shift
sources=
while [ "$1" != -- ]; do
    sources="$sources $1"
    shift
done
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for source in $sources; do
    "$@" -c "$source" -o "$folder/$(basename "$source").o"
done
ld -r -o "$out" "$folder"/*.o
