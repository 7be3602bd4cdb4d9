#!/bin/sh
# All tests on a bare machine: installs what is missing, builds plainly and with sanitizers, runs every test in both.
set -eu
[ $# -eq 0 ] || { echo "usage: tools/test.sh     installs what is missing, builds plainly and with sanitizers, runs all tests" >&2; exit 2; }
cd "$(dirname "$0")/.."
tools/setup.sh --tests
. tools/mpi.sh
tools/build.sh build-test -Dtests=enabled -Dwerror=true -Dfuzz=auto
# The module for GPUs is built and tested once (-Dstandin=enabled has its tests under sanitizers too; it takes minutes to build them).
tools/build.sh build-sanitize -Dtests=enabled -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dcuda=disabled
meson test -C build-test --no-rebuild --print-errorlogs --timeout-multiplier 4
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
# The faults are seeded in objects built without sanitizers: once is enough.
meson test -C build-sanitize --no-rebuild --print-errorlogs --timeout-multiplier 10 --no-suite faults
echo "all tests passed"
