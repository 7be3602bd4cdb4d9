#!/usr/bin/env python3
"""Consts that files hold: read when training starts, of any type that .npy has, the same as literals on any number of ranks."""
import math
import os
import struct

import harness
from harness import Case, run

NET = """net consts(batch = 16) {
    input x : f32[batch, 8];
    const c %s;
    const b %s;
    const k %s;
    const m %s;
    param w : f32[8, 6] = normal(0.1);
    h = matmul(x, w + c) + b;
    t = where(m, embedding(w, k), h);
    loss mean(square(t));
}
train { data = normal(seed = 1); optimizer = adam(lr = 0.01); steps = 3; epochs = 2; }
"""
EVAL = """net held(batch = 16) {
    input x : f32[batch, 8];
    input y : f32[batch, 6];
    const c = file("c.npy");
    param w : f32[8, 6] = normal(0.1);
    h = matmul(x, w + c);
    loss mse(h, y);
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.01); steps = 3; checkpoint every 2 steps; }
eval { data = normal(seed = 2); steps = 2; every = end; predict = h; }
"""
C = [[((7 * i + 3 * j) % 11 - 5) / 8 for j in range(6)] for i in range(8)]
B = [0.5, -1, 2, 0.25, 0, 3]
K = [(5 * i) % 8 for i in range(16)]
M = [[(i + j) % 3 == 0 for j in range(6)] for i in range(16)]


def npy(descr, shape, form, values):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += " " * (-(11 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(form, *values)


def flat(rows):
    return [number for row in rows for number in row]


def literal(values):
    return str([int(v) if isinstance(v, bool) else v for v in values]) if not isinstance(values[0], list) else "[%s]" % ", ".join(literal(row) for row in values)


class Consts(Case):
    def setUp(self):
        super().setUp()
        self.write("c.npy", npy("<f4", "(8, 6)", "<48f", flat(C)))
        self.write("b.npy", npy(">f8", "(6,)", ">6d", B))
        self.write("k.npy", npy("<i8", "(16,)", "<16q", K))
        self.write("m.npy", npy("|b1", "(16, 6)", "96?", flat(M)))
        self.literals = self.write("literals.dsl", NET % tuple(": %s = %s" % (kind, literal(values)) for kind, values in (
            ("f32[8, 6]", C), ("f32[6]", B), ("i32[16]", K), ("bool[16, 6]", M))))
        self.write("files.dsl", NET % ('= file("c.npy")', ': f32[6] = file("b.npy")', ': i32[16] = file("k.npy")', '= file("m.npy")'))
        self.files = "files.dsl"  # the plan names its files as pcc is told where the source is

    def test_are_what_literals_are_on_any_ranks(self):
        expected = self.ok(self.local(self.compile(self.literals, "literals.plan"), 1)).losses()
        for ranks in 1, 2, 4, 6, 16:
            plan = self.compile(self.files, "files%d.plan" % ranks, "--ranks", ranks)
            self.assertClose(self.ok(self.local(plan, ranks)).losses(), expected, relative=1e-5)
        self.assertIn("proved", self.ok(run([harness.pcc, "check", "--prove=full", self.path("files16.plan")])).out)
        self.assertClose(self.ok(self.mpi(self.path("files4.plan"), 4)).losses(), expected, relative=1e-5)
        self.ok(self.local(self.path("files6.plan"), 6, "--verify=" + self.path("files1.plan")))

    def test_of_replicas_and_of_several_batches(self):
        for mode, options in (("data_parallel", ("--replicas", 3)), ("auto", ())):
            losses = []
            for ranks in 1, 3:
                name = "%s%d.plan" % (mode, ranks)
                source = self.write("net.dsl", harness.edited(self.path(self.files), ("steps = 3;", "steps = 3; accumulate = 2;")))
                plan = self.compile(source, name, "--ranks", ranks, "--mode", mode, *options)
                self.ok(run([harness.pcc, "check", plan]))
                losses.append(self.ok(self.local(plan, ranks)).losses())
            self.assertClose(losses[1], losses[0], relative=1e-5)

    def test_other_types_of_files_are_converted_where_they_fit(self):
        expected = self.ok(self.local(self.compile(self.files, "a.plan"), 1)).texts()
        for descr, form in ("|u1", "16B"), ("|i1", "16b"), (">i2", ">16h"), ("<i4", "<16i"), ("<f4", "<16f"):
            self.write("k.npy", npy(descr, "(16,)", form, K))
            self.assertEqual(self.ok(self.local(self.path("a.plan"), 1)).texts(), expected, descr)

    def test_one_that_is_not_finite_is_named_as_a_const(self):
        plan = self.compile(self.files, "a.plan", "--ranks", 2)
        self.write("b.npy", npy(">f8", "(6,)", ">6d", B[:4] + [math.nan] + B[5:]))
        result = self.local(plan, 2)
        self.assertNotEqual(result.code, 0)
        self.assertIn("const b holds nan at [4] before the first step", result.err)

    def test_no_type_is_the_file_s(self):
        for descr, form, kind in ("<f4", "<6f", "f32"), (">f8", ">6d", "f64"), ("<i4", "<6i", "i32"), ("<i8", "<6q", "i64"), ("|b1", "6?", "bool"), ("|u1", "6B", "i32"), ("<i2", "<6h", "i32"):
            self.write("any.npy", npy(descr, "(2, 3)", form, [1] * 6))
            source = self.write("any.dsl", 'net a { const c = file("any.npy"); param w : f32[2, 3] = ones; loss sum(w * cast(c, to = f32)); } train { optimizer = sgd(lr = 1); }')
            if kind == "f32":
                source = self.write("any.dsl", harness.edited(source, ("cast(c, to = f32)", "c")))
            self.compile(source, "any.plan")
            self.assertIn(b"state 0 c %s[2, 3] init=file(" % kind.encode(), self.read("any.plan"))

    def test_that_do_not_fit_are_errors_that_say_where(self):
        self.compile(self.files, "net.plan", "--ranks", 2)
        for name, content, words in (
            ("c.npy", npy("<f4", "(6, 8)", "<48f", flat(C)), r"const c: the shape in c.npy is \[6, 8\], the const is \[8, 6\]"),
            ("k.npy", npy("<f8", "(16,)", "<16d", [0.5] * 16), r"const k: k.npy, element \[0\] is 0.5, which is no i32"),
            ("k.npy", npy("<i8", "(16,)", "<16q", [0, 1 << 40] * 8), r"const k: k.npy, element \[1\] is 1099511627776, which is no i32"),
            ("k.npy", npy("<i8", "(16,)", "<16q", [0, 1, 8] + [0] * 13), r"const k: k.npy, element \[2\] is 8, and it is used as an index of 0 to 7"),
            ("m.npy", npy("<i4", "(16, 6)", "<96i", [0] * 95 + [2]), r"const m: m.npy, element \[15, 5\] is 2, which is no bool"),
            ("b.npy", npy("<c8", "(6,)", "48s", [b"\0" * 48]), r"const b: b.npy: element type '<c8'"),
            ("b.npy", None, r"const b: cannot open b.npy: No such file")):
            with self.subTest(words=words):
                before = self.read(name)
                os.remove(self.path(name))
                if content is not None:
                    self.write(name, content)
                result = self.local(self.path("net.plan"), 2)
                self.write(name, before)
                self.assertFails(result, 3, "^prun: .*" + words)
        os.remove(self.path("c.npy"))
        self.assertFails(run([harness.pcc, self.files], cwd=self.folder), 1, r"files.dsl:3:15: error: c says no type, and that of the file cannot be read: cannot open c.npy")
        os.mkfifo(self.path("c.npy"))
        self.assertFails(run([harness.pcc, self.files], cwd=self.folder), 1, "c.npy: it is a pipe")

    def test_are_in_no_checkpoint_and_read_again(self):
        source = self.write("held.dsl", EVAL)
        losses = []
        for ranks in 1, 4:
            plan = self.compile(source, "held%d.plan" % ranks, "--ranks", ranks)
            whole = self.ok(self.local(plan, ranks, "--save", self.path("w.safetensors")))
            resumed = self.ok(self.local(plan, ranks, "--resume", "latest"))
            self.assertEqual(resumed.texts()[-1], whole.texts()[-1])
            for name in "w.safetensors", os.path.join("held%d.plan.checkpoints" % ranks, "step-000000002.safetensors"):
                self.assertNotIn(b'"c"', self.read(name))
                self.assertIn(b'"w"', self.read(name))
            losses.append([float(word.split("loss is ")[1].split()[0]) for word in self.ok(self.local(plan, ranks, "--eval", "--load", self.path("w.safetensors"))).out.splitlines() if "eval" in word])
        self.assertClose(losses[1], losses[0], relative=1e-5)
        self.assertEqual(len(losses[0]), 1)


if __name__ == "__main__":
    harness.main()
