#!/usr/bin/env python3
"""The sample mnist: on digits made here, always; on the real ones where they are (PCC_MNIST, or ../shared/data/mnist beside the sources)."""
import gzip
import os
import random
import re
import struct
import time
import unittest

import harness
from harness import Case, edited

EVAL = re.compile(r"^(?:epoch: (\d+), )?eval: loss is (\S+), accuracy is (\S+) \((\d+) rows\)$", re.M)
STRATEGY = "y=((2, %d), (%d, 1))"


def idx(code, shape, data):
    return gzip.compress(struct.pack(">HBB", 0, code, len(shape)) + struct.pack(">%dI" % len(shape), *shape) + bytes(data))


def digits(rows, seed):
    """Ten patterns and noise: labels and pixels."""
    pick = random.Random(seed)
    patterns = [[pick.randrange(256) for _ in range(784)] for _ in range(10)]
    labels = [pick.randrange(10) for _ in range(rows)]
    return labels, [min(255, max(0, int(pixel + pick.gauss(0, 60)))) for label in labels for pixel in patterns[label]]


class Mnist(Case):
    def learn(self, ranks, *options, strategy=None):
        flags = ["--shard", strategy] if strategy else []
        plan = self.compile("mnist.dsl", "mnist%d.plan" % ranks, "--ranks", ranks, *flags)
        done = self.ok(self.local(plan, ranks, *options))
        return plan, [(int(epoch), float(loss), float(accuracy), int(rows)) for epoch, loss, accuracy, rows in EVAL.findall(done.out)]

    def test_made_digits_are_learned_alike_on_all_ranks_and_strategies(self):
        labels, pixels = digits(360, 1)
        self.write("t10k-images-idx3-ubyte.gz", idx(8, (360, 28, 28), pixels))
        self.write("t10k-labels-idx1-ubyte.gz", idx(8, (360,), labels))
        self.write("mnist.dsl", edited(self.sample("mnist.dsl"), ("rows = 8000", "rows = 300"), ("first = 8000", "first = 300"), ("batch = 100, hidden = 256", "batch = 50, hidden = 32"),
                                       ("batch   = 100", "batch   = 16")))
        _, one = self.learn(1)
        self.assertEqual([(epoch, rows) for epoch, _, _, rows in one], [(1, 60), (2, 60), (3, 60)])
        self.assertGreater(one[-1][2], 0.95)
        for ranks in 2, 3, 4, 8:
            for strategy in (None, STRATEGY % (ranks // 2, ranks // 2)) if ranks % 2 == 0 else (None,):
                _, found = self.learn(ranks, strategy=strategy)
                self.assertClose([loss for _, loss, _, _ in found], [loss for _, loss, _, _ in one], relative=1e-3, what="%d ranks, %s" % (ranks, strategy))
                self.assertEqual([(epoch, accuracy, rows) for epoch, _, accuracy, rows in found], [(epoch, accuracy, rows) for epoch, _, accuracy, rows in one])

    def test_what_was_saved_answers_the_same(self):
        labels, pixels = digits(360, 2)
        self.write("t10k-images-idx3-ubyte.gz", idx(8, (360, 28, 28), pixels))
        self.write("t10k-labels-idx1-ubyte.gz", idx(8, (360,), labels))
        self.write("mnist.dsl", edited(self.sample("mnist.dsl"), ("rows = 8000", "rows = 300"), ("first = 8000", "first = 300"), ("hidden = 256", "hidden = 32")))
        plan, trained = self.learn(4, "--save", self.path("w.safetensors"))
        done = self.ok(self.local(plan, 4, "--eval", "--load", self.path("w.safetensors")))
        _, loss, accuracy, rows = EVAL.findall(done.out)[0]
        self.assertEqual((float(loss), float(accuracy), int(rows)), trained[-1][1:])

    def test_real_digits_are_learned_within_a_minute(self):
        folder = os.environ.get("PCC_MNIST") or os.path.join(harness.sources, "..", "shared", "data", "mnist")
        names = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
        if not all(os.path.exists(os.path.join(folder, name)) for name in names):
            self.skipTest("no MNIST here")
        for name in names:
            os.symlink(os.path.join(os.path.abspath(folder), name), self.path(name))
        self.write("mnist.dsl", edited(self.sample("mnist.dsl")))
        began = time.monotonic()
        _, found = self.learn(4)
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual([rows for _, _, _, rows in found], [2000] * 3)
        self.assertGreaterEqual(found[-1][2], 0.93)


if __name__ == "__main__":
    harness.main()
