#!/usr/bin/env python3
"""What prun's files cost: checkpoints written and read, in GB/s beside the disk's own writing and flushing; CSV; and what loader, logs and watchdog add to a step.

    files.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 3] [--json FILE]

Seconds of a checkpoint are those of a whole prun less those of one that writes, or reads, none. What is beside a step is measured as processor time of steps that do next to
nothing; its goal is 1 % of a step of 10 ms.
"""
import os
import random
import shutil
import struct
import sys
import tempfile
import time

from bench import Samples, arguments, begin, cores, figure, finish, goal, peers, print_goals, run, run_measured, run_peer, table

RANKS = 2
CHECKPOINT = """net large(n = 4096) { input x : f32[2, n]; param w : f32[n, n] = zeros; loss mean(matmul(x, w)); }
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = %d; %s }
parallel { mode = semi_auto; }
"""
BYTES = 4 * 4096 * 4096  # of the one state
STEP = """net step(batch = 256) { input x : f32[batch, 256]; param w : f32[256] = normal(0.05); loss mean(x * w); }
train { data = %s; order = %s; optimizer = sgd(lr = 0.01); epochs = 8; steps = 500; log_every = %d; }
"""
STEPS = 8 * 500
CSV_ROWS, CSV_COLUMNS = 40000, 64


def npy(path, rows, columns, draw):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    row = struct.pack("<%df" % columns, *(draw.uniform(-1, 1) for _ in range(columns)))
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + row * rows)


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        os.environ["PRUN_DEVICE"] = "cpu"

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, name, text, ranks):
        with open(self.path(name + ".dsl"), "w") as file:
            file.write(text)
        run([self.args.pcc, self.path(name + ".dsl"), "--ranks", str(ranks), "-o", self.path(name + ".plan")])
        return self.path(name + ".plan")

    def prun(self, plan, *words, ranks=RANKS, env=None):
        return run([self.args.prun, "--ranks", str(ranks), *words, plan], env=env)

    def disk(self):
        """A file of as many bytes, written and flushed by nobody in particular."""
        block, began = bytes(1 << 24), time.perf_counter()
        with open(self.path("plain"), "wb", buffering=0) as file:
            for at in range(0, BYTES, len(block)):
                file.write(block[: BYTES - at])
            os.fsync(file.fileno())
        seconds = time.perf_counter() - began
        os.remove(self.path("plain"))
        return {"s": seconds}

    def written(self, plan, least, base):
        shutil.rmtree(self.path("kept"), ignore_errors=True)
        seconds = self.prun(plan, "--checkpoint-dir", self.path("kept"))[1]
        return {"s": max(seconds - base, least)}

    def read(self, plan, base):
        """All of its steps are done: the rest is what a run of none takes."""
        return {"s": max(self.prun(plan, "--resume", "latest", "--checkpoint-dir", self.path("kept"))[1] - base, 1e-3)}

    def step(self, plan, ranks, *words, timeout=0):
        """Processor time of a step: what others do on this machine does not count."""
        return {"s": run_measured([self.args.prun, "--nproc", str(ranks), *words, plan], env={"PRUN_TIMEOUT": str(timeout)})[1] / STEPS}


def checkpoints(bench, samples, rounds):
    plans = {"none": bench.compile("none", CHECKPOINT % (1, ""), RANKS), "no step": bench.compile("no_step", CHECKPOINT % (0, ""), RANKS), "one file": bench.compile("whole", CHECKPOINT % (1, "checkpoint every 1 steps;"), RANKS),
             "a file a rank": bench.compile("slices", CHECKPOINT % (1, "checkpoint every 1 steps per_rank;"), RANKS)}
    for _ in range(rounds):
        base, idle = bench.prun(plans["none"])[1], bench.prun(plans["no step"])[1]
        samples.measure("disk", bench.disk)
        for kind in "one file", "a file a rank":
            samples.measure(("write", kind), lambda: bench.written(plans[kind], 1e-3, base))
            samples.measure(("read", kind), lambda: bench.read(plans[kind], idle))
    rate = lambda key: "-" if samples.median(key, "s") is None else "%.2f" % (BYTES / samples.median(key, "s") / 1e9)
    table("checkpoints of %.0f MB on %d ranks in one process, GB/s (write: flushed to the disk; read: checksums compared too)" % (BYTES / 1e6, RANKS), ["", "write", "read"],
          [["plain file", rate("disk"), "-"], *([kind, rate(("write", kind)), rate(("read", kind))] for kind in ("one file", "a file a rank"))])


def csv(bench, samples, rounds, loader):
    draw, path = random.Random(3), bench.path("x.csv")
    lines = ["%s\n" % ",".join("%.5f" % draw.uniform(-100, 100) for _ in range(CSV_COLUMNS)) for _ in range(1000)]
    with open(path, "w") as file:
        file.write(",".join("c%d" % i for i in range(CSV_COLUMNS)) + "\n" + "".join(lines) * (CSV_ROWS // 1000))
    for _ in range(rounds):
        samples.measure("csv", lambda: {"s": run_measured([loader, "csv", path, str(CSV_COLUMNS)])[1]})
        samples.measure("later", lambda: {"s": figure(r'"second_cpu_s": ([\d.e-]+)', run([loader, "csv", path, str(CSV_COLUMNS)])[0])})
        samples.measure("opened", lambda: {"s": figure(r'"open_s": ([\d.e-]+)', run([loader, "csv", path, str(CSV_COLUMNS), str(cores())])[0])})
    whole, later, opened = samples.median("csv", "s"), samples.median("later", "s"), samples.median("opened", "s")
    if whole and later:
        print("\nCSV of %.0f MB, opened and its first epoch, processor time: %.2f GB/s, %.0f rows/s; an epoch of rows that are held: %.0f rows/s" %
              (os.path.getsize(path) / 1e6, os.path.getsize(path) / (whole - later) / 1e9, CSV_ROWS / (whole - later), CSV_ROWS / later))
        print("opened, which reads all numbers, by %d threads: %.2f GB/s by the clock" % (cores(), os.path.getsize(path) / opened / 1e9))


def beside_a_step(bench, samples, goals, rounds, theirs):
    draw = random.Random(4)
    npy(bench.path("x.npy"), 256 * 500, 256, draw)
    same, files, shuffled = "numpy_rand(seed = 1)", 'npy(x = "%s")' % bench.path("x.npy"), "shuffle(seed = 0)"
    bare, read, drawn, logged = (bench.compile(name, STEP % what, 1) for name, what in (("bare", (same, "file", STEPS)), ("read", (files, "file", STEPS)), ("drawn", (files, shuffled, STEPS)), ("logged", (same, "file", 1))))
    pair = bench.compile("pair", STEP % (same, "file", STEPS), RANKS)
    kinds = {"nothing": lambda: bench.step(bare, 1), "rows of .npy, 256 KiB": lambda: bench.step(read, 1), "the same shuffled": lambda: bench.step(drawn, 1), "a line and --metrics": lambda: bench.step(logged, 1, "--metrics", bench.path("m.jsonl")),
             "nothing, 2 ranks": lambda: bench.step(pair, RANKS), "watchdog, 2 ranks": lambda: bench.step(pair, RANKS, timeout=600)}
    for _ in range(rounds):
        for kind, measured in kinds.items():
            samples.measure(("step", kind), measured)
    rows = []
    for kind in kinds:
        seconds, base = samples.median(("step", kind), "s"), samples.median(("step", "nothing, 2 ranks" if "2 ranks" in kind else "nothing"), "s")
        more = None if seconds is None or base is None else max(seconds - base, 0)
        rows.append([kind, "-" if seconds is None else "%.1f us" % (seconds * 1e6), "-" if more is None or "nothing" in kind else "%.1f us" % (more * 1e6)])
        if "nothing" not in kind:
            goal(goals, "%s, of a step of 10 ms" % kind, None if more is None else more / 10e-3, 0.01, lambda ratio: "-" if ratio is None else "%.2f %%" % (100 * ratio))
    table("processor time of a tiny step (--nproc) with", ["", "time", "more"], rows)
    if theirs:
        for _ in range(rounds):
            for kind in "file", "shuffled":
                samples.measure(("torch", kind), lambda: run_peer("torch_rows.py", bench.path("x.npy"), kind)[0])
        print("\nthe same rows by a DataLoader of PyTorch's over the mapped file, processor time of a batch: " +
              ", ".join("%s %.1f us" % (kind, 1e6 * samples.median(("torch", kind), "s")) for kind in ("file", "shuffled") if samples.median(("torch", kind), "s")))


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc", prun="prun")
    parser.add_argument("--loader", help="tests/bench/loader, for CSV")
    args = parser.parse_args()
    where, samples, goals = begin(args.pcc, args.prun), Samples(), []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        checkpoints(bench, samples, args.rounds)
        if args.loader:
            csv(bench, samples, args.rounds, args.loader)
        beside_a_step(bench, samples, goals, args.rounds, not args.no_peers and "torch" in peers())
    print_goals(goals)
    finish(args.json, where, samples, goals)


sys.exit(main())
