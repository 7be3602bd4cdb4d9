#!/usr/bin/env python3
"""The time until the first token behind a long prompt, of samples/gpt2.dsl (124,439,808 parameters), with so many places of it read at once.

    prompt.py --pcc build/compiler/pcc --prun build/runtime/prun [--rounds 3] [--places 500] [--chunks 1,16,64,256] [--ranks 1,2] [--json FILE]

The goal: the usual number at once takes a tenth of the time of one by one, or less.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from bench import SAMPLES, Failed, Samples, arguments, begin, check_ended, figure, finish, goal, print_goals, ratio_text, run, seconds_text, table

USUAL = 64


def prompted(args, plan, ranks):
    """Seconds of the prompt, and of a token behind it."""
    pick = random.Random(1)
    prompt = ",".join(str(pick.randrange(50257)) for _ in range(args.places))
    command = [args.prun, "--ranks", str(ranks), "--generate", "9", "--temperature", "0", "--prompt-tokens", prompt, plan]
    done = subprocess.run(command, capture_output=True, text=True)
    check_ended(command, done.returncode, done.stderr)
    return {"prompt": figure(r"of the prompt in ([\d.e+-]+) s", done.stderr), "token": figure(r"9 generated in ([\d.e+-]+) s", done.stderr) / 8,
            "text": done.stdout}


def main():
    parser = arguments(__doc__.splitlines()[0], pcc="pcc", prun="prun")
    parser.add_argument("--places", type=int, default=500, help="tokens of the prompt")
    parser.add_argument("--chunks", default="1,16,64,256", help="places that are read at once")
    parser.add_argument("--ranks", default="1,2")
    args = parser.parse_args()
    chunks, ranks = ([int(n) for n in text.split(",")] for text in (args.chunks, args.ranks))
    where, samples, goals, rows = begin(args.pcc, args.prun, with_peers=False), Samples(), [], []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(SAMPLES, "nn.dsl"), folder)
        with open(os.path.join(SAMPLES, "gpt2.dsl")) as file:
            text = file.read()
        plans = {}
        for n in ranks:
            for chunk in chunks:
                source, plan = (os.path.join(folder, "%d_%d.%s" % (n, chunk, kind)) for kind in ("dsl", "plan"))
                with open(source, "w") as file:
                    file.write(text.replace("logits = transformer;", "logits = transformer; chunk = %d;" % chunk))
                run([args.pcc, source, "--ranks", str(n), "-o", plan, "-Wno-memory", "--no-proof"])
                plans[n, chunk] = plan
        for _ in range(args.rounds):
            for (n, chunk), plan in plans.items():
                samples.measure((n, chunk), lambda: prompted(args, plan, n))
    for n in ranks:
        texts = {one["text"] for chunk in chunks for one in samples.values.get((n, chunk), [])}
        if len(texts) > 1:
            raise Failed("other tokens with other numbers of places at once")
        one = samples.median((n, 1), "prompt")
        for chunk in chunks:
            seconds = samples.median((n, chunk), "prompt")
            rows.append([n, chunk, seconds_text(seconds), ratio_text(seconds, one), seconds_text(samples.median((n, chunk), "token"))])
        usual = samples.median((n, USUAL), "prompt")
        goal(goals, "%d places, %d at once / one by one, %d rank%s" % (args.places, USUAL, n, "s" * (n > 1)), usual / one if usual and one else None, 0.1, lambda x: "-" if x is None else "%.3f" % x)
    table("a prompt of %d tokens" % args.places, ["ranks", "places at once", "the prompt", "of one by one", "a token behind it"], rows)
    print_goals(goals)
    finish(args.json, where, samples, goals)


sys.exit(main())
