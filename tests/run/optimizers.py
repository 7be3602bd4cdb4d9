#!/usr/bin/env python3
"""Optimizers, schedules, clipping: on any number of ranks what one rank computes, and what the formulas say; resumed runs equal whole ones."""
import json
import math
import os
import re
import struct

import harness
from harness import Case, run

NET = """net small(batch = 24, dim = %d) {
    input x : f64[batch, dim]; input y : f64[batch, 8];
    param w : f64[dim, 32] = normal(0.1); param b : f64[32] = zeros; param w2 : f64[32, 8] = normal(0.3);
    h = tanh(matmul(x, w) + b); p = matmul(h, w2); loss mse(p, y);
}
train { data = normal(seed = 3); epochs = 2; steps = 4; %s }
parallel { mode = %s; }
"""

OPTIMIZERS = {
    "sgd": "optimizer = sgd(lr = 0.2, weight_decay = 0.1);",
    "momentum": "optimizer = momentum(lr = 0.05, momentum = 0.9, weight_decay = 0.1); schedule = linear(warmup = 2);",
    "nesterov": "optimizer = sgd(lr = 0.05, momentum = 0.9, weight_decay = 0.1, nesterov = true); decay except b*; lr 0.5 for w2;",
    "lion": "optimizer = lion(lr = 0.001, weight_decay = 0.1);",
    "lamb": "optimizer = lamb(lr = 0.02, weight_decay = 0.1); schedule = linear(warmup = 2); decay except b;",
    "adafactor": "optimizer = adafactor(lr = 0.02, weight_decay = 0.1); schedule = linear(warmup = 2); clip = norm(0.3); decay except b;",
    "average": "optimizer = adamw(lr = 0.01); ema = 0.9;",
    "adam": "optimizer = adam(lr = 0.01, weight_decay = 0.1); clip = norm(0.3);",
    "adamw": "optimizer = adamw(lr = 0.01, weight_decay = 0.1); schedule = cosine(warmup = 3, end = 0.1); clip = norm(0.3);",
}


def tensors(path):
    """Of a safetensors file: the elements of each tensor of f64."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        found[name] = struct.unpack("<%dd" % ((end - begin) // 8), data[8 + n + begin:8 + n + end])
    return found


class Optimizers(Case):
    def plan(self, name, settings, ranks, *options, mode="auto", dim=24):
        source = self.write(name + ".dsl", NET % (dim, settings, mode))
        return self.compile(source, "%s%d.plan" % (name, ranks), "--ranks", ranks, *options)

    def test_any_number_of_ranks_computes_what_one_does(self):
        """With the proof's full checks; w has more than 256 KiB at dim = 1536, so that its slots and its norm lie in parts."""
        for name, settings in OPTIMIZERS.items():
            for dim in (24, 1536):
                one = self.plan(name, settings, 1, dim=dim)
                losses = self.ok(self.local(one, 1)).losses()
                for ranks in (2, 3, 8):
                    with self.subTest(optimizer=name, dim=dim, ranks=ranks):
                        many = self.plan(name, settings, ranks, "--prove", dim=dim)
                        done = self.ok(self.local(many, ranks, "--verify", one))
                        self.assertIn("verified: 8 steps", done.out)
                        self.assertClose(done.losses(), losses, relative=1e-9)

    def test_parameters_of_two_types_are_clipped_together(self):
        """Both gradients are 3; the norm is 3 sqrt(2) for f32 and f64."""
        net = """net two() { input x : f64[1]; param w : f64[1] = [2]; param v : f32[1] = [2]; loss sum(w * x) + sum(cast(v, to = f64) * x); }
train { data = per_rank(x = [[3]]); optimizer = sgd(lr = 1); schedule = linear; clip = norm(1); } parallel { mode = data_parallel; }"""
        plan = self.compile(self.write("two.dsl", net), "two.plan", "--ranks", 1, "--prove")
        self.ok(self.local(plan, 1, "--save", self.path("w"), "--print", "v"))
        with open(self.path("w"), "rb") as file:
            data = file.read()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        for name, form, digits in (("w", "<d", 12), ("v", "<f", 6)):
            begin = 8 + struct.unpack("<Q", data[:8])[0] + header[name]["data_offsets"][0]
            found = struct.unpack(form, data[begin:begin + struct.calcsize(form)])[0]
            self.assertAlmostEqual(found, 2 - 3 / (3 * math.sqrt(2) + 1e-6), places=digits)

    def test_explanations_name_gradients(self):
        for name, settings in OPTIMIZERS.items():
            source = self.write(name + ".dsl", NET % (1536, settings, "auto"))
            done = self.ok(run([harness.pcc, source, "--ranks", 4, "-o", self.path("p"), "--explain=w"]))
            self.assertRegex(done.out, r"gradient +w\.grad, made as", name)

    def test_levels_and_replicas(self):
        for name, settings in OPTIMIZERS.items():
            for level in ("-O0", "-O1"):
                one, many = self.plan(name, settings, 1), self.plan(name, settings, 4, level)
                self.assertIn("verified", self.ok(self.local(many, 4, "--verify", one)).out)
            one = self.plan(name + "d", settings, 1, "--replicas", 4, mode="data_parallel")
            many = self.plan(name + "d", settings, 4, "--replicas", 4, mode="data_parallel")
            self.assertIn("verified", self.ok(self.local(many, 4, "--verify", one)).out)

    def test_under_mpirun_too(self):
        one = self.plan("adamw", OPTIMIZERS["adamw"], 1)
        done = self.ok(self.mpi(self.plan("adamw", OPTIMIZERS["adamw"], 4), 4, "--verify", one))
        self.assertIn("verified", done.out)

    def test_steps_are_the_formulas(self):
        """The gradient of sum(w * x) with x = 1 is 1 times the batch: parameters after each step by hand."""
        net = """net one() { input x : f64[1]; param w : f64[1] = [2]; loss sum(w * x); }
train { data = per_rank(x = [[3]]); epochs = 1; steps = %d; %s } parallel { mode = data_parallel; }"""

        def after(steps, settings):
            plan = self.compile(self.write("one.dsl", net % (steps, settings)), "one.plan", "--ranks", 1)
            self.ok(self.local(plan, 1, "--save", self.path("w")))
            return tensors(self.path("w"))["w"][0]

        g = 3.0
        w = 2.0
        for steps in (1, 2, 3):
            w -= 0.1 * (g + 0.5 * w)
            self.assertAlmostEqual(after(steps, "optimizer = sgd(lr = 0.1, weight_decay = 0.5);"), w, delta=1e-14)
        w, v = 2.0, 0.0
        for steps in (1, 2, 3):
            v = 0.9 * v + g + 0.5 * w
            w -= 0.1 * v
            self.assertAlmostEqual(after(steps, "optimizer = momentum(lr = 0.1, momentum = 0.9, weight_decay = 0.5);"), w, delta=1e-14)
        for decoupled in (False, True):
            w, m, v = 2.0, 0.0, 0.0
            for t in (1, 2, 3):
                d = g * min(1, 0.5 / (g + 1e-6)) # clipped
                if decoupled:
                    w *= 1 - 0.1 * 0.5
                else:
                    d += 0.5 * w
                m, v = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d * d
                w -= 0.1 * (m / (1 - 0.9 ** t)) / (math.sqrt(v / (1 - 0.99 ** t)) + 1e-3)
                name = "adamw" if decoupled else "adam"
                settings = "optimizer = %s(lr = 0.1, beta2 = 0.99, eps = 1e-3, weight_decay = 0.5); clip = norm(0.5);" % name
                self.assertAlmostEqual(after(t, settings), w, delta=1e-13)
        w = 2.0
        for s in range(4):
            w -= 0.1 * (s / 2 if s < 2 else 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi * (s - 2) / 2))) * g
        self.assertAlmostEqual(after(4, "optimizer = sgd(lr = 0.1); schedule = cosine(warmup = 2, end = 0.2);"), w, delta=1e-14)

    def test_the_rate_is_logged_as_it_is(self):
        settings = 'optimizer = sgd(lr = 0.5); schedule = linear(warmup = 2); log "{global_step} {lr}";'
        plan = self.plan("log", settings, 2)
        done = self.ok(self.local(plan, 2, "--metrics", self.path("m")))
        lines = [line.split() for line in done.out.splitlines() if line[:1].isdigit()]
        expected = [0.5 * (s / 2 if s < 2 else 1 - (s - 2) / 6) for s in range(8)]
        self.assertClose([float(line[1]) for line in lines], expected, absolute=1e-12)
        with open(self.path("m"), encoding="utf-8") as file:
            rates = [json.loads(line)["lr"] for line in file if '"loss"' in line]
        self.assertClose(rates, expected, absolute=1e-12)

    def test_a_resumed_run_equals_a_whole_one(self):
        for name in ("adam", "lamb", "adafactor", "average"):
            for ranks, dim in ((1, 24), (4, 24), (4, 1536)):
                plan = self.plan("%s%d" % (name, dim), OPTIMIZERS[name] + " checkpoint every 3 steps;", ranks, dim=dim)
                whole = self.ok(self.local(plan, ranks, "--save", self.path("whole")))
                for step in (3, 6):
                    taken = os.path.join(plan + ".checkpoints", "step-%09d.safetensors" % step)
                    rest = self.ok(self.local(plan, ranks, "--resume", taken, "--save", self.path("rest")))
                    self.assertEqual(rest.texts(), whole.texts()[step:], "bit for bit")
                    self.assertEqual(self.read("rest"), self.read("whole"))

    def test_a_checkpoint_goes_on_with_other_ranks(self):
        plan = self.plan("adamw", OPTIMIZERS["adamw"] + " checkpoint every 5 steps;", 4, dim=1536)
        whole = self.ok(self.local(plan, 4)).losses()
        taken = os.path.join(plan + ".checkpoints", "step-000000005.safetensors")
        for ranks in (1, 3):
            rest = self.ok(self.local(self.plan("adamw", OPTIMIZERS["adamw"], ranks, dim=1536), ranks, "--resume", taken)).losses()
            self.assertClose(rest, whole[5:], relative=1e-9)

    def test_averages_are_evaluated_saved_and_loaded(self):
        """On any ranks, in parts too: an evaluation of averages is that of a net whose parameters they are."""
        plan = None
        evals = "} eval { data = normal(seed = 9); steps = 2; every = end; parameters = %s; "
        settings = "optimizer = adam(lr = 0.05); ema = 0.75; checkpoint every 8 steps; "
        for ranks, dim in ((1, 24), (3, 24), (4, 1536)):
            with self.subTest(ranks=ranks, dim=dim):
                plan = self.plan("average", settings + evals % "ema", ranks, "--prove", dim=dim)
                done = self.ok(self.local(plan, ranks, "--save", self.path("a"), "--averages"))
                self.ok(self.local(plan, ranks, "--save", self.path("w"), "--overwrite"))
                taken = tensors(os.path.join(plan + ".checkpoints", "step-000000008.safetensors"))
                for name, saved in tensors(self.path("a")).items():
                    self.assertEqual(saved, taken[name + ".ema"])
                    self.assertNotEqual(saved, taken[name])
                self.assertEqual(tensors(self.path("w"))["w"], taken["w"])
                loss = self.evaluated(done)
                plain = self.plan("plain", settings + evals % "trained", ranks, dim=dim)
                self.assertNotEqual(self.evaluated(self.ok(self.local(plain, ranks, "--overwrite"))), loss)
                for loads in (plan, plain): # of a file without averages each is its parameter
                    self.assertEqual(self.evaluated(self.ok(self.local(loads, ranks, "--eval", "--load", self.path("a")))), loss)
        none = self.plan("none", "optimizer = adam;", 1)
        self.assertFails(self.local(none, 1, "--save", self.path("x"), "--averages"), 2, "this plan keeps no averages of its parameters")
        self.assertFails(self.local(plan, 4, "--averages"), 2, "--averages says what is saved: add --save FILE")

    def evaluated(self, done):
        return re.search(r"eval: loss is ([0-9.e+-]+)", done.out).group(1)

    def test_gradients_stay_in_buckets_where_they_are_clipped(self):
        """Clipping adds one exchange of numbers, and no gradient is moved twice."""
        plain = self.plan("plain", "optimizer = adam(lr = 0.1);", 4, dim=1536)
        clipped = self.plan("clipped", "optimizer = adam(lr = 0.1); clip = norm(1);", 4, dim=1536)
        sent = [int(self.ok(self.local(plan, 4)).out.split("plan: at most ")[1].split(")")[0]) for plan in (plain, clipped)]
        self.assertGreater(sent[1], sent[0])
        self.assertLess(sent[1], sent[0] + 200)


BATCHES = """net several(batch = %d) {
    input x : f64[batch, 6]; input y : f64[batch, 3];
    param w : f64[6, 5] = normal(0.3); param b : f64[5] = zeros; param v : f64[5, 3] = normal(0.3);
    h = tanh(matmul(x, w) + b); loss mse(matmul(h, v), y);
}
train { %s; optimizer = adamw(lr = 0.02); clip = norm(0.2); schedule = linear(warmup = 2); epochs = 2; %s }
parallel { mode = %s; }
"""


class Accumulation(Case):
    def plan(self, name, batch, data, settings, ranks, *options, mode="auto"):
        source = self.write(name + ".dsl", BATCHES % (batch, data, settings, mode))
        return self.compile(source, name + ".plan", "--ranks", ranks, *options)

    def outcome(self, plan, ranks, *options):
        done = self.ok(self.local(plan, ranks, "--save", self.path("w"), *options))
        return done.losses(), tensors(self.path("w"))

    def assertSame(self, found, expected):
        self.assertClose(found[0], expected[0], relative=1e-9)
        for name in expected[1]:
            self.assertClose(found[1][name], expected[1][name], absolute=1e-9, what=name)

    def test_several_batches_are_one_of_their_size(self):
        """Batches of 4 and of 12 rows of the same random data; losses are the means of the batches' losses."""
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                large = self.outcome(self.plan("large", 12, "data = normal(seed = 3)", "steps = 4;", ranks), ranks)
                small = self.outcome(self.plan("small", 4, "data = normal(seed = 3)", "steps = 4; accumulate = 3;", ranks, "--prove=full"), ranks)
                self.assertEqual(len(large[0]), 8)
                self.assertSame(small, large)

    def test_any_number_of_ranks_level_and_mode(self):
        one = self.plan("one", 8, "data = uniform(seed = 3)", "steps = 3; accumulate = 4;", 1)
        for ranks, level in ((2, "-O0"), (4, "-O1"), (3, "-O2"), (8, "-O2")):
            many = self.plan("many", 8, "data = uniform(seed = 3)", "steps = 3; accumulate = 4;", ranks, level, "--prove=full")
            self.assertIn("verified: 6 steps", self.ok(self.local(many, ranks, "--verify", one)).out)
        one = self.plan("one", 8, "data = uniform(seed = 3)", "steps = 3; accumulate = 4;", 1, "--replicas", 4, mode="data_parallel")
        many = self.plan("many", 8, "data = uniform(seed = 3)", "steps = 3; accumulate = 4;", 4, "--prove=full", mode="data_parallel")
        self.assertIn("verified: 6 steps", self.ok(self.local(many, 4, "--verify", one)).out)

    def files(self, rows):
        for name, columns in (("x", 6), ("y", 3)):
            shape = "(%d, %d)" % (rows, columns)
            header = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % shape
            header += " " * (63 - (10 + len(header)) % 64) + "\n"
            data = struct.pack("<%dd" % (rows * columns), *[math.sin(i * (1.7 if name == "x" else 0.9)) for i in range(rows * columns)])
            self.write(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)

    def test_files_give_a_step_as_many_batches(self):
        """30 rows: 7 batches of 4, so 3 steps of 2; the same rows as 3 steps of 8, in file order and shuffled (rows of one batch may change places)."""
        self.files(30)
        source = 'data = npy(x = "x.npy", y = "y.npy")'
        for ranks in (1, 2):
            small = self.outcome(self.plan("small", 4, source, "accumulate = 2;", ranks), ranks)
            self.assertEqual(len(small[0]), 6)
            self.assertSame(small, self.outcome(self.plan("large", 8, source, "", ranks), ranks))
        small = self.outcome(self.plan("small", 4, source, "accumulate = 2; order = shuffle(seed = 5);", 1), 1)
        self.assertSame(small, self.outcome(self.plan("large", 8, source, "order = shuffle(seed = 5);", 1), 1))
        padded = self.plan("pad", 4, source, "accumulate = 2; last = short;", 2, "--prove=full")
        self.assertIn("verified: 8 steps", self.ok(self.local(padded, 2, "--verify", self.plan("pad1", 4, source, "accumulate = 2; last = short;", 1))).out)
        self.assertFails(self.local(self.plan("many", 4, source, "accumulate = 8;", 1), 1), 3, "has 7 batches of 4 rows, and a step takes 8")
        self.assertFails(self.local(self.plan("steps", 4, source, "accumulate = 2; steps = 4;", 1), 1), 3, "an epoch has 4 steps of several batches")

    def test_a_resumed_run_equals_a_whole_one(self):
        plan = self.plan("net", 8, "data = normal(seed = 3)", "steps = 4; accumulate = 3; checkpoint every 3 steps;", 4)
        whole = self.ok(self.local(plan, 4, "--save", self.path("whole")))
        rest = self.ok(self.local(plan, 4, "--resume", os.path.join(plan + ".checkpoints", "step-000000003.safetensors"), "--save", self.path("rest")))
        self.assertEqual(rest.texts(), whole.texts()[3:])
        self.assertEqual(self.read("rest"), self.read("whole"))

    def test_literals_of_replicas_are_there_once(self):
        net = """net one() { input x : f64[1]; param w : f64[1] = [2]; loss sum(w * w * x); }
train { data = per_rank(x = [[3], [5]]); steps = 2; optimizer = sgd(lr = 0.01); %s } parallel { mode = data_parallel; }"""
        plans = [self.compile(self.write("net.dsl", net % more), "p%d.plan" % i, "--ranks", 2) for i, more in enumerate(("", "accumulate = 2;"))]
        self.assertIn("per_rank=(3, 5)", self.read(plans[1]).decode())
        self.assertEqual(self.read(plans[1]).count(b"per_rank="), 1)
        found = [self.ok(self.local(plan, 2)) for plan in plans]
        for rank in (0, 1):
            self.assertEqual(found[0].losses(rank), found[1].losses(rank), "the same batch twice: the same mean")


if __name__ == "__main__":
    harness.main()
