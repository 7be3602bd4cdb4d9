#!/usr/bin/env python3
"""docs/from-mindspore.md: its programs and the rows of its tables, as they stand there, print the same on both sides. With MindSpore (PEER_PYTHON) on CPUs, where it does not shard; without it ours
alone run, from weights that are drawn here."""
import os
import random
import re

import harness
from harness import Case, npy, run
from pairs import EACH, Page, drop, has, numbers, peer, place

SHAPES = {"0.weight": (16, 6), "0.bias": (16,), "2.weight": (3, 16), "2.bias": (3,)}
LOSS = r"epoch: \d+ step: \d+, loss is (\S+)"


class FromMindspore(Case):
    def setUp(self):
        super().setUp()
        self.page = Page("from-mindspore.md")
        with open(self.sample("nn.dsl"), "rb") as file:
            self.write("nn.dsl", file.read())

    def data(self, rows, name=""):
        draw = random.Random(len(name) + rows)
        x = [draw.gauss(0, 1) for _ in range(rows * 6)]
        self.write(name + "x.npy", npy(x, (rows, 6), "f"))
        self.write(name + "y.npy", npy([max(range(3), key=lambda c: sum(x[6 * r + k] * ((k + c) % 3 - 1) for k in range(6))) for r in range(rows)], (rows,), "i"))

    def weights(self, shapes, scale):
        draw, made = random.Random(6), {}
        for name, shape in shapes.items():
            made[name] = "F32", list(shape), [draw.gauss(0, scale) for _ in range(shape[0] * (shape[1] if len(shape) > 1 else 1))]
        self.write("init.safetensors", harness.safetensors(made))

    def net(self, name, text, *words, ranks=2):
        self.write(name + ".dsl", text)
        plan = self.compile(name + ".dsl", name + ".plan", "--ranks", ranks)
        return self.ok(run([harness.prun, "--nproc", ranks, "--load", "init.safetensors", *words, plan], cwd=self.folder)).out

    def theirs(self, *programs):
        self.write("each.py", EACH)
        names = [os.path.basename(self.write("program%d.py" % i, text)) for i, text in enumerate(programs)]
        return re.split(r"(?m)^== \d+\n", self.ok(run([peer(), "-W", "ignore", "each.py", *names], cwd=self.folder)).out)[1:]

    def test_the_quick_start_has_its_losses(self):
        self.weights({"w": (32, 16), "w2": (16, 16)}, 0.01)
        ours = numbers(self.net("quickstart", self.page.net("net quickstart("), ranks=8), LOSS)
        self.assertEqual(len(ours), 20)
        if not has("mindspore"):
            return
        program = self.page.block("quickstart.py")
        program = place(drop(program, "init()", "ms.set_auto_parallel_context("), "ms.set_context(", "ms.set_context(mode=ms.GRAPH_MODE)")
        program = place(program, "net = Net(", "net = Net(32, 16, 16)", 'ms.load_param_into_net(net, ms.load_checkpoint("init.safetensors", format="safetensors"))')
        self.assertIn(".shard(((2, 4), (4, 1)))", program)
        their, = self.theirs(program)
        self.assertClose(ours, numbers(their, LOSS), relative=1e-4, what="losses")

    def test_updates_are_mindspores(self):
        self.data(80)
        self.weights(SHAPES, 0.3)
        program, net = self.page.block("update.py"), self.page.block("update.dsl")
        rows = [([], net, program)]
        for left, right in self.page.table("Before the loop, and in the train block"):
            rows.append((right, place(drop(net, "optimizer ="), "log ", 'log "{loss}";', *right), place(program, "optimizer =", *left)))
        for left, right in self.page.table("In place of `optimizer(gradients)`"):
            rows.append((right, place(net, "log ", 'log "{loss}";', *right), place(program, "optimizer(gradients)", *left)))
        self.assertEqual(len(rows), 10)
        theirs = self.theirs(*(program for _, _, program in rows)) if has("mindspore") else [None] * len(rows)
        printed = []
        for (right, net, _), their in zip(rows, theirs):
            with self.subTest(row=right):
                ours = numbers(self.net("update", net, "--rename", "fc1.*=0.*", "--rename", "logits.*=2.*"), r"(?m)^(\d\.\d+)$")
                self.assertEqual(len(ours), 10)
                self.assertNotIn(ours, printed, "each row changes what is computed")
                printed.append(ours)
                if their is not None:
                    self.assertClose(ours, numbers(their), relative=2e-5, what=str(right))

    def test_a_model_in_data_parallel_trains_alike(self):
        self.data(64)
        self.data(40, "held_")
        self.weights(SHAPES, 0.3)
        ours = self.net("model", self.page.block("model.dsl"), "--rename", "fc1.*=0.*", "--rename", "logits.*=2.*")
        losses = [numbers(ours, r"(?m)^\[rank %d\] %s$" % (rank, LOSS)) for rank in range(2)]
        self.assertEqual([len(each) for each in losses], [8, 8], ours)
        evaluated = re.search(r"eval: loss is (\S+), accuracy is (\S+) \(40 rows\)", ours)
        self.assertTrue(evaluated, ours)
        kept = sorted(name for name in os.listdir(self.path("model.plan.checkpoints")) if name.endswith(".safetensors"))
        self.assertEqual(kept, ["step-%09d.safetensors" % step for step in (4, 6, 8)])
        if not has("mindspore"):
            return
        if run([peer(), "-c", "import numpy; assert int(numpy.__version__.split('.')[0]) < 2"]).code != 0:
            self.skipTest("MindSpore's NumpySlicesDataset fails with NumPy 2")
        self.write("model.py", self.page.block("model.py"))
        env = {"PATH": os.path.dirname(os.path.abspath(peer())) + os.pathsep + os.environ["PATH"]}
        self.ok(run(["msrun", "--worker_num=2", "--local_worker_num=2", "--log_dir=logs", "--join=True", "model.py"], cwd=self.folder, env=env))
        for rank in range(2):
            their = self.read("logs", "worker_%d.log" % rank).decode()
            self.assertClose(losses[rank], numbers(their, LOSS), relative=2e-5, what="losses of rank %d" % rank)
            self.assertAlmostEqual(float(re.search(r"'accuracy': ([\d.]+)", their)[1]), float(evaluated[2]), places=6)
            self.assertAlmostEqual(float(re.search(r"'loss': ([\d.]+)", their)[1]), float(evaluated[1].rstrip(",")), places=4)
            self.assertEqual(len([name for name in os.listdir(self.path("kept", str(rank))) if name.endswith(".ckpt")]), len(kept))


if __name__ == "__main__":
    harness.main()
