#!/usr/bin/env python3
"""States that the net writes, and random numbers, end to end: batch_norm in training and evaluation against PyTorch's definition in Python's doubles, on any ranks, from
checkpoints; dropout, whose numbers are the same on any ranks."""
import json
import math
import os
import random
import unittest

import harness
from harness import Case, npy

ROWS, BATCH, CHANNELS = 12, 4, 3
MOMENTUM, EPS = 0.25, 1e-5


NORM = """import "nn.dsl";
net n(batch = %d) {
    input x : f32[batch, %s];
    param w : f32[] = 0.5;
    z = x * w;
    y = batch_norm(z, momentum = %r) %s;
    loss mean(square(y - 1) * z);
}
train { data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1); epochs = 1; %s }
eval { data = npy(x = "x.npy"); batch = 3; every = never; }
"""
# The mean and the variance have gradients too.
GLOBAL = """net n(batch = 4) {
    input x : f64[batch, 2, 3];
    param w : f64[3, 2, 1, 1] = normal(0.5);
    param g : f64[3] = uniform(0.5, 1.5);
    param b : f64[3] = normal(0.5);
    state middle : f64[3] = zeros;
    z = conv2d(reshape(x, shape = [batch, 2, 3, 1]), w);
    y, m, v = batch_norm(z, g, b, eps = 0.001);
    middle <- 0.5 * middle + 0.5 * m;
    loss mean(square(tanh(y) - 0.5) * z) + 0.1 * mean(square(v)) + 0.1 * mean(m);
}
train { data = npy(x = "all.npy"); optimizer = momentum(lr = 0.5, momentum = 0.5); epochs = 1; }
parallel { mode = data_parallel; batch_norm = global; }
"""
DROPOUT = """import "nn.dsl";
net n(batch = 8) {
    input x : f32[batch, 16];
    param w : f32[16, 16] = normal(0.5);
    a = dropout(x @ w %s, p = 0.25);
    b = dropout(tanh(a), p = 0.5);
    loss mean(square(b));
}
train { data = normal(seed = 3); optimizer = sgd(lr = 0.5); epochs = 2; steps = 3; %s }
eval { data = normal(seed = 3); steps = 2; every = never; }
"""


class States(Case):
    def norm(self, places, more="", ranks=1, shard="", *options):
        pick = random.Random(7)
        self.x = [[[pick.uniform(-1, 2) + c for _ in range(places)] for c in range(CHANNELS)] for _ in range(ROWS)]
        shape = [CHANNELS] + ([2, places // 2] if places > 1 else [])
        self.write("x.npy", npy([v for row in self.x for channel in row for v in channel], [ROWS] + shape, "f"))
        self.write("net.dsl", NORM % (BATCH, ", ".join(map(str, shape)), MOMENTUM, shard, more))
        return self.compile("net.dsl", "net.plan", "--ranks", ranks, *options)

    def values(self, rows, w, mean, var):
        return [[[(v * w - mean[c]) / math.sqrt(var[c] + EPS) for v in channel] for c, channel in enumerate(row)] for row in rows]

    def loss(self, rows, w, mean, var):
        y = self.values(rows, w, mean, var)
        terms = [(b - 1) ** 2 * a * w for r, s in zip(rows, y) for p, q in zip(r, s) for a, b in zip(p, q)]
        return sum(terms) / len(terms)

    def statistics(self, rows, w):
        mean, var = [], []
        for c in range(CHANNELS):
            all = [v * w for row in rows for v in row[c]]
            mean.append(sum(all) / len(all))
            var.append(sum((v - mean[c]) ** 2 for v in all) / len(all))
        return mean, var

    def replicas(self, n):
        """Options with which n replicas share the batch, and its statistics."""
        return "--mode", "data_parallel", "--batch-norm", "global", "--replicas", n, "-D", "batch=%d" % (BATCH // n)

    def test_running_statistics_are_pytorchs_however_the_batch_is_split(self):
        for places in 1, 6:
            for ranks, more in (1, ()), (2, ()), (4, ()), (3, ()), (2, self.replicas(2)), (4, self.replicas(4)), (2, self.replicas(4)), (1, self.replicas(2)), (3, self.replicas(4)):
                with self.subTest(places=places, ranks=ranks, more=more):
                    plan = self.norm(places, "steps = 1;", ranks, "", *more)
                    result = self.ok(self.local(plan, ranks, "--save", "w.safetensors"))
                    mean, var = self.statistics(self.x[:BATCH], 0.5)
                    n = BATCH * places
                    saved = self.saved("w.safetensors")
                    own = [result.losses(label[1])[0] for label in result.labels()] or result.losses()
                    self.assertClose([sum(own) / len(own)], [self.loss(self.x[:BATCH], 0.5, mean, var)], relative=1e-5)
                    self.assertClose(saved["y.running_mean"], [MOMENTUM * m for m in mean], relative=1e-5)
                    self.assertClose(saved["y.running_var"], [1 - MOMENTUM + MOMENTUM * v * n / (n - 1) for v in var], relative=1e-5)
                    result = self.ok(self.local(plan, ranks, "--eval", "--load", "w.safetensors"))
                    found = float(result.out.split("loss is ")[1].split()[0].rstrip(",("))
                    weight, bias = saved["y.weight"], saved["y.bias"]
                    y = self.values(self.x, saved["w"][0], saved["y.running_mean"], saved["y.running_var"])
                    terms = [(b * weight[c] + bias[c] - 1) ** 2 * a * saved["w"][0] for r, s in zip(self.x, y) for c in range(CHANNELS) for a, b in zip(r[c], s[c])]
                    self.assertClose([found], [sum(terms) / len(terms)], relative=1e-3)

    def test_replicas_share_statistics_where_the_net_says_so(self):
        """batch_norm = global: what each of them learns is what one rank learns of the whole batch, and nothing but numbers a channel goes between them."""
        pick = random.Random(5)
        self.write("all.npy", npy([pick.uniform(-1, 2) for _ in range(36 * 6)], [36, 2, 3], "d"))
        self.write("net.dsl", GLOBAL)
        self.ok(self.local(self.compile("net.dsl", "whole.plan", "--mode", "auto", "-D", "batch=12"), 1, "--save", "whole.safetensors"))
        whole = self.saved("whole.safetensors")
        for ranks, replicas, more in (1, 4, ()), (2, 2, ()), (4, 4, ()), (2, 4, ("-O0",)), (4, 4, ("-O0",)), (3, 4, ()), (2, 3, ()), (3, 3, ("--gradients", "sum")):
            with self.subTest(ranks=ranks, replicas=replicas, more=more):
                plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--replicas", replicas, "-D", "batch=%d" % (12 // replicas), "--prove=full", *more)
                self.ok(self.local(plan, ranks, "--save", "w.safetensors"))
                saved = self.saved("w.safetensors")
                for name in whole if "sum" not in more else []:
                    self.assertClose(saved[name], whole[name], relative=1e-11, absolute=1e-13, what=name)
                self.assertEqual(saved["w"] != whole["w"] and "sum" in more, "sum" in more)
                if ranks > 1 and replicas % ranks == 0:
                    stats = self.ok(harness.run(harness.compiling("net.dsl", "--ranks", ranks, "--replicas", replicas, "-D", "batch=%d" % (12 // replicas), "--stats=json", "-o", "t.plan", *more, cwd=self.folder), cwd=self.folder)).out
                    for communication in json.loads(stats)["communications"]:
                        self.assertLess(communication["sent"]["max"], 6 * 3 * 8, communication)  # of x a rank has more
                        self.assertNotIn("middle", communication["value"], "replicas have it alike")
        self.write("own.dsl", GLOBAL.replace("global", "local"))
        self.ok(self.local(self.compile("own.dsl", "net.plan", "--ranks", 2, "-D", "batch=6"), 2, "--save", "w.safetensors"))
        self.assertNotAlmostEqual(self.saved("w.safetensors")["b"][0], whole["b"][0], places=4)

    def test_what_replicas_write_is_averaged_where_it_may_differ(self):
        """What all have of a state, and of statistics of all replicas, needs no communication; what each computes of its own rows is averaged."""
        write = {"count <- 2 * count + 1;": False, "count <- 0.5 * count + mean(m);": True, "count <- count + mean(y);": True}
        self.write("all.npy", npy([k / 40 for k in range(24 * 6)], [24, 2, 3], "d"))
        for text, differs in write.items():
            with self.subTest(text):
                self.write("net.dsl", GLOBAL.replace("global", "local").replace("middle : f64[3]", "count : f64[]").replace("middle <- 0.5 * middle + 0.5 * m;", text))
                one = self.compile("net.dsl", "one.plan", "--ranks", 1, "--replicas", 2, "-D", "batch=6")
                plan = self.compile("net.dsl", "net.plan", "--ranks", 2, "-D", "batch=6", "--prove=full")
                self.ok(self.local(plan, 2, "--verify=" + one))
                stats = self.ok(harness.run(harness.compiling("net.dsl", "--ranks", 2, "-D", "batch=6", "--stats=json", "-o", "t.plan", cwd=self.folder), cwd=self.folder)).out
                self.assertEqual(any("count" in c["value"] for c in json.loads(stats)["communications"]), differs)

    def test_replicas_with_common_statistics_go_on_from_a_checkpoint(self):
        train = "checkpoint every 1 steps;"
        plan = self.norm(6, train, 2, "", *self.replicas(2))
        self.ok(self.local(plan, 2, "--save", "whole.safetensors", "--checkpoint-dir", "one"))
        plan = self.norm(6, train, 4, "", *self.replicas(4))
        steps = sorted(name for name in os.listdir(self.path("one")) if name != "lock")
        self.ok(self.local(plan, 4, "--save", "rest.safetensors", "--checkpoint-dir", "two", "--resume", self.path("one", steps[0])))
        a, b = self.saved("whole.safetensors"), self.saved("rest.safetensors")
        for name in a:
            self.assertClose(a[name], b[name], relative=1e-4, absolute=1e-6, what=name)

    def test_a_state_takes_the_mean_over_accumulated_batches(self):
        for ranks in 1, 2:
            plan = self.norm(6, "accumulate = 3; steps = 1;", ranks)
            self.ok(self.local(plan, ranks, "--save", "w.safetensors"))
            means = [self.statistics(self.x[b:b + BATCH], 0.5)[0] for b in range(0, ROWS, BATCH)]
            self.assertClose(self.saved("w.safetensors")["y.running_mean"], [MOMENTUM * sum(m[c] for m in means) / 3 for c in range(CHANNELS)], relative=1e-5)

    def test_training_goes_on_from_a_checkpoint_on_other_ranks(self):
        plan = self.norm(6, "checkpoint every 1 steps;", 2)
        whole = self.ok(self.local(plan, 2, "--save", "whole.safetensors", "--checkpoint-dir", "one")).losses()
        self.assertEqual(len(whole), 3)
        plan = self.norm(6, "checkpoint every 1 steps;", 4)
        steps = sorted(name for name in os.listdir(self.path("one")) if name != "lock")
        found = self.ok(self.local(plan, 4, "--save", "rest.safetensors", "--checkpoint-dir", "two", "--resume", self.path("one", steps[0]))).losses()
        self.assertClose(found, whole[-len(found):], relative=1e-5)
        a, b = self.saved("whole.safetensors"), self.saved("rest.safetensors")
        for name in a:
            self.assertClose(a[name], b[name], relative=1e-4, absolute=1e-6, what=name)

    def test_a_number_of_steps_is_counted(self):
        self.write("net.dsl", """net n { param w : f32[3] = ones; state count : f32[] = 10.0; state last : f32[3] = zeros shard ((3));
            count <- count + 1; last <- w * count; loss sum(w * w); } train { optimizer = sgd(lr = 0.25); epochs = 1; steps = 4; }""")
        for ranks in 1, 3:
            self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--save", "w.safetensors"))
            saved = self.saved("w.safetensors")
            self.assertEqual(saved["count"], (14.0,))
            self.assertEqual(saved["last"], (13 * 0.125,) * 3)

    def test_a_state_takes_what_another_was_before_the_step(self):
        self.write("net.dsl", """net n(batch = 4) { input x : f32[batch, 3]; param w : f32[3] = [3, 2, 1]; state a : f32[3] = zeros; state b : f32[3] = ones; state old : f32[3] = zeros;
            a <- b; b <- a; old <- w; loss mean(w * x); } train { data = normal(seed = 1); optimizer = sgd(lr = 0.25); epochs = 1; steps = 3; }""")
        for ranks, level in (1, "-O2"), (2, "-O2"), (2, "-O0"):
            self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks, level), ranks, "--save", "w.safetensors", "--checkpoint-dir", "c"))
            saved = self.saved("w.safetensors")
            self.assertEqual((saved["a"], saved["b"]), ((1.0,) * 3, (0.0,) * 3))
            self.assertNotEqual(saved["old"], saved["w"])

    def test_several_states_take_one_value(self):
        """Also one that is another state's, or an input's; in mode manual, where states and what is computed have a dimension more, as elsewhere."""
        net = """net n(batch = 4) { input x : f32[batch]; param w : f32[4] = [4, 3, 2, 1]; state a : f32[4] = zeros; state b : f32[4] = ones; state c : f32[2, 2] = zeros;
            state d : f32[4] = zeros; state e : f32[4] = zeros; %s loss mean(w * x); } train { data = per_rank(x = [[5, 5, 5, 5]]); optimizer = sgd(lr = 0); epochs = 1; steps = 2; }
            parallel { mode = manual; }"""
        w = (4.0, 3.0, 2.0, 1.0)
        for write, expected in (("a <- w; b <- w; c <- reshape(w, shape = [2, 2]);", {"a": w, "b": w, "c": w}),
                                ("a <- 2 * w; b <- 2 * w; d <- w + w;", {"a": (8.0, 6.0, 4.0, 2.0), "b": (8.0, 6.0, 4.0, 2.0), "d": (8.0, 6.0, 4.0, 2.0)}),
                                ("a <- x; b <- x; d <- b; e <- a + b;", {"a": (5.0,) * 4, "b": (5.0,) * 4, "d": (5.0,) * 4, "e": (10.0,) * 4})):
            manual = net % write
            sharded = manual.replace("manual", "semi_auto").replace("per_rank(x = [[5, 5, 5, 5]])", 'npy(x = "x.npy")')
            self.write("x.npy", npy([5] * 8, [8], "f"))
            for text, ranks, level in (manual, 1, "-O2"), (manual, 1, "-O0"), (sharded, 1, "-O2"), (sharded, 2, "-O2"), (sharded, 2, "-O0"):
                with self.subTest(write=write, text=text, ranks=ranks, level=level):
                    self.write("net.dsl", text)
                    self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks, level), ranks, "--save", "w.safetensors"))
                    saved = self.saved("w.safetensors")
                    self.assertEqual({name: saved[name] for name in expected}, expected)

    def drop(self, ranks, shard="", more="", *options):
        self.write("drop.dsl", DROPOUT % (shard, more))
        return self.ok(self.local(self.compile("drop.dsl", "drop.plan", "--ranks", ranks), ranks, *options))

    def test_what_is_dropped_does_not_depend_on_ranks_or_strategies(self):
        for more in "", "accumulate = 2;":
            one = self.drop(1, "", more).losses()
            self.assertEqual(len(set(one)), 6, "a loss each step")
            for ranks, shard in (2, ""), (4, "shard ((1, 2), (2, 2))"), (8, "shard ((4, 1), (1, 2))"), (3, ""):
                self.assertClose(self.drop(ranks, shard, more).losses(), one, relative=1e-5, what="%d ranks" % ranks)
        self.assertNotEqual(self.drop(1, "", "seed = 5;").losses()[1:], one[1:])

    ROWS = """import "nn.dsl"; net n(batch = %d) {
        input x : f32[batch, 3, 4]; input y : f32[batch, 3, 2];
        param w : f32[4, 6] = normal(0.5); param v : f32[6, 2] = normal(0.5);
        a = dropout(reshape(x, [batch * 3, 4]) @ w, p = 0.3); # a row of the files is three rows of it
        b = dropout(transpose(reshape(a, [batch, 3, 6]), [1, 0, 2]) %s, p = 0.2); # in the second dimension
        c = dropout(transpose(b, [2, 0, 1]), p = 0.1); # and in the last
        loss mse(transpose(c, [2, 1, 0]) @ %s, y);
    }
    train { data = npy(x = "x.npy", y = "y.npy"); order = shuffle(seed = 3); last = drop; optimizer = sgd(lr = 0.1); epochs = 2; log_every = 1; seed = 5; %s }"""

    WEIGHTS = "where(random(v) < 0.1, 0.0, v)" # no rows of the batch, though its first dimension is as long

    def of_rows(self, ranks, batch=6, shard="", more="", weights=WEIGHTS, words=()):
        self.write("net.dsl", self.ROWS % (batch, shard, weights, more))
        return self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks, "-Wno-uneven", "-Wno-replicated", *words), ranks))

    def test_a_row_of_a_file_has_the_same_mask_whichever_rank_has_it(self):
        pick, rows = random.Random(3), 26
        for name, width in ("x.npy", 4), ("y.npy", 2):
            with open(self.path(name), "wb") as file:
                file.write(harness.npy([pick.uniform(-1, 1) for _ in range(rows * 3 * width)], (rows, 3, width), "f"))
        one = self.of_rows(1).losses()
        self.assertEqual(len(set(one)), 8, "a loss each step")
        for ranks, shard in (2, "shard ((2, 1, 1))"), (3, "shard ((3, 1, 1))"), (6, "shard ((3, 1, 2))"), (6, "shard ((6, 1, 1))"):
            self.assertClose(self.of_rows(ranks, shard=shard).losses(), one, relative=1e-5, what="%d ranks, %s" % (ranks, shard))
        plain = self.of_rows(1, weights="v").losses()
        for ranks in 2, 3, 6: # each rank's mean of its rows; of its weights it would drop its own
            result = self.of_rows(ranks, 6 // ranks, weights="v", words=("--mode", "data_parallel"))
            found = [sum(losses) / ranks for losses in zip(*(result.losses(rank) for rank in range(ranks)))]
            self.assertClose(found, plain, relative=1e-5, what="%d replicas" % ranks)
        parts = [self.of_rows(ranks, 3, shard, "accumulate = 2;").losses() for ranks, shard in ((1, ""), (3, "shard ((3, 1, 1))"))]
        self.assertClose(parts[1], parts[0], relative=1e-5)

    def test_random_numbers_go_on_from_a_checkpoint(self):
        whole = self.drop(2, "", "checkpoint every 2 steps;", "--checkpoint-dir", "one").losses()
        steps = sorted(name for name in os.listdir(self.path("one")) if name != "lock")
        found = self.drop(4, "", "checkpoint every 2 steps;", "--checkpoint-dir", "two", "--resume", self.path("one", steps[0])).losses()
        self.assertGreater(len(found), 1)
        self.assertClose(found, whole[-len(found):], relative=1e-5)

    def test_an_eval_drops_nothing(self):
        found = [self.ok(self.local(self.path("drop.plan"), ranks, "--eval")).out for ranks in (1, 1) if self.drop(1)]
        self.assertEqual(found[0], found[1])
        net = DROPOUT % ("", "")
        for name in "a = dropout(x @ w , p = 0.25)", "b = dropout(tanh(a), p = 0.5)":
            self.assertIn(name, net)
        self.write("plain.dsl", net.replace("dropout(x @ w , p = 0.25)", "x @ w").replace("dropout(tanh(a), p = 0.5)", "tanh(a)"))
        plain = self.ok(self.local(self.compile("plain.dsl", "plain.plan", "--ranks", 1), 1, "--eval")).out
        self.assertEqual(found[0], plain)

    def test_the_share_that_is_dropped_and_the_scale(self):
        self.write("net.dsl", """import "nn.dsl"; net n { param w : f32[64, 64] = ones; a = dropout(w, p = 0.25); b = dropout(w, p = 0.25); loss sum(a * b) + 0 * sum(a); }
            train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }""")
        for ranks in 1, 4:
            result = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--save", "w.safetensors"))
            both = result.losses()[0] * 0.75 ** 2  # elements that both keep: of 4096 (3/4)^2, so that the two masks are not one
            self.assertLess(abs(both - 4096 * 0.75 ** 2), 160)
            slopes = [1 - v for v in self.saved("w.safetensors")["w"]]
            self.assertTrue(all(min(abs(s), abs(s - 2 / 0.75 ** 2)) < 1e-5 for s in slopes))

    MASK = """import "nn.dsl"; net n { param w : f32[96, 64] = ones shard %s; y = dropout(w, p = 0.4); loss sum(y); }
        train { optimizer = sgd(lr = 1); epochs = 1; steps = 2; }"""

    def mask(self, ranks, layout="(1, 1)", steps=2):
        """What was dropped in the last step, 0 or 1 an element: the gradient is 1 / 0.6 where w was kept."""
        self.write("net.dsl", (self.MASK % layout).replace("steps = 2", "steps = %d" % steps))
        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
        self.ok(self.local(plan, ranks, "--save", "w.safetensors", "--overwrite"))
        return [round((1 - v) * 0.6) for v in self.saved("w.safetensors")["w"]]

    def test_the_mask_is_the_same_element_for_element_and_as_random_as_it_says(self):
        both, first = self.mask(1), self.mask(1, steps=1)
        for ranks, layout in (2, "(2, 1)"), (4, "(2, 2)"), (8, "(1, 8)"), (3, "(3, 1)"), (6, "(1, 1)"):
            self.assertEqual(self.mask(ranks, layout), both, "%d ranks" % ranks)
        second = [a - b for a, b in zip(both, first)]
        n = len(first)
        self.assertEqual(n, 96 * 64)
        kept = 0.6
        for mask in first, second:
            self.assertEqual(set(mask), {0, 1})
            self.assertLess(abs(sum(mask) - kept * n), 5 * (kept * 0.4 * n) ** 0.5)
        # Of independent masks, or neighbours, both are kept with the product of their probabilities: five standard deviations.
        pairs = [(first, second)] + [(mask, mask[step:] + mask[:step]) for mask in (first, second) for step in (1, 2, 4, 64)]
        for a, b in pairs:
            self.assertLess(abs(sum(x * y for x, y in zip(a, b)) - kept ** 2 * n), 5 * (kept ** 2 * (1 - kept ** 2) * n) ** 0.5)


if __name__ == "__main__":
    harness.main()
