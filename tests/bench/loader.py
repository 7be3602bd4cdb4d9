#!/usr/bin/env python3
"""Rows a second of files as prun reads them, beside a DataLoader of PyTorch's in one process, in the same run: CSV of numbers, texts as BERT's tokens, pictures of CIFAR-10 that are
cut and flipped.

    loader.py --loader build/tests/bench/loader [--rounds 3] [--json FILE]

Both read with one thread; the data is made here, of this size: see SIZES. Times are from opening the file to the last batch of the first epoch; in later ones the rows
are there. That of the texts stands for tokens too, beside tokenizers' encode_batch of all texts.
"""
import json
import os
import random
import sys
import tempfile

from bench import Samples, arguments, begin, finish, goal, peers, print_goals, ratio_text, run, run_peer, seconds_text, table

SIZES = {"csv": 40000, "text": 6000, "pictures": 10000}
COLUMNS = 32
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_data(folder):
    draw = random.Random(7)
    path = lambda name: os.path.join(folder, name)
    with open(path("x.csv"), "w") as file:
        file.write(",".join("c%d" % i for i in range(COLUMNS)) + "\n")
        for _ in range(SIZES["csv"]):
            file.write(",".join("%.5f" % draw.uniform(-100, 100) for _ in range(COLUMNS)) + "\n")
    words = ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(2, 9))) for _ in range(8000)]
    pieces = ["##" + a + b for a in LETTERS for b in LETTERS] + ["##" + a for a in LETTERS] + list(LETTERS) + [chr(c) for c in range(0x4e00, 0x5e00)]
    with open(path("vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "!", *dict.fromkeys(words[:4000] + pieces)]) + "\n")
    with open(path("t.csv"), "w", encoding="utf-8") as file:
        file.write("label,text\n")
        for r in range(SIZES["text"]):
            if r % 2:  # in Chinese
                text = "".join(chr(draw.randrange(0x4e00, 0x5e00)) for _ in range(draw.randrange(20, 160)))
            else:
                text = " ".join(draw.choice(words) for _ in range(draw.randrange(10, 60))) + "!"
            file.write("%d,%s\n" % (r % 2, text))
    with open(path("c.bin"), "wb") as file:
        for _ in range(SIZES["pictures"]):
            file.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))
    return {"csv": [path("x.csv"), str(COLUMNS)], "text": [path("t.csv"), path("vocab.txt")], "pictures": [path("c.bin")]}


def timed(figures):
    """With the time of the first epoch from opening on; a DataLoader's later epochs are as its first one."""
    return {"second_s": figures["first_s"], **figures, "whole_s": figures["open_s"] + figures["first_s"]}


def main():
    args = arguments(__doc__.splitlines()[0], loader="loader").parse_args()
    where = begin()
    theirs = not args.no_peers and "torch" in peers()
    samples, goals = Samples(), []
    with tempfile.TemporaryDirectory() as folder:
        files = write_data(folder)
        for _ in range(args.rounds):
            for kind, words in files.items():
                samples.measure(("ours", kind), lambda: timed(json.loads(run([args.loader, kind, *words])[0])))
                if theirs:
                    samples.measure(("torch", kind), lambda: timed(run_peer("torch_loader.py", kind, *(words if kind == "text" else words[:1]))[0]))
        megabytes = os.path.getsize(files["text"][0]) / 1e6
    rows = []
    for kind, count in SIZES.items():
        ours, torch = samples.median(("ours", kind), "whole_s"), samples.median(("torch", kind), "whole_s")
        again, torch_again = samples.median(("ours", kind), "second_s"), samples.median(("torch", kind), "second_s")
        rate = lambda seconds: "-" if seconds is None else "%.0f" % (count / seconds)
        rows.append([kind, rate(ours), rate(torch), ratio_text(ours, torch), rate(again), rate(torch_again), ratio_text(again, torch_again)])
        goal(goals, "an epoch of %s, of a DataLoader's" % kind, None if torch is None else ours / torch, 0.5, lambda ratio: "-" if ratio is None else "%.3g x" % ratio)
    table("rows/s, one thread: from opening to the end of the first epoch; a later epoch", ["", "ours", "DataLoader", "time", "later", "DataLoader", "time"], rows)
    ours, tokenizers = samples.median(("ours", "text"), "whole_s"), samples.median(("torch", "text"), "tokens_s")
    if tokenizers:
        print("\ntokens of %.1f MB of text on one thread: %.1f MB/s (with reading the file and making batches of an epoch), tokenizers' encode_batch %.1f MB/s" % (megabytes, megabytes / ours, megabytes / tokenizers))
        goal(goals, "tokens, of tokenizers' time", ours / tokenizers, 0.5, lambda ratio: "-" if ratio is None else "%.3g x" % ratio)
    print_goals(goals)
    finish(args.json, where, samples, goals)


sys.exit(main())
