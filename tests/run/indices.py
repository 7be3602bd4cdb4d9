#!/usr/bin/env python3
"""Operators along an axis: values and gradients are PyTorch's (indices/torch.json), on one rank and split."""
import json
import os
import re
import sys

import harness
from harness import Case, npy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "indices"))
import index_cases as cases

# The loss is the sum of y * c: with a rate of 1 one step leaves x - dx, added - dadded, c - y.
NET = """net n {
    param x : f64%(x)r = file("x.npy");
    param added : f64%(added)r = file("added.npy");
    const index : i32%(index)r = file("index.npy");
    param c : f64%(y)r = file("c.npy");
    param p : f64%(y)r = zeros;
    y%(places)s = %(call)s;
    loss sum(y * c)%(more)s;
}
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
parallel { mode = %(mode)s; }
"""


class Indices(Case):
    def operator(self, case, hint, ranks):
        operands = ["x"] + [name for name in ("index", "added") if name in case]
        attrs = "".join(", %s = %d" % item for item in case["attrs"].items())
        places = "places" in case
        text = NET % dict(x=case["x"], added=case.get("added"), index=case.get("index"), y=case["shape"], places=", i" if places else "",
                          call="%s(%s%s)%s" % (case["op"], ", ".join(operands), attrs, hint), more=" + sum(cast(i, to = f64) * p)" if places else "",
                          mode="semi_auto" if hint else "auto")
        for name in ("added", "index"):
            if name not in case:
                text = re.sub(r"    (param|const) %s .*\n" % name, "", text)
        if not places:
            text = re.sub(r"    param p .*\n", "", text)
        start = {"x": cases.numbers(1, case["x"]), "c": cases.numbers(3, case["shape"]), "p": [0.0] * len(case["y"])}
        if "added" in case:
            start["added"] = cases.numbers(2, case["added"])
        for name in "x", "c", "added":
            if name in start:
                self.write(name + ".npy", npy(start[name], case["shape" if name == "c" else name], "d"))
        if "index" in case:
            self.write("index.npy", npy(cases.indices(case), case["index"], "i"))
        self.write("n.dsl", text)
        self.ok(self.local(self.compile("n.dsl", "n.plan", "--ranks", ranks), ranks, "--save", "after.safetensors"))
        after = self.saved("after.safetensors")
        for name, expected in ("c", case["y"]), ("x", case["dx"]), ("added", case.get("dadded")), ("p", case.get("places")):
            for k, (a, b, e) in enumerate(zip(after[name], start[name], expected) if expected else ()):
                self.assertAlmostEqual(b - a, e, delta=1e-13 * (4 + abs(e) + abs(a)), msg="%s%s: %s[%d]" % (case["op"], hint, name, k))

    def test_operators_are_pytorchs(self):
        with open(os.path.join(HERE, "indices", "torch.json")) as file:
            made = json.load(file)["operators"]
        self.assertGreaterEqual(len(made), len(cases.OPERATORS))
        for case in made:
            hints = {"": (1, 4)}
            if case["op"] == "gather" and case["x"][0] == 4 and len(case["index"]) == 2 and case["attrs"]["axis"] == 1:
                tail = ", 1" if len(case["x"]) == 3 else ""
                hints[" shard ((1, 3%s), (1, 1))" % tail] = 3, # rows of x that other ranks have
                hints[" shard ((2, 3%s), (2, 1))" % tail] = 6,
            if case["op"] == "topk":
                hints[" shard ((2%s))" % (", 1" * (len(case["x"]) - 1))] = 2,
            for hint, counts in hints.items():
                for ranks in counts:
                    with self.subTest(op=case["op"], attrs=case["attrs"], hint=hint, ranks=ranks):
                        self.operator(case, hint, ranks)


if __name__ == "__main__":
    harness.main()
