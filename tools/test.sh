#!/bin/sh
# The tests, on a bare machine too: installs what is missing, builds, and runs
#   tools/test.sh          what a change is tested with before it is committed: a plain build, all tests but the long ones and those of GPUs
#   tools/test.sh --all    everything: the module for GPUs and the long tests too, the seeded faults, fuzzing; and with sanitizers all that runs in one process but the long ones
set -eu
case "$*" in
"" | --all) size=$* ;;
*) echo "usage: tools/test.sh [--all]     --all: the long tests too, and with sanitizers those of one process" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
tools/setup.sh --tests
. tools/mpi.sh

# run FOLDER ARGUMENTS...: meson test, and how many tests and cases it ran.
run() {
    folder=$1
    shift
    rm -f "$folder"/meson-logs/testlog*.txt
    meson test -C "$folder" --no-rebuild --print-errorlogs "$@"
    cat "$folder"/meson-logs/testlog*.txt | LC_ALL=C awk -v folder="$folder" '
        /^=+ [0-9]+\/[0-9]+ =+$/ { tests++ }
        /Synthesis: Tested: / { cases += $4 }
        /^Ran [0-9]+ tests? in / { cases += $2 }
        END { print folder ": " tests " tests ran; those that count their cases had " cases }'
}

if [ "$size" != --all ]; then
    tools/build.sh build-short -Dtests=enabled -Dwerror=true -Dcuda=disabled -Dstandin=disabled -Dfuzz=disabled
    run build-short --setup short --timeout-multiplier 4
    exit
fi
# GPUs of one kind, and hardly optimized: the kernels take minutes to compile, and do not run here.
tools/build.sh build-test -Dtests=enabled -Dwerror=true -Dfuzz=auto -Dgpu_architectures=90 -Dgpu_flags=-Ofc=max
# What tests leave of the cores, as some wait and some run alone, is enough for the next build.
# The module for GPUs is built and tested once (-Dstandin=enabled has its tests under sanitizers too; it takes minutes to build them). -O1: half the time to compile of -O2.
nice -n 19 tools/build.sh build-sanitize -Dtests=enabled -Doptimization=1 -Ddebug=false -Db_sanitize=address,undefined -Db_lundef=false "-Dc_args=-g1 -Wno-maybe-uninitialized" -Dcuda=disabled \
    >build-test/sanitize.log 2>&1 &
sanitize=$!
trap 'kill $sanitize 2>/dev/null || true' EXIT
run build-test --timeout-multiplier 4
wait $sanitize || { cat build-test/sanitize.log >&2; exit 1; }
trap - EXIT
# Commands as users run them take minutes with sanitizers, and reach little that tests of parts and random nets do not.
run build-sanitize --setup short --no-suite run --no-suite source --timeout-multiplier 10
echo "all tests passed"
