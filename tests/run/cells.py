#!/usr/bin/env python3
"""Nets of cells: they compute what the nets written out do, and hints from outside change how they are spread, not what they compute."""
import json
import os
import re
import shutil
import struct

import harness
from harness import Case, edited, run


class Cells(Case):
    def copy(self, *names):
        for name in names:
            with open(self.sample(name)) as file:
                self.write(name, file.read())
        return self.path(names[0])

    def spmd(self):
        """The net with the strategies of its operators."""
        with open(self.path("ir/05_step_parallel_begin.spmd")) as text:
            return text.read()

    def test_absolute_values_and_their_gradients_are_exact(self):
        """mean(|x - t|): its gradient is the sign of each difference over their number, 0 where there is none."""
        self.copy("nn.dsl")
        self.write("x.csv", "1,1,1,1\n1,1,1,1\n")
        self.write("t.csv", "1.5,0.25,-1,-0.0\n1.5,0.25,-1,-0.0\n")
        for ranks in 1, 2, 4:
            self.write("l1.dsl", """import "nn.dsl";
                net l(batch = 2) { input x : f64[batch, 4]; input t : f64[batch, 4]; param w : f64[4] = [-3.5, 0.25, 2.0, 0.0]; loss l1(x * w, t); }
                train { data = csv(x = "x.csv", t = "t.csv"); last = pad; optimizer = sgd(lr = 4); }""")
            done = self.ok(self.local(self.compile("l1.dsl", "l1.plan", "--ranks", ranks), ranks, "--save", self.path("w")))
            self.assertEqual(done.losses()[0], 2.0)
            self.assertEqual(struct.unpack("<4d", self.read("w")[-32:]), (-3.5 + 1, 0.25, 2.0 - 1, 0.0))

    def test_attention_from_cells_has_the_losses_of_attention_written_out(self):
        for ranks in 1, 4:
            written = self.ok(self.local(self.compile(self.sample("attention.dsl"), "written.plan", "--ranks", ranks), ranks))
            cells = self.ok(self.local(self.compile(self.copy("attention_cells.dsl", "nn.dsl"), "cells.plan", "--ranks", ranks), ranks))
            self.assertEqual(written.losses(None), cells.losses(None))
            self.assertEqual(len(cells.losses(None)), 10)

    def test_a_file_of_hints_changes_the_plan_and_not_the_losses(self):
        source = self.copy("transformer.dsl", "nn.dsl")
        one = self.compile(source, "one.plan", "--ranks", 1)
        expected = self.ok(self.local(one, 1)).losses(None)
        with open(self.sample("transformer_hints.dsl")) as file:
            hints = file.read()
        for ranks, mesh in (2, "dp = 1, tp = 2"), (4, "dp = 2, tp = 2"), (8, "dp = 4, tp = 2"):
            file = self.write("hints%d.dsl" % ranks, edited_text(hints, "dp = 4, tp = 2", mesh))
            plan = self.compile(source, "net.plan", "--ranks", ranks, "--hints", file, "--dump-ir=" + self.path("ir"))
            self.assertEqual(len(re.findall(r" strategy=user", self.spmd())), 16, "eight operators a block")
            result = self.ok(self.local(plan, ranks, "--verify=" + one))
            self.assertRegex(result.out, r"\nverified: \d+ steps")
            self.assertClose(result.losses(None), expected, relative=2e-4, absolute=1e-11, what=str(result))

    def test_llama_by_two_kinds_of_hints_has_the_losses_of_one_rank(self):
        """samples/llama_tiny_hints.dsl: no score is anywhere, and attention is split by its heads as Megatron says."""
        source = self.copy("llama_tiny.dsl", "nn.dsl")
        one = self.compile(source, "one.plan", "--ranks", 1)
        expected = self.ok(self.local(one, 1)).losses(None)
        self.assertLess(expected[-1], expected[0])
        with open(self.sample("llama_tiny_hints.dsl")) as file:
            hints = file.read()
        for ranks, mesh in (4, "dp = 1, tp = 4"), (8, "dp = 2, tp = 4"):
            file = self.write("hints%d.dsl" % ranks, edited_text(hints, "dp = 2, tp = 4", mesh))
            plan = self.compile(source, "net.plan", "--ranks", ranks, "--hints", file, "--dump-ir=" + self.path("ir"))
            heads = {4: r"\(-, 4@1, -, -, -\)", 8: r"\(2@4, 4@1, -, -, -\)"}[ranks]
            self.assertEqual(len(re.findall(r" dot_product_attention .* strategy=\w+" + heads, self.spmd())), 2)
            result = self.ok(self.local(plan, ranks, "--verify=" + one))
            self.assertRegex(result.out, r"\nverified: \d+ steps")
            self.assertClose(result.losses(None), expected, relative=2e-4, absolute=1e-11, what=str(result))

    def test_bert_and_gpt2_by_two_hints_a_layer_have_the_losses_of_one_rank(self):
        """samples/bert_hints.dsl and gpt2_hints.dsl, with what is dropped."""
        sizes = "-D", "batch=8", "-D", "places=6", "-D", "dim=16", "-D", "heads=4", "-D", "layers=2", "-D", "words=48", "-D", "most=8", "-D", "dropped=0.1"
        for name, file, products in ("bert_tiny", "bert_hints.dsl", 4), ("gpt2", "gpt2_hints.dsl", 8):
            source = self.copy(name + ".dsl", "nn.dsl")
            one = self.compile(source, "one.plan", "--ranks", 1, *sizes)
            for ranks, mesh in (2, "dp = 1, tp = 2"), (4, "dp = 2, tp = 2"), (8, "dp = 4, tp = 2"), (8, "dp = 2, tp = 4"):
                with self.subTest(net=name, ranks=ranks, mesh=mesh):
                    hints = self.write("hints.dsl", harness.edited(self.sample(file), ("dp = 4, tp = 2", mesh)))
                    plan = self.compile(source, "net.plan", "--ranks", ranks, *sizes, "--hints", hints, "--dump-ir=" + self.path("ir"))
                    self.assertEqual(len(re.findall(r" strategy=user", self.spmd())), products)
                    self.assertRegex(self.ok(self.local(plan, ranks, "--verify=" + one)).out, r"\nverified: 4 steps")

    def test_a_block_gathers_twice_and_reduces_twice_each_way(self):
        """Sequence parallelism (Korthikanti et al. 2022): what samples/transformer_hints.dsl says of itself."""
        source = self.copy("transformer.dsl", "nn.dsl")
        done = self.ok(run([harness.pcc, source, "--ranks", 8, "--hints", self.sample("transformer_hints.dsl"), "-Werror", "--stats=json", "-o", self.path("net.plan")]))
        sent = [c for c in json.loads(done.out)["communications"] if re.search(r"layer\.0|d_layer\.", c["value"]) and not re.search(r"(weight|bias|gain|shift)\.grad", c["value"])]
        kinds = [(c["kind"], c["received"]["total"]) for c in sent]
        activation = 8 * 6 * 16 * 4 # over tp = 2, in every one of 4 groups
        self.assertEqual(sorted(set(kinds)), [("all_gather", activation), ("reduce_scatter", activation)])

    def test_a_hint_on_the_command_line_goes_before_the_nets(self):
        source = self.write("net.dsl", NET)
        self.compile(source, "net.plan", "--ranks", 8, "--shard", "h.*=((1, 8), (8, 1))", "--dump-ir=" + self.path("ir"))
        self.assertEqual(len(re.findall(r" matmul .* strategy=user\(-, 8@1, -\)", self.spmd())), 2)

    def test_an_installation_may_be_moved(self):
        for name in "bin", "share/pcc", "elsewhere":
            os.makedirs(self.path("moved", name))
        shutil.copy(harness.pcc, self.path("moved", "bin"))
        self.write("moved/share/pcc/moved.dsl", "cell twice(x) { y = x + x; return y; }\n")
        self.write("moved/elsewhere/net.dsl", 'import "moved.dsl";\nnet n { input x : f32[8, 4]; param w : f32[4, 4] = normal(0.1); loss mean(twice(matmul(x, w))); }\n'
                   "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n")
        self.ok(run([self.path("moved", "bin", "pcc"), "net.dsl", "--ranks", 2], cwd=self.path("moved", "elsewhere")))

    def test_places_in_imported_files_are_named_in_plan_and_dump(self):
        source = self.copy("mlp_cells.dsl", "nn.dsl")
        plan = self.compile(source, "net.plan", "--ranks", 2, "--dump-ir=" + self.path("ir"))
        with open(plan) as text:
            lines = text.read()
        self.assertRegex(lines, r'(?m)^file ".*/mlp_cells\.dsl"\nimport 1 ".*/nn\.dsl"$')
        self.assertRegex(lines, r"(?m)^state 0 layer\.0\.weight .* @1/\d+:\d+$")
        dump = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("ir")) for name in names if "step_parallel_begin" in name and name.endswith(".ir")]
        with open(dump[0]) as text:
            self.assertRegex(text.read(), r"# In file .*/nn\.dsl:\d+, \d+~\d+/ *y = matmul\(x, weight, transpose_b = true\) shard;/")
        self.ok(run([harness.pcc, "check", plan]))

    def test_a_hundred_blocks_compile(self):
        self.copy("nn.dsl")
        source = self.write("deep.dsl", 'import "nn.dsl";\nnet deep(batch = 8, dim = 16) {\n    input x : f32[batch, 4, dim];\n    layer = x;\n'
                            "    for i in 0..100 { layer = transformer_block(layer, 2); }\n    loss mean(layer * layer);\n}\n" + TRAIN)
        plan = self.compile(source, "deep.plan", "--ranks", 8)
        with open(plan) as text:
            self.assertIn(" layer.99.feed.down.weight ", text.read())


TRAIN = "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }\n"
NET = """cell fc(x) {
    param w : f32[8, 8] = normal(0.1);
    return matmul(x, w);
}
net q {
    input x : f32[8, 8];
    h = x;
    for i in 0..2 { h = fc(h) shard ((8, 1), (1, 1)); }
    loss mean(h);
}
""" + TRAIN


def edited_text(text, old, new):
    assert old in text, old
    return text.replace(old, new)


if __name__ == "__main__":
    harness.main()
