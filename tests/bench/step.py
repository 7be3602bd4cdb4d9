#!/usr/bin/env python3
"""Step time and bytes of two perceptrons under prun, batch split, beside PyTorch alone and as DistributedDataParallel over gloo.

    step.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 3] [--nets mlp_small,mlp] [--json FILE]

Same net, same global batch on any number of ranks. Ours runs under mpirun, cores / ranks threads a rank; the step is prun's median.
"""
import os
import re
import sys
import tempfile

from bench import (Failed, Samples, SAMPLES, arguments, begin, bytes_text, cores, figure, finish, goal, mpi_env, peers, print_goals, ratio_text, run, run_peer,
                   seconds_text, table)

RANKS = (1, 2, 4, 8)
# Tensor parallel: columns of the first product, rows of the second, as Megatron shards two layers; the last one by rows of its weight.
TENSOR = (("h1 = relu(matmul(x, w1));", "a1 = matmul(x, w1) shard ((1, 1), (1, {0}));\n    h1 = relu(a1);"),
          ("h2 = relu(matmul(h1, w2));", "a2 = matmul(h1, w2) shard ((1, {0}), ({0}, 1));\n    h2 = relu(a2);"))
# The shape of samples/<name>.dsl, as the peer is told it; steps that are timed.
NETS = {
    "mlp_small": {"sizes": "784,256,128,10", "batch": 128, "optimizer": "sgd", "steps": 200, "warmup": 10},
    "mlp": {"sizes": "784,4096,4096,10", "batch": 512, "optimizer": "momentum", "steps": 8, "warmup": 2},
}
WHOLE = ("whole process", "mlp_small")


def compile_net(args, name, ranks, folder, steps=None, edits=()):
    """samples/<name>.dsl to a plan, with that many steps: (plan, FLOPs of a step)."""
    with open(os.path.join(SAMPLES, name + ".dsl")) as text:
        source = text.read()
    if steps:
        source = re.sub(r"steps( *)= \d+;", rf"steps\1= {steps};", source)
    for old, new in edits:
        if old not in source:
            raise Failed(f"{name}.dsl: no '{old}'")
        source = source.replace(old, new.format(ranks))
    path = os.path.join(folder, f"{name}.dsl")
    plan = os.path.join(folder, f"{name}.{ranks}.plan")
    with open(path, "w") as text:
        text.write(source)
    out, _ = run([args.pcc, path, "--ranks", str(ranks), "-o", plan, "--stats"])
    return plan, figure(r"FLOPs a step +([\d.e+]+)", out)


def step_ours(args, name, ranks, folder, edits=()):
    net = NETS[name]
    plan, flops = compile_net(args, name, ranks, folder, net["steps"] + net["warmup"], edits)
    out, _ = run(["mpirun", "-n", str(ranks), args.prun, plan], env=mpi_env())
    return {"step_s": figure(r"time per step: ([\d.]+) ms", out) / 1e3, "sent_bytes": figure(r"sent per rank and step: ([\d.e+]+)", out),
            "plan_bytes": figure(r"plan: at most (\d+)", out), "flops": flops}


def torch_arguments(name, steps, warmup, threads):
    net = NETS[name]
    return ["torch_step.py", "--sizes", net["sizes"], "--batch", net["batch"], "--optimizer", net["optimizer"], "--steps", steps, "--warmup", warmup, "--threads", threads]


def step_torch(name, threads):
    net = NETS[name]
    return run_peer(*torch_arguments(name, net["steps"], net["warmup"], threads), "--peak", env={"OMP_NUM_THREADS": str(threads)})[0]


def step_ddp(name, ranks):
    net, threads = NETS[name], max(1, cores() // ranks)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    return run_peer(*torch_arguments(name, min(net["steps"], 50), net["warmup"], threads), before=launcher, env={"OMP_NUM_THREADS": str(threads)})[0]


def whole_ours(args, folder):
    """From the text to the last loss: pcc, then prun."""
    source, plan = os.path.join(SAMPLES, "mlp_small.dsl"), os.path.join(folder, "whole.plan")
    compiling = run([args.pcc, source, "--ranks", "1", "-o", plan])[1]
    running = run([args.prun, plan])[1]
    return {"process_s": compiling + running, "prun_s": running}


def whole_torch():
    return {"process_s": run_peer(*torch_arguments("mlp_small", 20, 0, cores()))[1]}


def measure(args, samples, found, folder):
    for name in args.nets:
        for ranks in RANKS:
            samples.measure(("prun", name, ranks), lambda: step_ours(args, name, ranks, folder))
            if name == "mlp" and ranks > 1:
                samples.measure(("tensor", name, ranks), lambda: step_ours(args, name, ranks, folder, TENSOR))
            if "torch" in found and ranks > 1:
                samples.measure(("ddp", name, ranks), lambda: step_ddp(name, ranks))
        for threads in (1, 2) if "torch" in found else ():
            samples.measure(("torch", name, threads), lambda: step_torch(name, threads))
    if "mlp_small" in args.nets:
        samples.measure(("prun", *WHOLE), lambda: whole_ours(args, folder))
        if "torch" in found:
            samples.measure(("torch", *WHOLE), whole_torch)


def report_net(name, samples, goals, rounds):
    torch = {threads: samples.median(("torch", name, threads), "step_s") for threads in (1, 2)}
    peak = samples.median(("torch", name, 2), "peak_flops")
    rows = []
    for ranks in RANKS:
        ours, ddp = samples.median(("prun", name, ranks), "step_s"), samples.median(("ddp", name, ranks), "step_s")
        sent, planned, flops = (samples.median(("prun", name, ranks), figure_name) for figure_name in ("sent_bytes", "plan_bytes", "flops"))
        rate = None if ours is None else flops / ours
        rows.append([ranks, seconds_text(ours), "-" if rate is None else f"{rate / 1e9:.3g}", "-" if not rate or not peak else f"{100 * rate / peak:.0f} %",
                     bytes_text(sent), bytes_text(planned), seconds_text(ddp), bytes_text(samples.median(("ddp", name, ranks), "sent_bytes")),
                     ratio_text(ours, ddp), ratio_text(ours, torch[2])])
    table(f"{name}: step, median of {rounds} rounds; PyTorch alone: {seconds_text(torch[1])} with 1 thread, {seconds_text(torch[2])} with 2"
          + (f"; peak is its matrix product with 2 threads, {peak / 1e9:.0f} GFLOP/s" if peak else ""),
          ["ranks", "prun", "GFLOP/s", "of peak", "sent/rank", "plan", "DDP gloo", "its sent/rank", "prun / DDP", "prun / PyTorch, 2 threads"], rows)
    ours = {ranks: samples.median(("prun", name, ranks), "step_s") for ranks in RANKS}
    if name == "mlp":
        tensor = {ranks: samples.median(("tensor", name, ranks), "step_s") for ranks in RANKS[1:]}
        table("mlp, tensor parallel", ["ranks", "prun", "sent/rank", "of one rank's time", "batch split's"],
              [[ranks, seconds_text(tensor[ranks]), bytes_text(samples.median(("tensor", name, ranks), "sent_bytes")), ratio_text(tensor[ranks], ours[1]),
                ratio_text(ours[ranks], ours[1])] for ranks in RANKS[1:]])
        goal(goals, "mlp: 8 ranks, tensor parallel, against one", tensor[8] and tensor[8] / ours[1], 1.3, lambda x: ratio_text(x, 1.0))
        goal(goals, "mlp: 8 ranks, batch split, against one", ours[8] and ours[8] / ours[1], 1.6, lambda x: ratio_text(x, 1.0))
    if torch[2]:
        goal(goals, f"{name}: 1 rank against PyTorch with 2 threads", ours[1] and ours[1] / torch[2], 1.0, lambda x: ratio_text(x, 1.0))
        if name == "mlp":
            goal(goals, "mlp: 8 ranks against PyTorch with 2 threads", ours[8] and ours[8] / torch[2], 1.8, lambda x: ratio_text(x, 1.0))
    ddp = samples.median(("ddp", name, 8), "step_s")
    if name == "mlp_small" and ddp:
        goal(goals, "mlp_small: 8 ranks against DDP on 8", ours[8] and ours[8] / ddp, 0.25, lambda x: ratio_text(x, 1.0))


def net_names(text):
    names = text.split(",")
    for name in names:
        if name not in NETS:
            raise ValueError(name)
    return names


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc", prun="prun")
    parser.add_argument("--nets", type=net_names, default=list(NETS), help="which of " + ",".join(NETS) + " (default: both)")
    args = parser.parse_args()
    where = begin(args.pcc, args.prun, with_peers=not args.no_peers)
    found = {} if args.no_peers else peers()
    samples, goals = Samples(), []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            measure(args, samples, found, folder)
    for name in args.nets:
        report_net(name, samples, goals, args.rounds)
    if "mlp_small" in args.nets:
        ours, torch = (samples.median((who, *WHOLE), "process_s") for who in ("prun", "torch"))
        table("mlp_small, 20 steps on one rank, whole processes", ["", "pcc and prun", "prun alone", "PyTorch", "ratio"],
              [["seconds", seconds_text(ours), seconds_text(samples.median(("prun", *WHOLE), "prun_s")), seconds_text(torch), ratio_text(ours, torch)]])
        goal(goals, "mlp_small: 20 steps, pcc and prun", ours, 0.3)
    print_goals(goals)
    finish(args.json, where, samples, goals)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"step.py: {failed}")
