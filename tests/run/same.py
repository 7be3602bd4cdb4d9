#!/usr/bin/env python3
"""The same input gives the same bytes, plan and dumps; a plan's size does not depend on the number of ranks; plans of one net have one hash."""
import glob
import os
import re

import harness
from harness import Case, edited, run


def chain(layers, hint):
    lines = ["net chain(batch = 4096, dim = 4096) {", "    input x : f32[batch, dim];", "    input label : f32[batch, dim];"]
    lines += ["    param w%d : f32[dim, dim] = normal(0.01);" % i for i in range(layers)]
    value = "x"
    for i in range(layers):
        lines.append("    h%d = matmul(%s, w%d)%s;" % (i, value, i, hint if i == layers // 2 else ""))
        lines.append("    a%d = relu(h%d);" % (i, i))
        value = "a%d" % i
    lines += ["    loss mse(%s, label);" % value, "}", "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); steps = 2; }"]
    return "\n".join(lines) + "\n"


class Same(Case):
    def samples(self):
        """Those that are nets: others are libraries and hints."""
        found = sorted(glob.glob(os.path.join(harness.sources, "samples", "*.dsl")))
        return [path for path in found if re.search(rb"(?m)^net ", self.read(path))]

    def pcc(self, *words, **more):
        return self.ok(run([harness.pcc, *words], cwd=self.folder, **more))

    def tree(self, folder):
        """Every file below a folder: name and bytes."""
        found = {}
        for root, _, names in os.walk(self.path(folder)):
            for name in names:
                found[os.path.relpath(os.path.join(root, name), self.path(folder))] = self.read(root, name)
        return found

    def test_every_sample_compiles_to_the_same_bytes_and_dumps_again(self):
        """Whatever the time, the language of the environment, the current directory's files and the memory's layout (address space layout randomization)."""
        for source in self.samples():
            name = os.path.basename(source)
            ranks = 2 if name == "oneflow_ddp.dsl" else 8
            with self.subTest(sample=name):
                os.makedirs(self.path(name, "one"))
                os.makedirs(self.path(name, "two"))
                self.pcc(source, "--ranks", ranks, "-o", name + "/one/net.plan", "--dump-ir=%s/a" % name, "--dump-ranks=0,1")
                self.pcc(source, "--ranks", ranks, "-o", name + "/two/net.plan", "--dump-ir=%s/b" % name, "--dump-ranks=0,1",
                         env={"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "PADDING": "x" * 5000, "MALLOC_PERTURB_": "165"})
                self.assertEqual(self.tree(name + "/one"), self.tree(name + "/two"), "the plan, and its side file")
                a, b = self.tree(name + "/a"), self.tree(name + "/b")
                self.assertEqual(sorted(a), sorted(b))
                self.assertEqual([file for file in a if a[file] != b[file]], [])
                self.assertEqual(len({file.split("/")[0] for file in a if file.startswith("rank_")}), 2)
                self.assertTrue(any(re.fullmatch(r"rank_0/\d\d_step_parallel_begin_\d+\.ir", file) for file in a), sorted(a))
                self.assertTrue(any(re.fullmatch(r"rank_0/\d\d_step_parallel_end_\d+\.ir", file) for file in a), sorted(a))
                self.assertTrue(any(re.fullmatch(r"rank_0/\d\d_execute_\d+\.ir", file) for file in a), sorted(a))

    def test_each_rank_has_its_dumps(self):
        """The same stages for all, and not all alike; rank 0's are those that it has alone."""
        self.pcc(self.sample("quickstart.dsl"), "--ranks", 8, "-o", "a.plan", "--dump-ir=all", "--dump-ranks=all")
        self.pcc(self.sample("quickstart.dsl"), "--ranks", 8, "-o", "a.plan", "--dump-ir=one")
        every, one = self.tree("all"), self.tree("one")
        self.assertEqual({file: every[file] for file in one}, one)
        stages = sorted(file[7:] for file in one if file.startswith("rank_0/"))
        self.assertGreater(len(stages), 8)
        for rank in range(8):
            self.assertEqual(sorted(file[7:] for file in every if file.startswith("rank_%d/" % rank)), stages)
        end = [name for name in stages if "step_parallel_end" in name][0]
        self.assertEqual(len({every["rank_%d/%s" % (rank, end)] for rank in range(8)}), 8)

    def test_dumps_and_statistics_do_not_change_the_plan(self):
        source = self.sample("quickstart.dsl")
        self.pcc(source, "--ranks", 8, "-o", "a.plan")
        self.pcc(source, "--ranks", 8, "-o", "b.plan", "--dump-ir=dump", "--stats")
        self.assertEqual(self.read("a.plan"), self.read("b.plan"))
        self.pcc(source, "--ranks", 8, "-o", "c.plan", "--no-proof")
        without = [line for line in self.read("a.plan").splitlines() if not line.startswith(b"certificate ")]
        self.assertEqual(without, self.read("c.plan").splitlines(), "the proof adds its certificate, and the checksum is of neither")

    def test_a_run_prints_the_same_losses_again(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        first = self.ok(self.local(plan, 8)).texts()
        self.assertEqual(len(first), 20)
        self.assertEqual(self.ok(self.local(plan, 8)).texts(), first)
        self.assertEqual(self.ok(self.mpi(plan, 8)).texts(), self.ok(self.mpi(plan, 8)).texts())

    def test_a_plan_has_about_as_many_lines_for_8_ranks_as_for_4096(self):
        for few, many in (("((2, 4), (4, 1))", "((64, 64), (64, 1))"), ("((1, 8), (8, 1))", "((1, 4096), (4096, 1))"), ("", "")):
            texts = [self.chain_plan(40, hint, ranks) for hint, ranks in ((few, 8), (many, 4096))]
            lines = [text.count(b"\n") for text in texts]  # strategies differ, and so does what is converted
            self.assertLess(abs(lines[1] - lines[0]), 0.5 * lines[0], "lines on 8 and on 4,096 ranks, hint '%s'" % few)
            self.assertLess(len(texts[1]), 1.6 * len(texts[0]))

    def chain_plan(self, layers, hint, ranks):
        net = self.write("chain.dsl", chain(layers, hint and " shard " + hint))
        self.pcc(net, "--ranks", ranks, "-o", "chain.plan")
        text = self.read("chain.plan")
        self.assertEqual(text.count(b"kernel matmul "), layers)
        return text

    def hash(self, *words):
        self.pcc(*words, "-o", "hash.plan")
        return re.search(rb"(?m)^hash ([0-9a-f]{16})$", self.read("hash.plan"))[1]

    def test_the_hash_is_of_the_net_and_not_of_ranks_strategies_or_level(self):
        source = self.sample("quickstart.dsl")
        plain = self.write("plain.dsl", edited(source, (" shard ((2, 4), (4, 1))", "")))
        first = self.hash(source, "--ranks", 8)
        for words in ((source, "--ranks", 1), (plain, "--ranks", 8), (plain, "--ranks", 3), (source, "--ranks", 8, "-O0"), (source, "--ranks", 8, "--dataset=full_batch")):
            self.assertEqual(self.hash(*words), first, words)
        for old, new in (("lr = 0.4", "lr = 0.41"), ("seed = 1", "seed = 2"), ("steps     = 4", "steps     = 5"), ("normal(0.01)", "normal(0.02)"), ("relu(h)", "tanh(h)"),
                         ("momentum = 0.1", "momentum = 0.2"), ("rows = 2", "rows = 4")):
            other = self.write("other.dsl", edited(source, (old, new)))
            self.assertNotEqual(self.hash(other, "--ranks", 8), first, new)
        self.assertNotEqual(self.hash(source, "--ranks", 8, "-D", "batch=32"), first)
        ddp = self.sample("oneflow_ddp.dsl")
        self.assertEqual(self.hash(ddp, "--ranks", 2), self.hash(ddp, "--ranks", 1, "--replicas", 2))
        self.assertNotEqual(self.hash(ddp, "--ranks", 2), self.hash(ddp, "--ranks", 2, "--gradients=sum"))

    def test_an_update_without_an_edit_only_drops_the_certificate(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        before = self.read("net.plan")
        self.assertIn(b"\ncertificate ", before)
        result = self.pcc("check", plan)
        self.assertIn("proved", result.out)
        self.assertEqual(self.read("net.plan"), before, "a check writes nothing")
        self.pcc("check", "--update", plan)
        self.assertEqual(self.read("net.plan"), re.sub(rb"certificate .*\n", b"", before))
        self.assertEqual(self.ok(self.local(plan, 8)).losses()[0] > 0, True)


if __name__ == "__main__":
    harness.main()
