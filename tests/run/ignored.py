#!/usr/bin/env python3
"""cross_entropy with ignore_index on files: labels that are ignored count neither in the loss of a batch, full or not, nor in an eval's loss and metrics, as in PyTorch and as a
Trainer's users compute metrics. The expected numbers are computed here in double precision."""
import json
import math
import random
import struct

import harness

ROWS, PLACES, WIDTH, CLASSES, IGNORED = 21, 5, 4, 7, -100

NET = """
net tagger(batch = 8) {
    input x     : f32[batch, 5, 4];
    input label : i32[batch, 5];
    param w     : f32[4, 7] = START;
    y = x @ w SHARD;
    loss LOSS;
}
train { data = raw(x = "x.bin", label = "label.bin"); optimizer = sgd(lr = 0.5); epochs = 1; last = LAST; log "{loss:.7f}"; }
eval { data = raw(x = "x.bin", label = "label.bin"); metrics = loss, accuracy, top5, f1(macro), perplexity, penalty; }
"""
MEAN = "cross_entropy(y, label, ignore_index = -100)"


def softmax(scores):
    most = max(scores)
    each = [math.exp(s - most) for s in scores]
    return [e / sum(each) for e in each]


class Ignored(harness.Case):
    def setUp(self):
        super().setUp()
        chance = random.Random(5)
        self.w = [[chance.gauss(0, 1) for _ in range(CLASSES)] for _ in range(WIDTH)]
        self.x = [[[chance.gauss(0, 1) for _ in range(WIDTH)] for _ in range(PLACES)] for _ in range(ROWS)]
        self.label = [[IGNORED if r == 3 or chance.random() < 0.4 else chance.randrange(CLASSES) for _ in range(PLACES)] for r in range(ROWS)]
        flat = lambda x: [n for each in x for n in flat(each)] if isinstance(x, list) else [x]
        for name, numbers, kind in ("x.bin", self.x, "f"), ("label.bin", self.label, "i"):
            numbers = flat(numbers)
            with open(self.path(name), "wb") as file:
                file.write(struct.pack("<%d%s" % (len(numbers), kind), *numbers))

    def counted(self, rows, w):
        """Of each label that counts: its place's operand, scores and class."""
        scores = lambda at: [sum(a * b for a, b in zip(at, column)) for column in zip(*w)]
        return [(at, scores(at), c) for r in rows for at, c in zip(self.x[r], self.label[r]) if c != IGNORED]

    def losses(self, penalty=0.0):
        """Of each step, and the parameters behind it: the mean over the labels of the batch that count."""
        w, found = [list(row) for row in self.w], []
        for begin in range(0, ROWS, 8):
            all = self.counted(range(begin, min(begin + 8, ROWS)), w)
            found.append(sum(-math.log(softmax(s)[c]) for _, s, c in all) / len(all) + penalty * sum(a * a for row in w for a in row))
            slope = [[2 * penalty * a for a in row] for row in w]
            for at, s, c in all:
                for k, p in enumerate(softmax(s)):
                    for d in range(WIDTH):
                        slope[d][k] += at[d] * (p - (k == c)) / len(all)
            w = [[a - 0.5 * g for a, g in zip(row, grads)] for row, grads in zip(w, slope)]
        return found

    def metrics(self):
        all = self.counted(range(ROWS), self.w)
        loss, n = sum(-math.log(softmax(s)[c]) for _, s, c in all) / len(all), len(all)
        best = [(max(range(CLASSES), key=lambda k: (s[k], -k)), c) for _, s, c in all]
        hits = [(sum(b == c == k for b, c in best), sum(b == k for b, _ in best) + sum(c == k for _, c in best)) for k in range(CLASSES)]
        return {"loss": loss, "accuracy": sum(b == c for b, c in best) / n, "top5": sum(sum(other > s[c] for other in s) < 5 for _, s, c in all) / n,
                "f1_macro": sum(2 * h / both if both else 0 for h, both in hits) / CLASSES}

    def plan(self, ranks, loss=MEAN + " + 0 * sum(square(w))", last="short", shard="", *words):
        text = NET.replace("LOSS", loss).replace("LAST", last).replace("SHARD", shard).replace("START", repr(self.w))
        self.ok(harness.run([harness.pcc, self.write("net.dsl", text), "--ranks", str(ranks), "-o", self.path("net.plan"), *words]))
        return self.path("net.plan")

    def evaluated(self, ranks):
        self.ok(self.local("net.plan", ranks, "--eval", "--metrics", "eval.jsonl"))
        return json.loads(self.read("eval.jsonl").decode().splitlines()[-1])

    def test_training_on_batches_that_are_not_full(self):
        for last in "short", "pad", "drop":
            for ranks, shard in (1, ""), (3, ""), (4, "shard ((2, 1, 1), (1, 1))"), (4, "shard ((1, 2, 1), (1, 2))"):
                with self.subTest(last=last, ranks=ranks, shard=shard):
                    self.plan(ranks, last=last, shard=shard)
                    losses = [float(line) for line in self.ok(self.local("net.plan", ranks)).out.splitlines() if line[:1].isdigit()]
                    self.assertClose(losses, self.losses()[:2 if last == "drop" else 3], relative=2e-6)

    def test_an_eval_counts_only_these_labels(self):
        expected = self.metrics()
        squares = sum(a * a for row in self.w for a in row)
        whole = sum(-math.log(softmax(s)[c]) for _, s, c in self.counted(range(ROWS), self.w))
        sums = MEAN.replace(")", ", reduction = sum)")
        for ranks in 1, 4:
            for loss, value, penalty in ((MEAN + " + 0.25 * sum(square(w))", expected["loss"] + 0.25 * squares, 0.25 * squares), ("0.5 * %s - 0 * sum(w)" % MEAN, expected["loss"] / 2, 0),
                                         (sums + " / batch + 0 * sum(w)", whole / ROWS, 0), ("mean(%s) + 0 * sum(w)" % sums.replace("sum", "none"), whole / ROWS / PLACES, 0)):
                with self.subTest(ranks=ranks, loss=loss):
                    self.plan(ranks, loss=loss)
                    found = self.evaluated(ranks)
                    for name, right in {**expected, "loss": value, "perplexity": math.exp(value), "penalty": penalty}.items():
                        self.assertAlmostEqual(found[name], right, delta=3e-6 * (1 + abs(right)), msg=name)

    def test_what_cannot_be_counted_so_is_refused(self):
        for loss, words in ((MEAN + " + mean(square(y))", "goes with no other mean over rows"), ("%s + %s" % (MEAN, MEAN.replace("y,", "2.0 * y,")), "goes with no other mean over rows")):
            text = NET.replace("LOSS", loss).replace("LAST", "drop").replace("SHARD", "").replace("START", repr(self.w)).replace(", penalty", "")
            self.assertFails(harness.run([harness.pcc, self.write("net.dsl", text), "-o", self.path("net.plan")]), 1, words)
        text = NET.replace("LOSS", MEAN).replace("LAST", "short").replace("SHARD", "").replace("START", repr(self.w)).replace(", penalty", "")
        self.assertFails(harness.run([harness.pcc, self.write("net.dsl", text), "--ranks", "2", "--mode", "data_parallel", "-o", self.path("net.plan")]), 1, "rows that only fill up a batch")
        parts = text.replace("last = short", "last = drop; micro_batches = 2")
        self.assertFails(harness.run([harness.pcc, self.write("net.dsl", parts), "-o", self.path("net.plan")]), 1, "a loss of parts of a batch is not the loss of the batch")

    def test_two_classes_have_an_area_without_the_ignored(self):
        chance = random.Random(9)
        scores, labels = [chance.random() for _ in range(17)], [chance.choice((0, 1, 1, -1)) for _ in range(17)]
        self.write("d.csv", "a,b,label\n" + "".join("0,%r,%d\n" % row for row in zip(scores, labels)))
        net = """net n(batch = 4) { input x : f32[batch, 2]; input label : i32[batch]; param w : f32[2] = ones;
            loss cross_entropy(x * w, label, ignore_index = -1); }
        train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); }
        eval { data = csv("d.csv"); metrics = loss, auc, precision, recall; }"""
        ones, zeros = ([s for s, c in zip(scores, labels) if c == k] for k in (1, 0))
        area = sum((a > b) + (a == b) / 2 for a in ones for b in zeros) / len(ones) / len(zeros)
        for ranks in 1, 2:
            self.ok(harness.run([harness.pcc, self.write("net.dsl", net), "--ranks", str(ranks), "-o", self.path("net.plan")]))
            found = self.evaluated(ranks)
            self.assertAlmostEqual(found["auc"], area, places=12)
            self.assertEqual((found["precision"], found["recall"]), (len(ones) / (len(ones) + len(zeros)), 1.0))


if __name__ == "__main__":
    harness.main()
