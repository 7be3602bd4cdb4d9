#!/usr/bin/env python3
"""Literals over 4 KiB: pcc writes them beside the plan, prun reads them on rank 0 for all."""
import os

import harness
from harness import Case, run


def net(rows, columns, mode="auto"):
    literal = ", ".join("[%s]" % ", ".join(repr((17 * i + 5 * j) % 13 / 7 - 0.9) for j in range(columns)) for i in range(rows))
    return """net side(batch = 8) {
    input x : f64[batch, %d]; input label : f64[batch, %d];
    param w : f64[%d, %d] = [%s];
    const k : f64[%d, %d] = [%s];
    loss mse(matmul(x, w * k), label);
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.01); epochs = 1; steps = 4; }
parallel { mode = %s; }
""" % (rows, columns, rows, columns, literal, rows, columns, literal, mode)


class Side(Case):
    def setUp(self):
        super().setUp()
        self.source = self.write("side.dsl", net(30, 20))

    def test_trains_as_one_rank_does(self):
        one, four = self.compile(self.source, "one.plan"), self.compile(self.source, "four.plan", "--ranks", 4)
        self.assertEqual(len(self.read("four.plan.data")), 2 * 8 * 30 * 20)
        self.assertEqual(self.read("four.plan.data"), self.read("one.plan.data"))
        local = self.ok(self.local(four, 4, "--verify=" + one))
        self.assertEqual(len(local.losses()), 4)
        self.assertEqual(self.ok(self.mpi(four, 4)).texts(), local.texts())

    def test_a_literal_that_just_fits_stays_in_the_plan(self):
        self.compile(self.write("short.dsl", net(32, 16)), "short.plan")
        self.assertFalse(os.path.exists(self.path("short.plan.data")))
        self.compile(self.write("long.dsl", net(33, 16)), "long.plan")
        self.assertTrue(os.path.exists(self.path("long.plan.data")))

    def test_the_plans_of_two_contents_are_of_two_nets(self):
        self.compile(self.source, "one.plan")
        self.compile(self.write("other.dsl", net(30, 20).replace("-0.9", "-0.8")), "other.plan", "--ranks", 2)
        self.assertFails(self.local(self.path("other.plan"), 2, "--verify=" + self.path("one.plan")), 1, "of another net")

    def test_missing(self):
        plan = self.compile(self.source, "net.plan", "--ranks", 2)
        os.remove(plan + ".data")
        for result in (self.local(plan, 2), run([harness.pcc, "check", plan])):
            self.assertFails(result, 3, r"cannot open .*net\.plan\.data: .*keep both in one folder")
        if harness.mpirun:
            self.assertIn("net.plan.data", self.mpi(plan, 2).err)

    def test_damaged(self):
        plan = self.compile(self.source, "net.plan", "--ranks", 2)
        data = bytearray(self.read("net.plan.data"))
        data[1234] ^= 4
        self.write("net.plan.data", bytes(data))
        for result in (self.local(plan, 2), run([harness.pcc, "check", plan])):
            self.assertFails(result, 1, r"net\.plan\.data, the file of its long literals, has checksum [0-9a-f]{16} where the plan says")
        self.write("net.plan.data", bytes(data[:-8]))
        self.assertFails(self.local(plan, 2), 1, "has 9592 bytes where the plan says 9600")
        self.write("net.plan.data", b"")
        self.assertFails(self.local(plan, 2), 1, "has 0 bytes where the plan says 9600")

    def test_of_another_plan(self):
        plan = self.compile(self.source, "net.plan", "--ranks", 2)
        self.compile(self.write("other.dsl", net(30, 20).replace("[-0.9,", "[0.5,", 1)), "other.plan")
        self.write("net.plan.data", self.read("other.plan.data"))
        self.assertFails(self.local(plan, 2), 1, "has checksum")


if __name__ == "__main__":
    harness.main()
