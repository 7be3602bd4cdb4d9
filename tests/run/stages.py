#!/usr/bin/env python3
"""Pipelines (stages): a net in stages computes what one rank does, whatever runs it, and goes on as any other."""
import os
import re

import harness
from harness import Case, run

SMALL_GPT = ["-D", "batch=16", "-D", "places=8", "-D", "dim=16", "-D", "heads=2", "-D", "layers=8", "-D", "words=23"]

NET = """net staged(batch = 16) {
    input x : f32[batch, 12]; input label : i32[batch];
    param w1 : f32[12, 24] = normal(0.3); param b : f32[24] = zeros;
    param w2 : f32[24, 24] = normal(0.3); param w3 : f32[24, 4] = normal(0.3);
    h = relu(matmul(x, w1) + b); g = relu(matmul(h, w2)); y = matmul(g, w3);
    loss cross_entropy(y, label);
}
train {
    data = npy(x = "x.npy", label = "label.npy"); optimizer = adamw(lr = 0.01); schedule = cosine(warmup = 2, end = 0.1);
    clip = norm(0.5); epochs = 3; micro_batches = 4; %s
}
eval { data = npy(x = "x.npy", label = "label.npy"); every = epoch; batch = 8; metrics = accuracy; }
parallel { stages = %d; search = sharding_propagation; %s }
"""


class Stages(Case):
    def plan(self, source, name, *options):
        return self.compile(source, name, "-Wno-replicated", *options)

    def prun(self, ranks, plan, *more):
        return self.ok(self.local(plan, ranks, *more))

    def expect_equal(self, one, other, tolerance=1e-5):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(a)))

    def test_gpt_in_four_stages_of_two_ranks_is_that_of_one(self):
        source = harness.edited(self.sample("gpt2.dsl"), ("steps     = 4;", "steps = 4; micro_batches = 4;"),
                                ("adamw(lr = 0.0006, weight_decay = 0.1)", "momentum(lr = 0.1, momentum = 0.9)"))
        self.write("gpt.dsl", source)
        common = [*SMALL_GPT, "-I", os.path.join(harness.sources, "samples")]
        one = self.plan(self.path("gpt.dsl"), "one.plan", "--ranks", 1, *common)
        whole = self.prun(1, one, "--save", self.path("one.safetensors"))
        plain, chunks = ["--search", "sharding_propagation", "--stages", 4], ["--search", "sharding_propagation", "--stages", 4, "--chunks", 2]
        for options in (plain, [*plain, "-O0"], ["--machine", "gpu8", "--stages", 4], chunks, [*chunks, "-O0"], ["--machine", "gpu8", "--stages", 2, "--chunks", 4]):
            staged = self.plan(self.path("gpt.dsl"), "staged.plan", "--ranks", 8, *common, *options)
            found = self.prun(8, staged, "--save", self.path("staged.safetensors"))
            self.expect_equal(whole.losses(), found.losses())
            expected, trained = self.saved("one.safetensors"), self.saved("staged.safetensors")
            self.assertEqual(expected.keys(), trained.keys())
            for name in expected:
                self.expect_equal(expected[name], trained[name])
            self.assertIn("verified: 4 steps", self.prun(8, staged, "--verify=" + one).out)

    def check_against_one(self, name, text, ranks, *options):
        """The net's plan is proved, and computes what one rank does."""
        self.write(name + ".dsl", text)
        one = self.plan(self.path(name + ".dsl"), name + ".one.plan", "--mode", "stand_alone")
        staged = self.plan(self.path(name + ".dsl"), name + ".plan", "--ranks", ranks, *options)
        self.assertIn("verified: 2 steps", self.prun(ranks, staged, "--verify=" + one).out)

    def test_a_state_is_written_where_it_lies_and_not_where_its_new_value_is_computed(self):
        net = """net kept(b = 4) {
            input x : f32[b, 3]; input y : f32[b, 3];
            param u : f32[3] = normal(0.3); param w : f32[3, 3] = normal(1); state kept : f32 = zeros;
            c = sign(x) + u; d = matmul(c, w); e = mse(d, y);
            kept <- 0.5 * kept + 0.5 * mean(c);
            loss e + kept;
        }
        train { data = normal(seed = 3); optimizer = sgd(lr = 0.01); epochs = 1; steps = 2; accumulate = %d; }
        """
        for ranks, stages, chunks, accumulate in (8, 8, 1, 1), (2, 2, 4, 12), (3, 3, 3, 12):
            self.check_against_one("kept", net % accumulate, ranks, "--stages", stages, "--chunks", chunks)

    def test_results_that_no_rank_of_a_stage_reads_are_left_out(self):
        """What is computed from inputs is computed on every rank: here a fused step of two results, and some ranks read neither."""
        self.check_against_one("unread", """net unread {
            input x : f32[12, 4]; input pass : bool[4, 12]; input label : i32[1];
            param w : f32[12, 7] = uniform(-0.5, 0.5);
            v1 = stop_gradient(x) recompute; v2 = softmax(v1) recompute; v4 = first(pass, axis = 0) recompute; v6 = 1 - v4 recompute;
            v7 = pick(v2, v6) recompute; v8 = reshape(v7, shape = [1, 12]) recompute; v10 = matmul(v8, w) recompute;
            v12 = cross_entropy(v10, label, reduction = mean) recompute;
            loss v12;
        }
        train { accumulate = 2; data = uniform(seed = 341); optimizer = sgd(lr = 0.01); steps = 2; seed = 135; }
        """, 8, "--stages", 8)

    def small(self, name, stages, ranks, train="", parallel=""):
        values = [((i * 7919) % 1000) / 500 - 1 for i in range(64 * 12)]
        self.write("x.npy", harness.npy(values, (64, 12), "f"))
        self.write("label.npy", harness.npy([(i * i) % 4 for i in range(64)], (64,), "q"))
        self.write(name + ".dsl", NET % (train, stages, parallel))
        return self.plan(self.path(name + ".dsl"), name + ".plan", "--ranks", ranks)

    def test_every_communicator_computes_the_same(self):
        one = self.prun(1, self.small("one", 1, 1))
        for parallel in ("", "chunks = 2;"):
            plan = self.small("staged", 2, 4, parallel=parallel)
            found = self.prun(4, plan)
            self.expect_equal(one.losses(), found.losses())
            self.assertEqual(found.texts(), self.ok(run([harness.prun, "--nproc", 4, plan], cwd=self.folder)).texts())
            for way in ("shared", "messages", "nodes:2"):
                self.assertEqual(found.texts(), self.ok(self.mpi(plan, 4, env={"PRUN_COMM": way})).texts(), way)

    def test_what_two_stages_send_together_arrives(self):
        """A second value of the first stage goes with the first in one message; the roles count their buckets each by itself."""
        self.small("data", 1, 1)
        self.write("branches.dsl", NET.replace("y = matmul(g, w3);", "c = h * 0.5 stage 0; y = matmul(g + c, w3);").replace("g = relu(matmul(h, w2));", "g = relu(matmul(h, w2)) stage 1;") % ("", 2, ""))
        one, two = (self.plan(self.path("branches.dsl"), "b%d.plan" % ranks, "--ranks", ranks) for ranks in (1, 4))
        self.assertRegex(self.read("b4.plan").decode(), r"start exchange \d+ \(\d+\) -> \(\d+\) stream=1 bucket=")
        whole = self.prun(1, one).losses()
        for way in ("shared", "messages", "nodes:2"):
            self.expect_equal(whole, self.ok(self.mpi(two, 4, env={"PRUN_COMM": way})).losses())
        self.expect_equal(whole, self.prun(4, two).losses())
        self.assertRegex(self.ok(run([harness.pcc, "check", two], cwd=self.folder)).out, r"sent: program train sends \d+ bytes a step in the role that sends most, as it says")

    def test_an_evaluation_is_that_of_one_rank(self):
        for stages, ranks, parallel in ((3, 6, ""), (2, 4, "chunks = 2;")):
            self.expect_evaluated(ranks, self.small("staged", stages, ranks, parallel=parallel))

    def expect_evaluated(self, nranks, two):
        one = self.small("one", 1, 1)
        evaluations = [re.findall(r"eval: loss is (\S+), accuracy is (\S+) \((\d+) rows\)", self.prun(ranks, plan).out) for ranks, plan in ((1, one), (nranks, two))]
        self.assertEqual(len(evaluations[0]), 3)
        for a, b in zip(*evaluations):
            self.expect_equal([float(a[0])], [float(b[0])])
            self.assertEqual(a[1:], b[1:])
        self.prun(1, one, "--save", self.path("w.safetensors"))
        for ranks, plan, file in ((1, one, "one.npy"), (nranks, two, "staged.npy")):
            self.prun(ranks, plan, "--eval", "--load", self.path("w.safetensors"), "--predict", self.path(file))
        self.assertEqual(self.read("one.npy"), self.read("staged.npy"))

    def test_a_checkpoint_goes_on_in_other_stages_and_on_other_ranks(self):
        whole = self.prun(1, self.small("one", 1, 1)).losses()
        for settings in ("", " per_rank"):
            for number, (first, then, parallel) in enumerate((((2, 4), (3, 6), ""), ((4, 4), (1, 2), ""), ((1, 2), (2, 4), ""), ((2, 4), (4, 4), "chunks = 2;"))):
                kept = "kept%d%s" % (number, settings.strip())
                begun = self.small("begun", *first, train="checkpoint every 5 steps%s;" % settings, parallel=parallel)
                self.prun(first[1], begun, "--checkpoint-dir", kept)
                taken = [name for name in os.listdir(self.path(kept)) if "000000005" in name]
                self.assertEqual(len(taken), 1, os.listdir(self.path(kept)))
                rest = self.prun(then[1], self.small("rest", *then), "--resume", os.path.join(kept, taken[0]), "--checkpoint-dir", "other")
                self.expect_equal(whole[5:], rest.losses())

    def test_hints_move_operators_and_change_no_result(self):
        """Also where the stages follow each other in another order than the text."""
        net = harness.edited(self.sample("gpt2.dsl"), ("steps     = 4;", "steps = 4; micro_batches = 4;"),
                             ("adamw(lr = 0.0006, weight_decay = 0.1)", "momentum(lr = 0.1, momentum = 0.9)"))
        self.write("gpt.dsl", net)
        common = [*SMALL_GPT, "-I", os.path.join(harness.sources, "samples"), "--search", "sharding_propagation"]
        whole = self.prun(1, self.plan(self.path("gpt.dsl"), "one.plan", "--ranks", 1, *common)).losses()
        paths = run([harness.pcc, "--list-paths", self.path("gpt.dsl"), *common], cwd=self.folder).out
        layers = sorted(set(re.findall(r"(?m)^\s*(\S*\b[0-7])\s+call", paths)))
        self.assertEqual(len(layers), 8, paths)
        for stages in ("00001111", "01111111", "00000001"):
            hints = [word for layer, stage in zip(layers, stages) for word in ("--shard", "%s=stage %s" % (layer, stage))]
            plan = self.plan(self.path("gpt.dsl"), "hinted.plan", "--ranks", 4, "--stages", 2, *common, *hints)
            self.expect_equal(whole, self.prun(4, plan).losses())
        self.write("branches.dsl", NET.replace("h = relu(matmul(x, w1) + b);", "h = relu(matmul(x, w1) + b); late = relu(h) stage 2; early = x * 2 stage 0;")
                   .replace("loss cross_entropy(y, label);", "loss cross_entropy(y, label) + mean(late) + mean(early);") % ("", 3, ""))
        one, three = (self.prun(ranks, self.plan(self.path("branches.dsl"), "b%d.plan" % ranks, "--ranks", ranks)).losses() for ranks in (1, 6) if self.small("data", 1, 1))
        self.expect_equal(one, three)

    def test_a_parameter_is_printed_whole(self):
        one, two = self.prun(1, self.small("one", 1, 1), "--print", "w3"), self.prun(4, self.small("staged", 2, 4), "--print", "w3")
        numbers = [[float(word) for word in re.findall(r"-?\d+\.\d+", re.search(r"w3 = .*", done.out)[0])] for done in (one, two)]
        self.assertEqual(len(numbers[0]), 24 * 4)
        self.expect_equal(*numbers, tolerance=2e-4)


if __name__ == "__main__":
    harness.main()
