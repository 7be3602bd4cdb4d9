#!/usr/bin/env python3
"""Predicted step times beside measured ones, as prun prints them: six nets, with others of their plans, on 1, 2, 4 and 8 CPU ranks.

    predict.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 6] [--nets 'mlp; gpt_tiny'] [--ranks 1,2] [--operators 10] [--json FILE] [--add FILE]

A round measures the machine on each number of ranks, and compiles and runs every net on so many, by its usual plan and by others, for a second or two each. Of a run the lower quartile of
the steps counts, as prun --calibrate takes that of its calls (of steps of less than 10 ms the median: ranks that share a core take turns in them, now more, now less), and of the rounds
the least predicted and the least measured time: what else runs on the machine slows, and makes nothing faster. How far the rounds' ratios are apart stands beside them. The usual plan runs
once more behind the others: how far the two are apart says what these figures can show; both count. Goals: the usual plans within 15 %, and of two plans of a net on equally many ranks
whose times differ by more than 10 % the faster one is predicted to be: that is what a search, and who tries hints, go by. A pair on which the rounds disagree (sign test at 5 %: of five
rounds all must agree, of eight seven) is counted, and not judged: more rounds of that net tell more. --add counts the rounds of an earlier run on this machine too, whose --json wrote
FILE: rounds of several hours tell more than as many of one. With --operators the usual plans run once more, with pcc --timeline and prun --trace, and for each net the kernels whose
predictions are furthest off stand in a table, by what they do.
"""
import bisect
import collections
import json
import math
import os
import statistics
import tempfile

import step
from bench import Failed, Samples, arguments, begin, cores, figure, finish, goal, mpi_env, print_goals, run, seconds_text, table

RANKS = (1, 2, 4, 8)
# name of the row: the net, what is edited in its text, flags of pcc, steps
NETS = {
    "mlp_small": ("mlp_small", (), (), 1000),
    "mlp": ("mlp", (), (), 6),
    "gpt_tiny": ("gpt_tiny", (), (), 6),
    "bert_tiny": ("bert_tiny", (), (), 15),
    "resnet18": ("resnet18", (), ("-D", "batch=64", "-D", "side=32"), 10),
    "wide": ("quickstart", ((" shard ((2, 4), (4, 1))", ""),), ("-D", "batch=1024", "-D", "in_dim=2048", "-D", "hidden_dim=1024", "-D", "out_dim=512"), 12),
}
# Plans of a net: flags of pcc; and hints where the net has some of its own.
USUAL = "usual"
PLANS = {USUAL: (), "batch split": ("--search", "sharding_propagation"), "-O0": ("-O0",), "updates whole": ("--shard-states", "none", "--whole-updates"), "parameters divided": ("--shard-states", "parameters")}
TENSOR, AGAIN = "tensor parallel", "usual, again"
WITHIN, DIFFERENT, CHANCE = 0.15, 1.1, 0.05
SHORT_S = 0.01  # a step in which it is chance how often ranks that share a core take turns


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


def plans_of(row, ranks):
    return [USUAL] if ranks == 1 else [*PLANS, *([TENSOR] if row == "mlp" else [])]


def program_of(plan):
    """What the plan does, without how it was asked for."""
    with open(plan) as file:
        return "".join(line for line in file if not line.startswith(("options ", "checksum ")))


def predict(args, row, ranks, which, machine, folder, known):
    """Predicted and measured seconds of a step. known: the plans of this net that were measured before, to which this one's is added; a plan that is there is not measured again."""
    name, edits, flags, steps = NETS[row]
    source, plan = os.path.join(folder, name + ".dsl"), os.path.join(folder, "net.plan")
    with open(source, "w") as out:
        out.write(text_of(name, steps, step.TENSOR if which == TENSOR else edits, ranks))
    said = run([args.pcc, source, "--ranks", str(ranks), "-o", plan, "--machine", machine, "--stats", "-Wno-memory", "-Wno-costly", *flags, *PLANS.get(which, ())])[0]
    predicted = figure(r"predicted +([\d.e+-]+) ms", said) / 1e3
    program = program_of(plan)
    if program in known:
        return {}
    known.append(program)
    said = launch(args, ranks, plan)
    median, quartile = (figure(pattern, said) / 1e3 for pattern in (r"time per step: ([\d.]+) ms", r"time per step: .*quartiles ([\d.]+)"))
    measured = median if median < SHORT_S else quartile
    return {"predicted_s": predicted, "measured_s": measured, "ratio": predicted / measured}


def events(path):
    """(plan_step, name, whole of a kernel's arguments, seconds, on which rank and in which step) of each event of a trace but for starts of communications."""
    with open(path) as file:
        for event in json.load(file)["traceEvents"]:
            if "plan_step" in event.get("args", {}) and not event["name"].startswith("start "):
                yield event["args"]["plan_step"], event["name"], event["args"], event["dur"] / 1e6, (event["pid"], event["args"]["step"])


def operators(args, row, ranks, machine, folder):
    """Prints what kernels and waits of the usual plan take, those of a name together, as predicted and as measured: in the median of ranks and steps. What the plan has fused and prun runs
    in several parts counts as one."""
    source, plan, predicted, measured = (os.path.join(folder, name) for name in ("operators.dsl", "operators.plan", "predicted.json", "measured.json"))
    name, edits, flags, steps = NETS[row]
    with open(source, "w") as out:
        out.write(text_of(name, steps, edits, ranks))
    run([args.pcc, source, "--ranks", str(ranks), "-o", plan, "--machine", machine, "--timeline", predicted, "-Wno-memory", "-Wno-costly", *flags])
    launch(args, ranks, plan, "--trace", measured)
    names, seconds, moved, taken = {}, collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)
    for step_, what, about, took, _ in events(predicted):
        names[step_] = what
        seconds[step_] += took
        moved[step_] += about["bytes"]
    first = sorted(names)
    for step_, what, _, took, where in events(measured):
        if step_ not in names and bisect.bisect_right(first, step_) > 0:
            step_ = first[bisect.bisect_right(first, step_) - 1]
        names.setdefault(step_, what)
        taken[step_][where] += took
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for step_, what in names.items():
        its = (1, seconds[step_], statistics.median(taken[step_].values()) if step_ in taken else 0, moved[step_])
        rows[what] = [a + b for a, b in zip(rows[what], its)]
    off = sorted(rows.items(), key=lambda each: -abs(each[1][1] - each[1][2]))[:args.operators]
    table(f"{row} on {ranks} ranks, what is furthest off", ["operators", "times", "predicted", "measured", "predicted / measured", "measured GB/s"],
          [[what, n, seconds_text(p), seconds_text(m), f"{p / m:.2f}" if m else "-", f"{b / m / 1e9:.1f}" if m and b else "-"] for what, (n, p, m, b) in off])


def rounds(args, samples, folder):
    machine = os.path.join(folder, "here.machine")
    for _ in range(args.rounds):
        for ranks in args.ranks:
            launch(args, ranks, "--calibrate", machine)
            for row in args.nets if args.operators else ():
                operators(args, row, ranks, machine, folder)
            for row in args.nets:
                known = []
                for which in plans_of(row, ranks):
                    samples.measure((row, ranks, which), lambda: predict(args, row, ranks, which, machine, folder, known))
                samples.measure((row, ranks, AGAIN), lambda: predict(args, row, ranks, USUAL, machine, folder, []))


def report(args, samples):
    goals, off, rows, again, pairs = [], [], [], [], []
    for row in args.nets:
        for ranks in args.ranks:
            for which in plans_of(row, ranks):
                predicted, measured = (least(samples, row, ranks, name, *((USUAL, AGAIN) if which == USUAL else (which,))) for name in ("predicted_s", "measured_s"))
                if measured is None and which != USUAL:
                    continue  # it is one of the plans before
                ratio, ratios = predicted / measured if measured else None, samples.of((row, ranks, which), "ratio")
                rows.append([row, ranks, which, seconds_text(predicted), seconds_text(measured), *(["-", "-"] if ratio is None else [f"{ratio:.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"])])
                if ratio is not None and which == USUAL:
                    off.append(max(ratio, 1 / ratio))
            again += [max(a / b, b / a) for a, b in in_rounds(samples, row, ranks, AGAIN, USUAL)]
            pairs += pairs_of(samples, row, ranks)
    counts = sorted({len(runs) for runs in samples.values.values()})
    table(f"a step, the least of {' or '.join(map(str, counts))} rounds", ["net", "ranks", "plan", "predicted", "measured", "predicted / measured", "of each round"], rows)
    judged = [pair for pair in pairs if pair.agreed]
    wrong = [pair for pair in judged if pair.predicted <= 1]
    print(f"\n{len(pairs)} pairs of plans of a net on equally many ranks differ by more than {100 * (DIFFERENT - 1):.0f} %; "
          f"rounds agree on which plan is faster in {len(judged)} of them, of which the order of {len(judged) - len(wrong)} is predicted")
    for pair in pairs:
        if pair.predicted <= 1:
            print(f"  {'not' if pair.agreed else 'not known'}: {pair.row} on {pair.ranks} ranks, '{pair.faster}' before '{pair.slower}', "
                  f"measured {pair.measured:.2f} x, in {pair.rounds} rounds, predicted {pair.predicted:.2f} x")
    if again:
        print(f"the usual plans run again in the same round: off by {100 * (statistics.median(again) - 1):.0f} % in the median, by {100 * (max(again) - 1):.0f} % at most")
    if off:
        print(f"usual plans within {100 * WITHIN:.0f} %: {sum(x <= 1 + WITHIN for x in off)} of {len(off)}; median off by {100 * (statistics.median(off) - 1):.0f} %, most {100 * (max(off) - 1):.0f} %")
        goal(goals, "the prediction that is furthest off, as a factor", max(off), 1 + WITHIN, lambda x: f"{x:.2f}")
    goal(goals, "pairs whose order is wrong", len(wrong) if judged else None, 1, str)
    print_goals(goals)
    return goals


def least(samples, row, ranks, name, *plans):
    """Of all rounds; None where there is none."""
    return min((value for which in plans for value in samples.of((row, ranks, which), name)), default=None)


def in_rounds(samples, row, ranks, one, other):
    """Measured seconds of two plans in each round that has both."""
    runs = zip(*(samples.values.get((row, ranks, which), []) for which in (one, other)))
    return [(a["measured_s"], b["measured_s"]) for a, b in runs if "measured_s" in a and "measured_s" in b]


# Two plans of a net that differ: the least time of the slower one by that of the faster, as measured and as predicted; in how many rounds the faster one was that, as 'K of N'; whether that is
# more than chance.
Pair = collections.namedtuple("Pair", "row ranks faster slower measured predicted rounds agreed")


def pairs_of(samples, row, ranks):
    """The pairs that differ."""
    plans, pairs = plans_of(row, ranks), []
    seconds = {which: [least(samples, row, ranks, name, which) for name in ("measured_s", "predicted_s")] for which in plans}
    there = sorted((which for which in plans if None not in seconds[which]), key=seconds.get)
    for i, faster in enumerate(there):
        for slower in there[i + 1:]:
            measured, predicted = (b / a for a, b in zip(seconds[faster], seconds[slower]))
            if measured <= DIFFERENT:
                continue
            runs = in_rounds(samples, row, ranks, faster, slower)
            right = sum(a < b for a, b in runs)
            chance = sum(math.comb(len(runs), k) for k in range(right, len(runs) + 1)) / 2 ** len(runs)
            pairs.append(Pair(row, ranks, faster, slower, measured, predicted, f"{right} of {len(runs)}", chance <= CHANCE))
    return pairs


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc", prun="prun")
    parser.set_defaults(rounds=6)
    parser.add_argument("--nets", default=";".join(NETS), help="rows of the table, separated by ';'")
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--operators", type=int, default=0, metavar="N", help="of each net the N kernels and waits whose predictions are furthest off")
    parser.add_argument("--add", metavar="FILE", action="append", default=[], help="count the rounds of an earlier run too, which --json wrote there")
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
    for path in args.add:
        samples.add(path)
    goals = report(args, samples)
    finish(args.json, where, samples, goals)


if __name__ == "__main__":
    main()
