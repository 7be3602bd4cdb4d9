#!/usr/bin/env python3
"""Adds the elementwise operator of docs/adding-an-operator.md, by that page's own text, to a copy of the tree, builds pcc and prun there, and compares what it computes
and its gradient with the formula and with differences."""
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import Case, run

POINTS = (-2.0, -0.3, 0.4, 0.5, 3.0)
NET = """net t() {{
    const c : {type}[{n}] = [{points}];
    param w : {type}[{n}] = ones;
    param r : {type}[{n}] = ones;
    loss sum(softsign(w * c) * r);
}}
train {{ optimizer = sgd(lr = 1.0); epochs = 1; steps = 1; }}
"""


class Page(Case):
    def build(self):
        """pcc and prun of a copy of the tree with the page's row in it."""
        tree = self.path("tree")
        os.mkdir(tree)
        with open(os.path.join(harness.sources, "meson.build"), encoding="utf-8") as build:
            folders = re.findall(r"^subdir\('(\w+)'\)", build.read(), re.M)
        for folder in set(folders) - {"tests"} | {"tools"}:
            shutil.copytree(os.path.join(harness.sources, folder), os.path.join(tree, folder))
        for file in ("meson.build", "meson_options.txt"):
            shutil.copy(os.path.join(harness.sources, file), tree)
        os.mkdir(os.path.join(tree, "tests"))
        open(os.path.join(tree, "tests", "meson.build"), "w", encoding="utf-8").close()
        with open(os.path.join(harness.sources, "docs", "adding-an-operator.md"), encoding="utf-8") as page:
            text = page.read()
        row = re.search(r"```c\n(.*?)```", text, re.S)[1]
        table = os.path.join(tree, "ir", "elementwise.def")
        with open(table, encoding="utf-8") as file:
            rows = file.read()
        first = rows.index("BINARY_OP(add,")
        with open(table, "w", encoding="utf-8") as file:
            file.write(rows[:first] + row + rows[first:])
        built = os.path.join(tree, "build")
        for command in (["meson", "setup", built, tree, "-Doptimization=0", "-Dcuda=disabled", "-Dtests=disabled"], ["ninja", "-C", built, "compiler/pcc", "runtime/prun"]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        return os.path.join(built, "compiler", "pcc"), os.path.join(built, "runtime", "prun"), re.search(r"```text\n(.*?)```", text, re.S)[1]

    def values(self, pcc, prun, dtype, points, ranks=1):
        """The function and its derivative at these points: of a step, which leaves r - f(c) and w - c f'(c)."""
        net = self.write("t.dsl", NET.format(type=dtype, n=len(points), points=", ".join("%.17g" % p if "." in "%.17g" % p else "%.1f" % p for p in points)))
        self.ok(run([pcc, net, "--ranks", ranks, "-o", self.path("t.plan")]))
        text = self.ok(run([prun, "--ranks", ranks, "--print", "w:full", "--print", "r:full", self.path("t.plan")])).out
        read = lambda name: [1 - float(number) for number in re.search(r"(?m)^%s = \[(.*)\]" % name, text)[1].split(",")]
        return read("r"), [slope / p for slope, p in zip(read("w"), points)]

    def test_the_elementwise_operator_of_the_page_works(self):
        pcc, prun, sample = self.build()
        step = 1e-4
        found, slopes = self.values(pcc, prun, "f64", POINTS)
        self.assertClose(found, [p / (1 + abs(p)) for p in POINTS], 1e-12, 1e-14, "values")
        high, low = (self.values(pcc, prun, "f64", [p + side * step for p in POINTS])[0] for side in (1, -1))
        self.assertClose(slopes, [(h - l) / (2 * step) for h, l in zip(high, low)], 1e-6, 0, "slopes")
        self.assertClose(self.values(pcc, prun, "f32", POINTS)[0], found, 1e-6, 1e-6, "values of f32")
        self.assertIn("softsign(x)", self.ok(run([pcc, "--list-ops"])).out)
        net = self.write("sample.dsl", sample)
        for ranks in 1, 3:  # and its plans are proved
            self.ok(run([pcc, net, "--ranks", ranks, "-o", self.path("sample.plan")]))
            losses = self.ok(run([prun, "--ranks", ranks, self.path("sample.plan")])).losses()
            self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    harness.main()
