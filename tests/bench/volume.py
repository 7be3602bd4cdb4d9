#!/usr/bin/env python3
"""Communication of a training step under Megatron's strategy, beside the least that a count by hand gives.

    volume.py --pcc build/compiler/pcc [--check] [--json FILE]

An MLP block (column, then row parallel) and an attention block (query, key and value column parallel, heads split, output row parallel), each with a
residual connection, alone and as a layer. By hand (Shoeybi et al. 2019, section 3): one AllReduce of the activation forward and one backward a
block; of the R ranks each sends 2 (R - 1) / R of it; the gradients of split weights need nothing, those of whole ones are alike on all ranks. The activation that enters is a
parameter's product, so that its gradient is asked for. Figures are those of the plan: what its busiest rank sends in a step. --check: exit
code 1 where they are not equal.
"""
import json
import os
import re
import sys
import tempfile

from bench import Failed, arguments, begin, bytes_text, run, table

RANKS = range(2, 9)
BATCH, PLACES, DEPTH = 2, 8, 4  # of a head; the number of heads and the inner width follow the ranks

HEAD = """net volume(tokens = {tokens}, batch = {batch}, places = {places}, heads = {heads}, depth = {depth}, width = {width}, inner = {inner}) {{
    input x     : f32[tokens, width];
    input label : f32[tokens, width];
    param embed : f32[width, width] = normal(0.1);
    e = matmul(x, embed) shard ((1, 1), (1, 1));
    y0 = tanh(e) shard ((1, 1));
"""
ATTENTION = """    param query{n} : f32[width, width] = normal(0.1);
    param key{n}   : f32[width, width] = normal(0.1);
    param value{n} : f32[width, width] = normal(0.1);
    param out{n}   : f32[width, width] = normal(0.1);
    q{n} = matmul({x}, query{n}) shard ((1, 1), (1, {ranks}));
    k{n} = matmul({x}, key{n}) shard ((1, 1), (1, {ranks}));
    v{n} = matmul({x}, value{n}) shard ((1, 1), (1, {ranks}));
    qh{n} = transpose(reshape(q{n}, shape = [batch, places, heads, depth]), perm = [0, 2, 1, 3]);
    kh{n} = transpose(reshape(k{n}, shape = [batch, places, heads, depth]), perm = [0, 2, 1, 3]);
    vh{n} = transpose(reshape(v{n}, shape = [batch, places, heads, depth]), perm = [0, 2, 1, 3]);
    weights{n} = softmax(matmul(qh{n}, kh{n}, transpose_b = true) * 0.5);
    context{n} = reshape(transpose(matmul(weights{n}, vh{n}), perm = [0, 2, 1, 3]), shape = [tokens, width]);
    o{n} = matmul(context{n}, out{n}) shard ((1, {ranks}), ({ranks}, 1));
    {y} = {x} + o{n} shard ((1, 1), (1, 1));
"""
MLP = """    param up{n}   : f32[width, inner] = normal(0.1);
    param down{n} : f32[inner, width] = normal(0.1);
    u{n} = matmul({x}, up{n}) shard ((1, 1), (1, {ranks}));
    d{n} = matmul(relu(u{n}), down{n}) shard ((1, {ranks}), ({ranks}, 1));
    {y} = {x} + d{n} shard ((1, 1), (1, 1));
"""
TAIL = """    miss = {y} - label shard ((1, 1), (1, 1));
    squares = square(miss) shard ((1, 1));
    loss mean(squares) shard ((1, 1));
}}
train {{ data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }}
parallel {{ mode = auto; dataset = full_batch; }}
"""
NETS = {"MLP": [MLP], "attention": [ATTENTION], "layer": [ATTENTION, MLP], "3 layers": [ATTENTION, MLP] * 3}


def write_net(path, blocks, ranks):
    heads = 2 * ranks
    sizes = {"batch": BATCH, "places": PLACES, "tokens": BATCH * PLACES, "heads": heads, "depth": DEPTH, "width": heads * DEPTH, "inner": 4 * heads * DEPTH}
    text = HEAD.format(**sizes)
    for n, block in enumerate(blocks):
        text += block.format(n=n, x=f"y{n}", y=f"y{n + 1}", ranks=ranks)
    with open(path, "w") as file:
        file.write(text + TAIL.format(y=f"y{len(blocks)}"))
    return 4 * sizes["tokens"] * sizes["width"]


def measure(pcc, blocks, ranks, folder):
    source, plan = os.path.join(folder, "net.dsl"), os.path.join(folder, "net.plan")
    activation = write_net(source, blocks, ranks)
    run([pcc, source, "--ranks", str(ranks), "-o", plan])
    with open(plan) as file:
        text = file.read()
    least = 2 * len(blocks)
    return {"ranks": ranks, "communications": len(re.findall(r"(?m)^ +start ", text)), "least_communications": least,
            "sent_bytes": int(re.search(r"(?m)^program train .*sent=(\d+)", text)[1]), "least_bytes": least * 2 * (ranks - 1) * activation // ranks}


def main():
    parser = arguments(__doc__, pcc="build/compiler/pcc")
    parser.add_argument("--check", action="store_true", help="exit with code 1 where a plan does not attain the least")
    options = parser.parse_args()
    where, rows, figures, exceeded = begin(options.pcc, with_peers=False), [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, blocks in NETS.items():
            for ranks in RANKS:
                m = {"net": name, **measure(options.pcc, blocks, ranks, folder)}
                equal = m["sent_bytes"] == m["least_bytes"] and m["communications"] == m["least_communications"]
                exceeded += not equal
                figures.append({**m, "equal": equal})
                rows.append([name, str(ranks), str(m["communications"]), str(m["least_communications"]), bytes_text(m["sent_bytes"]), bytes_text(m["least_bytes"]),
                             "equal" if equal else "%.2f x" % (m["sent_bytes"] / m["least_bytes"])])
    table("sent by the busiest rank in a step, forward and backward", ["net", "ranks", "communications", "by hand", "sent", "by hand", ""], rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**where, "nets": figures}, file, indent=1)
    if exceeded:
        print("%d plans do not attain the count by hand" % exceeded)
    return 1 if options.check and exceeded else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"volume.py: {failed}")
