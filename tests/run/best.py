#!/usr/bin/env python3
"""The best checkpoint and the early end, end to end. One weight goes from 0 towards 10 and the evaluation wants 4: its loss falls until the fifth epoch and rises
from there on, by a formula."""
import os
import re
import unittest

import harness
from harness import Case, npy

RATE, GOAL, WANTED, BEST = 0.05, 10.0, 4.0, 5


def weight(epoch):
    return GOAL * (1 - (1 - 2 * RATE) ** epoch)


class Best(Case):
    def plan(self, settings, ranks=1, epochs=12, every="epoch", metrics="loss", name="net.plan", term=""):
        for file, values in {"x": [1.0] * 4, "y": [GOAL] * 4, "held_x": [1.0] * 6, "held_y": [WANTED] * 6}.items():
            self.write(file + ".npy", npy(values, (len(values), 1), "d"))
        self.write("net.dsl", """net n(batch = 4) {
            input x : f64[batch, 1]; input y : f64[batch, 1];
            param w : f64[1, 1] = zeros;
            loss mse(matmul(x, w), y)%s;
        }
        train { data = npy(x = "x.npy", y = "y.npy"); epochs = %d; optimizer = sgd(lr = %r); %s }
        eval  { data = npy(x = "held_x.npy", y = "held_y.npy"); every = %s; metrics = %s; }
        """ % (term, epochs, RATE, settings, every, metrics))
        return self.compile("net.dsl", name, "--ranks", ranks)

    def steps(self, plan="net.plan"):
        return sorted(int(re.sub(r"\D", "", name)) for name in os.listdir(self.path(plan + ".checkpoints")) if name.startswith("step-"))

    def trained(self, plan, ranks, *options):
        result = self.ok(self.local(plan, ranks, "--save", self.path("w.safetensors"), *options))
        return result, self.saved("w.safetensors")["w"][0]

    def test_the_best_stays_and_is_restored(self):
        for ranks in 1, 2, 4:
            for keep, kept in (1, [5, 12]), (3, [5, 11, 12]):
                result, w = self.trained(self.plan("checkpoint every epoch keep %d best loss; restore best;" % keep, ranks), ranks, "--overwrite")
                self.assertAlmostEqual(w, weight(BEST), places=12)
                self.assertEqual(self.steps(), kept)
                self.assertRegex(result.out, r"\nbest: loss is 0\.009\d+ after step 5, restored from \S+step-000000005.safetensors\n")

    def test_the_least_penalty_is_the_best(self):
        """The weight grows, so (w - 3)^2 falls until the fourth epoch and rises from there on, whatever the rows are."""
        for ranks in 1, 2:
            plan = self.plan("checkpoint every epoch keep 1 best penalty; restore best;", ranks, metrics="loss, penalty", term=" + sum(square(w - 3)) * 1e-9")
            result, w = self.trained(plan, ranks, "--overwrite")
            epoch = min(range(1, 13), key=lambda e: (weight(e) - 3) ** 2)
            self.assertAlmostEqual(w, weight(epoch), places=6)
            self.assertEqual(self.steps(), sorted([epoch, 12]))
            self.assertRegex(result.out, r"\nbest: penalty is \S+ after step %d, restored from " % epoch)

    def test_a_macro_average_is_named_as_the_eval_names_it(self):
        self.write("d.csv", "x,y\n" + "".join("%d,%d\n" % (i % 7, i % 7 > 3) for i in range(40)))
        for said in "f1(macro)", "f1_macro":
            self.write("net.dsl", """net n(batch = 8) { input x : f32[batch, 1]; input y : i32[batch]; param w : f32[1, 2] = zeros; param b : f32[2] = zeros; loss cross_entropy(x @ w + b, y); }
                train { data = csv("d.csv"); epochs = 9; optimizer = adam(lr = 0.5); checkpoint every epoch keep 2 best %s; restore best; early_stop %s patience 2; }
                eval { metrics = f1(macro); data = csv("d.csv"); }""" % (said, said))
            result = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 1), 1, "--overwrite"))
            self.assertRegex(result.out, r"early stop after epoch .*best f1_macro is 1")
            self.assertRegex(result.out, r"\nbest: f1_macro is 1\.0 after")

    def test_without_restore_the_last_states_are_saved(self):
        result, w = self.trained(self.plan("checkpoint every epoch keep 2 best loss;"), 1)
        self.assertAlmostEqual(w, weight(12), places=12)
        self.assertEqual(self.steps(), [5, 12])
        self.assertNotIn("restored", result.out)

    def test_without_keep_all_stay(self):
        self.trained(self.plan("checkpoint every epoch best loss;"), 1)
        self.assertEqual(self.steps(), list(range(1, 13)))

    def test_the_best_has_a_checkpoint_where_none_is_due(self):
        result, w = self.trained(self.plan("checkpoint every 4 steps keep 1 best loss; restore best;"), 1)
        self.assertAlmostEqual(w, weight(BEST), places=12)
        self.assertEqual(self.steps(), [5, 12])

    def test_training_ends_where_nothing_gets_better(self):
        for patience, delta, last in (1, 0, 6), (3, 0, 8), (2, 1.0, 6):  # a gain of more than 1: up to epoch 4
            result, w = self.trained(self.plan("early_stop loss patience %d delta %r;" % (patience, delta)), 1)
            self.assertAlmostEqual(w, weight(last), places=12)
            self.assertEqual(len(re.findall("eval: loss is", result.out)), last)
            best = BEST if delta == 0 else 4
            self.assertIn("after step %d, and %d evaluation%s no better since\n" % (best, patience, " was" if patience == 1 else "s were"), result.out)

    def test_patience_counts_anew_behind_a_better_one(self):
        result, w = self.trained(self.plan("early_stop loss patience 30; checkpoint every epoch keep 1 best loss; restore best;"), 1)
        self.assertNotIn("early stop", result.out)
        self.assertAlmostEqual(w, weight(BEST), places=12)

    def test_what_is_better_is_the_metrics_own(self):
        """perplexity falls as the loss does; a plan that took it for a metric that rises would keep the first."""
        _, w = self.trained(self.plan("checkpoint every epoch keep 1 best perplexity; restore best;", metrics="loss, perplexity"), 1)
        self.assertAlmostEqual(w, weight(BEST), places=12)

    def test_a_run_that_goes_on_knows_the_best(self):
        settings = "checkpoint every epoch best loss; early_stop loss patience 3; restore best;"
        whole, _ = self.trained(self.plan(settings), 1)
        for ranks in 1, 2:
            for step in 3, 4, 5, 6, 7, 8:
                plan = self.plan(settings, ranks, name="again.plan")
                result, w = self.trained(plan, ranks, "--resume", self.path("net.plan.checkpoints", "step-%09d.safetensors" % step), "--checkpoint-dir",
                                         self.path("net.plan.checkpoints"))
                self.assertAlmostEqual(w, weight(BEST), places=12)
                self.assertIn(re.search("early stop.*\n", whole.out)[0], result.out)

    def test_a_best_that_is_gone_counts_no_more(self):
        settings = "checkpoint every epoch best loss; restore best;"
        self.trained(self.plan(settings), 1)
        os.remove(self.path("net.plan.checkpoints", "step-000000005.safetensors"))
        result, w = self.trained(self.plan(settings), 1, "--resume", self.path("net.plan.checkpoints", "step-000000008.safetensors"))
        self.assertIn("step-000000005.safetensors: the best checkpoint so far is not there: it counts no more", result.err)
        self.assertAlmostEqual(w, weight(9), places=12)

    def test_a_damaged_note_of_the_best_is_no_checkpoint(self):
        self.trained(self.plan("checkpoint every epoch keep 1 best loss;"), 1)
        path = self.path("net.plan.checkpoints", "step-000000012.safetensors")
        data = self.read(path)
        self.assertIn(b'"loss 5 0x', data)
        self.write(path, data.replace(b'"loss 5 0x', b'"lass 5 0x'))
        self.assertFails(self.local(self.path("net.plan"), 1, "--resume", path), 3, "step-000000012.safetensors: ")

    def test_the_loss_that_is_nan_is_never_the_best(self):
        plan = self.plan("checkpoint every epoch best loss; restore best; on_nan = go;", 2, epochs=2)
        self.write("held_y.npy", npy([float("nan")] * 6, (6, 1), "d"))
        result = harness.run([harness.prun, "--nproc", 2, plan], cwd=self.folder)
        self.assertEqual((result.code, re.findall("restore best.*", result.err)),
                         (4, ["restore best: there is none: no evaluation has a number as its loss, or the checkpoint is gone"]))

    def test_a_plan_whose_eval_lacks_the_metric_is_refused(self):
        plan = self.plan("checkpoint every epoch best loss;")
        self.write("edited.plan", harness.edited(plan, (" best=loss", " best=f1")))
        self.ok(harness.run([harness.pcc, "check", "--update", self.path("edited.plan")]))
        result = self.local(self.path("edited.plan"), 1)
        self.assertNotEqual(result.code, 0)
        self.assertRegex(result.err, "by f1, and the program eval does not report it")


if __name__ == "__main__":
    harness.main()
