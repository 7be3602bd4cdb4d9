#!/usr/bin/env python3
"""Buckets change when gradients are reduced, never what they are: the same losses and parameters, bit for bit, whatever the size of the buckets and
however the ranks talk."""
import unittest

import harness
from harness import Case, run

NET = """net n(batch = 6) {
    input x : %(type)s[batch, 40]; input label : %(type)s[batch, 7];
    param w1 : %(type)s[40, 90] = normal(0.2); param b1 : %(type)s[90] = zeros;
    param w2 : %(type)s[90, 3001] = normal(0.1); param b2 : %(type)s[3001] = ones;
    param w3 : %(type)s[3001, 7] = normal(0.1); param b3 : %(type)s[7] = zeros;
    h1 = tanh(matmul(x, w1) + b1);
    h2 = tanh(matmul(h1, w2) + b2);
    loss mse(matmul(h2, w3) + b3, label);
}
train { data = numpy_rand(seed = 3); optimizer = momentum(lr = 0.001, momentum = 0.9); steps = 4; }
parallel { mode = %(mode)s; bucket = %(bucket)s; }
"""
BUCKETS = ["0", "1 KiB", "256 KiB", "25 MiB", "1 GiB"]


class Buckets(Case):
    def plan(self, mode, bucket, *flags, type="f32"):
        source = self.write("net.dsl", NET % {"type": type, "mode": mode, "bucket": bucket})
        plan = self.path("%s.plan" % bucket.replace(" ", ""))
        compiled = run(harness.compiling(source, "-o", plan, "--ranks", 4, *flags))
        self.assertEqual(compiled.code, 0, str(compiled))
        return plan

    def starts(self, plan):
        """The numbers of the buckets, and how many communications have none."""
        with open(plan) as file:
            lines = [line for line in file if line.startswith("    start ")]
        numbers = [line.rsplit("bucket=", 1)[1].strip() for line in lines if "bucket=" in line]
        return len(set(numbers)), len(lines) - len(numbers)

    def losses(self, result):
        self.assertEqual(result.code, 0, str(result))
        found = sorted(harness.LOSS.findall(result.out))
        self.assertGreaterEqual(len(found), 4, str(result))
        return found

    def check(self, mode, *flags, type="f32"):
        plans = [self.plan(mode, bucket, *flags, type=type) for bucket in BUCKETS]
        counts = [self.starts(plan)[0] for plan in plans]
        self.assertEqual(counts[0], 0)
        self.assertGreater(counts[1], counts[3])
        self.assertGreaterEqual(counts[3], 1)
        reference = self.losses(self.local(plans[0], 4))
        for plan in plans[1:]:
            self.assertEqual(self.losses(self.local(plan, 4)), reference, plan)
        return plans, reference

    def test_data_parallel(self):
        self.check("data_parallel")
        self.check("data_parallel", "--whole-updates", type="f64")

    def test_conversions_of_values(self):
        """Rows of tables that are split by columns, and a sum of tables that are split by rows: conversions of several kinds, joined, with the bits of conversions one by one."""
        tables = range(6)
        text = """net n() {
            input label : f32[16, 1]; param w : f32[48, 1] = normal(0.3);
            %s
            all = concat(%s, axis = 1);
            loss mse(matmul(all, w), label);
        }
        train { data = normal(seed = 3); optimizer = momentum(lr = 0.01, momentum = 0.9); steps = 4; }
        parallel { mode = semi_auto; bucket = BYTES; }
        """ % ("\n".join("input i%d : i32[16]; param t%d : f32[32, 8] = normal(0.2); e%d = embedding(t%d, i%d) shard (%%s);" % ((i,) * 5) for i in tables),
               ", ".join("e%d" % i for i in tables))
        for strategy in "(1, 4), (1)", "(4, 1), (1)", "(1, 2), (2)", "(1, 1), (4)":
            found = []
            for bucket in "0", "25 MiB":
                source = self.write("net.dsl", (text % ((strategy,) * len(tables))).replace("BYTES", bucket))
                plan = self.path("net.plan")
                self.ok(run(harness.compiling(source, "-o", plan, "--ranks", 4)))
                self.ok(run(harness.compiling(source, "-o", self.path("one.plan"))))
                self.ok(self.local(plan, 4, "--verify=" + self.path("one.plan")))
                found.append((self.losses(self.local(plan, 4)), self.losses(self.mpi(plan, 4)), self.starts(plan)))
            with self.subTest(strategy=strategy):
                self.assertEqual(found[0][:2], found[1][:2])
                self.assertEqual(found[0][0], found[0][1])
                self.assertGreater(found[0][2][1], found[1][2][1])

    def test_global_modes(self):
        self.check("semi_auto")
        self.check("semi_auto", "--whole-updates")

    def test_processes_and_messages(self):
        if not harness.mpirun:
            self.skipTest("no mpirun")
        plans, _ = self.check("data_parallel", "--whole-updates")
        reference = None
        for transport in ("", "messages", "nodes:2"):
            for plan in (plans[0], plans[3]):
                done = run([harness.mpirun, "--oversubscribe", "-n", 4, harness.prun, plan], env={"PRUN_COMM": transport})
                reference = reference or self.losses(done)
                self.assertEqual(self.losses(done), reference, "%s %s" % (transport, plan))

    def test_a_bucket_torn_apart_is_refused(self):
        plan = self.plan("data_parallel", "25 MiB", "--whole-updates")
        with open(plan) as file:
            text = file.read()
        wait = next(line for line in text.splitlines(True) if line.startswith("    wait ") and "bucket=1" in line)
        with open(plan, "w") as file:
            file.write(text.replace(wait, wait.replace(" bucket=1", "")))
        self.assertEqual(run([harness.pcc, "check", "--update", plan]).code, 1)
        self.assertEqual(run([harness.pcc, "check", plan]).code, 1)
        done = self.local(plan, 4)
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("bucket 1", done.err)


if __name__ == "__main__":
    harness.main()
