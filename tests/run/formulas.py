#!/usr/bin/env python3
"""Formulas of operators and cells: values and gradients are PyTorch's (formulas/torch.json), on one rank and split; losses of a net in 16 bits are near those of autocast."""
import json
import os
import re
import sys

import harness
from harness import Case, npy, run

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "formulas"))
import formula_cases as cases

# The loss is the sum of y * c: with a rate of 1 one step leaves a - da, c - y.
NET = """import "nn.dsl";
net n {
%(operands)s    param c : %(dtype)s%(shape)s = file("c.npy");
    y = %(y)s;
    loss sum(y * c);
}
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
parallel { search = sharding_propagation; }
"""
BLOCK = """net block(batch = %(batch)d, places = %(places)d, dim = %(width)d, heads = %(heads)d) {
    input x : f32[batch, places, dim];
    input t : f32[batch, places, dim];
    param wq : f32[dim, dim] = file("wq.npy");
    param wk : f32[dim, dim] = file("wk.npy");
    param wv : f32[dim, dim] = file("wv.npy");
    param wo : f32[dim, dim] = file("wo.npy");
    param g  : f32[dim] = ones;
    param b  : f32[dim] = zeros;
    n = layer_norm(x, g, b, eps = 0.00001);
    q = transpose(reshape(n @ wq, shape = [batch, places, heads, -1]), perm = [0, 2, 1, 3]);
    k = transpose(reshape(n @ wk, shape = [batch, places, heads, -1]), perm = [0, 2, 1, 3]);
    v = transpose(reshape(n @ wv, shape = [batch, places, heads, -1]), perm = [0, 2, 1, 3]);
    a = dot_product_attention(q, k, v, causal = true)%(hint)s;
    y = reshape(transpose(a, perm = [0, 2, 1, 3]), shape = [batch, places, dim]);
    loss mse(x + y @ wo, t);
}
train { data = npy(x = "x.npy", t = "t.npy"); optimizer = sgd(lr = %(lr)r); epochs = %(steps)d; precision = %(precision)s; }
"""


class Formulas(Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(HERE, "formulas", "torch.json")) as file:
            self.torch = json.load(file)

    def formula(self, case, split, dtype, tolerance):
        start = {name: cases.operand(name, k, shape) for k, (name, shape) in enumerate(case["shapes"].items())}
        start["c"] = cases.numbers(30, case["shape"] or [1])
        lines, y = [], case["y"]
        for name, shape in dict(case["shapes"], c=case["shape"]).items():
            self.write(name + ".npy", npy(start[name], shape, "d" if dtype == "f64" else "f") if shape else b"")
            if name != "c":
                lines.append('    param %s : %s%s = file("%s.npy");\n' % (name, dtype, shape, name))
        if "classes" in case:
            lines.append("    const label : i32[%d] = %r;\n" % (case["shapes"]["a"][0], cases.labels(case)))
        if split:  # a comes as parts
            lines.append("    parts = a + 0 shard (%s, ());\n" % (split,) if "a" in case["shapes"] else "")
            y = re.sub(r"\ba\b", "parts", y) if "a" in case["shapes"] else y
        text = NET % dict(operands="".join(lines), dtype=dtype, shape=case["shape"] or "", y=y)
        if not case["shape"]:
            text = text.replace('file("c.npy")', repr(start["c"][0]))
        ranks = 1
        for n in split or ():
            ranks *= n
        self.write("n.dsl", text)
        self.ok(self.local(self.compile("n.dsl", "n.plan", "--ranks", ranks), ranks, "--save", "after.safetensors"))
        after = self.saved("after.safetensors")
        found = [("c", after["c"], start["c"], case["value"])]
        found += [(name, after[name], start[name], case["gradients"][name]) for name in case["shapes"]]
        found += [(name, after["y." + name], values, case["gradients"][name]) for name, values in case.get("states", {}).items()]
        for name, new, old, expected in found:
            for k, (a, b, e) in enumerate(zip(new, old, expected, strict=True)):
                self.assertAlmostEqual(b - a, e, delta=tolerance * (4 + abs(e) + abs(a)), msg="%s: %s[%d]" % (case["y"], name, k))

    def splits(self, case):
        shape = case["shapes"].get("a")
        if not shape or "cross_entropy" in case["y"] and len(shape) != 2:
            return [()]
        ones = (1,) * (len(shape) - 1)
        return [(), (2,) + ones, (4,) + ones] + [ones + (n,) for n in (2,) if shape[-1] % n == 0 and "rope" not in case["y"]]

    def test_values_and_gradients_are_pytorchs(self):
        self.assertEqual([case["y"] for case in self.torch["formulas"]], [case["y"] for case in cases.FORMULAS])
        for case in self.torch["formulas"]:
            for split in self.splits(case):
                with self.subTest(y=case["y"], split=split):
                    self.formula(case, split, "f64", 1e-13)

    def test_cells_are_pytorchs(self):
        self.assertEqual([case["y"] for case in self.torch["cells"]], [case["y"] for case in cases.CELLS])
        for case in self.torch["cells"]:
            for split in self.splits(case):
                with self.subTest(y=case["y"], split=split):
                    self.formula(case, split, "f32", 3e-7)

    def test_losses_in_16_bits_are_those_of_autocast(self):
        """With keys that are whole and split: what is kept of a query, and terms of sums over keys, have the digits of f32."""
        shape = [cases.BATCH, cases.PLACES, cases.WIDTH]
        for name, values, of in [("x", cases.numbers(10, shape), shape), ("t", cases.numbers(11, shape), shape)] + [
                (name, values, [cases.WIDTH, cases.WIDTH]) for name, values in cases.weights().items()]:
            self.write(name + ".npy", npy(values, of, "f"))
        keys = " shard ((1, 1, 1, 1), (1, 1, 2, 1), (1, 1, 2, 1))"
        for precision, torch, tolerance in ("f32", "float32", 2e-6), ("bf16", "bfloat16", 2e-3), ("f16", "float16", 3e-4):
            for ranks, hint in (1, ""), (2, ""), (2, keys), (4, ""):
                with self.subTest(precision=precision, ranks=ranks, hint=hint):
                    self.write("block.dsl", BLOCK % dict(batch=cases.BATCH, places=cases.PLACES, width=cases.WIDTH, heads=cases.HEADS, hint=hint, lr=cases.LR,
                                                         steps=cases.STEPS, precision=precision))
                    plan = self.compile("block.dsl", "block.plan", "--ranks", ranks, "--prove=full")
                    self.assertClose(self.ok(self.local(plan, ranks)).losses(), self.torch["autocast"][torch], relative=tolerance)
        text = self.read("block.plan").decode()
        for name, dtype in ("a", "f16"), ("a.1", "f32"), ("a.2", "f32"), ("n.1", "f32"), ("n.2", "f32"):
            self.assertRegex(text, r"%%\d+ %s %s\[" % (re.escape(name), dtype))

    def test_the_table_is_what_pytorch_computes_here(self):
        python = os.environ.get("PEER_PYTHON", "python3")
        if run([python, "-c", "import torch"]).code != 0:
            self.skipTest("there is no PyTorch")
        self.ok(run([python, os.path.join(HERE, "formulas", "with_torch.py"), "--check"]))


if __name__ == "__main__":
    harness.main()
