#!/usr/bin/env python3
"""Nets of answers that are true or false, end to end: bce_with_logits over rows of files, with last batches of any length, evaluated; large logits. The expected losses are
the formula's, in Python's doubles."""
import math
import random
import unittest

import harness
from harness import Case, npy

ROWS, BATCH, WIDTH, LABELS = 10, 4, 5, 6
RATE = 0.5


def literal(rows):
    return "[" + ", ".join("[" + ", ".join("%r" % x for x in row) + "]" for row in rows) + "]"


def loss_of(x, t):
    """-(t log p + (1 - t) log(1 - p)) with p = 1 / (1 + exp(-x))."""
    return max(x, 0) - x * t + math.log1p(math.exp(-abs(x)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


class Logits(Case):
    def setUp(self):
        super().setUp()
        pick = random.Random(5)
        self.weight = [[pick.uniform(-1, 1) for _ in range(LABELS)] for _ in range(WIDTH)]
        self.x = [[pick.uniform(-2, 2) for _ in range(WIDTH)] for _ in range(ROWS)]
        self.t = [[pick.choice((0.0, 1.0, 0.25)) for _ in range(LABELS)] for _ in range(ROWS)]
        self.write("x.npy", npy(sum(self.x, []), (len(self.x), WIDTH), "d"))
        self.write("t.npy", npy(sum(self.t, []), (len(self.t), LABELS), "d"))

    def plan(self, ranks, product="", last="drop", loss="bce_with_logits(y, t)", more=""):
        self.write("net.dsl", """net n(batch = %d) {
            input x : f64[batch, %d]; input t : f64[batch, %d]; param w : f64[%d, %d] = %s;
            y = matmul(x, w) %s;
            loss %s;
        }
        train { data = npy(x = "x.npy", t = "t.npy"); last = %s; epochs = 2; optimizer = sgd(lr = %r); }
        %s""" % (BATCH, WIDTH, LABELS, WIDTH, LABELS, literal(self.weight), product, loss, last, RATE, more))
        return self.compile("net.dsl", "net.plan", "--ranks", ranks)

    def answers(self, w, row):
        return [sum(self.x[row][k] * w[k][c] for k in range(WIDTH)) for c in range(LABELS)]

    def expected(self, last):
        w, losses = [row[:] for row in self.weight], []
        for _ in range(2):
            for begin in range(0, ROWS if last != "drop" else ROWS - ROWS % BATCH, BATCH):
                own = range(begin, min(begin + BATCH, ROWS))
                count = LABELS * (len(own) if last == "short" else BATCH)
                loss, d_w = 0.0, [[0.0] * LABELS for _ in range(WIDTH)]
                for row in own:
                    for c, y in enumerate(self.answers(w, row)):
                        loss += loss_of(y, self.t[row][c]) / count
                        for k in range(WIDTH):
                            d_w[k][c] += self.x[row][k] * (sigmoid(y) - self.t[row][c]) / count
                losses.append(loss)
                w = [[a - RATE * b for a, b in zip(*rows)] for rows in zip(w, d_w)]
        return losses

    def losses(self, result):
        return [float(loss) for _, _, _, _, loss in harness.LOSS.findall(self.ok(result).out)]

    def test_losses_are_the_formulas_however_rows_and_labels_are_split(self):
        for ranks, product in (1, ""), (2, ""), (4, "shard ((1, 1), (1, 4))"), (4, "shard ((2, 1), (1, 2))"), (3, "shard ((3, 1), (1, 1))"):
            for last in "drop", "pad", "short":
                with self.subTest(ranks=ranks, product=product, last=last):
                    found = self.losses(self.local(self.plan(ranks, product, last), ranks))
                    self.assertClose(found, self.expected(last), relative=1e-12)

    def test_a_mean_of_each_elements_losses_is_the_loss(self):
        found = self.losses(self.local(self.plan(2, loss="mean(bce_with_logits(y, t, reduction = none))", last="short"), 2))
        self.assertClose(found, self.expected("short"), relative=1e-12)
        found = self.losses(self.local(self.plan(2, loss="bce_with_logits(y, t, reduction = sum) / %d" % (BATCH * LABELS)), 2))
        self.assertClose(found, self.expected("drop"), relative=1e-12)

    def test_an_eval_counts_each_row_once(self):
        plan = self.plan(2, more='eval { data = npy(x = "x.npy", t = "t.npy"); batch = 3; metrics = loss; }')
        result = self.ok(self.local(plan, 2, "--eval"))
        expected = sum(loss_of(y, self.t[row][c]) for row in range(ROWS) for c, y in enumerate(self.answers(self.weight, row))) / (ROWS * LABELS)
        self.assertIn("%d rows" % ROWS, result.out)
        found = float(result.out.split("loss is ")[1].split()[0].rstrip(","))
        self.assertClose([found], [expected], relative=1e-6)

    def test_large_logits_neither_overflow_nor_lose_their_gradient(self):
        x = [[-1000.0, -100.0, 0.0, 0.0, 30.0, 1000.0, 1000.0, -1000.0]]
        t = [[0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]]
        for dtype, ranks in ("f32", 1), ("f64", 1), ("f64", 4):
            self.write("net.dsl", "net n { param x : %s[1, 8] = %s; const t : %s[1, 8] = %s; loss bce_with_logits(x, t, reduction = sum); }\n"
                       "train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }\n" % (dtype, literal(x), dtype, literal(t)))
            result = self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--print", "x")
            self.assertClose(self.losses(result), [sum(map(loss_of, x[0], t[0]))], relative=1e-6)
            numbers = result.out.split("x = [[")[1].split("]]")[0].replace("\n", " ").replace(",", " ").split()
            self.assertClose([float(number) for number in numbers], [a - (sigmoid(a) - b) for a, b in zip(x[0], t[0])], absolute=1e-4)

    def test_small_losses_keep_their_digits(self):
        """Where softplus(x) - x t would be 0 or noise. PyTorch 2.15's losses in f32, of those targets that it keeps the digits of."""
        torch = {(10.0, 1.0): 4.5398901420412585e-05, (17.0, 1.0): 4.139937459513021e-08, (30.0, 1.0): 9.357622912219837e-14, (60.0, 1.0): 8.75651089272076e-27,
                 (0.0, 0.25): 0.6931471824645996, (3.0, 0.75): 0.7985873222351074}
        for x, t in list(torch) + [(-10.0, 0.0), (-17.0, 0.0), (-60.0, 0.0)]:
            self.write("net.dsl", "net n { param x : f32[2] = [%r, %r]; const t : f32[2] = [%r, %r]; loss bce_with_logits(x, t); }\n"
                       "train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }\n" % (x, x, t, t))
            losses = self.losses(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2))
            self.assertClose(losses, [loss_of(x, t)], relative=1e-6)
            self.assertClose(losses, [torch.get((x, t), loss_of(x, t))], relative=1e-6)


if __name__ == "__main__":
    harness.main()
