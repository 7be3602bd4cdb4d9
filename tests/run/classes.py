#!/usr/bin/env python3
"""Nets of tokens and classes, end to end: a table whose rows are split, logits whose classes are split, labels from files. The expected losses are
the formula's, in Python's doubles."""
import math
import random
import unittest

import harness
from harness import Case, npy

ROWS, BATCH, VOCABULARY, WIDTH = 10, 4, 11, 6
RATE = 0.5


def literal(rows):
    return "[" + ", ".join("[" + ", ".join("%r" % x for x in row) + "]" for row in rows) + "]"


class Classes(Case):
    def setUp(self):
        super().setUp()
        pick = random.Random(5)
        self.table = [[pick.uniform(-1, 1) for _ in range(WIDTH)] for _ in range(VOCABULARY)]
        self.weight = [[pick.uniform(-1, 1) for _ in range(VOCABULARY)] for _ in range(WIDTH)]
        self.tokens = [pick.randrange(VOCABULARY) for _ in range(ROWS)]
        self.labels = [pick.randrange(VOCABULARY) for _ in range(ROWS)]
        self.write("tokens.npy", npy(self.tokens, (ROWS,), "q"))
        self.write("labels.npy", npy(self.labels, (ROWS,), "q"))

    def plan(self, ranks, table="", product="", last="drop"):
        self.write("net.dsl", """net n {
            input token : i64[%d]; input label : i32[%d];
            param table : f64[%d, %d] = %s; param w : f64[%d, %d] = %s;
            x = embedding(table, token) %s;
            y = matmul(x, w) %s;
            loss cross_entropy(y, label);
        }
        train { data = npy(token = "tokens.npy", label = "labels.npy"); last = %s; epochs = 2; optimizer = sgd(lr = %r); }
        """ % (BATCH, BATCH, VOCABULARY, WIDTH, literal(self.table), WIDTH, VOCABULARY, literal(self.weight), table, product, last, RATE))
        return self.compile("net.dsl", "net.plan", "--ranks", ranks)

    def expected(self, last):
        table, w, losses = [row[:] for row in self.table], [row[:] for row in self.weight], []
        for _ in range(2):
            for begin in range(0, ROWS if last != "drop" else ROWS - ROWS % BATCH, BATCH):
                own = range(begin, min(begin + BATCH, ROWS))
                count = len(own) if last == "short" else BATCH
                loss, d_table, d_w = 0.0, {}, [[0.0] * VOCABULARY for _ in range(WIDTH)]
                for row in own:
                    x = table[self.tokens[row]]
                    y = [sum(x[k] * w[k][c] for k in range(WIDTH)) for c in range(VOCABULARY)]
                    total = sum(math.exp(v) for v in y)
                    loss += (math.log(total) - y[self.labels[row]]) / count
                    d = [(math.exp(v) / total - (c == self.labels[row])) / count for c, v in enumerate(y)]
                    entry = d_table.setdefault(self.tokens[row], [0.0] * WIDTH)
                    for k in range(WIDTH):
                        entry[k] += sum(w[k][c] * d[c] for c in range(VOCABULARY))
                        for c in range(VOCABULARY):
                            d_w[k][c] += x[k] * d[c]
                losses.append(loss)
                w = [[a - RATE * b for a, b in zip(*rows)] for rows in zip(w, d_w)]
                for token, entry in d_table.items():
                    table[token] = [a - RATE * b for a, b in zip(table[token], entry)]
        return losses

    def test_losses_are_the_formulas_however_rows_and_classes_are_split(self):
        cases = ((1, "", ""), (2, "", ""), (4, "shard ((4, 1), (1))", "shard ((1, 1), (1, 4))"), (4, "shard ((2, 2), (1))", "shard ((2, 1), (1, 2))"),
                 (6, "shard ((3, 1), (2))", "shard ((1, 2), (2, 3))"))
        for ranks, table, product in cases:
            for last in "drop", "pad", "short":
                result = self.ok(self.local(self.plan(ranks, table, product, last), ranks))
                found = [float(loss) for _, _, _, _, loss in harness.LOSS.findall(result.out)]
                self.assertClose(found, self.expected(last), 1e-12, 1e-12, "%d ranks, %s, %s, %s" % (ranks, table, product, last))

    def test_a_label_out_of_range_is_said_with_its_row(self):
        for name, numbers, words in (("labels.npy", self.labels[:7] + [VOCABULARY] + self.labels[8:], "input label: labels.npy: row 7 holds 11, and it must be in 0 .. 10"),
                                     ("tokens.npy", self.tokens[:3] + [-1] + self.tokens[4:], "input token: tokens.npy: row 3 holds -1, and it must be in 0 .. 10")):
            kept = self.read(name)
            self.write(name, npy(numbers, (ROWS,), "q"))
            result = self.local(self.plan(2), 2)
            self.assertEqual(result.code, 3, str(result))
            self.assertEqual(result.err.count(words), 1, str(result))
            self.write(name, kept)


if __name__ == "__main__":
    harness.main()
