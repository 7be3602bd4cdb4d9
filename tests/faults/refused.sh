#!/bin/sh
# refused.sh PCC: compiles nets from the folder of the sources. Ends with 70 when a plan is refused by its proof, with 1 when anything else goes wrong:
# a fault that makes pcc crash or reject a net is not what is looked for.
pcc=$1
plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
try() {
    said=$("$pcc" "$@" -o "$plan" 2>&1)
    code=$?
    [ $code -eq 0 ] && return
    echo "pcc $*: $said"
    case "$code $said" in
    "70 "*"the plan could not be proved"*) exit 70 ;;
    esac
    exit 1
}
try tests/faults/forward.dsl --ranks 6 --search sharding_propagation
try tests/faults/rows.dsl --ranks 6 --search sharding_propagation
try tests/faults/planes.dsl --ranks 6 --search sharding_propagation
try tests/faults/refused.dsl --ranks 6 --search sharding_propagation
try tests/faults/refused.dsl --ranks 6 -O0 --search sharding_propagation
try samples/quickstart.dsl --ranks 8
try samples/quickstart.dsl --ranks 8 -O0
try samples/quickstart.dsl --ranks 6 --mode data_parallel
try samples/elementwise.dsl --ranks 6
try samples/reductions.dsl --ranks 5
try samples/output.dsl --ranks 8 --redistribution=bound
try samples/mesh.dsl --ranks 8
try samples/attention.dsl --ranks 6
try samples/attention.dsl --ranks 6 --shard '**=recompute'
