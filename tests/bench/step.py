#!/usr/bin/env python3
"""Step time and memory of five nets under prun, batch split, beside PyTorch alone and as DistributedDataParallel over gloo, in the same run.

    step.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 3] [--nets gpt_tiny,bert_tiny] [--json FILE]

Same net, same global batch on any number of ranks. Ours runs under mpirun, cores / ranks threads a rank; the step is prun's median. gpt_tiny, bert_tiny and resnet18
begin with equal parameters and data on both sides, and their first losses are compared. docs/benchmarks/README.md says more.
"""
import array
import os
import random
import re
import sys
import tempfile

from bench import (Failed, HERE, Samples, SAMPLES, arguments, begin, bytes_text, cores, figure, finish, goal, mpi_env, peers, print_goals, ratio_text, run,
                   run_measured, run_peer, seconds_text, table)

RANKS = (1, 2, 4, 8)
# Tensor parallel: columns of the first product, rows of the second, as Megatron shards two layers; the last one by rows of its weight.
TENSOR = (("h1 = relu(matmul(x, w1));", "a1 = matmul(x, w1) shard ((1, 1), (1, {0}));\n    h1 = relu(a1);"),
          ("h2 = relu(matmul(h1, w2));", "a2 = matmul(h1, w2) shard ((1, {0}), ({0}, 1));\n    h2 = relu(a2);"))
# What the peer is told of samples/<name>.dsl or nets/<name>.dsl; steps that are timed; goals: at most so many times PyTorch's step with 2 threads on one rank,
# DDP's on eight.
PERCEPTRONS = {
    "mlp_small": {"peer": ["--sizes", "784,256,128,10"], "batch": 128, "optimizer": "sgd", "steps": 200, "warmup": 10},
    "mlp": {"peer": ["--sizes", "784,4096,4096,10"], "batch": 512, "optimizer": "momentum", "steps": 8, "warmup": 2},
}
TRANSFORMERS = {
    "gpt_tiny": {"peer": ["--net", "gpt_tiny", "--lr", "0.001"], "batch": 16, "optimizer": "adamw", "steps": 15, "warmup": 4, "goals": {1: 0.85, 8: 0.65}},
    "bert_tiny": {"peer": ["--net", "bert_tiny", "--lr", "0.00002"], "batch": 16, "optimizer": "adam", "steps": 15, "warmup": 4, "goals": {1: 0.75, 8: 0.4}},
}
# samples/resnet18.dsl at 32 x 32, trained on files. DDP normalises each rank's share of the batch alone: its losses are others. Steps are small, as the norms of
# a few places make much of a rounding.
RESNETS = {
    "resnet18": {"peer": ["--net", "resnet18", "--lr", "0.0001"], "batch": 64, "optimizer": "momentum", "steps": 15, "warmup": 4, "goals": {1: 1.0, 8: 0.4},
                 "defines": {"batch": 64, "side": 32},
                 "edits": (("normal(seed = 1)", 'raw(image = "image.bin", label = "class.bin")'), ("lr = 0.1, momentum = 0.9, weight_decay = 0.0001", "lr = 0.0001, momentum = 0.9"),
                           ("steps     = 10;", 'steps     = 10;\n    log "{{loss:.7f}}";'))},
}
FROM_FILES = {**TRANSFORMERS, **RESNETS}
NETS = {**PERCEPTRONS, **FROM_FILES}
BATCHES, PLACES, WORDS = 32, 128, 21128  # of the transformers' data
IMAGES, TIMES, SIDE, CLASSES = 256, 5, 32, 1000  # of the other: images, so many times
MEMORY_GOAL = 0.5  # of the peak of PyTorch's process
COMPARED, TOLERANCE = 3, 1e-5  # losses of both, relative
WHOLE = ("whole process", "mlp_small")


def write_data(folder):
    """The files that nets/*.dsl read; numbers as the machine stores them."""
    draw = random.Random(1)
    rows = 16 * BATCHES

    def write(name, kind, values):
        with open(os.path.join(folder, name + ".bin"), "wb") as out:
            array.array(kind, values).tofile(out)

    lengths = [draw.randint(PLACES // 4, PLACES) for _ in range(rows)]
    write("text", "B", [draw.randrange(256) for _ in range(rows * PLACES + 1)])
    write("token", "i", [draw.randrange(WORDS) for _ in range(rows * PLACES)])
    write("kind", "i", [int(length // 2 <= place < length) for length in lengths for place in range(PLACES)])
    write("seen", "f", [float(place < length) for length in lengths for place in range(PLACES)])
    write("label", "i", [draw.randrange(2) for _ in range(rows)])
    write("image", "f", TIMES * [draw.gauss(0, 1) for _ in range(IMAGES * 3 * SIDE * SIDE)])
    write("class", "i", TIMES * [draw.randrange(CLASSES) for _ in range(IMAGES)])


def compile_net(args, name, ranks, folder, steps=None, edits=()):
    """The net to a plan, with that many steps: (plan, FLOPs of a step)."""
    net = NETS[name]
    with open(os.path.join(os.path.join(HERE, "nets") if name in TRANSFORMERS else SAMPLES, name + ".dsl")) as text:
        source = text.read()
    for old, new in (*net.get("edits", ()), *edits):
        if old not in source:
            raise Failed(f"{name}.dsl: no '{old}'")
        source = source.replace(old, new.format(ranks))
    if steps is not None:
        source = re.sub(r"steps( *)= \d+;", rf"steps\1= {steps};", source)
    path = os.path.join(folder, f"{name}.dsl")
    plan = os.path.join(folder, f"{name}.{ranks}.{steps}.plan")
    with open(path, "w") as text:
        text.write(source)
    out, _ = run([args.pcc, path, "--ranks", str(ranks), "-o", plan, "--stats", *(word for key, value in net.get("defines", {}).items() for word in ("-D", f"{key}={value}"))])
    return plan, figure(r"FLOPs a step +([\d.e+]+)", out)


def step_ours(args, name, ranks, folder, edits=(), ncores=None):
    """ncores: of each rank; None: its share of all."""
    net = NETS[name]
    steps = net["steps"] + net["warmup"]
    plan, flops = compile_net(args, name, ranks, folder, steps, edits)
    launched = [*(["taskset", "-c", f"0-{ncores - 1}"] if ncores else []), "mpirun", "-n", str(ranks), args.prun]
    out, seconds, peak = run_measured([*launched, plan], env=mpi_env())
    figures = {"step_s": figure(r"time per step: ([\d.]+) ms", out) / 1e3, "sent_bytes": figure(r"sent per rank and step: ([\d.e+]+)", out),
               "plan_bytes": figure(r"plan: at most (\d+)", out), "flops": flops, "peak_bytes": peak}
    if name in FROM_FILES:
        empty, _ = compile_net(args, name, ranks, folder, 0)
        figures["cpu_s"] = (seconds - run_measured([*launched, empty], env=mpi_env())[1]) / steps
        figures["losses"] = [float(line) for line in out.splitlines() if re.fullmatch(r"\d+\.\d+", line)]
    return figures


def write_parameters(args, name, folder):
    """What both sides begin with."""
    empty, _ = compile_net(args, name, 1, folder, 0)
    run([args.prun, "--save", os.path.join(folder, name + ".safetensors"), empty])


def torch_arguments(name, steps, warmup, threads, folder=None):
    net = NETS[name]
    data = ["--data", folder] if name in FROM_FILES else []
    return ["torch_step.py", *net["peer"], *data, "--batch", net["batch"], "--optimizer", net["optimizer"], "--steps", steps, "--warmup", warmup,
            "--threads", threads]


def step_torch(name, threads, folder):
    net = NETS[name]
    return run_peer(*torch_arguments(name, net["steps"], net["warmup"], threads, folder), "--peak", env={"OMP_NUM_THREADS": str(threads)})[0]


def step_ddp(name, ranks, folder):
    net, threads = NETS[name], max(1, cores() // ranks)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    return run_peer(*torch_arguments(name, min(net["steps"], 50), net["warmup"], threads, folder), before=launcher, env={"OMP_NUM_THREADS": str(threads)})[0]


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
        for ranks in NETS[name].get("goals", RANKS):
            samples.measure(("prun", name, ranks), lambda: step_ours(args, name, ranks, folder))
            if name == "mlp" and ranks > 1:
                samples.measure(("tensor", name, ranks), lambda: step_ours(args, name, ranks, folder, TENSOR))
            if "torch" in found and ranks > 1:
                samples.measure(("ddp", name, ranks), lambda: step_ddp(name, ranks, folder))
        if name in FROM_FILES:
            samples.measure(("one core", name, 1), lambda: step_ours(args, name, 1, folder, ncores=1))
        for threads in (1, 2) if "torch" in found else ():
            samples.measure(("torch", name, threads), lambda: step_torch(name, threads, folder))
    if "mlp_small" in args.nets:
        samples.measure(("prun", *WHOLE), lambda: whole_ours(args, folder))
        if "torch" in found:
            samples.measure(("torch", *WHOLE), whole_torch)


def losses_differ(name, samples):
    """Whether a first loss of a run is not the one of PyTorch alone; says which. False where there is none to compare."""
    expected = samples.values.get(("torch", name, 2), [{}])[0].get("losses", [])[:COMPARED]
    worst = 0.0
    for key, runs in samples.values.items():
        if key[0] == "ddp" and name in RESNETS:
            continue
        for losses in (r["losses"] for r in runs if key[1] == name and "losses" in r):
            for step, (loss, other) in enumerate(zip(losses, expected)):
                worst = max(worst, abs(loss - other) / abs(other))
                if worst > TOLERANCE:
                    print(f"{name}: {key[0]} on {key[2]}: loss {step + 1} is {loss}, PyTorch's is {other}", file=sys.stderr)
                    return True
    if expected:
        print(f"{name}: the first {COMPARED} losses of all runs equal PyTorch's ({', '.join(f'{x:.6f}' for x in expected)}) within {worst:.1g}")
    return False


def report_beside_pytorch(name, samples, goals, rounds):
    torch, ddp = samples.median(("torch", name, 2), "step_s"), samples.median(("ddp", name, 8), "step_s")
    ours = {ranks: samples.median(("prun", name, ranks), "step_s") for ranks in (1, 8)}
    rows = [["step, 1 rank; PyTorch with 2 threads", seconds_text(ours[1]), seconds_text(torch), ratio_text(ours[1], torch)],
            ["step, 8 ranks; DDP over gloo", seconds_text(ours[8]), seconds_text(ddp), ratio_text(ours[8], ddp)]]
    for what, mine, peer in (("processor time of a step on one core", ("one core", name, 1), ("torch", name, 1)),
                             ("processor time of a step, 8 ranks together", ("prun", name, 8), ("ddp", name, 8))):
        used, theirs = samples.median(mine, "cpu_s"), samples.median(peer, "cpu_s")
        rows.append([what, seconds_text(used), seconds_text(theirs), ratio_text(used, theirs)])
    peak, theirs = (samples.median((who, name, which), "peak_bytes") for who, which in (("prun", 1), ("torch", 2)))
    since = theirs and theirs - samples.median(("torch", name, 2), "imported_bytes")
    for what, bytes_taken in (("memory, 1 rank", theirs), ("of PyTorch's what it took since its import", since)):
        rows.append([what, bytes_text(peak), bytes_text(bytes_taken), ratio_text(peak, bytes_taken)])
    table(f"{name}: medians of {rounds} rounds", ["", "prun", "PyTorch", "prun / PyTorch"], rows)
    goal(goals, f"{name}: memory of 1 rank against PyTorch's", peak / theirs if peak and theirs else None, MEMORY_GOAL, lambda x: ratio_text(x, 1.0))
    for ranks, peer, other in ((1, "PyTorch with 2 threads", torch), (8, "DDP on 8", ddp)):
        goal(goals, f"{name}: {ranks} rank{'s' * (ranks > 1)} against {peer}", ours[ranks] / other if ours[ranks] and other else None, NETS[name]["goals"][ranks],
             lambda x: ratio_text(x, 1.0))


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
    parser.add_argument("--nets", type=net_names, default=list(NETS), help="which of " + ",".join(NETS) + " (default: all)")
    args = parser.parse_args()
    where = begin(args.pcc, args.prun, with_peers=not args.no_peers)
    found = {} if args.no_peers else peers()
    samples, goals, differ = Samples(), [], False
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        for name in set(args.nets) & set(FROM_FILES):
            write_parameters(args, name, folder)
        for _ in range(args.rounds):
            measure(args, samples, found, folder)
    for name in args.nets:
        (report_net if name in PERCEPTRONS else report_beside_pytorch)(name, samples, goals, args.rounds)
        differ = losses_differ(name, samples) or differ
    if "mlp_small" in args.nets:
        ours, torch = (samples.median((who, *WHOLE), "process_s") for who in ("prun", "torch"))
        table("mlp_small, 20 steps on one rank, whole processes", ["", "pcc and prun", "prun alone", "PyTorch", "ratio"],
              [["seconds", seconds_text(ours), seconds_text(samples.median(("prun", *WHOLE), "prun_s")), seconds_text(torch), ratio_text(ours, torch)]])
        goal(goals, "mlp_small: 20 steps, pcc and prun", ours, 0.3)
    print_goals(goals)
    finish(args.json, where, samples, goals)
    return 1 if differ else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"step.py: {failed}")
