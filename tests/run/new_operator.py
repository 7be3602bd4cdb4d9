#!/usr/bin/env python3
"""Adds the operators of docs/adding-an-operator.md, by that page's own text, to a copy of the tree, builds pcc and prun there, and compares what the operators compute and
their gradients with the formulas and with differences, on one rank and on two."""
import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import Case, run

# A block of the page, and the place that the line before it names.
BLOCK = re.compile(r"^(?:[^\n]*\. )?(?:In|At the end of) `([^`\n]+)`(?:, before `([^`\n]+)`)?:\n\n```c\n(.*?)^```", re.S | re.M)
POINTS = ((0.5, -1.0, 2.0, 0.25, 1.5, -0.5), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), (-3.0, 2.0, -1.0, 0.5, -0.3, 4.0))
FACTORS = (0.75, 1.5)  # of the results in the loss
STEP = 1e-4
NET = """net t() {{
    const c : {type}[4, 6] = {points};
    param w : {type}[4, 6] = ones;
    param r0 : {type}[{shape}] = ones;
    param r1 : {type}[{shape}] = ones;
    x = w * c;
    {results} = {op}(x);
    loss {loss};
}}
train {{ optimizer = sgd(lr = 1.0); epochs = 1; steps = 1; }}
"""
# Strategies of x, what the operator takes: with two ranks, its rows or what it sums along is split.
STRATEGIES = ((1, None), (2, "x=((2, 1), (2, 1))"), (2, "x=((1, 2), (1, 2))"))


def mean(row):
    return sum(row) / len(row)


def each(function):
    return lambda rows: [function(row) for row in rows]


# The formulas of each operator's results.
OPERATORS = {
    "log_cosh": (lambda rows: [math.log(math.cosh(x)) for row in rows for x in row],),
    "power_sums": (each(sum), each(lambda row: sum(x * x for x in row))),
    "mean_and_variance": (each(mean), each(lambda row: mean([(x - mean(row)) ** 2 for x in row]))),
}


class Page(Case):
    @classmethod
    def setUpClass(cls):
        """pcc and prun of a copy of the tree with the page's blocks in it."""
        folder = tempfile.TemporaryDirectory(prefix="pcc-test-")
        cls.addClassCleanup(folder.cleanup)
        tree, built = folder.name, os.path.join(folder.name, "build")
        with open(os.path.join(harness.sources, "meson.build"), encoding="utf-8") as build:
            folders = re.findall(r"^subdir\('(\w+)'\)", build.read(), re.M)
        for name in set(folders) - {"tests"} | {"tools"}:
            shutil.copytree(os.path.join(harness.sources, name), os.path.join(tree, name))
        for file in ("meson.build", "meson_options.txt"):
            shutil.copy(os.path.join(harness.sources, file), tree)
        os.mkdir(os.path.join(tree, "tests"))
        open(os.path.join(tree, "tests", "meson.build"), "w", encoding="utf-8").close()
        with open(os.path.join(harness.sources, "docs", "adding-an-operator.md"), encoding="utf-8") as page:
            text = page.read()
        blocks = BLOCK.findall(text)
        if len(blocks) != text.count("```c\n"):
            raise AssertionError("%d of the page's %d blocks of C say where they go" % (len(blocks), text.count("```c\n")))
        for file, before, lines in blocks:
            with open(os.path.join(tree, file), encoding="utf-8") as source:
                old = source.read()
            if before and old.count(before) != 1:
                raise AssertionError("%s has '%s' %d times" % (file, before, old.count(before)))
            at = old.index(before) if before else len(old)
            with open(os.path.join(tree, file), "w", encoding="utf-8") as source:
                source.write(old[:at] + lines + old[at:])
        # Without optimisation the compiler takes some texts for longer than they are.
        setup = ["meson", "setup", built, tree, "-Doptimization=0", "-Dwerror=true", "-Dc_args=-Wno-format-truncation", "-Dcuda=disabled", "-Dtests=disabled"]
        for command in (setup, ["ninja", "-C", built, "compiler/pcc", "runtime/prun"]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise AssertionError(done.stdout[-3000:])
        cls.pcc, cls.prun = os.path.join(built, "compiler", "pcc"), os.path.join(built, "runtime", "prun")
        cls.nets = re.findall(r"```text\n(.*?)```", text, re.S)

    def values(self, op, points, dtype="f64", ranks=1, hint=None, used=FACTORS):
        """The operator's results and the loss's derivative by each of its operand's elements: of a step, which leaves 1 - factor y and w - c dx."""
        n = len(OPERATORS[op])
        net = NET.format(type=dtype, op=op, shape="4, 6" if op == "log_cosh" else "4", results=", ".join("y%d" % k for k in range(n)),
                         points="[%s]" % ", ".join("[%s]" % ", ".join(repr(x) for x in row) for row in points),
                         loss=" + ".join("%r * sum(y%d * r%d)" % (used[k], k, k) for k in range(n) if used[k]))
        options = ["--shard", hint] if hint else []
        self.ok(run([self.pcc, self.write("t.dsl", net), "--ranks", ranks, *options, "-o", self.path("t.plan")]))  # and the plan is proved
        prints = [word for name in ("w", "r0", "r1") for word in ("--print", name + ":full")]
        text = self.ok(run([self.prun, "--ranks", ranks, *prints, self.path("t.plan")])).out
        read = lambda name: [1 - float(x) for x in re.sub(r"[\[\]]", "", re.search(r"(?m)^%s = (.*)" % name, text)[1]).split(",")]
        results = [[y / used[k] for y in read("r%d" % k)] if used[k] else None for k in range(n)]
        return results, [slope / x for slope, x in zip(read("w"), (x for row in points for x in row))]

    def differences(self, op, used=FACTORS):
        """The same derivative of the formula's values by differences; a row's results are of that row alone."""
        def loss(row, column, side):
            moved = [list(row) for row in POINTS]
            moved[row][column] += side * STEP
            return sum(factor * sum(formula(moved)) for factor, formula in zip(used, OPERATORS[op]))
        return [(loss(i, j, 1) - loss(i, j, -1)) / (2 * STEP) for i in range(len(POINTS)) for j in range(len(POINTS[0]))]

    def check(self, op):
        expected = [formula(POINTS) for formula in OPERATORS[op]]
        slopes = self.differences(op)
        for ranks, hint in STRATEGIES:
            with self.subTest(ranks=ranks, hint=hint):
                found, gradient = self.values(op, POINTS, ranks=ranks, hint=hint)
                for y, formula in zip(found, expected):
                    self.assertClose(y, formula, 1e-12, 1e-13, "values")
                self.assertClose(gradient, slopes, 1e-6, 1e-6, "gradient")
                for y, formula in zip(self.values(op, POINTS, "f32", ranks, hint)[0], expected):
                    self.assertClose(y, formula, 1e-6, 1e-6, "values of f32")
        for k in range(len(expected)) if len(expected) > 1 else ():  # a result that the loss does not use
            used = [FACTORS[k] if i == k else 0 for i in range(len(expected))]
            self.assertClose(self.values(op, POINTS, used=used)[1], self.differences(op, used), 1e-6, 1e-6, "gradient of result %d alone" % k)
        self.assertIn(op + "(x)", self.ok(run([self.pcc, "--list-ops"])).out)

    def test_the_elementwise_operator(self):
        self.check("log_cosh")

    def test_the_reduction(self):
        self.check("power_sums")

    def test_the_composite(self):
        self.check("mean_and_variance")

    def test_each_net_of_the_page_trains(self):
        self.assertEqual([op in net for op, net in zip(OPERATORS, self.nets)], [True] * 3)
        for net in self.nets:
            one = None
            for ranks in 1, 2, 3:
                self.ok(run([self.pcc, self.write("t.dsl", net), "--ranks", ranks, "-o", self.path("t.plan")]))
                losses = self.ok(run([self.prun, "--ranks", ranks, self.path("t.plan")])).losses()
                one = one or losses
                self.assertLess(losses[-1], 0.7 * losses[0])
                self.assertClose(losses, one, 1e-9, 0, "losses on %d ranks" % ranks)


if __name__ == "__main__":
    harness.main()
