#!/usr/bin/env python3
"""Compile time of pcc beside its peers: the quick start, and a chain of layers on few and on many ranks.

    compile.py --pcc build/compiler/pcc [--layers 1000] [--rounds 5] [--json FILE]

Ours is the whole process, from the text to the proved plan on disk, and, beside it, what pcc itself counts (--stats) and the proof's share.
JAX's figure leaves out its start: trace + lower + compile for 8 forced host devices. MindSpore is no peer here: on a machine without
accelerators it refuses to compile for several ("Invalid communication backend: CPU").
"""
import os
import sys
import tempfile
import time

from bench import (HERE, Failed, Samples, SAMPLES, arguments, begin, bytes_text, figure, finish, goal, peers, print_goals, ratio_text, run, run_measured,
                   run_peer, seconds_text, table)

BLOCKS = (250, 500, 1000)  # transformer blocks, on BLOCK_RANKS ranks: time and memory must grow as they do
BLOCK_RANKS = 64
QUICKSTART, RANKS, MANY = os.path.join(SAMPLES, "quickstart.dsl"), 8, 4096
HINTS = {RANKS: "((2, 4), (4, 1))", MANY: "((64, 64), (64, 1))"}


def write_chain(path, layers, ranks):
    """Layers of 512x512; the first product has the one hint: all ranks over rows and contraction."""
    with open(path, "w") as text:
        text.write(run([os.path.join(HERE, "chain.sh"), str(layers), "512", "512", HINTS[ranks]])[0])


def write_blocks(path, blocks):
    with open(path, "w") as text:
        text.write(f"""import "nn.dsl";
net blocks(batch = 64, places = 64, dim = 1024) {{
    input x : f32[batch, places, dim];
    h = x;
    for i in 0..{blocks} {{ h = transformer_block(h, 8); }}
    loss mean(square(h));
}}
train {{ data = normal(seed = 1); optimizer = adamw(lr = 0.001); }}
""")


def compile_blocks(pcc, source, folder):
    """One compile: seconds of the process, the most memory that it had at a time."""
    begin = time.perf_counter()
    _, _, peak = run_measured([pcc, source, "--ranks", str(BLOCK_RANKS), "-I", SAMPLES, "-o", os.path.join(folder, "blocks.plan")])
    return {"process_s": time.perf_counter() - begin, "peak_bytes": peak}


def compile_ours(pcc, source, ranks, folder):
    """One compile: seconds of the process, what pcc says of itself, lines of the plan."""
    plan = os.path.join(folder, "net.plan")
    out, seconds = run([pcc, source, "--ranks", str(ranks), "-o", plan, "--stats"])
    with open(plan) as text:
        lines = sum(1 for _ in text)
    return {"process_s": seconds, "pcc_s": figure(r"(?m)^time +([\d.]+) ms", out) / 1e3, "prove_s": figure(r"(?m)^proof +([\d.]+) ms", out) / 1e3,
            "plan_lines": lines, "plan_bytes": os.path.getsize(plan)}


def compile_jax(*args):
    return run_peer("jax_compile.py", *args, env={"XLA_FLAGS": f"--xla_force_host_platform_device_count={RANKS}", "JAX_PLATFORMS": "cpu"})[0]


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc")
    parser.add_argument("--layers", type=int, default=1000, help="of the chain (default 1000)")
    args = parser.parse_args()
    where = begin(args.pcc, with_peers=not args.no_peers)
    found = {} if args.no_peers else peers()
    samples, goals = Samples(), []
    chain = f"chain of {args.layers}"
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for ranks in (RANKS, MANY):
            sources[ranks] = os.path.join(folder, f"chain{ranks}.dsl")
            write_chain(sources[ranks], args.layers, ranks)
        for blocks in BLOCKS:
            sources[blocks] = os.path.join(folder, f"blocks{blocks}.dsl")
            write_blocks(sources[blocks], blocks)
        for _ in range(args.rounds):
            for blocks in BLOCKS:
                samples.measure(("pcc", "blocks", blocks), lambda: compile_blocks(args.pcc, sources[blocks], folder))
            for _ in range(5):  # short, and so the noisiest
                samples.measure(("pcc", "quick start", RANKS), lambda: compile_ours(args.pcc, QUICKSTART, RANKS, folder))
            for ranks in (RANKS, MANY):
                samples.measure(("pcc", chain, ranks), lambda: compile_ours(args.pcc, sources[ranks], ranks, folder))
            if "jax" in found:
                samples.measure(("jax", "quick start", RANKS), lambda: compile_jax("quickstart"))
                samples.measure(("jax", chain, RANKS), lambda: compile_jax("chain", args.layers))
    rows = []
    for what, ranks, limit in (("quick start", RANKS, 0.010), (chain, RANKS, 0.5), (chain, MANY, 0.5)):
        ours, jax = samples.median(("pcc", what, ranks), "process_s"), samples.median(("jax", what, ranks), "total_s")
        own, proof, size = (samples.median(("pcc", what, ranks), name) for name in ("pcc_s", "prove_s", "plan_bytes"))
        lines = samples.median(("pcc", what, ranks), "plan_lines")
        rows.append([what, ranks, seconds_text(ours), seconds_text(own), seconds_text(proof), "-" if lines is None else int(lines), bytes_text(size),
                     seconds_text(jax), ratio_text(jax, ours)])
        goal(goals, f"{what}, {ranks} ranks: process, with proof", ours, limit)
        goal(goals, f"{what}, {ranks} ranks: the proof's share of the process", ours and proof and proof / ours, 1 / 3, lambda x: f"{100 * x:.0f} %")
    table(f"compile time, median of {args.rounds} rounds", ["", "ranks", "pcc process", "pcc itself", "of it proof", "plan lines", "plan size", "JAX", "JAX / pcc"], rows)
    few, many = (samples.median(("pcc", chain, ranks), "plan_lines") for ranks in (RANKS, MANY))
    if few is not None and many is not None:
        print(f"  plans of the chain on {RANKS} and {MANY} ranks: {'equally many lines' if few == many else f'{few:.0f} and {many:.0f} lines, NOT equally many'}")
    rows = []
    for blocks in BLOCKS:
        seconds, peak = (samples.median(("pcc", "blocks", blocks), name) for name in ("process_s", "peak_bytes"))
        rows.append([blocks, seconds_text(seconds), seconds_text(seconds and seconds / blocks), bytes_text(peak)])
    goal(goals, f"{BLOCKS[-1]} blocks, {BLOCK_RANKS} ranks: process, with proof", seconds, 3.0)
    goal(goals, f"{BLOCKS[-1]} blocks, {BLOCK_RANKS} ranks: peak memory", peak, 1e9, bytes_text)
    table(f"transformer blocks on {BLOCK_RANKS} ranks", ["blocks", "pcc process", "a block", "peak memory"], rows)
    print_goals(goals)
    finish(args.json, where, samples, goals)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"compile.py: {failed}")
