#!/usr/bin/env python3
"""`compress = bf16`: gradients go between ranks in 16 bits: how many bytes that is, and what is trained then."""
import re

import harness
from harness import Case

NET = """net n(batch = 24, wide = %d) {
  input x : f32[batch, 24]; input t : i32[batch];
  param w : f32[24, wide] = normal(0.2); param b : f32[wide] = zeros; param v : f32[wide, 10] = normal(0.2); param e : f32[10, 4] = normal(0.2);
  y = matmul(relu(matmul(x, w) + b), v);
  loss mean(cross_entropy(y, t)) + mean(square(embedding(e, t)));
}
train { data = normal(seed = 1); optimizer = %s; steps = 10; %s }
parallel { mode = %s; search = sharding_propagation; %s }
"""


class Compress(Case):
    def plan(self, name, ranks, train, *options, wide=32, optimizer="adam(lr = 0.01)", mode="auto", parallel=""):
        self.write(name + ".dsl", NET % (wide, optimizer, train, mode, parallel))
        return self.compile(name + ".dsl", name + ".plan", "--ranks", ranks, *options)

    def sent(self, plan):
        return int(re.search(r"program train .*sent=(\d+)", self.read(plan).decode()).group(1))

    def test_half_of_the_bytes(self):
        """Also where what is large is updated, or stored, in parts: half of the sums. What they gather of parameters stays."""
        for wide, parallel, most in (32, "", 0.52), (4000, "", 0.77), (4000, "shard_states = none;", 0.52), (4000, "shard_states = parameters;", 0.85):
            with self.subTest(wide=wide, parallel=parallel):
                plain, small = (self.sent(self.plan("sent", 4, train, wide=wide, parallel=parallel)) for train in ("", "compress = bf16;"))
                self.assertLess(small, most * plain)

    def test_near_what_is_trained_without_and_alike_on_any_ranks(self):
        exact = self.ok(self.local(self.plan("exact", 1, ""), 1)).losses()
        one = self.plan("one", 1, "compress = bf16;")
        losses = self.ok(self.local(one, 1)).losses()
        self.assertNotEqual(losses, exact)
        self.assertClose(losses, exact, relative=0.02)
        for ranks, more, options in (2, "", ("-O0",)), (4, "", ()), (4, "clip = norm(0.5); precision = f16;", ()), (2, "accumulate = 2;", ()):
            with self.subTest(ranks=ranks, more=more, options=options):
                plan = self.plan("many", ranks, "compress = bf16; " + more, "--prove", *options)
                done = self.ok(self.local(plan, ranks))
                if not more:
                    self.assertClose(done.losses(), losses, relative=0.01)
        self.assertEqual(self.ok(self.mpi(plan, 2)).losses(), done.losses())
        self.ok(self.local(self.plan("noise", 4, "compress = bf16; metrics = noise_scale;", "--prove", mode="data_parallel"), 4))
        plan = self.plan("hidden", 4, "compress = bf16;", "--prove", mode="data_parallel")
        self.assertLess(self.sent(plan), 0.55 * self.sent(self.plan("plain", 4, "", mode="data_parallel")))
        self.ok(self.local(plan, 4))

    def test_rows_of_tables_are_not_compressed(self):
        text = self.read(self.plan("rows", 4, "compress = bf16;", optimizer="lazy_adam(lr = 0.01)")).decode()
        self.assertEqual(len(re.findall(r"^  node \d+ compress ", text, re.M)), 3)
        self.assertIn(" lazy_adam ", text)


if __name__ == "__main__":
    harness.main()
