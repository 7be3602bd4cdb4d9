#!/usr/bin/env python3
"""Batches in parts (micro_batches): the losses of whole ones, asked for or taken because a limit of memory leaves nothing else."""
import re
import unittest

import harness
from harness import Case, run

NET = """net parts(batch = 32, dim = 16) {
    input x : f32[batch, 64, dim]; input label : f32[batch, 64, dim];
    param w : f32[dim, dim] = normal(0.3); param v : f32[dim, dim] = normal(0.3);
    h = tanh(matmul(x, w)); y = matmul(h, v);
    loss mse(y, label) + sum(square(h)) / batch * 0.001 + sum(square(v)) * 0.01;
}
train { data = %s; optimizer = adamw(lr = 0.01); steps = 5; clip = norm(1.0); %s }
parallel { mode = auto; %s }
"""


# A table for each column of an input, as a recommender has them.
COLUMNS = """net columns(batch = 32, dim = 16, rows = 50) {
    input c : i32[batch, 3]; input label : f32[batch, 1];
    param a : f32[rows, dim] = normal(0.3); param b : f32[rows, dim] = normal(0.3); param w : f32[dim, 1] = normal(0.3);
    h = embedding(a, c[:, 0]) + embedding(b, c[:, 2]);
    loss mse(matmul(h, w), label);
}
train { data = %s; optimizer = sgd(lr = 0.1); steps = 5; %s }
parallel { mode = auto; %s }
"""

# States that begin at zeros, one a row, as those of an LSTM.
RECURRENT = """import "nn.dsl";
net recurrent(batch = 32, places = 4, dim = 8) {
    input x : f32[batch, places, dim]; input label : f32[batch, dim];
    const one : f32[batch, dim] = ones;
    h = gru(lstm(x, dim), dim);
    loss mse(h[:, -1] + one%s, label);
}
train { data = %%s; optimizer = adamw(lr = 0.01); steps = 5; %%s }
parallel { mode = auto; %%s }
"""


class Micro(Case):
    def losses(self, data, train, parallel, ranks, name, net=NET):
        with open(self.path(name + ".dsl"), "w", encoding="utf-8") as file:
            file.write(net % (data, train, parallel))
        compiled = run([harness.pcc, self.path(name + ".dsl"), "--ranks", ranks, "-o", self.path(name + ".plan"), "--stats"])
        self.assertEqual(compiled.code, 0, str(compiled))
        trained = run([harness.prun, "--ranks", ranks, self.path(name + ".plan")])
        self.assertEqual(trained.code, 0, str(trained))
        found = [float(loss) for loss in re.findall(r"loss is (\S+)", trained.out)]
        self.assertEqual(len(found), 5, trained.out)
        return found, compiled.out

    def expect_equal(self, one, other):
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-5 * abs(a))

    def test_verify_says_which_parts_are_missing(self):
        data = "normal(seed = 1)"
        for ranks, parts, name in ((2, "micro_batches = 4;", "parts"), (1, "", "whole"), (1, "micro_batches = 4;", "same")):
            self.losses(data, parts, "", ranks, name)
        verify = lambda one: run([harness.prun, "--ranks", 2, self.path("parts.plan"), "--verify=" + self.path(one)])
        said = verify("whole.plan")
        self.assertEqual(said.code, 1, str(said))
        self.assertIn("this plan does a step in 4 batches, %s in 1" % self.path("whole.plan"), said.err)
        self.assertIn("train { micro_batches = 4; }", said.err)
        self.assertIn("verified: 5 steps", verify("same.plan").out)

    def test_parts_train_as_the_batch_does(self):
        for data in ("normal(seed = 1)", "uniform(seed = 2)"):
            whole, _ = self.losses(data, "", "", 1, "whole")
            for ranks in (1, 4):
                for parts in (2, 8):
                    found, _ = self.losses(data, "micro_batches = %d;" % parts, "", ranks, "parts")
                    self.expect_equal(whole, found)
            found, _ = self.losses(data, "micro_batches = 4; accumulate = 2;", "", 2, "both")
            both, _ = self.losses(data, "accumulate = 2;", "", 1, "twice")
            self.expect_equal(both, found)

    def test_parts_of_columns(self):
        whole, _ = self.losses("normal(seed = 1)", "", "", 1, "whole", COLUMNS)
        for train, parallel, ranks in (("micro_batches = 4;", "", 2), ("micro_batches = 2;", "stages = 2;", 4)):
            found, _ = self.losses("normal(seed = 1)", train, parallel, ranks, "parts", COLUMNS)
            self.expect_equal(whole, found)

    def test_parts_with_a_number_for_each_row(self):
        whole, _ = self.losses("normal(seed = 1)", "", "", 1, "whole", RECURRENT % "")
        for train, parallel, ranks in (("micro_batches = 4;", "", 1), ("micro_batches = 2;", "stages = 2;", 4)):
            found, _ = self.losses("normal(seed = 1)", train, parallel, ranks, "parts", RECURRENT % "")
            self.expect_equal(whole, found)

    def test_parts_draw_the_random_numbers_of_their_rows(self):
        dropped = 'import "nn.dsl";\n' + NET.replace(" + sum(square(h)) / batch * 0.001", "").replace("h = tanh(matmul(x, w));", "h = dropout(tanh(reshape(matmul(x, w), [batch * 64, dim])), p = 0.3);").replace(
            "y = matmul(h, v);", "y = matmul(reshape(h, [batch, 64, dim]), v);")
        limit = "memory = %s KiB; recompute = none; shard_states = none;"
        for data in ("normal(seed = 1)", 'npy(x = "x.npy", label = "x.npy")'):
            with open(self.path("x.npy"), "wb") as file:
                file.write(harness.npy([i % 13 / 6 - 1 for i in range(5 * 32 * 64 * 16)], (5 * 32, 64, 16), "f"))
            whole, _ = self.losses(data, "", "", 1, "whole", dropped)
            for ranks, train in (1, "micro_batches = 4;"), (4, "micro_batches = 2;"):
                found, _ = self.losses(data, train, "", ranks, "parts", dropped)
                self.expect_equal(whole, found)
            found, said = self.losses(data, "", limit % 300, 4, "less", dropped)
            self.assertRegex(said, r"measure        micro_batches = \d+: ")
            self.expect_equal(whole, found)
        turned = dropped.replace("h = dropout(tanh(reshape(matmul(x, w), [batch * 64, dim])), p = 0.3);", "h = dropout(transpose(tanh(matmul(x, w)), [1, 0, 2]), p = 0.3);").replace(
            "reshape(h, [batch, 64, dim])", "transpose(h, [1, 0, 2])")
        _, said = self.losses("normal(seed = 1)", "micro_batches = 2;", "", 4, "turned", turned)
        self.assertNotIn("measure        micro_batches", said)
        with open(self.path("turned.dsl"), "w", encoding="utf-8") as file:
            file.write(turned % ("normal(seed = 1)", "", limit % 300)) # its parts would draw others: they are not taken for memory
        refused = run([harness.pcc, self.path("turned.dsl"), "--ranks", 4, "-o", self.path("turned.plan")])
        self.assertEqual(refused.code, 1, str(refused))

    def test_what_counts_rows_is_named(self):
        with open(self.path("counts.dsl"), "w", encoding="utf-8") as file:
            file.write(RECURRENT % " * sum(one)" % ("normal(seed = 1)", "micro_batches = 2;", ""))
        refused = run([harness.pcc, self.path("counts.dsl"), "-o", self.path("counts.plan")])
        self.assertEqual(refused.code, 1, str(refused))
        self.assertRegex(refused.err, r"(?s):8:\d+: error: the net of a part .*:4:11: note: here is the first that does")

    def test_parts_are_taken_where_nothing_else_fits(self):
        limit = "memory = 154 KiB; recompute = none;"
        whole, _ = self.losses("normal(seed = 1)", "", "", 4, "whole")
        found, said = self.losses("normal(seed = 1)", "", limit, 4, "less")
        # no more than are needed, though 32 rows could be 32 parts
        self.assertRegex(said, r"measure        micro_batches = 16: .* less on a rank, .* more a step")
        self.expect_equal(whole, found)
        with open(self.path("less.dsl"), "w", encoding="utf-8") as file:
            file.write(NET % ("normal(seed = 1)", "micro_batches = 1;", limit))
        refused = run([harness.pcc, self.path("less.dsl"), "--ranks", 4, "-o", self.path("refused.plan")])
        self.assertEqual(refused.code, 1, str(refused))
        self.assertIn("more than the 154.0 KiB that it may", refused.err)


if __name__ == "__main__":
    harness.main()
