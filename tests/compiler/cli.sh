#!/bin/sh
# The command line of pcc: exit codes, messages, what is written and what is not.
#   cli.sh PCC
set -u
pcc=$(realpath "$1")
samples=$(realpath "$(dirname "$0")/../../samples")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$samples/quickstart.dsl" net.dsl
failed=0

# expect CODE TEXT ARGUMENT..: pcc with these arguments ends with CODE and says TEXT, on stdout or stderr.
expect() {
    code=$1
    text=$2
    shift 2
    "$pcc" "$@" >said 2>&1
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$text" said; then
        echo "pcc $*: expected exit $code and '$text', saw exit $got and:" >&2
        cat said >&2
        failed=1
    fi
}
absent() {
    for file in "$@"; do
        [ ! -e "$file" ] || { echo "$file was written" >&2; failed=1; }
    done
}
present() {
    for file in "$@"; do
        [ -e "$file" ] || { echo "$file was not written" >&2; failed=1; }
    done
}

expect 2 "usage: pcc NET.dsl"
expect 0 "usage: pcc NET.dsl" --help
expect 0 "pcc " --version
expect 0 "matmul(a, b, [transpose_a], [transpose_b])" --list-ops
expect 2 "unknown option '--rank'; did you mean '--ranks'?" net.dsl --rank 8
expect 2 "unknown option '--dump_ir'; did you mean '--dump-ir'?" net.dsl --dump_ir=x
expect 2 "unknown option '-x'" net.dsl -x
expect 2 "--ranks takes an argument" net.dsl --ranks
expect 2 "--ranks takes a number from 1 to 65536, not '0'" net.dsl --ranks 0
expect 2 "not '8x'" net.dsl --ranks=8x
expect 2 "-O takes 0, 1 or 2, not '3'" net.dsl -O3
expect 2 "-D takes name=value" net.dsl -D batch
expect 2 "-D takes name=value with a number, not 'batch=1e999'" net.dsl -D batch=1e999
expect 2 "not 'batch=99999999999999999999'" net.dsl -D batch=99999999999999999999
expect 2 "not 'batch=nan'" net.dsl -D batch=nan
expect 1 "a size is an integer, not 8.5" net.dsl -D batch=8.5
expect 1 "eps=0.5" net.dsl -D eps=0.5
echo 'net n(lr = 0.5) { param w : f32[4] = ones; loss sum(w); } train { optimizer = sgd(lr = lr); }' >real.dsl
expect 0 "real.plan: 1 rank" real.dsl -D lr=2.5e-1
grep -q 'lr=0.25' real.plan || { echo "-D lr=2.5e-1 did not arrive" >&2; failed=1; }
# From the build folder, wherever the net lies: the library of cells is found.
echo 'import "nn.dsl"; net n { input x : f32[8, 4]; loss mean(linear(x, 4)); } train { data = normal(seed = 1); optimizer = sgd(lr = 1); }' >cells.dsl
expect 0 "cells.plan: 4 ranks" cells.dsl --ranks 4
! grep -q note said || { echo "what is usual is said without -v" >&2; failed=1; }
expect 0 "note: no operator has a strategy (shard): every operator splits its batch" cells.dsl --ranks 4 -v --search sharding_propagation
expect 0 "note: search: " cells.dsl --ranks 4 -v
expect 0 "loss.linear         call      linear  f32[8, 4]  cells.dsl:1:57" cells.dsl --list-paths
grep -qE '^loss.linear.weight  param +f32\[4, 4\] ' said || { echo "--list-paths does not list parameters" >&2; failed=1; }
expect 0 "made by matmul" cells.dsl --ranks 4 --explain loss.linear.y --shard 'loss.linear.y=((4, 1), (1, 1))'
expect 1 "did you mean loss.linear.y?" cells.dsl --list-paths --shard 'loss.linear.z=(4, 1)'
grep -q '^loss.linear.y ' said || { echo "--list-paths lists nothing beside a wrong hint" >&2; failed=1; }
expect 2 "--list-paths compiles no plan: leave out --explain" cells.dsl --list-paths --explain x
echo 'net n { input x : f32[8, 4]; loss mean(linear(x, 4)); } train { data = normal(seed = 1); optimizer = sgd(lr = 1); }' >unimported.dsl
expect 1 'hint: import "nn.dsl"; at the top of the file brings in linear(x, 4)' unimported.dsl
expect 2 "--redistribution takes auto, bound or canonical" net.dsl --redistribution=best
expect 2 "--stats takes json or nothing, not 'yes'" net.dsl --stats=yes
expect 2 "there is no warning '-Wno-unevn'; did you mean '-Wno-uneven'?" net.dsl -Wno-unevn
expect 2 "there is no warning '-Wall'" net.dsl -Wall
expect 2 "--stats=json prints one JSON object: leave out --explain" net.dsl --stats=json --explain h
expect 2 "--explain hh: the net has no such value" net.dsl --ranks 8 --explain hh
expect 0 "because      of its hint at net.dsl:7:22" net.dsl --ranks 8 --explain h
expect 0 "predicted    " net.dsl --ranks 8 --what-if 'h=((8, 1), (1, 1))' # forces another strategy: other bytes
expect 0 "KiB by the busiest rank: +" net.dsl --ranks 8 --what-if 'h=((8, 1), (1, 1))'
expect 0 "what if a=((8, 1))" net.dsl --ranks 8 --what-if 'h=((8, 1), (1, 1))' --what-if 'a=((8, 1))'
expect 0 "--what-if:1:9: warning: stage has no effect: the net has no stages" net.dsl --ranks 8 --what-if 'h=stage 1'
expect 0 "hint: parallel { stages = 2; } or --stages 2" net.dsl --ranks 8 --what-if 'h=stage 1'
expect 1 "--what-if:1:9: error: stage has no effect: the net has no stages" net.dsl --ranks 8 --what-if 'h=stage 1' -Werror
expect 0 "--what-if:1:5: warning: relu: 8 does not divide 15" net.dsl --ranks 8 -D batch=15 --what-if 'a=((8, 1))'
[ "$(grep -c 'warning: matmul: 2 does not divide 15' said)" = 1 ] || { echo "--what-if repeats warnings of the net" >&2; failed=1; }
expect 0 "no plan      this plan needs" net.dsl --ranks 8 --memory 5000 --what-if 'h=((1, 1), (1, 1))' --what-if 'h=((8, 1), (1, 1))'
grep -q 'what if h=((8, 1), (1, 1))' said || { echo "a --what-if without a plan hides the next one" >&2; failed=1; }
expect 1 "no operator, parameter or input has the path hh" net.dsl --ranks 8 --what-if 'hh=((8, 1), (1, 1))'
expect 1 "--what-if:1:1: error: no operator" net.dsl --ranks 8 --what-if 'hh=((8, 1), (1, 1))' --stats -o wrong.plan
absent wrong.plan
expect 1 "hint: bytes are written 25 MiB or 1.5 GiB; B, KiB and TiB likewise" net.dsl --ranks 8 --memory '80 GB'
expect 1 'more than the 80 B that it may' net.dsl --ranks 8 --memory '80B'
expect 1 'more than the 80 B that it may' net.dsl --ranks 8 --memory 8.0e1
expect 1 'hint: memory = 1.5 GiB; KiB, MiB and TiB likewise, a whole number of bytes without a unit' net.dsl --ranks 8 --memory 80.5
expect 1 'hint: it is a mode: mode = manual;' net.dsl --ranks 8 --search hybrid_parallel
expect 2 "--stats=json prints one JSON object: leave out --what-if" net.dsl --stats=json --what-if 'h=((8, 1), (1, 1))'
expect 0 "made by relu" net.dsl --ranks 8 --explain h --explain a
absent net.plan
expect 0 "-Wuneven" net.dsl --ranks 8 -D batch=15 -o uneven.plan
expect 1 "error=uneven" net.dsl --ranks 8 -D batch=15 -Werror -o rejected.plan
absent rejected.plan
expect 0 "rejected.plan: 8 ranks" net.dsl --ranks 8 -D batch=15 -Werror -Wno-uneven -o rejected.plan
expect 2 "usage: pcc --diff" --diff net.plan
expect 1 "the nets differ" --diff uneven.plan real.plan
expect 0 "do the same" --diff uneven.plan uneven.plan
expect 2 "there is no rank 8 of 8" net.dsl --ranks 8 --dump-ranks 0,8
expect 2 "one net at a time" net.dsl net.dsl
expect 2 "did you mean '--dump-ir=out'?" net.dsl --dump-ir out
expect 2 "there is no command 'chek'; did you mean 'check'?" chek net.plan
expect 2 "there is no command 'diff'; did you mean '--diff'?" diff a.plan b.plan
expect 2 "which net?" --explain net.dsl
expect 0 "usage: pcc NET.dsl" -h
echo 'net n { param w : f32[4] = ones; param v : f32[4] = ones; loss sum(w); } train { optimizer = sgd(lr = 1); }' >untrained.dsl
expect 0 "[-Wno-gradient]" untrained.dsl
expect 1 "[-Werror=no-gradient]" untrained.dsl -Werror
expect 0 "untrained.plan: 1 rank" untrained.dsl -Werror -Wno-gradient
expect 0 "untrained.plan: 1 rank" untrained.dsl -Werror -Wno-no-gradient
expect 3 "cannot open missing.dsl" missing.dsl
expect 2 "--dump-ir takes an argument" net.dsl --dump-ir=
expect 2 "-o ./net.dsl would overwrite the net (net.dsl): name another file" net.dsl -o ./net.dsl
cmp net.dsl "$samples/quickstart.dsl" || failed=1

# Nothing that is read is written over, under whatever name, and nothing at all is written then.
mkdir kept
(
    cd kept || exit 1
    cat >reader.dsl <<'EOF'
import "part.dsl";
net reader(batch = 4) {
    input x : f32[batch, 4];
    param w : f32[4, 4] = file("w.npy");
    y = f(matmul(x, w));
    loss mean(y);
}
train { data = raw(x = "rows.bin"); optimizer = sgd(lr = 1); }
eval { data = raw(x = "held.bin"); }
EOF
    echo 'cell f(x) { return relu(x); }' >part.dsl
    echo 'hints { y = ((2, 1), (1, 1)); }' >h.dsl
    printf 'pcc-machine 1\nname here\nranks_per_node 8\nrank 1e-6 s 1e9 B/s\nnode 1e-5 s 1e9 B/s\n' >m.machine
    for file in w.npy rows.bin held.bin; do echo "$file" >"$file"; done
    cp rows.bin literals.data
    ln part.dsl hard
    ln -s part.dsl soft
    mkdir -p dump/rank_0
    ln -s ../../w.npy dump/rank_0/03_prune_0003.ir
)
kept() {
    text=$1
    shift
    before=$(cd kept && ls -lR . && cat *.dsl *.npy *.bin *.machine)
    (cd kept && expect 2 "$text" reader.dsl "$@"; mv said ..; exit $failed) || failed=1
    [ "$before" = "$(cd kept && ls -lR . && cat *.dsl *.npy *.bin *.machine)" ] || { echo "pcc $* changed something" >&2; failed=1; }
}
kept "-o ./part.dsl would overwrite a file of the net (part.dsl): name another file" -o ./part.dsl
kept "-o hard would overwrite a file of the net (part.dsl)" -o hard --dump-ir=fresh
kept "-o soft would overwrite a file of the net (part.dsl)" -o soft
kept "-o ../kept/h.dsl would overwrite a file of the net (h.dsl)" --hints h.dsl -o ../kept/h.dsl
kept "-o m.machine would overwrite the machine file (m.machine)" --machine m.machine -o m.machine
kept "--timeline m.machine would overwrite the machine file (m.machine)" --machine m.machine --timeline m.machine
kept "-o w.npy would overwrite the initial value of w (w.npy)" -o w.npy
kept "-o rows.bin would overwrite the data of x (rows.bin)" -o rows.bin
kept "-o held.bin would overwrite the data of x (held.bin)" -o held.bin
kept "--dump-ir dump/rank_0/03_prune_0003.ir would overwrite the initial value of w (w.npy)" --dump-ir=dump
sed 's/rows.bin/literals.data/' kept/reader.dsl >kept/literals.dsl
(cd kept && expect 2 "the file of long literals literals.data would overwrite the data of x (literals.data)" literals.dsl -o literals; exit $failed) || failed=1
absent kept/literals

# What is no ordinary file is refused at once: a pipe may never end.
mkfifo pipe
echo 'import "pipe";' >imports_pipe.dsl
expect 3 "cannot read pipe: it is a pipe; name an ordinary file" pipe
expect 3 "cannot read /dev/zero: it is a device" /dev/zero
expect 3 "cannot read .: it is a folder" .
expect 1 "'pipe' is a pipe; an import names an ordinary file" imports_pipe.dsl
expect 1 "--hints: cannot read pipe: it is a pipe" net.dsl --hints pipe
expect 3 "cannot read pipe: it is a pipe" net.dsl --machine pipe
expect 3 "cannot read pipe: it is a pipe" check pipe
expect 3 "cannot read pipe: it is a pipe" fmt pipe
expect 1 "error:" net.dsl --ranks 8 -D batch=0
absent net.plan
expect 3 "cannot write missing/net.plan" net.dsl --ranks 8 -o missing/net.plan
absent missing

expect 0 "net.plan: 8 ranks, 35 steps, 8 communications, 2.5 KiB/rank/step sent, proved in" net.dsl --ranks 8 --dump-ir
present net.plan net_ir/rank_0/05_step_parallel_begin_0005.ir net_ir/07_step_parallel_end.spmd
absent net_ir/rank_1 net.plan.tmp
expect 0 "8 ranks" net.dsl --ranks=8 -oother.plan --dump-ranks=1,7 -O0 -Dbatch=32
present other.plan other_ir/rank_1 other_ir/rank_7
absent other_ir/rank_0
expect 0 "not proved" net.dsl --ranks 8 --no-proof -o unproved.plan
grep -q '^certificate "compositional: ' net.plan || { echo "net.plan says nothing of its proof" >&2; failed=1; }
! grep -q '^certificate' unproved.plan || { echo "unproved.plan says that it is proved" >&2; failed=1; }
expect 2 "--prove takes full or compositional, not 'all'" net.dsl --prove=all
expect 2 "--no-proof proves nothing: leave out --prove" net.dsl --no-proof --prove=full
expect 2 "--no-proof proves nothing: leave out --proof-budget" net.dsl --proof-budget 1s --no-proof
expect 2 "--prove=full leaves nothing to decide: leave out --proof-budget" net.dsl --prove=full --proof-budget 1s
expect 2 "-O1 replans no conversion: leave out --redistribution" net.dsl --redistribution=bound -O1
expect 2 "--mode semi_auto searches for no strategies: leave out --search" net.dsl --search sharding_propagation --mode semi_auto
expect 2 "--stats=json prints one JSON object: leave out --explain" net.dsl --stats=json --explain h
expect 2 "--proof-budget takes a time such as 0.2s or 500ms, not '3m'" net.dsl --proof-budget 3m
expect 0 "8 ranks" net.dsl --ranks 8 --prove=compositional -o steps.plan
grep -q 'not run: numeric' steps.plan || { echo "steps.plan does not say what was left out" >&2; failed=1; }
expect 0 "8 ranks" net.dsl --ranks 8 --proof-budget 0ms -o patterns.plan
grep -q 'left out: whole plan (about' patterns.plan || { echo "patterns.plan does not say what was left out" >&2; failed=1; }
expect 0 "whole plan (8 ranks)" check patterns.plan
expect 0 "left out: whole plan" check --proof-budget=0 patterns.plan
expect 0 "sends 2524 bytes a step, as it says" check --prove=compositional patterns.plan
expect 2 "takes a time" check --proof-budget x patterns.plan
expect 2 "--prove=compositional leaves nothing to decide: leave out --proof-budget" check --prove=compositional --proof-budget 1s patterns.plan
sed 's/ sent=[0-9]*/ sent=5/' patterns.plan > edited.plan
expect 1 "it says sent=5, its communications send 2524 bytes" check --update edited.plan
expect 0 "reduce_scatter     2" net.dsl --ranks 8 --stats
expect 0 " ms a step on gpu8: kernels " net.dsl --ranks 8 --stats --machine gpu8 --timeline net.json -o timed.plan
grep -q '"name": "predicted"' net.json && tail -1 net.json | grep -q '^\]}$' || { echo "net.json is no trace" >&2; failed=1; }
expect 0 "by cpu's figures where here has none of kernels or memory" net.dsl --ranks 8 --stats --machine kept/m.machine -o timed.plan

expect 0 "8 ranks" net.dsl --ranks 8 -o gpu8.plan --machine gpu8
grep -q '^options ".* machine=gpu8"' gpu8.plan || { echo "gpu8.plan does not say for which machine it is" >&2; failed=1; }
! grep -q 'machine=' net.plan || { echo "net.plan names the default machine" >&2; failed=1; }
# The machine decides how values are converted, nothing else.
expect 0 "8 ranks" net.dsl --ranks 8 -o cpu.plan --machine cpu
cmp net.plan cpu.plan || failed=1
expect 0 "8 ranks" net.dsl --ranks 8 -o gpu8.plan --machine gpu8 --dump-ir
cmp net_ir/07_step_parallel_end.spmd gpu8_ir/07_step_parallel_end.spmd || failed=1
printf 'pcc-machine 1\nname lab\nranks_per_node 4\nrank 1e-06 s 5e+09 B/s\nnode 1e-05 s 2e+09 B/s\n' >lab.machine
expect 0 "8 ranks" net.dsl --ranks 8 -o lab.plan --machine=lab.machine
grep -q '^options ".* machine=lab(4,1e-06,5e+09,1e-05,2e+09)"' lab.plan || { echo "lab.plan does not say for which machine it is" >&2; failed=1; }
sed 's/^rank .*/rank 1 us 5e+09 B\/s/' lab.machine >wrong.machine
expect 1 "wrong.machine:4:8: error: expected the unit 's', not 'us'" net.dsl --ranks 8 -o absent.plan --machine wrong.machine
expect 3 "cpu, gpu8 or a machine file" net.dsl --ranks 8 -o absent.plan --machine missing.machine
absent absent.plan

expect 2 "usage: pcc check" check
expect 2 "unknown option '--udpate'" check --udpate net.plan
expect 3 "missing.plan" check missing.plan
expect 0 "net.plan: proved in" check net.plan
sed 's/ 0.4, momentum/ 0.5, momentum/; s/ lr=0.4 / lr=0.5 /' net.plan >edited.plan
expect 1 "pcc check --update" check edited.plan
expect 0 "checksum renewed, certificate dropped" check --update edited.plan
expect 0 "edited.plan: proved in" check edited.plan
! grep -q '^certificate' edited.plan || { echo "the certificate was kept" >&2; failed=1; }
# A matmul that reads the parameter where its operand should be split: the checksum can be renewed, the proof fails.
sed 's/^layout 2 .*/layout 2 [4@2 2@1]/' net.plan >wrong.plan
expect 1 "not proved" check --update wrong.plan
head -n 40 net.plan >cut.plan
expect 1 "cut.plan" check cut.plan

# A literal of more than 4 KiB lies beside the plan.
awk 'BEGIN { printf "net n() { input x : f32[8, 30]; param w : f32[30, 20] = ["; for (i = 0; i < 30; i++) { printf i ? ", [" : "["
    for (j = 0; j < 20; j++) printf "%s%d.5", j ? ", " : "", i - j; printf "]" }
    print "]; loss sum(matmul(x, w)); } train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }" }' >long.dsl
expect 0 "long.plan: 4 ranks" long.dsl --ranks 4
present long.plan long.plan.data
expect 0 "long.plan: proved in" check long.plan
expect 0 "checksum renewed" check --update long.plan
expect 0 "long.plan: proved in" check long.plan
mkdir -p apart && cp long.plan apart
expect 3 "it holds the long literals of apart/long.plan" check apart/long.plan
head -c 4792 long.plan.data >apart/long.plan.data
expect 1 "has 4792 bytes where the plan says 4800" check apart/long.plan
{ head -c 4799 long.plan.data; printf X; } >apart/long.plan.data
expect 1 "has checksum" check apart/long.plan

# Samples are models: nothing is warned of, on the ranks that they are written for.
for sample in "$samples"/*.dsl; do
    grep -q '^net ' "$sample" || continue # a library, or hints
    case $sample in
    */oneflow_ddp.dsl) ranks=2 ;;
    */reductions.dsl | */attention.dsl | */attention_cells.dsl | */mnist.dsl | */characters.dsl) ranks=4 ;; # 12 rows, 100 rows
    *) ranks=8 ;;
    esac
    expect 0 "$ranks ranks" "$sample" --ranks $ranks -Werror -o sample.plan
done

# The example of docs/plan.md: its net gives its plan.
page="$samples/../docs/plan.md"
awk '/^    net small\(/ { on = 1 } on && /^[^ ]/ { exit } on { sub(/^    /, ""); lines = lines $0 "\n" } END { sub(/\n+$/, "\n", lines); printf "%s", lines }' "$page" >small.dsl
sed -n '/^    pcc-plan 1$/,/^    checksum/s/^    //p' "$page" >expected.plan
"$pcc" small.dsl --ranks 8 >/dev/null && diff -u expected.plan small.plan || { echo "docs/plan.md: pcc writes another plan" >&2; failed=1; }

# A file may not be as large as the plan: a failed write, and nothing is left.
(ulimit -f 1; "$pcc" net.dsl --ranks 8 -o large.plan) >said 2>&1
grep -q "cannot write large.plan: File too large" said || { echo "a limit of file sizes:" >&2; cat said >&2; failed=1; }
absent large.plan*

exit $failed
