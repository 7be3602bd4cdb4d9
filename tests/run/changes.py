#!/usr/bin/env python3
"""What becomes of the numbers of rows on their way to the net: scales, means and deviations that are given or those of the rows of training, which checkpoints keep;
one_hot. The expected numbers are computed here, in Python's doubles."""
import json
import math
import random
import re
import struct
import unittest

import harness
from harness import Case, npy
from data import randperm


def standardized(rows, of):
    """As scikit-learn's StandardScaler().fit(of).transform(rows), None is a field that is missing: the mean stands for it."""
    columns = [[number for number in column if number is not None] for column in zip(*of)]
    means = [math.fsum(column) / len(column) for column in columns]
    deviations = [math.sqrt(math.fsum((number - mean) ** 2 for number in column) / len(column)) or 1 for column, mean in zip(columns, means)]
    return means, deviations, [[((mean if number is None else number) - mean) / deviation for number, mean, deviation in zip(row, means, deviations)] for row in rows]


def metadata(data):
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]


class Changes(Case):
    ROWS = 23

    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        # Far from zero, so that sums of squares would lose all digits; a column in which all numbers are equal; two fields are missing.
        self.rows = [[1e9 + draw.random(), draw.gauss(-3, 20), 7.0, draw.randrange(5)] for _ in range(self.ROWS)]
        self.rows[2][1] = self.rows[9][3] = None
        self.write("t.csv", "a,b,c,d,kind\n" + "".join(",".join("" if number is None else repr(number) for number in row) + ",%s\n" % "xyz"[i % 3] for i, row in enumerate(self.rows)))

    def net(self, settings, eval_data="", train=""):
        return self.write("net.dsl", """net n(batch = 4) { input x : f64[batch, 4]; input k : f32[batch, 3]; param w : f64[4] = ones; loss sum(x * w) + 0 * sum(cast(k, to = f64)); }
            train { data = csv(x = csv("t.csv", %s), k = csv("t.csv", column = "kind", classes = ["x", "y", "z"], one_hot = true));
                    rows = split(0.7, 0.3, seed = 5); optimizer = sgd(lr = 1e-300); %s }
            eval { every = end; batch = 3; predict = x; %s }""" % (settings, train, eval_data and "data = csv(x = csv(%s), k = csv(\"t.csv\", column = \"kind\", classes = [\"x\", \"y\", \"z\"], one_hot = true)); rows = split(0.7, 0.3, seed = 5);" % eval_data))

    def predicted(self):
        data = self.read("y.npy")
        return struct.unpack("<%dd" % (len(data[128:]) // 8), data[128:])

    def parts(self):
        order = randperm(self.ROWS, 5)
        return order[:17], order[17:]

    def test_an_eval_is_standardized_by_the_rows_of_training_which_the_saved_file_keeps(self):
        trained, held = self.parts()
        means, deviations, expected = standardized([self.rows[i] for i in held], [self.rows[i] for i in trained])
        for eval_data in "", '"t.csv"', '"t.csv", missing = mean, standardize = true':
            for ranks in 1, 3:
                plan = self.compile(self.net("missing = mean, standardize = true", eval_data), "net.plan", "--ranks", ranks)
                for start in (self.local, self.mpi) if harness.mpirun and ranks > 1 else (self.local,):
                    result = self.ok(start(plan, ranks, "--save", self.path("w.safetensors")))
                    self.assertAlmostEqual(float(re.search(r"eval: loss is (\S+) \(6 rows\)", result.out).group(1)), sum(map(sum, expected)) / 6, delta=1e-5)
                    self.ok(start(plan, ranks, "--load", self.path("w.safetensors"), "--predict", self.path("y.npy")))
                    self.assertClose(self.predicted(), [number for row in expected for number in row], absolute=2e-6, what="predictions")
        found = metadata(self.read("w.safetensors"))
        self.assertClose([float(word) for word in found["pcc.mean.x"].split()], means, relative=1e-15)
        self.assertClose([float(word) for word in found["pcc.deviation.x"].split()], deviations, relative=1e-7)
        self.assertEqual(deviations[2], 1)
        # Nothing says how to read the rows: another file, or none.
        plain = self.compile(self.net("missing = 0"), "plain.plan")
        self.ok(self.local(plain, 1, "--save", self.path("plain.safetensors")))
        self.assertFails(self.local(plan, 3, "--load", self.path("plain.safetensors"), "--predict", self.path("y.npy")), 3,
                         r"^prun: input x is read with means of the rows of training, and \S*plain.safetensors has none: it was not saved by a training with such data\n$")
        self.assertFails(self.local(plan, 3, "--predict", self.path("y.npy")), 2, "input x is read with means of the rows of training, and there are none: --load takes what a training has saved")

    def test_an_eval_has_no_means_that_training_does_not_find(self):
        self.write("net.dsl", """net q(batch = 16) {
    input x : f32[batch, 4];
    param w : f32[4, 2] = normal(0.1);
    loss mean(matmul(x, w));
}
train { data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1); }
eval { data = npy(x = npy("e.npy", standardize = true)); }
""")
        self.assertFails(harness.run([harness.pcc, "net.dsl", "-o", "net.plan"], cwd=self.folder), 1,
                         "net.dsl:2:11: error: input x of the eval has means of the rows of training, and train's data does not say standardize = true")

    def test_training_agrees_with_one_rank_and_a_resumed_one_keeps_its_means(self):
        trained, _ = self.parts()
        expected = standardized([self.rows[i] for i in trained], [self.rows[i] for i in trained])[2]
        sums = [math.fsum(number for i in range(4) for number in expected[4 * step + i]) for step in range(4)]
        source = self.net("missing = mean, standardize = true", train="epochs = 2; checkpoint every epoch;")
        plan, one = self.compile(source, "net.plan", "--ranks", 2), self.compile(source, "one.plan", "--ranks", 1)
        result = self.ok(self.local(plan, 2, "--verify=" + one))
        self.assertClose(result.losses()[:4], sums, absolute=1e-5)
        # The rows have changed since: the means are those that the parameters belong to.
        with open(self.path("t.csv"), encoding="utf-8") as file:
            text = file.read()
        self.write("t.csv", text.replace(",7.0,", ",17.0,"))
        self.ok(self.local(plan, 2, "--resume", self.path("net.plan.checkpoints", "step-000000004.safetensors"), "--save", self.path("w.safetensors")))
        self.assertEqual([round(float(word)) for word in metadata(self.read("w.safetensors"))["pcc.mean.x"].split()][2], 7)
        self.ok(self.local(plan, 2, "--checkpoint", self.path("others"), "--save", self.path("w.safetensors")))
        self.assertEqual([round(float(word)) for word in metadata(self.read("w.safetensors"))["pcc.mean.x"].split()][2], 17)

    def test_scales_means_and_deviations_that_are_given(self):
        images = [[r * 7 + i for i in range(12)] for r in range(6)]
        self.write("x.idx", b"\0\0\x08\x04" + struct.pack(">4I", 6, 3, 2, 2) + bytes(number for row in images for number in row))
        for words, scale, mean, deviation in (("scale = 0.5", 0.5, [0] * 3, [1] * 3), ("mean = 3, deviation = 2", 1, [3] * 3, [2] * 3),
                                              ("scale = 1.0 / 255, mean = [0.1, 0.2, 0.3], deviation = [2, 3, 4]", 1 / 255, [0.1, 0.2, 0.3], [2, 3, 4]),
                                              ("mean = [1, 2, 3]", 1, [1, 2, 3], [1] * 3), ("deviation = [1, 2, 3], mean = 5", 1, [5] * 3, [1, 2, 3])):
            self.write("net.dsl", """net n(batch = 2) { input x : f64[batch, 3, 2, 2]; param w : f64[1] = ones; loss sum(x * w); }
                train { data = idx(x = idx("x.idx", %s)); optimizer = sgd(lr = 1); }
                eval { every = never; predict = x; data = idx(x = "x.idx"); }""" % words)
            self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2, "--predict", self.path("y.npy")))
            self.assertClose(self.predicted(), [(number * scale - mean[i // 4]) / deviation[i // 4] for row in images for i, number in enumerate(row)], relative=1e-15, what=words)

    def test_one_hot_of_names_and_of_integers(self):
        self.write("k.npy", npy([2, 0, 1, 1], [4], "i"))
        self.write("k.csv", "name\nb\nc\na\na\n")
        self.write("net.dsl", """net n(batch = 4) { input x : f64[batch, 3]; input z : f64[batch, 3]; param w : f64[3] = ones; y = x * 10 + z; loss sum(y * w); }
            train { data = files(x = npy("k.npy", one_hot = true), z = csv("k.csv", classes = ["a", "b", "c"], one_hot = true)); optimizer = sgd(lr = 1); }
            eval { every = never; predict = y; data = files(x = npy("k.npy"), z = csv("k.csv", classes = ["a", "b", "c"], one_hot = true)); }""")
        self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2, "--predict", self.path("y.npy")))
        self.assertEqual(self.predicted(), (0, 1, 10, 10, 0, 1, 1, 10, 0, 1, 10, 0))
        self.write("k.npy", npy([2, 0, 3, 1], [4], "i"))
        self.assertFails(self.local(self.path("net.plan"), 2), 3, r"k\.npy: row 2 holds 3, and it must be in 0 \.\. 2")
        self.write("k.npy", npy([2, 0, 1, 1] * 2, [4, 2], "i"))
        self.assertFails(self.local(self.path("net.plan"), 2), 3, r"k\.npy: a row of the file is \[2\], a row of the input \[3\], one_hot: 1 number")

    def test_classes_that_are_found_are_those_of_training_everywhere(self):
        names = ["dog", "cat", '"a ""big"" owl"', "cat", "dog", "eel"] * 3
        self.write("k.csv", "kind\n" + "".join(name + "\n" for name in names))
        self.write("e.csv", "kind\neel\ndog\n")
        body = """net n(batch = 2) { input k : i32[batch]; param w : f64[1] = ones; y = cast(k, to = f64) * 1; loss mean(w) * mean(y); }
            train { data = csv("k.csv", classes = %s); order = shuffle(seed = 1); optimizer = sgd(lr = 1e-300); }
            eval { every = end; predict = y; data = csv("e.csv", classes = %s); }"""
        for ranks in 1, 2:
            plan = self.compile(self.write("net.dsl", body % ("found", "found")), "net.plan", "--ranks", ranks)
            result = self.ok(self.local(plan, ranks, "--save", self.path("w.safetensors")))
            self.assertEqual(result.err.splitlines(), ["prun: note: %s: input k: classes 0 a \"big\" owl, 1 cat, 2 dog, 3 eel" % program for program in ("train", "eval")])
            self.assertIn("eval: loss is 2.5 (2 rows)", result.out)
            # Other names there now: the parameters belong to those that training found.
            self.ok(self.local(plan, ranks, "--load", self.path("w.safetensors"), "--predict", self.path("y.npy")))
            self.assertEqual(self.predicted(), (3, 2))
        self.assertEqual(metadata(self.read("w.safetensors"))["pcc.classes.k"], 'a "big" owl\ncat\ndog\neel')
        self.assertFails(self.local(plan, 2, "--predict", self.path("y.npy")), 2, "input k is read with classes of the rows of training, and there are none: --load")
        self.write("e.csv", "kind\neel\nyak\n")
        self.assertFails(self.local(plan, 2, "--load", self.path("w.safetensors"), "--predict", self.path("y.npy")), 3, r"e\.csv:3:1: 'yak' is none of the classes \(column 0 'kind'\), which are a \"big\" owl, cat, dog, eel\n$")
        # So with training that goes on, and the file is looked at before its first step.
        for eval_data in 'data = csv("e.csv", classes = found)', 'data = csv("e.csv")':
            self.write("e.csv", "kind\neel\ndog\n")
            self.write("k.csv", "kind\n" + "".join(name + "\n" for name in ("dog", "eel", "dog", "eel")))
            plan = self.compile(self.write("net.dsl", re.sub(r'data = csv\("e.csv"[^)]*\)', eval_data, body % ("found", "found"))), "net.plan")
            result = self.ok(self.local(plan, 1, "--load", self.path("w.safetensors")))
            self.assertEqual(result.err.splitlines()[0], 'prun: note: train: input k: classes 0 a "big" owl, 1 cat, 2 dog, 3 eel')
            self.assertIn("eval: loss is 2.5 (2 rows)", result.out)
            self.write("k.csv", "kind\ndog\neel\nemu\neel\n")
            result = self.local(plan, 1, "--load", self.path("w.safetensors"))
            self.assertFails(result, 3, r"k\.csv:4:1: 'emu' is none of the classes \(column 0 'kind'\), which are a \"big\" owl, cat, dog, eel\n$")
            self.assertNotIn("epoch", result.out)
            # Of a file of the eval's own the names are those of training.
            self.write("e.csv", "kind\neel\ncat\n")
            self.write("k.csv", "kind\ndog\neel\neel\ndog\n")
            result = self.local(plan, 1)
            self.assertFails(result, 3, r"e\.csv:3:1: 'cat' is none of the classes \(column 0 'kind'\), which are dog, eel\n$")
            self.assertNotIn("epoch", result.out)
        self.write("net.dsl", """net n(batch = 2) { input x : f64[batch, 2]; input k : i32[batch]; param w : f64[2, 2] = ones; loss cross_entropy(matmul(x, w), k); }
            train { data = files(x = npy("x.npy"), k = csv("k.csv", classes = found)); optimizer = sgd(lr = 0.1); }""")
        self.write("x.npy", npy([1.0] * 6, (3, 2), "d"))
        self.write("k.csv", "kind\nant\nbee\ncat\n")
        self.assertFails(self.local(self.compile("net.dsl", "net.plan"), 1), 3, r"k\.csv:4:1: 'cat' is class 2, and it must be in 0 \.\. 1 \(column 0 'kind'\)\n$")
        self.write("net.dsl", body % ('["cat"]', "found"))
        self.assertRegex(harness.run([harness.pcc, "net.dsl"], cwd=self.folder).err, "the classes of input k of the eval are those that training finds, and train's data does not say classes = found")

    def test_a_column_of_nothing_has_no_mean(self):
        self.write("t.csv", "a,b,c,d,kind\n" + "1,2,,4,x\n" * 20)
        for settings in "missing = mean", "missing = mean, standardize = true":
            self.assertFails(self.local(self.compile(self.net(settings), "net.plan"), 1), 3, r"^prun: input x: \S*t\.csv: number 2 of a row is nowhere in the rows of training: it has no mean\n$")

    def test_an_infinite_number_has_no_mean_and_is_named(self):
        for settings in "missing = mean", "standardize = true":
            for number in "inf", "-inf":
                self.write("t.csv", "a,b,c,d,kind\n" + "1,2,3,4,x\n" * 20 + "1,%s,3,4,x\n" % number)
                for ranks in 1, 2:
                    self.assertFails(self.local(self.compile(self.net(settings), "net.plan", "--ranks", ranks), ranks), 3,
                                     r"^prun: input x: \S*t\.csv:22:3: the number is infinite: its column has no mean\n$")

    def test_a_saved_file_that_is_damaged_is_named(self):
        plan = self.compile(self.net("missing = mean, standardize = true"), "net.plan")
        self.ok(self.local(plan, 1, "--save", self.path("w.safetensors")))
        good = self.read("w.safetensors")
        mean = metadata(good)["pcc.mean.x"]
        for bad, words in ((mean[:-1] + "x", "means and deviations of input x are no numbers"), (" ".join(mean.split()[:3]).ljust(len(mean), "1"), "are no numbers, or not as many"),
                           ("nan" + mean[3:], "are no numbers")):
            self.write("w.safetensors", good.replace(mean.encode(), bad.encode()))
            self.assertFails(self.local(plan, 1, "--load", self.path("w.safetensors")), 3, r"w\.safetensors: damaged: .*" + words)


if __name__ == "__main__":
    harness.main()
