#!/usr/bin/env python3
"""What prun --report costs a step: of one run, the steps that it measures against those between them, so that both see the same machine.

    report.py --pcc build/compiler/pcc --prun build/runtime/prun [--runs 5] [--nets mlp_small,gpt_tiny] [--ranks 1,2]

After the first 17 steps every 16th is measured (docs/report.md): each is compared with the mean of the seven before and the seven behind it. The median of these ratios says what measuring a step costs, a 16th of that what it
costs training. All ranks are in one process. The same is done of a run without --report, where nothing is measured, and the difference of the two is what it costs: so what else falls on every 16th step does not count."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, os.pardir, os.pardir, "samples")
NETS = {"mlp_small": (os.path.join(SAMPLES, "mlp_small.dsl"), 1600), "gpt_tiny": (os.path.join(HERE, "nets", "gpt_tiny.dsl"), 160)}
EVERY, AROUND = 16, 7


def ratios(arguments, plan, ranks, folder, *options):
    """Of each measured step its seconds over those of the steps around it, and the seconds of these."""
    metrics = os.path.join(folder, "metrics.jsonl")
    subprocess.run([arguments.prun, "--ranks", str(ranks), "--metrics", metrics, *options, plan], stdout=subprocess.DEVNULL, check=True)
    with open(metrics, encoding="utf-8") as file:
        at = [0.0] + [line["seconds"] for line in map(json.loads, file)]
    os.remove(metrics)
    seconds = [b - a for a, b in zip(at, at[1:])]
    found, steps = [], []
    for nth in range(2 * EVERY, len(seconds) - AROUND, EVERY):
        others = statistics.median(seconds[nth - AROUND:nth] + seconds[nth + 1:nth + 1 + AROUND])
        found.append(seconds[nth] / others)
        steps.append(others)
    return found, steps


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("--pcc", None), ("--prun", None), ("--runs", "5"), ("--nets", "mlp_small,gpt_tiny"), ("--ranks", "1,2")):
        parser.add_argument(name, default=default, required=default is None)
    arguments = parser.parse_args()
    for net in arguments.nets.split(","):
        path, steps = NETS[net]
        for ranks in map(int, arguments.ranks.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                with open(path, encoding="utf-8") as file:
                    text, edits = re.subn(r"steps( *)= \d+;", r"steps\1= %d;" % steps, file.read())
                if edits != 1:
                    sys.exit("%s: no steps to set" % path)
                source, plan = os.path.join(folder, net + ".dsl"), os.path.join(folder, net + ".plan")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text)
                with open(os.path.join(folder, "text.bin"), "wb") as file:
                    file.write(bytes(i * i % 251 for i in range(1 << 20)))
                subprocess.run([arguments.pcc, source, "--ranks", str(ranks), "-I", os.path.dirname(path), "-I", SAMPLES, "-o", plan], stdout=subprocess.DEVNULL, check=True)
                measured, plain, seconds = [], [], []
                for _ in range(int(arguments.runs)):
                    found, around = ratios(arguments, plan, ranks, folder, "--report", os.path.join(folder, "page.html"))
                    measured += found
                    seconds += around
                    plain += ratios(arguments, plan, ranks, folder)[0]
                with_it, without = statistics.median(measured), statistics.median(plain)
                print("%-10s %d rank%s %9.3f ms a step; %4d measured ones %.4f x those around them, without --report %.4f x: %+.2f %% of a measured step, %+.3f %% of training" %
                      (net, ranks, " " if ranks == 1 else "s", 1e3 * statistics.median(seconds), len(measured), with_it, without, 100 * (with_it - without), 100 * (with_it - without) / EVERY), flush=True)


main()
