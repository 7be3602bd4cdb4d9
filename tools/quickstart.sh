#!/bin/sh
# The main job on a bare machine: installs what is missing, builds, compiles samples/quickstart.dsl for 8 ranks with its dumps, trains it
# with mpirun on 8 ranks, and shows dumps and losses. A second run only compiles and trains.
set -eu
[ $# -eq 0 ] || { echo "usage: tools/quickstart.sh     installs what is missing, builds, compiles and trains samples/quickstart.dsl on 8 ranks" >&2; exit 2; }
cd "$(dirname "$0")/.."
tools/setup.sh
tools/build.sh build -Dtests=disabled
echo "== pcc samples/quickstart.dsl --ranks 8 --dump-ir"
build/compiler/pcc samples/quickstart.dsl --ranks 8 --dump-ir=build/quickstart_ir -o build/quickstart.plan
echo
echo "== what was found for the operators without a strategy (step_parallel_begin)"
grep -h 'in_strategy' build/quickstart_ir/rank_0/*step_parallel_begin*.ir
echo
echo "== rank 0 after the split (step_parallel_end), forward part"
sed -n '/^subgraph/,$p' build/quickstart_ir/rank_0/*step_parallel_end*.ir | head -n 40
echo
echo "== mpirun -n 8 prun quickstart.plan"
. tools/mpi.sh
mpirun -n 8 build/runtime/prun build/quickstart.plan
