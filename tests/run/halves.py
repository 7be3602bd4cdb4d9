#!/usr/bin/env python3
"""Elements of 16 bits: `precision = bf16`, what is of 16 bits then and what is not, on one rank and many, beside f32; tensors that a net says are f16 or bf16."""
import re
import struct

import harness
from harness import Case, run

NET = """net n(batch = 16) {
  input x : f32[batch, 24]; input t : i32[batch];
  param w : f32[24, 40] = normal(0.2); param b : f32[40] = zeros; param g : f32[40] = ones; param v : f32[40, 10] = normal(0.2);
  m = matmul(x, w)%s;
  h = gelu(m + b);
  n = rms_norm(h, g, eps = 0.00001);
  y = matmul(n + h, v);
  loss mean(cross_entropy(y, t));
}
train { data = normal(seed = 1); optimizer = adamw(lr = 0.01); steps = 12; clip = norm(1.0); precision = %s; }
"""
HINT = " shard ((2, 2), (2, 1))"


class Halves(Case):
    def plan(self, name, ranks, precision, hint="", *options):
        self.write(name + ".dsl", NET % (hint, precision))
        return self.compile(name + ".dsl", name + ".plan", "--ranks", ranks, *options)

    def test_products_have_16_bits_and_what_is_trained_and_reported_has_not(self):
        text = open(self.plan("half", 2, "bf16")).read()
        self.assertIn(" precision=bf16", text)
        types = dict(re.findall(r"%\d+ (\S+) (\w+)\[", text))
        for value in "m", "h.add", "h", "y", "h.grad":
            self.assertEqual(types[value], "bf16", value)
        for value in "n", "loss", "v.bf16.grad", "w.bf16.grad", "g.grad", "new_w":  # norms, losses, sums for parameters, updates
            self.assertEqual(types[value], "f32", value)
        self.assertEqual(set(re.findall(r"^state \d+ \S+ (\w+)", text, re.M)), {"f32"})
        self.assertEqual(len(re.findall(r"einsum .*wide: 1", text)), 2)

    def test_losses_are_near_those_of_f32_and_alike_on_any_ranks(self):
        single = self.ok(self.local(self.plan("single", 1, "f32"), 1)).losses()
        one = self.plan("one", 1, "bf16")
        half = self.ok(self.local(one, 1)).losses()
        self.assertNotEqual(half, single)
        self.assertClose(half, single, relative=0.02, what="bf16 beside f32")
        for ranks, hint in (2, ""), (8, ""), (4, HINT), (8, HINT):
            for level in "-O0", "-O2":
                plan = self.plan("many", ranks, "bf16", hint, level)
                self.assertClose(self.ok(self.local(plan, ranks)).losses(), half, relative=0.005, what="%d ranks %s %s" % (ranks, hint, level))
                self.ok(self.local(plan, ranks, "--verify=" + one))
        self.assertEqual(self.ok(self.mpi(plan, ranks)).losses(), self.ok(self.local(plan, ranks)).losses())
        one = self.plan("one", 1, "f16")
        half = self.ok(self.local(one, 1)).losses()
        self.assertClose(half, single, relative=0.005, what="f16 beside f32")
        plan = self.plan("many", 4, "f16", HINT)
        self.assertClose(self.ok(self.local(plan, 4, "--verify=" + one)).losses(), half, relative=0.001, what="f16")

    def test_inputs_and_consts_of_16_bits_are_read_as_they_are(self):
        self.write("x.bin", struct.pack("<4e", 0.5, -2, 65504, 2.0**-24))
        self.write("y.bin", struct.pack("<4H", 0x3F80, 0xC000, 0x4049, 0x0001))
        self.write("net.dsl", """net n(batch = 4) { input x : f16[batch]; input y : bf16[batch]; const c : f16[2] = [1, 1024]; param w : f32[] = ones;
            z = cast(x, to = f32) + cast(y, to = f32); loss w * (sum(z) + sum(cast(c * c, to = f32)) - sum(cast(c, to = f32))); }
            train { data = raw(x = "x.bin", y = "y.bin"); optimizer = sgd(lr = 0.0); steps = 1; on_nan = go; }\n""")
        for ranks in 1, 2, 4:
            plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
            self.assertEqual(self.ok(self.local(plan, ranks)).texts(), ["inf"])  # 1024^2 is beyond f16
        self.write("net.dsl", self.read("net.dsl").decode().replace("1024]", "128]"))
        for ranks in 1, 2, 4:
            plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
            self.assertClose(self.ok(self.local(plan, ranks)).losses(), [0.5 - 2 + 65504 + 1 - 2 + 3.140625 + 16385 - 129], relative=1e-7)

    def test_what_is_trained_is_not_of_16_bits(self):
        self.write("bad.dsl", NET.replace("param b : f32[40]", "param b : f16[40]") % ("", "f32"))
        result = run([harness.pcc, "bad.dsl", "-o", "bad.plan"], cwd=self.folder)
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.err, r"bad.dsl:\d+:\d+: error: .*(cast|16 bits|too small)")


if __name__ == "__main__":
    harness.main()
