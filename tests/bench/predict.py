#!/usr/bin/env python3
"""Predicted step times beside measured ones, the medians that prun prints: six nets on 1, 2, 4 and 8 CPU ranks.

    predict.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 3] [--nets 'mlp; gpt_tiny'] [--ranks 1,2] [--json FILE]

A round measures the machine on each number of ranks, and compiles and runs every net on so many. What counts is the median of the rounds' ratios. Goals: within
15 %, and of two plans of a net whose times differ by more than 10 % the faster one is predicted to be.
"""
import os
import statistics
import tempfile

import step
from bench import Failed, Samples, arguments, begin, cores, figure, finish, goal, mpi_env, print_goals, run, seconds_text, table

RANKS = (1, 2, 4, 8)
# name of the row: the net, what is edited in its text, flags of pcc, steps
NETS = {
    "mlp_small": ("mlp_small", (), (), 200),
    "mlp": ("mlp", (), (), 10),
    "mlp, tensor parallel": ("mlp", step.TENSOR, (), 10),
    "gpt_tiny": ("gpt_tiny", (), (), 10),
    "bert_tiny": ("bert_tiny", (), (), 10),
    "wide": ("quickstart", ((" shard ((2, 4), (4, 1))", ""),), ("-D", "batch=1024", "-D", "in_dim=2048", "-D", "hidden_dim=1024", "-D", "out_dim=512"), 12),
}
WITHIN, DIFFERENT = 0.15, 1.1


def launch(args, ranks, *words):
    """Where there are as many ranks as cores or more, each is bound to a core, to all cores equally many: else it is chance which of them share one."""
    env = mpi_env()
    if ranks >= cores() > 1:
        env["OMPI_MCA_hwloc_base_binding_policy"] = "core:overload-allowed"
    return run(["mpirun", "-n", str(ranks), args.prun, *words], env=env)[0]


def text_of(name, steps, edits, ranks):
    """The net with so many steps: its file is one of step.py's, or a sample."""
    folder = step.SAMPLES if os.path.exists(os.path.join(step.SAMPLES, name + ".dsl")) else os.path.join(step.HERE, "nets")
    with open(os.path.join(folder, name + ".dsl")) as file:
        text = step.re.sub(r"steps( *)= \d+;", rf"steps\1= {steps};", file.read())
    for old, new in edits:
        if old not in text:
            raise Failed(f"{name}.dsl: no '{old}'")
        text = text.replace(old, new.format(ranks))
    return text


def predict(args, row, ranks, machine, folder):
    """Predicted and measured seconds of a step."""
    name, edits, flags, steps = NETS[row]
    source, plan = os.path.join(folder, name + ".dsl"), os.path.join(folder, "net.plan")
    with open(source, "w") as out:
        out.write(text_of(name, steps, edits if ranks > 1 or row == "wide" else (), ranks))
    said = run([args.pcc, source, "--ranks", str(ranks), "-o", plan, "--machine", machine, "--stats", "-Wno-memory", *flags])[0]
    predicted = figure(r"predicted +([\d.e+-]+) ms", said) / 1e3
    measured = figure(r"time per step: ([\d.]+) ms", launch(args, ranks, plan)) / 1e3
    return {"predicted_s": predicted, "measured_s": measured, "ratio": predicted / measured}


def rounds(args, samples, folder):
    machine = os.path.join(folder, "here.machine")
    for _ in range(args.rounds):
        for ranks in args.ranks:
            launch(args, ranks, "--calibrate", machine)
            for row in args.nets:
                samples.measure((row, ranks), lambda: predict(args, row, ranks, machine, folder))


def report(args, samples):
    goals, off, rows = [], [], []
    for row in args.nets:
        for ranks in args.ranks:
            predicted, measured, ratio = (samples.median((row, ranks), name) for name in ("predicted_s", "measured_s", "ratio"))
            rows.append([row, ranks, seconds_text(predicted), seconds_text(measured), "-" if ratio is None else f"{ratio:.2f}"])
            if ratio is not None:
                off.append(max(ratio, 1 / ratio))
    table(f"a step, median of {args.rounds} rounds", ["net", "ranks", "predicted", "measured", "predicted / measured"], rows)
    right = wrong = 0
    for first, second in (("mlp", "mlp, tensor parallel"),):
        right, wrong = count_order(samples, [(first, r) for r in args.ranks] + [(second, r) for r in args.ranks], right, wrong)
    for row in args.nets:
        if not row.startswith("mlp,") and row != "mlp":
            right, wrong = count_order(samples, [(row, r) for r in args.ranks], right, wrong)
    print(f"\n{right + wrong} pairs of plans of one net differ by more than {100 * (DIFFERENT - 1):.0f} %; the order of {right} is predicted")
    if off:
        print(f"within {100 * WITHIN:.0f} %: {sum(x <= 1 + WITHIN for x in off)} of {len(off)}; median off by {100 * (statistics.median(off) - 1):.0f} %, most {100 * (max(off) - 1):.0f} %")
        goal(goals, "the prediction that is furthest off, as a factor", max(off), 1 + WITHIN, lambda x: f"{x:.2f}")
    goal(goals, "pairs whose order is wrong", wrong, 1, str)
    print_goals(goals)
    return goals


def count_order(samples, keys, right, wrong):
    for i, a in enumerate(keys):
        for b in keys[i + 1:]:
            times = [samples.median(key, name) for name in ("measured_s", "predicted_s") for key in (a, b)]
            if None in times or max(times[:2]) < DIFFERENT * min(times[:2]):
                continue
            if (times[0] < times[1]) == (times[2] < times[3]):
                right += 1
            else:
                wrong += 1
    return right, wrong


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc", prun="prun")
    parser.add_argument("--nets", default=";".join(NETS), help="rows of the table, separated by ';'")
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    args = parser.parse_args()
    args.nets = [row.strip() for row in args.nets.split(";")]
    args.ranks = [int(n) for n in args.ranks.split(",")]
    unknown = [row for row in args.nets if row not in NETS]
    if unknown:
        parser.error(f"no net '{unknown[0]}'; there are: {'; '.join(NETS)}")
    where = begin(args.pcc, args.prun, with_peers=False)
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder:
        step.write_data(folder)
        rounds(args, samples, folder)
    goals = report(args, samples)
    finish(args.json, where, samples, goals)


main()
