#!/usr/bin/env python3
"""docs/from-pytorch.md: its two training loops, as they stand there, print the same. With PyTorch (PEER_PYTHON), on 2 ranks each; without it ours alone runs, from weights that are drawn here."""
import os
import random
import re
import sys

import harness
from harness import Case, npy, run

SHAPES = {"0.weight": (16, 6), "0.bias": (16,), "2.weight": (3, 16), "2.bias": (3,)}
SAVE = "import numpy, torch; torch.save({n: torch.from_numpy(numpy.load(n + '.npy')) for n in %r}, 'init.pt')" % sorted(SHAPES)


class FromPytorch(Case):
    def block(self, name):
        """The text between ```language NAME and ```."""
        with open(os.path.join(harness.sources, "docs", "from-pytorch.md"), encoding="utf-8") as file:
            return re.search(r"(?ms)^```\w+ %s\b[^\n]*\n(.*?)^```$" % re.escape(name), file.read())[1]

    def test_both_loops_print_the_same(self):
        draw = random.Random(5)
        x = [draw.gauss(0, 1) for _ in range(200 * 6)]
        y = [max(range(3), key=lambda c: sum(x[6 * r + k] * ((k + c) % 3 - 1) for k in range(6))) for r in range(200)]
        self.write("x.npy", npy(x, (200, 6), "f"))
        self.write("y.npy", npy(y, (200,), "i"))
        weights = {}
        for name, shape in SHAPES.items():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            weights[name] = "F32", list(shape), [draw.uniform(-0.3, 0.3) for _ in range(count)]
            self.write(name + ".npy", npy(weights[name][2], shape, "f"))
        self.write("init.safetensors", harness.safetensors(weights))
        self.write("loop.dsl", self.block("loop.dsl"))
        with open(self.sample("nn.dsl"), "rb") as file:
            self.write("nn.dsl", file.read())
        plan = self.compile("loop.dsl", "loop.plan", "--ranks", 2)
        ours = self.ok(run([harness.prun, "--nproc", 2, "--load", "init.safetensors", "--rename", "fc1.*=0.*", "--rename", "logits.*=2.*", plan], cwd=self.folder)).out
        numbers = lambda text, pattern: [float(number) for number in re.findall(pattern, text)]
        losses, shares = numbers(ours, r"(?m)^ep: \d, global_step: \d+, loss: (\S+)$"), numbers(ours, r"accuracy is (\S+) \(")
        self.assertEqual((len(losses), len(shares)), (7, 3), ours)
        self.assertLess(losses[-1], losses[0])
        python = os.environ.get("PEER_PYTHON", "python3")
        if run([python, "-c", "import torch"]).code != 0:
            print("no PyTorch here", end=" ", file=sys.stderr)
            return
        self.ok(run([python, "-c", SAVE], cwd=self.folder))
        self.write("loop.py", self.block("loop.py"))
        theirs = self.ok(run([python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "loop.py"], cwd=self.folder)).out
        self.assertEqual(re.findall(r"ep: \d, global_step: \d+", theirs), re.findall(r"ep: \d, global_step: \d+", ours))
        self.assertClose(losses, numbers(theirs, r"(?m)^ep: .*loss: (\S+)$"), relative=1e-4, what="losses")
        self.assertEqual(shares, numbers(theirs, r"accuracy is (\S+)"))


if __name__ == "__main__":
    harness.main()
