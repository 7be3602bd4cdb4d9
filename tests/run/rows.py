#!/usr/bin/env python3
"""softmax and log_softmax with their rows split over ranks, end to end: losses are the formulas' in Python's doubles, after updates too, and what
prun measures to be sent is two reductions of a number a row forward and one backward."""
import math
import random
import re
import unittest

import harness
from harness import Case

ROWS, LENGTH, STEPS, RATE = 24, 7, 4, 0.5
REALS = 8  # bytes


def literal(rows):
    return "[" + ", ".join("[" + ", ".join("%r" % x for x in row) + "]" for row in rows) + "]"


class Rows(Case):
    def setUp(self):
        super().setUp()
        pick = random.Random(7)
        self.x = [[pick.uniform(-2, 2) + 700 * (i % 3 == 0) for _ in range(LENGTH)] for i in range(ROWS)]  # exp(700) alone would leave nothing of a sum
        self.r = [[pick.uniform(-1, 1) for _ in range(LENGTH)] for _ in range(ROWS)]

    def plan(self, ranks, function, shard, level):
        self.write("net.dsl", """net n {
            param x : f64[%d, %d] = %s;
            const r : f64[%d, %d] = %s;
            y = %s(x) %s; z = y * r %s;
            loss sum(z);
        }
        train { optimizer = sgd(lr = %r); epochs = 1; steps = %d; }
        """ % (ROWS, LENGTH, literal(self.x), ROWS, LENGTH, literal(self.r), function, "shard (%s)" % shard, "shard (%s, %s)" % (shard, shard), RATE, STEPS))
        return self.compile("net.dsl", "net.plan", "--ranks", ranks, "-O%d" % level, "-Wno-uneven", "-Wno-replicated")

    def expected(self, function):
        x, losses = [row[:] for row in self.x], []
        for _ in range(STEPS):
            loss = 0.0
            for row, weights in zip(x, self.r):
                most = max(row)
                powers = [math.exp(v - most) for v in row]
                share = [p / sum(powers) for p in powers]
                if function == "softmax":
                    loss += sum(a * b for a, b in zip(share, weights))
                    middle = sum(a * b for a, b in zip(share, weights))
                    gradient = [a * (b - middle) for a, b in zip(share, weights)]
                else:
                    loss += sum((v - most - math.log(sum(powers))) * b for v, b in zip(row, weights))
                    gradient = [b - a * sum(weights) for a, b in zip(share, weights)]
                row[:] = [v - RATE * g for v, g in zip(row, gradient)]
            losses.append(loss)
        return losses

    def sent(self, result):
        return int(re.search(r"^sent per rank and step: (\d+) bytes", result.out, re.M)[1])

    def test_losses_are_the_formulas_however_the_rows_are_split(self):
        for function in "softmax", "log_softmax":
            expected = self.expected(function)
            for ranks, shard in ((1, "(1, 1)"), (2, "(1, 2)"), (3, "(1, 3)"), (4, "(2, 2)"), (6, "(1, 6)"), (6, "(3, 2)"), (8, "(8, 1)")):
                for level in 0, 1, 2:
                    result = self.ok(self.local(self.plan(ranks, function, shard, level), ranks))
                    self.assertClose(result.losses(), expected, 1e-11, 1e-11, "%s, %d ranks, %s, -O%d" % (function, ranks, shard, level))

    def test_what_is_sent_is_three_numbers_a_row(self):
        for ranks, split in ((2, 2), (3, 3), (4, 4), (6, 6), (4, 2), (6, 3)):
            shard = "(%d, %d)" % (ranks // split, split)
            without = self.sent(self.ok(self.local(self.plan(ranks, "tanh", shard, 2), ranks)))
            for function in "softmax", "log_softmax":
                result = self.ok(self.local(self.plan(ranks, function, shard, 2), ranks))
                rows = ROWS * split // ranks  # of the ranks that share them; an AllReduce sends 2 (n - 1) / n of what it reduces
                self.assertEqual(self.sent(result) - without, 3 * 2 * (split - 1) * rows * REALS // split, "%s, %d ranks, %s" % (function, ranks, shard))

    def test_processes_compute_what_one_does(self):
        for function in "softmax", "log_softmax":
            result = self.ok(self.mpi(self.plan(4, function, "(1, 4)", 2), 4))
            self.assertClose(result.losses(), self.expected(function), 1e-11, 1e-11, function)


if __name__ == "__main__":
    harness.main()
