#!/usr/bin/env python3
"""Texts of several lengths: each batch is taken at the shortest that holds it, and computes what it would at the longest. The longest has no padding that the net looks at, so losses are equal
but for rounding, on any ranks, with dropout too."""
import random
import re
import unittest

import harness
from harness import Case, run

NET = """import "nn.dsl";
net texts(batch = 8, places = 24, dim = 8, most = 24, dropped = 0.1) {
    input token : i32[batch, places];
    input seen  : f32[batch, places];
    input label : i32[batch];
    param table : f32[256, dim] = normal(0.5);
    param place : f32[MOST, dim] = normal(0.5);
    x = embedding(table, token) + place[0:places, :];
    q = linear(x, dim);
    s = matmul(q, x, transpose_b = true) + (reshape(seen, shape = [batch, 1, places]) - 1) * 1e9;
    y = dropout(matmul(softmax(s), x), dropped);
    pooled = sum(y * reshape(seen, shape = [batch, places, 1]), axes = 1);
    logits = linear(pooled, 2);
    loss cross_entropy(logits, label);
}
train {
    data = files(token = csv("d.csv", column = "text", tokens = bytes IDS), seen = csv("d.csv", column = "text", tokens = bytes, give = mask MASK),
                 label = csv("d.csv", column = "label"));
    rows = split(0.8, 0.2, seed = 3);
    order = shuffle(seed = 0);
    last = short;
    epochs = 2;
    checkpoint every 5 steps;
    OPTIMIZER
}
eval { batch = 16; dropped = 0.0; metrics = loss, accuracy, f1; PREDICT }
PARALLEL
"""
LENGTHS = ", length = [6, 12, 24]"
PROGRAMS = re.compile(r"^steps by length: train (\d+), train_12 (\d+), train_6 (\d+)$", re.M)


class Lengths(Case):
    def setUp(self):
        super().setUp()
        pick = random.Random(5)
        rows = []
        for i in range(160):  # batches of each length
            n = pick.choice((4, 5, 9, 11, 20, 30)) if i % 9 == 0 else pick.choice((2, 3, 4))
            rows.append('"%s",%d' % ("".join(pick.choice("abcd") for _ in range(n)), pick.randrange(2)))
        self.write("d.csv", "text,label\n" + "\n".join(rows) + "\n")

    def net(self, name, ids=LENGTHS, mask=LENGTHS, most="most", optimizer="optimizer = adam(lr = 0.01);", predict="", parallel=""):
        text = NET
        for word, by in ("IDS", ids), ("MASK", mask), ("MOST", most), ("OPTIMIZER", optimizer), ("PREDICT", predict), ("PARALLEL", parallel):
            text = text.replace(word, by)
        self.write(name, text)
        return name

    def pair(self, ranks, *options, **net):
        """The plan with lengths, and the one of the longest alone."""
        return [self.compile(self.net(name + ".dsl", ids=length, mask=length, **net), "%s_%s.plan" % (name, ranks), "--ranks", ranks, *options)
                for name, length in (("many", LENGTHS), ("one", ""))]

    def same(self, many, one, what, relative=1e-4):
        counts = PROGRAMS.findall(many.out)
        self.assertTrue(counts and all(int(n) > 0 for n in counts[0]), "%s: not every length occurs\n%s" % (what, many))
        self.assertNotIn("steps by length", one.out)
        self.assertEqual(len(many.losses()), len(one.losses()), what)
        self.assertClose(many.losses(), one.losses(), relative, 1e-6, what)
        evals = [[float(x) for x in re.findall(r"eval: loss is (\S+), accuracy", result.out)] for result in (many, one)]
        self.assertEqual(len(evals[0]), 2)
        self.assertClose(*evals, relative, 1e-6, what)

    def test_losses_are_those_of_the_longest_on_any_ranks(self):
        for ranks in 1, 2, 4:
            many, one = self.pair(ranks)
            many, one = (self.ok(self.local(plan, ranks)) for plan in (many, one))
            self.same(many, one, "%d ranks" % ranks)

    def test_processes_agree_on_the_length_of_a_step(self):
        many, one = self.pair(4)
        one = self.ok(self.local(one, 4))
        self.same(self.ok(run([harness.prun, "--nproc", 4, many], cwd=self.folder)), one, "--nproc 4")

    def test_optimizers_modes_and_parts(self):
        for what, ranks, options in (("momentum", 2, dict(optimizer="optimizer = momentum(lr = 0.02, momentum = 0.9); clip = norm(1.0); schedule = linear();")),
                                     ("sgd of a table", 2, dict(optimizer="optimizer = sgd(lr = 0.05);")),
                                     ("adafactor", 2, dict(optimizer="optimizer = adafactor(lr = 0.01);")),
                                     ("lamb, averages", 2, dict(optimizer="optimizer = lamb(lr = 0.01); ema = 0.9;")),
                                     ("accumulated", 2, dict(optimizer="optimizer = adam(lr = 0.01); accumulate = 2;")),
                                     ("states in parts", 2, dict(parallel="parallel { shard_states = parameters; }")),
                                     ("replicas", 2, dict(parallel="parallel { mode = data_parallel; gradients = mean; }"))):
            many, one = self.pair(ranks, **options)
            many, one = (self.local(plan, ranks, "--overwrite") for plan in (many, one))
            if what == "replicas":
                self.ok(many), self.ok(one)
                for replica in 0, 1:
                    self.assertClose(many.losses(replica), one.losses(replica), 1e-4, 1e-6, what)
                continue
            self.same(self.ok(many), self.ok(one), what, 1e-3)

    def test_a_run_goes_on_on_other_ranks(self):
        many = self.pair(2)[0]
        whole = self.ok(self.local(many, 2))
        folder = many + ".checkpoints"
        other = self.pair(4)[0]
        rest = self.ok(self.local(other, 4, "--resume", folder + "/step-000000010.safetensors"))
        self.assertClose(rest.losses(), whole.losses()[10:], 0.4, 0.05, "dropout is of other rows on other ranks")
        again = self.ok(self.local(many, 2, "--resume", folder + "/step-000000010.safetensors"))
        self.assertEqual(again.texts(), whole.texts()[10:])

    def test_verify_compares_with_one_rank(self):
        many = self.pair(2)[0]
        one = self.compile("many.dsl", "reference.plan", "--ranks", 1)
        self.ok(self.local(many, 2, "--verify=" + one, "--overwrite"))

    def test_predictions_are_those_of_the_longest(self):
        many, one = self.pair(2)
        self.ok(self.local(many, 2, "--save", self.path("w.safetensors")))
        for plan, name in (many, "many.npy"), (one, "one.npy"):
            self.ok(self.local(plan, 2, "--load", self.path("w.safetensors"), "--predict", self.path(name)))
        a, b = (harness.struct.unpack("<64f", self.read(name)[-256:]) for name in ("many.npy", "one.npy"))
        self.assertClose(a, b, 1e-4, 1e-5, "predictions")
        # an answer for each place has another size for each length: such an eval has the longest alone
        plan = self.compile(self.net("each.dsl", predict="predict = x;"), "each.plan", "--ranks", 1)
        self.assertNotIn("eval_6", self.read("each.plan").decode())
        self.ok(self.local(plan, 1, "--load", self.path("w.safetensors"), "--predict", self.path("each.npy")))

    def test_what_has_another_size_is_refused(self):
        for net, words in ((dict(parallel="parallel { stages = 2; }", optimizer="optimizer = adam(lr = 0.01); accumulate = 2;"), "a net in stages takes texts of one length"),
                           (dict(mask=""), "seen is of places too, and its data do not say that its texts may be shorter"),
                           (dict(most="places"), "place is f32[6, 8] in the net for texts of 6 places, and in training f32[24, 8]")):
            result = run([harness.pcc, self.net("wrong.dsl", **net), "--ranks", "2"], cwd=self.folder)
            self.assertEqual(result.code, 1, str(result))
            self.assertIn(words, result.err)

    def test_a_plan_that_says_otherwise_is_refused(self):
        plan = self.pair(1)[0]
        text = self.read("many_1.plan").decode()
        for old, new, words in (("program train_6 ", "program test_6 ", "its name is train_ and a length"),
                                ("\nshorter\ninput 0 token", "\nshorter\ninput 0 taken", "takes input taken as another than the program before it"),
                                ("\nshorter\ninput 0 token i32[8, 6]", "\nshorter\ninput 0 token i32[8, 24]", "")):
            self.assertIn(old, text)
            self.write("edited.plan", text.replace(old, new, 1))
            result = run([harness.pcc, "check", "--update", self.path("edited.plan")], cwd=self.folder)
            self.assertNotEqual(result.code, 0, str(result))
            self.assertIn(words, result.err + result.out)


if __name__ == "__main__":
    harness.main()
