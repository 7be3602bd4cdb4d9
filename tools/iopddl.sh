#!/bin/sh
# Solves a problem of the contest on intra-operator parallelism (ASPLOS 2025 / EuroSys 2025, its JSON, also compressed by gzip): cost, lower bound, gap, peak of memory, time.
set -eu
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: tools/iopddl.sh FILE [WORK]     WORK: millions of entries of tables that the solver may look at, default 20000" >&2; exit 2; }
[ -r "$1" ] && [ ! -d "$1" ] || { echo "tools/iopddl.sh: cannot read $1" >&2; exit 3; }
file=$(realpath "$1")
case "$file" in
*.gz) gzip -t "$file" 2>/dev/null || { echo "tools/iopddl.sh: cannot read $1: it is not in gzip format" >&2; exit 3; } ;;
esac
cd "$(dirname "$0")/.."
[ -d build ] || tools/build.sh build
ninja -C build tests/solve >/dev/null
case "$file" in
*.gz) zcat "$file" ;;
*) cat "$file" ;;
esac | build/tests/solve ${2:+"$2"}
