#!/usr/bin/env python3
"""Tables on one rank (`at(3)`): a net computes what one rank does, wherever its tables lie, and goes on with them elsewhere."""
import os
import re

import harness
from harness import Case, run

NET = """cell table(index, rows, dim) {
    param weight : f32[rows, dim] = normal(0.5);
    return embedding(weight, index);
}
net rec(batch = 32, rows = 50, dim = 8) {
    input a : i32[batch]; input c : i32[batch, 3]; input y : f32[batch];
    param w : f32[dim, 4] = normal(0.3) %s;
    all = table(a, rows, dim) %s;
    for i in 0..3 {
        e = table(c[:, i], rows, dim) %s;
        all = all * 0.5 + e;
    }
    d = mean(tanh(matmul(all, w)), axes = 1) - y;
    loss mean(d * d);
}
train { data = uniform(seed = 1); steps = 6; optimizer = %s; %s }
eval { data = uniform(seed = 2); steps = 2; metrics = loss; }
parallel { search = %s; %s }
"""

WHERE = {"none": ("", "", ""), "first": ("", "shard { weight = at(0); }", "shard { weight = at(i); }"),
         "second": ("shard at(1)", "shard { weight = at(1); }", "shard { weight = at(1 - i % 2); }")}


class Tables(Case):
    def plan(self, name, ranks, where, optimizer="sgd(lr = 0.1)", more="", search="sharding_propagation", options=(), parallel=""):
        self.write(name + ".dsl", NET % (*WHERE[where], optimizer, more, search, parallel))
        return self.compile(self.path(name + ".dsl"), name + ".plan", "--ranks", ranks, "-Wno-replicated", *options)

    def prun(self, ranks, plan, *more):
        return self.ok(self.local(plan, ranks, *more))

    def expect_equal(self, one, other):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=2e-5 * max(1, abs(a)))

    def test_they_compute_what_one_rank_does(self):
        for optimizer, more in (("sgd(lr = 0.1)", ""), ("adam(lr = 0.01)", "clip = norm(0.1);"), ("lazy_adam(lr = 0.01)", ""),
                                ("momentum(lr = 0.1, momentum = 0.9)", "accumulate = 2; ema = 0.9;"), ("lamb(lr = 0.01)", "")):
            one = self.prun(1, self.plan("one", 1, "first", optimizer, more))
            for ranks, where, search, options in ((4, "first", "sharding_propagation", ()), (4, "first", "sharding_propagation", ("-O0",)),
                                                  (8, "second", "auto", ()), (3, "second", "sharding_propagation", ("-O1",))):
                found = self.prun(ranks, self.plan("some", ranks, where, optimizer, more, search, options))
                self.expect_equal(one.losses(), found.losses())
                evaluations = [[float(loss) for loss in re.findall(r"eval: loss is (\S+)", done.out)] for done in (one, found)]
                self.assertEqual(len(evaluations[0]), 1)
                self.expect_equal(*evaluations)

    def test_in_a_pipeline_they_compute_what_one_rank_does(self):
        for more, parallel in (("accumulate = 4;", "stages = 2;"), ("accumulate = 4;", "stages = 2; chunks = 2;"), ("accumulate = 2; clip = norm(0.1);", "stages = 2; pipeline_scheduler = gpipe;")):
            for optimizer in ("adam(lr = 0.01)", "lazy_adam(lr = 0.01)", "sgd(lr = 0.1)"):
                if optimizer.startswith("lazy") and "clip" in more:
                    continue
                one = self.plan("one", 1, "second", optimizer, more)
                for search, options in (("sharding_propagation", ()), ("auto", ()), ("sharding_propagation", ("-O0",))):
                    plan = self.plan("staged", 4, "second", optimizer, more, search, options, parallel)
                    self.expect_equal(self.prun(1, one).losses(), self.prun(4, plan).losses())
                    self.assertIn("verified: 6 steps", self.prun(4, plan, "--verify=" + one).out)

    def test_every_communicator_computes_the_same(self):
        plan = self.plan("some", 4, "first")
        found = self.prun(4, plan)
        self.assertEqual(found.texts(), self.ok(run([harness.prun, "--nproc", 4, plan], cwd=self.folder)).texts())
        for way in ("shared", "messages", "nodes:2"):
            self.assertEqual(found.texts(), self.ok(self.mpi(plan, 4, env={"PRUN_COMM": way})).texts(), way)
        one = self.plan("one", 1, "none")
        self.assertIn("verified: 6 steps", self.prun(4, plan, "--verify=" + one).out)

    def test_a_checkpoint_goes_on_with_tables_elsewhere(self):
        for per_rank in ("", " per_rank"):
            whole = self.prun(1, self.plan("one", 1, "none", "adam(lr = 0.01)")).losses()
            for number, (first, then) in enumerate((((4, "first"), (2, "second")), ((2, "second"), (1, "none")), ((1, "none"), (4, "first")))):
                kept = "kept%d%s" % (number, per_rank.strip())
                self.prun(first[0], self.plan("begun", *first, "adam(lr = 0.01)", "checkpoint every 3 steps%s;" % per_rank), "--checkpoint-dir", kept)
                taken = [name for name in sorted(os.listdir(self.path(kept))) if "000000003" in name]
                rest = self.prun(then[0], self.plan("rest", *then, "adam(lr = 0.01)"), "--resume", "%s/%s" % (kept, taken[0]), "--checkpoint-dir", "other")
                self.expect_equal(whole[3:], rest.losses())


if __name__ == "__main__":
    harness.main()
