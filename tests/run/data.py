#!/usr/bin/env python3
"""Files of rows, end to end: which rank gets which rows, what rows weigh that only fill up a batch, how much each rank reads, and what is said of files
that are wrong. The expected rows are those of PyTorch's DistributedSampler, computed here from its source; the expected losses and parameters are those
of the rows themselves, in Python's doubles."""
import glob
import gzip
import math
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import unittest
import zlib

import harness
from harness import Case, npy


def words(seed):
    """MT19937's 32-bit words (Matsumoto and Nishimura 1998), as torch.manual_seed seeds it."""
    state = [seed & 0xffffffff]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xffffffff)
    while True:
        for k in range(624):
            y = (state[k] & 0x80000000) | (state[(k + 1) % 624] & 0x7fffffff)
            state[k] = state[(k + 397) % 624] ^ y >> 1 ^ (0x9908b0df if y & 1 else 0)
        for y in state:
            y ^= y >> 11
            y ^= y << 7 & 0x9d2c5680
            y ^= y << 15 & 0xefc60000
            yield y ^ y >> 18


def randperm(n, seed):
    """torch.randperm on a CPU (ATen, TensorFactories)."""
    order, word = list(range(n)), words(seed)
    for i in range(n - 1):
        other = i + next(word) % (n - i)
        order[i], order[other] = order[other], order[i]
    return order


class Data(Case):
    def test_numbers_of_either_byte_order_and_width_are_the_same(self):
        """What lies in the file as in memory is copied, the rest converted."""
        losses = set()
        for letter in "fd":
            for order in "<>":
                data = npy([i / 4 - 3 for i in range(24)], (4, 6), letter).replace(b"'<f", b"'" + order.encode() + b"f")
                at, size = data.index(b"\n") + 1, struct.calcsize(letter)
                body = data[at:] if order == "<" else b"".join(data[i:i + size][::-1] for i in range(at, len(data), size))
                self.write("x.npy", data[:at] + body)
                for of in "f32", "f64":
                    self.net("input x : %s[2, 6]; param w : %s[6] = uniform(-1, 1);" % (of, of), "sum(x * w)", 'data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1);')
                    losses.add((of, *self.ok(self.local(self.compile("net.dsl", "net.plan"), 1)).texts()))
        self.assertEqual(len(losses), 2, losses)

    def test_a_number_that_the_type_of_its_input_cannot_hold_is_said_with_its_place(self):
        for values, of, change, words in (("1e300", "f32", "", r"x\.csv:7:3: 1e\+300 is beyond f32, whose largest number is 3\.4e38: f64 would hold it, or `scale` makes it smaller"), ("-3.5e38", "f32", "", r"x\.csv:7:3: -3\.5e\+38 is beyond"),
                                          ("1e30", "f32", ", scale = 1e10", r"x\.csv:7:3: 1e\+30 becomes 1e\+40, which is beyond f32"), ("1e300", "f32", ", scale = 1e-290", None), ("3.4028235e38", "f32", "", None), ("inf", "f32", "", None), ("1e300", "f64", "", None)):
            self.write("x.csv", "a,b\n" + "1,2\n" * 5 + "1,%s\n" % values)
            plan = self.compile(self.net("input x : %s[2, 2]; param w : %s[2] = zeros;" % (of, of), "sum(x * w)", 'data = csv(x = csv("x.csv", column = 0%s)); optimizer = sgd(lr = 0.1); on_nan = go;' % change), "net.plan")
            result = self.local(plan, 1)
            if words is None:
                self.ok(result)
            else:
                self.assertFails(result, 3, "^prun: input x: " + words) if not change else self.assertRegex(result.err, "prun: .*input x: " + words)
        for value, words in ((1e39, r"x\.npy, row 5 \(from 0\), element 1: 1e\+39 is beyond f32"), (math.inf, None)):
            self.write("x.npy", npy([1.0] * 11 + [value], (6, 2), "d"))
            result = self.local(self.compile(self.net("input x : f32[2, 2]; param w : f32[2] = zeros;", "sum(x * w)", 'data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1); on_nan = go;'), "net.plan"), 1)
            self.assertEqual(result.code, 3 if words else 0, str(result))
            self.assertRegex(result.err, words or "the loss is infinite")

    def net(self, inputs, loss, train, parallel=""):
        self.write("net.dsl", "net s { %s loss %s; }\ntrain { %s }\n%s" % (inputs, loss, train, parallel and "parallel { %s }" % parallel))
        return "net.dsl"

    def both(self, plan, ranks, *options):
        """In one process and, where there is mpirun, in one a rank."""
        yield self.local(plan, ranks, *options)
        if harness.mpirun is not None:
            yield self.mpi(plan, ranks, *options)

    def test_each_rank_gets_the_rows_of_a_distributed_sampler(self):
        """Row i holds 2^i, so a rank's loss, their sum, says which rows it had; the vectors for 10 rows and seed 0 are PyTorch's."""
        self.assertEqual(randperm(10, 0), [4, 1, 7, 5, 3, 9, 0, 8, 6, 2])
        rows = 22
        self.write("x.npy", npy([2.0 ** i for i in range(rows)], (rows, 1), "d"))
        for ranks in 1, 2, 4, 8:
            for batch, last in ((1, "pad"), (2, "drop"), (2, "short")):
                plan = self.compile(self.net("input x : f64[%d, 1]; param w : f64[1] = ones;" % batch, "sum(x * w)",
                                             'data = npy(x = "x.npy"); order = shuffle(seed = 5); last = %s; epochs = 2; optimizer = sgd(lr = 1e-300);' % last,
                                             "mode = data_parallel; gradients = sum;"), "net.plan", "--ranks", ranks)
                expected = []
                for epoch in range(2):
                    order = randperm(rows, 5 + epoch)
                    steps = rows // (ranks * batch) if last == "drop" else -(-rows // (ranks * batch))
                    for step in range(steps):
                        for rank in range(ranks):
                            own = range(rank, -(-rows // ranks) * ranks, ranks)[step * batch:(step + 1) * batch]
                            expected.append(float(sum(2 ** order[place] for place in own if place < rows)))
                for result in self.both(plan, ranks):
                    self.assertEqual([float(loss) for loss in re.findall(r"loss is (\S+)", self.ok(result).out)], expected, str(result))

    def test_shares_of_an_epoch_are_made_equal_as_a_distributed_sampler_does(self):
        """Rows as above: with pad the first rows come again and count, with drop the last are left out, with join each counts once; means are over the rows that are there."""
        rows, batch = 22, 2
        self.write("x.npy", npy([2.0 ** i for i in range(rows)], (rows, 1), "d"))
        source = lambda uneven: 'data = npy(x = "x.npy"); order = shuffle(seed = 5); uneven = %s; optimizer = sgd(lr = 1e-300);' % uneven
        for ranks in 1, 4, 8:
            for uneven in "pad", "drop", "join":
                net = self.net("input x : f64[%d, 1]; param w : f64[1] = ones;" % batch, "mean(x * w)", source(uneven), "mode = data_parallel;")
                order = randperm(rows, 5)
                if uneven == "pad":
                    order += order[:-rows % ranks]
                if uneven == "drop":
                    order = order[:rows - rows % ranks]
                means = []
                for begin in range(0, len(order), ranks * batch):
                    own = order[begin:begin + ranks * batch]
                    means.append(sum(2.0 ** row for row in own) / len(own))
                printed = [float(loss) for loss in re.findall(r"loss is (\S+)", self.ok(self.local(self.compile(net, "net.plan", "--ranks", ranks), ranks)).out)]
                self.assertClose([sum(printed[i:i + ranks]) / ranks for i in range(0, len(printed), ranks)], means, 1e-12, what="%d ranks, %s" % (ranks, uneven))
        self.write("x.npy", npy([1.0] * 7, (7, 1), "d"))
        plan = self.compile(self.net("input x : f64[1, 1]; param w : f64[1] = ones;", "mean(x * w)", source("drop"), "mode = data_parallel;"), "net.plan", "--ranks", 8)
        self.assertFails(self.local(plan, 8), 3, "x.npy has 7 rows, and 8 shares of a batch: `uneven = drop;` leaves none of them")
        whole = self.compile(self.net("input x : f64[2, 1]; param w : f64[1, 2] = ones;", "mean(matmul(x, w))", source("pad"), "dataset = full_batch;"), "whole.plan", "--ranks", 2)
        self.assertIn("uneven = pad changes nothing: no ranks share a batch", self.ok(self.local(whole, 2)).err)

    def test_rows_that_fill_up_weigh_nothing(self):
        """Losses and parameters after two epochs are those of the real rows, however batch or contraction are split."""
        rows, width, pick = 10, 3, random.Random(1)
        x = [[pick.uniform(-1, 1) for _ in range(width)] for _ in range(rows)]
        y = [pick.uniform(-1, 1) for _ in range(rows)]
        self.write("x.npy", npy(sum(x, []), (rows, width), "d"))
        self.write("y.npy", npy(y, (rows, 1), "d"))

        def trained(batch, last, reduction, scale):
            w, losses = [0.5] * width, []
            for epoch in range(2):
                order = randperm(rows, 3 + epoch)
                for begin in range(0, rows if last != "drop" else rows - rows % batch, batch):
                    own = order[begin:begin + batch]
                    count = (1 if reduction == "sum" else batch if last == "pad" else len(own)) / scale
                    off = [sum(a * b for a, b in zip(x[row], w)) - y[row] for row in own]
                    losses.append(sum(d * d for d in off) / count)
                    gradient = [sum(2 * d * x[row][k] for d, row in zip(off, own)) / count for k in range(width)]
                    w = [a - 0.1 * b for a, b in zip(w, gradient)]
            return losses, w

        for ranks, mode, shard in ((1, "semi_auto", ""), (4, "semi_auto", ""), (3, "semi_auto", "shard ((1, 3), (3, 1))"), (2, "data_parallel", ""), (4, "auto", "")):
            for last in "drop", "pad", "short":
                for reduction in "mean", "sum":
                    own = 3 if mode == "data_parallel" else 6
                    plan = self.compile(self.net("input x : f64[%d, 3]; input y : f64[%d, 1]; param w : f64[3, 1] = [[0.5], [0.5], [0.5]]; p = matmul(x, w) %s;" %
                                                 (own, own, shard), "mse(p, y, reduction = %s)" % reduction,
                                                 'data = npy(x = "x.npy", y = "y.npy"); order = shuffle(seed = 3); last = %s; epochs = 2; optimizer = sgd(lr = 0.1);' % last,
                                                 "mode = %s;" % mode), "net.plan", "--ranks", ranks)
                    result = self.ok(self.local(plan, ranks, "--save", self.path("w")))
                    scale = 1 / ranks if mode == "data_parallel" and reduction == "sum" else 1  # gradients = mean
                    losses, w = trained(6, last, reduction, scale)
                    printed = [float(loss) for loss in re.findall(r"loss is (\S+)", result.out)]
                    if mode == "data_parallel":
                        printed = [sum(printed[i:i + ranks]) / ranks for i in range(0, len(printed), ranks)]
                    what = "%d ranks, %s, %s, %s" % (ranks, mode, last, reduction)
                    self.assertClose(printed, losses, 1e-12, 1e-12, what)
                    self.assertClose(struct.unpack("<3d", self.read("w")[-24:]), w, 1e-12, 1e-12, what)

    def test_rows_that_fill_up_weigh_nothing_in_any_term_of_a_loss(self):
        """A mean, a sum, and a penalty that no row takes part in: 2 mean((p - y)^2) - sum(p) / 4 + 0.1 mean(w^2)."""
        rows, width, batch, pick = 16, 3, 6, random.Random(5)
        x = [[pick.uniform(-1, 1) for _ in range(width)] for _ in range(rows)]
        y = [pick.uniform(-1, 1) for _ in range(rows)]
        self.write("x.npy", npy([v for row in x for v in row], (rows, width), "d"))
        self.write("y.npy", npy(y, (rows, 1), "d"))

        def trained(last, ranks_that_sum, mean_too):
            w, losses = [0.5] * width, []
            for _ in range(2):
                for begin in range(0, rows, batch):
                    own = range(begin, min(begin + batch, rows))
                    count = len(own) if last == "short" else batch
                    p = [sum(a * b for a, b in zip(x[row], w)) for row in own]
                    off = [a - y[row] for a, row in zip(p, own)]
                    mean = 2 * mean_too / count
                    losses.append(mean * sum(d * d for d in off) - 0.25 * sum(p) / ranks_that_sum + 0.1 * sum(v * v for v in w) / width)
                    gradient = [sum((mean * 2 * d - 0.25 / ranks_that_sum) * x[row][k] for d, row in zip(off, own)) + 0.2 * w[k] / width for k in range(width)]
                    w = [a - 0.1 * b for a, b in zip(w, gradient)]
            return losses, w

        for ranks, mode, shard in ((1, "semi_auto", ""), (4, "semi_auto", ""), (3, "semi_auto", "shard ((1, 3), (3, 1))"), (2, "data_parallel", "")):
            for last in "pad", "short":
                for term in "mse(p, y) * 2", "sum(square(p - y)) / batch * 2", "-2 * (-mse(p, y))", "":
                    own = batch // 2 if mode == "data_parallel" else batch
                    self.write("net.dsl", """net s(batch = %d) { input x : f64[batch, 3]; input y : f64[batch, 1]; param w : f64[3, 1] = [[0.5], [0.5], [0.5]];
                        p = matmul(x, w) %s; loss %s - 0.25 * sum(p) + 0.1 * mean(square(w)); }
                        train { data = npy(x = "x.npy", y = "y.npy"); last = %s; epochs = 2; optimizer = sgd(lr = 0.1); }
                        parallel { mode = %s; }""" % (own, shard, term, last, mode))
                    result = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--save", self.path("w")))
                    replicas = ranks if mode == "data_parallel" else 1
                    losses, w = trained(last, replicas, term != "")
                    printed = [float(loss) for loss in re.findall(r"loss is (\S+)", result.out)]
                    printed = [sum(printed[i:i + replicas]) / replicas for i in range(0, len(printed), replicas)]
                    what = "%d ranks, %s, %s, %s" % (ranks, mode, last, term)
                    self.assertClose(printed, losses, 1e-12, 1e-12, what)
                    self.assertClose(struct.unpack("<3d", self.read("w")[-24:]), w, 1e-12, 1e-12, what)

    def test_an_input_of_another_number_of_rows_or_of_none_is_the_same_on_any_number_of_ranks(self):
        seen = set()
        for ranks in 1, 2, 4:
            plan = self.compile(self.net("input x : f64[2, 2]; input s : f64[]; input t : f64[5]; param w : f64[2] = ones;", "sum(x * w) * s + sum(t)",
                                         "data = normal(seed = 3); steps = 3; optimizer = sgd(lr = 1e-300);"), "net.plan", "--ranks", ranks)
            for result in self.both(plan, ranks):
                seen.add(tuple(round(loss, 9) for loss in self.ok(result).losses()))
        self.assertEqual(len(seen), 1, seen)
        self.assertEqual(len(set(seen.pop())), 3, "every step has numbers of its own")


    def regression(self, data, more="", parallel="", batch=8, width=4, extra="", label="y"):
        return self.net("input x : f32[%d, %d]; input y : f32[%d, 1]; %s param w : f32[%d, 1] = ones;" % (batch, width, batch, extra, width), "mse(matmul(x, w), %s)" % label,
                        "data = %s; optimizer = sgd(lr = 1e-6); %s" % (data, more), parallel)

    def files(self, rows=64, width=4):
        self.write("x.npy", npy([i / 100 for i in range(rows * width)], (rows, width), "f"))
        self.write("y.npy", npy([i % 7 for i in range(rows)], (rows, 1), "f"))

    def test_a_rank_reads_its_rows_and_its_columns_alone(self):
        """Measured by the data source; two epochs of 64 rows of 16 + 4 bytes."""
        self.files()
        both = 'npy(x = "x.npy", y = "y.npy")'
        for ranks, parallel, each in ((4, "mode = semi_auto;", 64 // 4 * 20), (8, "mode = semi_auto;", 64 // 8 * 20),
                                      (4, "dataset = full_batch;", 64 * 20),
                                      (4, "mode = semi_auto; mesh (dp = 2, tp = 2); dataset = ((dp, tp), (dp, -));", 64 // 2 * (8 + 4))):
            plan = self.compile(self.regression(both, "epochs = 2; order = shuffle(seed = 1);", parallel), "net.plan", "--ranks", ranks)
            self.assertIn("read from files of rows, for all ranks: %d bytes" % (2 * each * ranks), self.ok(self.local(plan, ranks, "-v")).out)
            result = self.ok(self.mpi(plan, ranks, "-v"))
            self.assertIn("read from files of rows: %d bytes by the rank that reads most, %d by the one that reads least" % (2 * each, 2 * each), result.out)

    def test_columns_by_name_and_a_bad_row_of_the_eval_before_training(self):
        self.write("t.tsv", 'id\t"the price"\tage\tlabel\n' + "".join('%d\t"%.2f"\t%d\t%d\n' % (r, r / 7, r % 5, r % 3) for r in range(24)))
        body = """net n(batch = 4) {
            input x : f32[batch, 1]; input z : f32[batch, 2];
            param w : f32[2, 1] = ones;
            loss mse(matmul(z, w), x);
        }
        train { data = csv(x = csv("t.tsv", column = "the price"), z = csv("t.tsv", column = %s)); optimizer = sgd(lr = 0.0); }
        eval { data = csv(x = csv("e.tsv", column = 1), z = csv("e.tsv", column = 2)); every = end; }"""
        self.write("e.tsv", self.read("t.tsv"))
        found = []
        for column in ('"age"', "2", "-2"):
            plan = self.compile(self.write("net.dsl", body % column), "net.plan", "--ranks", 2)
            found.append(self.ok(self.local(plan, 2)).out.split("time per")[0])
        self.assertEqual(len(set(found)), 1)
        self.assertAlmostEqual(float(found[0].splitlines()[0].split()[-1]), sum((r / 7 - r % 5 - r % 3) ** 2 for r in range(4)) / 4, delta=0.02)
        self.write("e.tsv", self.read("t.tsv").replace(b"\t4\t2\n", b"\t4\ttwo\n", 1))
        self.assertFails(self.local(plan, 2), 3, r"^prun: input z: \S*e\.tsv:16:\d+: 'two' is no number \(column 3 'label'\)\n$")

    REVIEWS = 'label,review\n' + "pos,the cat\nneg,\"a \"\"cat\"\", the\"\npos,\nneg,the the cat a\nNA,cat\npos,a\n"

    def reviews(self, settings, label='classes = ["neg", "pos"], missing = drop'):
        text = 'csv("r.csv", column = "review", %s tokens = wordpiece("vocab.txt")%%s)' % settings
        self.write("vocab.txt", "".join(token + "\n" for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", '"', ",", "a")))
        return self.net("input t : i32[2, 6]; input s : f32[2, 6]; input k : i32[2, 6]; input y : i32[2]; param w : f32[9, 1] = [[1], [10], [100], [1000], [4], [5], [6], [7], [8]];",
                        "sum(reshape(embedding(w, t), shape = [2, 6]) * s * (1 - cast(k, to = f32))) + 100000 * sum(cast(y, to = f32))",
                        "data = files(t = %s, s = %s, k = %s, y = csv(\"r.csv\", column = \"label\", %s)); optimizer = sgd(lr = 1e-300);"
                        % (text % "", text % ", give = mask", text % ", give = types", label), "mode = semi_auto;")

    def test_texts_are_tokens_labels_have_names_and_rows_without_a_field_are_left_out(self):
        self.write("r.csv", self.REVIEWS)
        # Rows 0 and 1, then 3 and 5; [CLS] .. [SEP] is 1100, and what is behind the sixth place is cut off.
        first, second = (1100 + 4 + 5) + (1100 + 8 + 6 + 5 + 6) + 100000, (1100 + 4 + 4 + 5 + 8) + (1100 + 8) + 100000
        for ranks in 1, 2:
            plan = self.compile(self.reviews("missing = drop,"), "net.plan", "--ranks", ranks)
            for result in self.both(plan, ranks):
                self.assertEqual(self.ok(result).losses(), [first, second])
                self.assertEqual(re.findall("prun: note: train: .*", result.err), ["prun: note: train: r.csv: 2 of 6 rows are left out: a field is missing"])

    def test_a_text_that_is_missing_or_broken_and_a_label_without_a_name_are_said(self):
        for old, new, settings, label, words in (("", "", "", "classes = [\"neg\", \"pos\"]", r"r\.csv:4:5: column 1 'review' has no text"),
                                                 ("NA,cat", "pos,cat", "missing = drop,", "missing = drop", r"r\.csv:2:1: 'pos' is no number \(column 0 'label'\)"),
                                                 ("", "", "missing = drop,", 'missing = drop, classes = ["pos"]', r"r\.csv:3:1: 'neg' is none of the classes \(column 0 'label'\), which are pos"),
                                                 ("", "", "missing = drop,", 'missing = 1, classes = ["neg", "pos"]', "r.csv has 6 rows, and r.csv of input t has 4: one leaves rows out, `missing = drop` must be said of both"),
                                                 ("", "", "missing = drop,", 'missing = drop, classes = ["neg", "pos"]', r"r\.csv:2:5: token 2 is 5, and it must be in 0 \.\. 4")):
            self.write("r.csv", self.REVIEWS.replace(old, new, 1))
            net = self.reviews(settings, label)
            if "token" in words:  # a table of fewer rows than the vocabulary
                self.write(net, harness.edited(self.path(net), ("f32[9, 1]", "f32[5, 1]"), (", [4], [5], [6], [7], [8]]", ", [4]]")))
            self.assertFails(self.local(self.compile(net, "net.plan"), 1), 3, words)
        self.write("r.csv", self.REVIEWS.encode().replace(b'""cat""', b'""c\xffat""'))
        self.assertFails(self.local(self.compile(self.reviews("missing = drop,"), "net.plan"), 1), 3, r"r\.csv:3:11: the text is not UTF-8")
        self.write("vocab.txt", "[PAD]\n")
        self.write("r.csv", self.REVIEWS)
        plan = self.compile(self.reviews("missing = drop,"), "net.plan")
        self.write("vocab.txt", "[PAD]\n")
        self.assertFails(self.local(plan, 1), 3, r"vocab\.txt: no line is \[UNK\]")

    def test_what_can_be_no_name_of_a_class_is_said_with_its_place(self):
        plan = self.compile(self.reviews("missing = drop,", "classes = found, missing = drop"), "net.plan")
        for name, words in ((b"ne\xffg", r"r\.csv:5:1: the name of a class is not UTF-8"), (b'"ne\ng"', r"r\.csv:5:2: the name of a class goes over two lines: it is of one"),
                            (b"n" * 256, r"r\.csv:5:1: too long for the name of a class")):
            self.write("r.csv", self.REVIEWS.encode().replace(b"\nneg,the the", b"\n" + name + b",the the"))
            self.assertFails(self.local(plan, 1), 3, "^prun: input y: " + words + "\n$")

    def test_nothing_is_written_over_a_net_its_data_or_a_vocabulary(self):
        self.write("r.csv", self.REVIEWS)
        self.write("part.dsl", "let one = 1;")
        net = self.reviews("missing = drop,")
        self.write(net, 'import "part.dsl";\n' + self.read(net).decode().replace("1e-300);", "1e-300); checkpoint every epoch;"))
        plan = self.compile(net, "net.plan")
        self.ok(self.local(plan, 1))
        before = {name: self.read(name) for name in os.listdir(self.folder) if "." in name and not os.path.isdir(self.path(name))}
        for name, what in (("net.dsl", "the net"), ("part.dsl", "a file of the net"), ("r.csv", "the data of t"), ("vocab.txt", "the vocabulary of t"), ("net.plan", "the plan")):
            said = "%s would overwrite %s (" % (name, what)
            for option in "--metrics", "--trace", "--report", "--save":
                self.assertFails(harness.run([harness.prun, "--overwrite", option, name, "net.plan"], cwd=self.folder), 2, "^prun: %s " % option + re.escape(said))
            self.assertFails(harness.run([harness.prun, "--export", self.path(name), plan], cwd="/"), 2, r"^prun: --export \S*/" + re.escape(said))
        self.assertFails(harness.run([harness.pcc, "-o", "vocab.txt", net], cwd=self.folder), 2, re.escape("-o vocab.txt would overwrite the vocabulary of t (vocab.txt)"))
        self.assertEqual({name: self.read(name) for name in before}, before)
        self.ok(harness.run([harness.prun, "--export", self.path("w"), plan], cwd="/"))

    def test_texts_are_bytes_or_characters_of_an_alphabet(self):
        self.write("r.csv", "t,n\nab,1\n\"a'\u00e9b\",2\n")
        self.write("e.csv", 't,n\n"b\\ \n\t""",1\nx,2\n')
        self.write("net.dsl", r"""net n(batch = 2) { input t : i32[batch, 6]; param w : f32[1] = ones; y = cast(t, to = f32) * 1; loss mean(w) + 0 * mean(y); }
            train { data = csv(t = csv("\x65.csv", column = 0, tokens = characters("x\n\t\"\\\x62 "))); optimizer = sgd(lr = 1); steps = 1; } eval { every = never; predict = y; data = csv(t = csv("e.csv", column = 0, tokens = characters("x\n\t\"\\\x62 "))); }""")
        self.ok(self.local(self.compile("net.dsl", "net.plan"), 1, "--predict", self.path("y.npy")))
        self.assertEqual(struct.unpack("<12f", self.read("y.npy")[128:]), (5, 4, 6, 1, 2, 3, 0, 7, 7, 7, 7, 7))
        for tokens, padding, rows in (("bytes", 0, [list(b"ab"), list("a'\u00e9b".encode())[:4]]), ('characters("ab\u00e9\'c")', 5, [[0, 1], [0, 3, 2, 1]])):
            self.write("net.dsl", """net n(batch = 2) { input t : i32[batch, 4]; input s : f32[batch, 4]; param w : f32[1] = ones; y = cast(t, to = f32) * 2 + s; loss mean(w) + 0 * mean(y); }
                train { data = DATA; optimizer = sgd(lr = 1); }
                eval { every = never; predict = y; data = DATA; }""".replace("DATA", 'files(t = csv("r.csv", tokens = %s), s = csv("r.csv", tokens = %s, give = mask))' % (tokens, tokens)))
            for ranks in 1, 2:
                self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--predict", self.path("y.npy")))
                expected = [2 * number + there for row in rows for number, there in [(id, 1) for id in row] + [(padding, 0)] * (4 - len(row))]
                self.assertEqual(list(struct.unpack("<8f", self.read("y.npy")[128:])), expected)
        for text, words in (("t,n\nab,1\nabx,2\n", r"r\.csv:3:3: 'x' \(U\+0078\) is not in the alphabet"), (b"t,n\nab,1\na\xc3,2\n", r"r\.csv:3:2: the text is not UTF-8"), ('t,n\nab,1\n"a"b,2\n', r"r\.csv:3:2: 'a' is a field in quotes with more behind it")):
            self.write("r.csv", text)
            self.assertFails(self.local(self.path("net.plan"), 2, "--predict", self.path("y.npy")), 3, words)
        self.write("net.dsl", 'net n(batch = 2) { input t : i32[batch, 4]; param w : f32[1] = ones; loss mean(w) + 0 * mean(cast(t, to = f32)); }\ntrain { data = csv("r.csv", tokens = characters("abé\'éc")); optimizer = sgd(lr = 1); }')
        self.assertFails(harness.run([harness.pcc, self.path("net.dsl"), "-o", self.path("net.plan")]), 1, r"net\.dsl:2:\d+: error: the alphabet has 'é' twice")

    def test_how_far_a_file_is_read_that_takes_long_is_said_before_the_first_step_alone(self):
        """Words of a hundred pieces, each found behind all longer ones; where rows may be left out one thread reads."""
        self.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##a\n")
        for rows in 2, 80000:
            self.write("r.csv", "text,n\n" + ("a" * 100 + ",1\n") * rows)
            self.write("net.dsl", """net n { input t : i32[%d, 4]; param w : f32[1] = ones; loss mean(cast(t, to = f32) * w); }
                train { data = csv(t = csv("r.csv", column = "text", missing = drop, tokens = wordpiece("vocab.txt"))); optimizer = sgd(lr = 1e-9); epochs = 2; }""" % rows)
            said = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2)).err
            self.assertRegex(said, r"^(prun: note: input t: reading r\.csv: \d+ % of 8\.2 MB in \d+ s\n)+$" if rows > 2 else "^$")

    def test_a_text_that_several_inputs_read_is_tokenized_once(self):
        """What prun has read of the file is its size once, for the rows and their tokens."""
        self.write("r.csv", self.REVIEWS)
        size = len(self.REVIEWS)
        plan = self.compile(self.reviews("missing = drop,"), "net.plan")
        # Texts, and the labels beside them.
        self.assertIn("read from files of rows, for all ranks: %d bytes" % (2 * size), self.ok(self.local(plan, 1, "-v")).out)

    def test_a_number_stands_for_a_missing_field(self):
        self.write("x.csv", "a,b\n1,2\n,4\n5,nan\n7,8\n")
        plan = self.compile(self.net("input x : f64[4, 2]; param w : f64[2] = ones;", "sum(x * w)", 'data = csv(x = csv("x.csv", missing = 0.5)); optimizer = sgd(lr = 1e-300);'), "net.plan")
        self.assertEqual(self.ok(self.local(plan, 1)).losses(), [1 + 2 + 0.5 + 4 + 5 + 0.5 + 7 + 8])

    def test_tokens_of_chinese_reviews_are_berts(self):
        """The checksums that Hugging Face's tokenizer gives; where the files are (../shared/data/text beside the sources)."""
        folder = os.environ.get("PCC_TEXT") or os.path.join(harness.sources, "..", "shared", "data", "text")
        if not os.path.isdir(folder):
            self.skipTest("no such files")
        for lowercase, crc in ("false", 0x9e8a38f2), ("true", 0x662b909c):
            self.write("net.dsl", """net n(batch = 32) { input t : i32[batch, 128]; param w : f32[1] = ones; ids = t * 1; loss mean(w) + 0 * mean(cast(ids, to = f32)); }
                train { data = DATA; optimizer = sgd(lr = 1); steps = 1; }
                eval { every = never; predict = ids; batch = 64; data = DATA; }""".replace("DATA", """csv(t = csv("%s/ChnSentiCorp_htl_all.csv", column = "review", missing = drop,
                    tokens = wordpiece("%s/bert-base-chinese-vocab.txt", lowercase = %s)))""" % (folder, folder, lowercase)))
            self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2, "--predict", self.path("ids.npy")))
            self.assertEqual(zlib.crc32(self.read("ids.npy")[-7765 * 128 * 4:]), crc)

    def test_rows_are_split_alike_on_all_ranks_and_an_eval_has_the_rest(self):
        rows, seen = 25, set()
        self.write("x.csv", "".join("%d\n" % (1 << i) for i in range(rows)))
        for ranks in 1, 2, 3:
            for order in "", "order = shuffle(seed = 3);":
                self.write("net.dsl", """net n(batch = 6) { input x : f64[batch, 1]; param w : f64[1] = ones; loss sum(x * w); }
                    train { data = csv("x.csv"); rows = split(0.7, 0.3, seed = 5); %s last = pad; optimizer = sgd(lr = 1e-300); }
                    eval { every = end; batch = 4; predict = x; }""" % order)
                plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
                for result in self.both(plan, ranks):
                    losses = self.ok(result).losses()
                    held = re.search(r"eval: loss is (\S+) \((\d+) rows\)", result.out)
                    self.assertEqual((len(losses), int(held.group(2))), (3, 7))
                    # Each row is a bit: all of them are in one part, once.
                    total = round(sum(losses)) + round(float(held.group(1)) * 7)
                    self.assertEqual(total, (1 << rows) - 1)
                    seen.add((order, round(sum(losses))))
                if not order:
                    seen.add((order, round(sum(losses))))
        self.assertEqual(len(seen), 2, "the same rows on any ranks")
        for settings, words in (("rows = split(0.7, 0.2);", "the shares of a split sum to 1, and these to 0.9"), ("rows = split(1.0);", "a share of the rows is above 0 and below 1, not 1.0"),
                                ("rows = split(test = 1.0);", "test, a share of the rows, is above 0 and below 1, not 1.0"), ("rows = split(test = 0, seed = 1);", "is above 0 and below 1, not 0"), ("rows = split(0.5, 0.5, part = 2);", "a split of 2 parts has none with the number 2"),
                                ("rows = split(test = 0.1, size = 3);", "split has no argument 'size'"), ("rows = shuffle(seed = 1);", "rows are shared out by a split")):
            self.write("net.dsl", """net n(batch = 6) { input x : f64[batch, 1]; param w : f64[1] = ones; loss sum(x * w); }
                train { data = csv("x.csv"); %s optimizer = sgd(lr = 1e-300); }""" % settings)
            self.assertFails(harness.run(harness.compiling(self.path("net.dsl"), "-o", self.path("net.plan"))), 1, words)
        self.write("net.dsl", """net n(batch = 6) { input x : f64[batch, 1]; param w : f64[1] = ones; loss sum(x * w); }
            train { data = csv("x.csv"); rows = split(0.9, 0.1); optimizer = sgd(lr = 1e-300); }""")
        self.write("x.csv", "1\n2\n3\n")
        self.assertFails(self.local(self.compile("net.dsl", "net.plan"), 1), 3, r"x.csv's part of the split has 3 rows, and a batch takes 6")
        self.write("net.dsl", harness.edited(self.path("net.dsl"), ("rows =", "last = pad; rows =")) + "eval { metrics = loss; }")
        self.assertFails(self.local(self.compile("net.dsl", "net.plan"), 1), 3, r"x.csv has 3 rows, and part 1 of the split \(from 0\) none of them")

    def test_noise_beside_files_is_of_the_row_and_the_epoch(self):
        """On any ranks the same, in another order too; each epoch has others, an eval always the same."""
        self.write("x.npy", harness.npy(range(43), (43, 1), "f"))
        net = """net n(batch = 8) { input x : f32[batch, 1]; input z : f32[batch, 2]; input k : i32[batch]; param t : f32[5, 2] = ones; loss mean(z * x * 0.1) + 0.0 * mean(embedding(t, k)); y = z + 0 * embedding(t, k) + 0 * x; }
            train { data = files(x = npy("x.npy"), z = normal(seed = 1), k = uniform(seed = 2)); %s optimizer = sgd(lr = 0.1); epochs = 2; last = short; checkpoint every epoch; }
            eval { every = never; data = files(x = npy("x.npy"), z = normal(seed = 1), k = uniform(seed = 2)); predict = y; }"""
        sums, found = [], []
        for ranks, order in (1, ""), (3, ""), (1, "order = shuffle(seed = 5);"), (3, "order = shuffle(seed = 5);"):
            self.write("net.dsl", net % order)
            plan = self.compile("net.dsl", "net%d.plan" % ranks, "--ranks", ranks)
            losses = self.ok(self.local(plan, ranks, "--overwrite")).losses()
            sums.append([sum(loss * (8 if i < 5 else 3) for i, loss in enumerate(losses[at:at + 6])) for at in (0, 6)])
            self.assertClose(sums[-1], sums[0], absolute=1e-4, what="the same rows in any order")
            at = os.path.join(plan + ".checkpoints", "step-000000006.safetensors")
            self.assertEqual(self.ok(self.local(plan, ranks, "--resume", at, "--checkpoint-dir", self.path("other%d%s" % (ranks, order[:5])))).losses(), losses[6:])
            self.ok(self.local(plan, ranks, "--predict", self.path("y.npy")))
            found.append(self.read("y.npy"))
        self.assertEqual(found[1:], found[:1] * 3)
        self.assertGreater(abs(sums[0][0] - sums[0][1]), 1e-2, "another epoch has other noise")
        drawn = struct.unpack("<86f", found[0][-86 * 4:])
        self.assertLess(abs(sum(drawn)) / 86, 0.4)
        self.assertLess(abs(sum(number * number for number in drawn) / 86 - 1), 0.5)
        self.assertEqual(len(set(drawn)), 86)
        self.write("none.dsl", (net % "").replace('npy("x.npy")', "normal(seed = 3)"))
        self.assertFails(harness.run(harness.compiling(self.path("none.dsl"), "-o", self.path("none.plan"))), 1, "no input is of a file, which would say how many rows there are")

    def test_what_is_wrong_with_a_file_is_said_once(self):
        """However many ranks read it, and when in training they come to it."""
        self.files()
        packed = gzip.compress(self.read("y.npy"))
        self.write("cut.gz", packed[:-12])
        self.write("sum.gz", packed[:-6] + bytes([packed[-6] ^ 0x40]) + packed[-5:])
        self.write("word.csv", "".join("%d\n" % i for i in range(60)) + "oops\n1\n2\n3\n")
        self.write("short.npy", npy([0.0] * 63, (63, 1), "f"))
        for y, words in (('npy("cut.gz")', "cut.gz: the gzip data ends early: the file is cut off$"),
                         ('npy("sum.gz")', r"sum.gz: the gzip data is damaged \(incorrect data check\)$"),
                         ('csv("word.csv")', r"word.csv:61:1: 'oops' is no number \(column 0\)$"),
                         ('npy("no.npy")', "no.npy: No such file or directory$"),
                         ('npy("short.npy")', "input y: short.npy has 63 rows, and x.npy of input x has 64$")):
            plan = self.compile(self.regression('files(x = npy("x.npy"), y = %s)' % y), "net.plan", "--ranks", 4)
            for result in self.both(plan, 4):
                self.assertFails(result, 3, "(?m)" + words)
        # Rows of the third step, which all four ranks read: of a file that is unpacked on the way; of any other it is found before the first step.
        numbers = npy([1] * 20 + [1 << 40] * 44, (64,), "q")
        self.write("z.npy", gzip.compress(numbers))
        plan = self.compile(self.regression('npy(x = "x.npy", y = "y.npy", z = "z.npy")', "log_every = 100;", "dataset = full_batch;", extra="input z : i32[8];",
                                            label="y + reshape(cast(z, to = f32), shape = [8, 1])"),
                            "net.plan", "--ranks", 4)
        for result in self.both(plan, 4):
            self.assertEqual(result.code, 3, str(result))
            self.assertEqual(len(re.findall("prun: in step \\d of epoch 1: input z: z.npy: row 20 holds 1.09951e\\+12, which is no i32", result.err)), 1, str(result))
        self.write("z.npy", numbers)
        for result in self.both(plan, 4):
            self.assertEqual(result.code, 3, str(result))
            self.assertEqual(len(re.findall("prun: input z: z.npy: row 20 holds 1.09951e\\+12, which is no i32", result.err)), 1, str(result))
            self.assertNotIn("in step", result.err)

    def test_rows_that_do_not_fit_into_memory_are_said_before_they_are_read(self):
        """4 thousand million rows of 256 bytes: the file is long enough to hold them compressed, and mostly a hole."""
        packed = gzip.compress(struct.pack(">HBBII", 0, 8, 2, 0xffffffff, 256))
        with open(self.path("x.gz"), "wb") as file:
            file.write(packed)
            file.truncate(1 << 31)
        plan = self.compile(self.net("input x : f32[64, 256]; param w : f32[256, 1] = ones;", "mean(matmul(x, w))",
                                     'data = idx(x = "x.gz"); optimizer = sgd(lr = 1e-6);'), "net.plan", "--ranks", 2)
        for result in self.both(plan, 2):
            self.assertFails(result, 3, r"(?m)^prun: not enough memory on \S+: \d process(es)? with [\d.]+ MiB each, of them [\d.]+ for the rows of an epoch, most of them of "
                             r"x.gz, [\d.]+ MiB were free: gzip and CSV are held, .npy or raw files are read where a row stands$")

    def test_raw_files_hold_elements_of_the_inputs_type(self):
        """Without `type =`: bytes of a bool, whole numbers of an integer, f32 and f64 as they are."""
        for dtype, letter, numbers in (("bool", "B", [1, 0, 1, 1]), ("i32", "i", [1, -2, 1 << 20, 7]), ("i64", "q", [1, -2, 1 << 40, 7]),
                                       ("f32", "f", [1.5, -2, 0.25, 7]), ("f64", "d", [1.5, -2, 0.1, 7])):
            self.write("x.bin", struct.pack("<4%s" % letter, *numbers))
            plan = self.compile(self.net("input x : %s[1, 2]; param w : f64[2] = ones;" % dtype, "sum(cast(x, to = f64) * w)" if dtype != "f64" else "sum(x * w)",
                                         'data = raw(x = "x.bin"); optimizer = sgd(lr = 1e-300);'), "net.plan", "--ranks", 1)
            self.assertEqual(self.ok(self.local(plan, 1)).losses(), [sum(numbers[:2]), sum(numbers[2:])], dtype)

    def test_every_damaged_file_ends_with_one_line(self):
        """What the fuzzers begin with, in prun itself, with little memory; a sanitizer's own tables need more."""
        with open(harness.prun, "rb") as file:
            sanitized = b"__asan_init" in file.read()

        def limit():
            if not sanitized:
                resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        train = 'optimizer = momentum(lr = 1e-300, momentum = 0.5); order = shuffle(seed = 1); last = pad;'
        tried = 0
        for kind, flag in ("npy", None), ("idx", None), ("csv", None), ("safetensors", "--load"), ("checkpoint", "--resume"):
            for path in sorted(glob.glob(os.path.join(harness.sources, "tests", "fuzz", kind, "*.hostile.*"))):
                name = os.path.basename(path)
                shutil.copy(path, self.folder)
                self.write("net.dsl", 'net s { input x : f32[4, 4]; param w : f32[4] = ones; loss sum(x * w); }\ntrain { data = %s(x = "%s"); %s }\n' % (kind, name, train)
                           if flag is None else
                           "net s { input x : f32[4, 1]; param w : f32[2, 3] = ones; param b : f64[1] = ones; loss sum(x) * sum(w) + sum(x) * cast(sum(b), to = f32); }\n"
                           "train { data = normal(seed = 3); steps = 5; optimizer = momentum(lr = 1e-300, momentum = 0.5); }\n")
                plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
                with self.subTest(file=name, kind=kind):
                    result = harness.run([harness.prun, "--ranks", 2, *([flag, name] if flag else []), plan], cwd=self.folder, preexec_fn=limit)
                    self.assertFails(result, 3, r"^prun: (input x: )?%s(:\d+){0,2}: [ -~]+\n$" % re.escape(name))
                    self.assertNotIn("out of memory", result.err)
                tried += 1
        self.assertGreater(tried, 25)

    def test_files_are_found_from_elsewhere_and_move_with_the_plan(self):
        os.makedirs(self.path("nets", "data"))
        self.files()
        for name in "x.npy", "y.npy":
            os.rename(self.path(name), self.path("nets", "data", name))
        os.rename(self.path(self.regression('npy(x = "data/x.npy", y = "data/y.npy")')), self.path("nets", "net.dsl"))
        self.compile("nets/net.dsl", "nets/net.plan", "--ranks", 2)
        self.ok(self.local("nets/net.plan", 2))
        self.ok(harness.run([harness.prun, "--ranks", 2, self.path("nets", "net.plan")], cwd="/"))
        os.rename(self.path("nets"), self.path("moved"))
        self.ok(harness.run([harness.prun, "--ranks", 2, "moved/net.plan"], cwd=self.folder))

    def test_a_file_cut_off_while_it_is_read_ends_the_job(self):
        for launch in ([harness.prun, "--ranks", "3"], [harness.mpirun, "-n", "3", harness.prun]):
            if launch[0] is None:
                continue
            self.files()
            plan = self.compile(self.regression('npy(x = "x.npy", y = "y.npy")', "epochs = 100000000; log_every = 1;", batch=6), "net.plan", "--ranks", 3)
            child = harness.started([*launch, plan], self, cwd=self.folder)
            harness.until(child, b"step: 9")
            os.truncate(self.path("x.npy"), 200)
            _, err = child.communicate()
            self.assertEqual(child.returncode, 3, err)
            self.assertEqual(err.count(b"input x: x.npy: has become shorter"), 1, err)


if __name__ == "__main__":
    harness.main()
