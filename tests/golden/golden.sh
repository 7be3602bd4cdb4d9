#!/bin/sh
# Golden dumps and plans: compiles every case below and compares the whole files with those kept here.
#   golden.sh PCC [--bless]     --bless writes them anew: read the diff
# A case is a line: name, ranks, flags of pcc, the net, then the files that are kept (K: the rank's view of stage K; others by name).
set -eu
pcc=$(realpath "$1")
bless=${2:-}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# keep CASE FILE: FILE, as compiled, is dumps/CASE/FILE.
keep() {
    kept=$here/dumps/$1/$(basename "$2")
    if [ "$bless" = --bless ]; then
        mkdir -p "$(dirname "$kept")"
        cp "$2" "$kept"
    elif ! diff -u "$kept" "$2"; then
        echo "golden.sh: $1: $(basename "$2") differs; if it should, run golden.sh PCC --bless and read the diff" >&2
        failed=1
    fi
}

# compile CASE NET FLAGS..: in a folder of its own, so that no path gets into the files.
compile() {
    case=$1
    net=$2
    shift 2
    mkdir -p "$work/$case"
    cp "$net" "$work/$case/"
    (cd "$work/$case" && "$pcc" "$(basename "$net")" -o net.plan --dump-ir=ir "$@" >out 2>err) || {
        cat "$work/$case/err" >&2
        failed=1
    }
}

samples=$here/../../samples
for level in 0 1 2; do
    compile "quickstart_O$level" "$samples/quickstart.dsl" --ranks 8 "-O$level"
    # step_parallel_end is the same at every level: one kept file for all three.
    keep quickstart "$work/quickstart_O$level/ir/rank_0/07_step_parallel_end_0007.ir"
    keep "quickstart_O$level" "$work/quickstart_O$level/ir/rank_0/09_execute_0009.ir"
    keep "quickstart_O$level" "$work/quickstart_O$level/net.plan"
done
keep quickstart "$work/quickstart_O2/ir/rank_0/05_step_parallel_begin_0005.ir"
keep quickstart "$work/quickstart_O2/ir/07_step_parallel_end.spmd"
keep quickstart "$work/quickstart_O2/ir/rank_0/10_memory_0010.ir"

# The strategy on the second matmul: the first one follows the dataset, or nothing.
sed 's/ shard ((2, 4), (4, 1));/;/; s/matmul(a, w2);/matmul(a, w2) shard ((2, 4), (4, 1));/' "$samples/quickstart.dsl" >"$work/second.dsl"
compile second_data_parallel "$work/second.dsl" --ranks 8
compile second_auto "$work/second.dsl" --ranks 8 --dataset auto
for case in second_data_parallel second_auto; do
    keep $case "$work/$case/ir/rank_0/05_step_parallel_begin_0005.ir"
done

# Values that are computed again.
compile recompute "$samples/quickstart.dsl" --ranks 8 --shard 'h=recompute' --shard 'a=recompute'
keep recompute "$work/recompute/ir/rank_0/09_execute_0009.ir"

# What --write-hints writes: of hints, and of equal layers that a search shards.
compile hints_quickstart "$samples/quickstart.dsl" --ranks 8 --write-hints found.dsl
keep hints_quickstart "$work/hints_quickstart/found.dsl"

# The data of the page that --report writes.
compile report_quickstart "$samples/quickstart.dsl" --ranks 8 --report page.html
sed -n '/id="plan">/,/<\/script>/p' "$work/report_quickstart/page.html" | sed 's/^<script[^>]*>//; s/<\/script>$//' >"$work/report_quickstart/page.json"
keep report_quickstart "$work/report_quickstart/page.json"

# Sizes that the strategy does not divide; the view of the last rank.
compile uneven "$samples/quickstart.dsl" --ranks 8 -D batch=15 -D in_dim=30 --dump-ranks 7
keep uneven "$work/uneven/ir/rank_7/07_step_parallel_end_0007.ir"
keep uneven "$work/uneven/net.plan"

# The hidden dimension; axes with names; an output strategy.
compile data_parallel "$samples/oneflow_ddp.dsl" --ranks 2 --dump-ranks 1
keep data_parallel "$work/data_parallel/ir/rank_1/07_step_parallel_end_0007.ir"
keep data_parallel "$work/data_parallel/net.plan"
compile mesh "$samples/mesh.dsl" --ranks 8 --dump-ranks 5
keep mesh "$work/mesh/ir/rank_5/05_step_parallel_begin_0005.ir"
keep mesh "$work/mesh/ir/rank_5/09_execute_0009.ir"
compile output "$samples/output.dsl" --ranks 8 --search sharding_propagation
keep output "$work/output/net.plan"

# docs/ir.md shows lines of these files: every one of them must still be there.
awk '/^<!-- from / { file = $3; next } /^```/ { inside = !inside; if (!inside) file = ""; next } inside && file != "" { print file "\t" $0 }' \
    "$here/../../docs/ir.md" >"$work/shown"
[ -s "$work/shown" ] || { echo "golden.sh: docs/ir.md shows nothing" >&2; failed=1; }
while IFS='	' read -r file line; do
    grep -qxF -- "$line" "$here/dumps/$file" || { echo "docs/ir.md: not in $file: $line" >&2; failed=1; }
done <"$work/shown"

exit $failed
