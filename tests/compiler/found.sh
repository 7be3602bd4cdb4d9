#!/bin/sh
# --write-hints: what it writes gives the same plan, on samples and random nets, whatever found it.
#   found.sh PCC
set -eu
pcc=$(realpath "$1")
samples=$(realpath "$(dirname "$0")/../../samples")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
count=0

# found NET FLAGS..: its plan, and its hints.
found() {
    "$pcc" "$@" -o net.plan --write-hints found.dsl --no-proof >out 2>said && mv net.plan first.plan
}

# again NAME NET FLAGS..: with the hints that were found last the net has the same plan, but for the files that it was made of.
again() {
    name=$1
    shift
    "$pcc" "$@" -o net.plan --hints found.dsl --no-proof >out 2>said_again || {
        echo "found.sh: $name: $(cat said_again)" >&2
        exit 1
    }
    for plan in first net; do
        grep -v '^file \|^import \|^checksum ' $plan.plan >$plan.text
    done
    diff first.text net.text >&2 || {
        echo "found.sh: $name: another plan with these hints:" >&2
        cat found.dsl >&2
        exit 1
    }
    "$pcc" fmt --check found.dsl >out
    count=$((count + 1))
}

same() {
    name=$1
    shift
    found "$@"
    again "$name" "$@"
}

for sample in quickstart mlp_small mesh output mlp_cells attention_cells transformer reductions elementwise evaluation ddp_toymodel characters; do
    for ranks in 2 4 8; do
        for search in sharding_propagation dynamic_programming recursive_programming auto; do
            # Not where a sample needs more ranks, or searches for nothing.
            found "$samples/$sample.dsl" --ranks $ranks --search $search || continue
            again "$sample on $ranks by $search" "$samples/$sample.dsl" --ranks $ranks --search $search
        done
    done
done
for search in dynamic_programming recursive_programming; do # which split what no operand has
    same "experts by $search" "$samples/moe_tiny.dsl" --ranks 8 --search $search
    grep -q 'added .*-> (' found.dsl
done
same "parameters in parts" "$samples/gpt2.dsl" --ranks 8 --machine gpu8
grep -q '^    shard_states *= parameters;' found.dsl
grep -q 'with this file gives' found.dsl
# Hints of a file, its mesh and its results' layouts go beside what is written, which says so.
"$pcc" "$samples/transformer.dsl" --ranks 8 --hints "$samples/transformer_hints.dsl" -o net.plan --write-hints found.dsl --no-proof >out 2>said
grep -q "with --hints $samples/transformer_hints.dsl: --hints with this file beside that gives" found.dsl
grep -v '^file \|^import \|^checksum ' net.plan >first.text
"$pcc" "$samples/transformer.dsl" --ranks 8 --hints "$samples/transformer_hints.dsl" --hints found.dsl -o net.plan --no-proof >out 2>said
grep -v '^file \|^import \|^checksum ' net.plan >net.text
diff first.text net.text >&2
# Measures that a limit asks for: the file says them, and no limit is needed beside it.
limited() {
    limit=$1
    shift
    "$pcc" "$samples/gpt2.dsl" -o net.plan --write-hints limited.dsl --no-proof --memory "$limit" "$@" >out 2>said
    grep -v '^file \|^import \|^checksum ' net.plan >limited.text
    "$pcc" "$samples/gpt2.dsl" -o net.plan --hints limited.dsl --write-hints again.dsl --no-proof "$@" >out 2>said
    grep -v '^file \|^import \|^checksum ' net.plan >net.text
    diff limited.text net.text >&2
    "$pcc" "$samples/gpt2.dsl" -o net.plan --hints again.dsl --no-proof "$@" >out 2>said
    grep -v '^file \|^import \|^checksum ' net.plan >net.text
    diff limited.text net.text >&2
    "$pcc" fmt --check limited.dsl >out
    same "a limit of $limit" "$samples/gpt2.dsl" --memory "$limit" "$@"
}
limited '900 MiB' --ranks 8 --machine gpu8 --search sharding_propagation
grep -q '^    regather *= parameters;' limited.dsl
grep -q ' = recompute;' limited.dsl
limited '500 MiB' --ranks 8 --machine gpu8
grep -q '^    micro_batches *= 8;' limited.dsl
limited '600 MiB' --ranks 8 --machine gpu8
grep -q '^    regather *= all;' limited.dsl
limited '1 GiB' --ranks 8 --machine gpu8 --stages 2 -D batch=32
grep -q '^    micro_batches *= 16;' limited.dsl
same "stages cut for memory" "$samples/gpt2.dsl" --ranks 8 --machine gpu8 --stages 2 -D batch=32 --memory '860 MiB'
same "a part of the parameters is gathered again" "$samples/llama.dsl" --ranks 8 --machine gpu8 --memory '60 GiB' --search sharding_propagation
grep -q '^    regather_share *= 0.09' found.dsl
# States of small parameters in parts, and gradients in small buckets.
cat >small.dsl <<'NET'
import "nn.dsl";
net small(batch = 64, dim = 128) { input x : f32[batch, dim]; input label : f32[batch, dim]; layer = x;
  for i in 0..6 { layer = layer + linear(gelu(linear(layer, 256)), dim); } loss mse(layer, label); }
train { data = normal(seed = 1); optimizer = adam(lr = 0.001); steps = 2; }
parallel { mode = semi_auto; }
NET
for mode in semi_auto auto; do
    [ $mode = semi_auto ] || sed -i 's/mode = semi_auto/search = sharding_propagation/' small.dsl
    same "small parameters, $mode" small.dsl --ranks 4 --memory 2000000 --mode $mode
    grep -q '^    shard_from *= 0;' found.dsl
    grep -q '^    bucket *= [0-9]* KiB;' found.dsl
    "$pcc" small.dsl --ranks 4 --hints found.dsl -o net.plan --no-proof --mode $mode >out 2>said # without a limit
    grep -v '^file \|^import \|^checksum ' net.plan >net.text
    diff first.text net.text >&2
done
for seed in $(seq 30); do
    "$pcc" fuzz-net --seed $seed >net.dsl
    ranks=$(sed -n '2s/.*--ranks \([0-9]*\).*/\1/p' net.dsl) # of all stages
    found net.dsl --ranks "$ranks" --mode auto || continue
    again "seed $seed on $ranks" net.dsl --ranks "$ranks" --mode auto
    same "seed $seed on $ranks by auto" net.dsl --ranks "$ranks" --mode auto --search auto
done
for sample in mlp_small transformer characters llama_tiny evaluation; do
    for options in "--stages 2" "--stages 2 --chunks 2 -D batch=16" "--stages 4 --search recursive_programming" "--stages 2 --machine gpu8" "--stages auto"; do
        found "$samples/$sample.dsl" --ranks 4 $options || continue
        again "$sample with $options" "$samples/$sample.dsl" --ranks 4 $options
    done
done
"$pcc" "$samples/mlp_small.dsl" --ranks 4 --stages 2 -o net.plan --write-hints found.dsl --no-proof >out
grep -q '^# Net .* on 4 ranks in 2 stages: ' found.dsl
same "hints of the user" "$samples/transformer.dsl" --ranks 8 --search auto --hints "$samples/transformer_hints.dsl"
same "a layout of the user" "$samples/quickstart.dsl" --ranks 8 --shard 'w=(2, 4)' --dataset full_batch
"$pcc" "$samples/gpt2.dsl" --ranks 8 --search auto --machine gpu8 -o net.plan --write-hints found.dsl --no-proof >out
grep -q '^    transformer\.h\.\*\.mlp\.c_fc\.y  *= ((' found.dsl # equal layers share a line
[ $count -ge 100 ] || {
    echo "found.sh: only $count plans were compared" >&2
    exit 1
}
