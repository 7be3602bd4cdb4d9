#!/usr/bin/env python3
"""The reference results that pcc and prun reproduce: OneFlow's data parallel example and MindSpore's quick start."""
import harness
from harness import Case, edited

# OneFlow prints these at 50 and at 500, the second rank's first (float32).
ONEFLOW_MEAN = (("0.00025336415274068713", "4.547473508864641e-12"), ("0.004111831542104483", "6.184563972055912e-11"))
# Where the gradients are summed: at 50, 100, 150 and from 200 on, by a simulation of the example in float32 with every product and sum rounded, as
# prun's products of a few numbers are on every processor.
ONEFLOW_SUM = (
    ("6.082294e-06", "3.670721e-09", "2.955858e-12", "2.273737e-13"),
    ("9.874057e-05", "5.609854e-08", "3.637979e-11", "3.637979e-12"))

# MindSpore's quick start from the values of samples/quickstart_npy.py, in double arithmetic, learning rate 0.4.
QUICKSTART = [0.3858064, 0.3856094, 0.3854194, 0.3851858, 0.3848133, 0.3841762, 0.3830653, 0.3811096, 0.3776619, 0.3716185,
              0.3611525, 0.3434304, 0.3146022, 0.2708889, 0.2121104, 0.1473281, 0.0950747, 0.0682832, 0.0606798, 0.0595608]
QUICKSTART_SLOW_20TH = 0.3567420  # learning rate 0.2
TOLERANCE = 1e-5

HINT = " shard ((2, 4), (4, 1))"


class OneFlow(Case):
    def check_mean(self, result):
        self.ok(result)
        for rank in 0, 1:
            texts = result.texts(rank)
            self.assertEqual(len(texts), 10, "every 50 of 500 steps: %s" % result)
            self.assertEqual((texts[0], texts[9]), ONEFLOW_MEAN[rank], str(result))
            self.assertEqual(len(set(texts[5:])), 1, "from 300 on nothing moves: %s" % result)
        self.assertIn("\nw = [[2.0000], [3.0000]]\n", result.out)

    def test_mean_of_gradients_gives_oneflows_losses_to_the_last_digit(self):
        plan = self.compile(self.sample("oneflow_ddp.dsl"), "net.plan", "--ranks", 2)
        self.check_mean(self.local(plan, 2, "--print", "w"))
        self.check_mean(self.mpi(plan, 2, "--print", "w"))

    def test_two_replicas_on_one_rank_are_the_reference(self):
        two = self.local(self.compile(self.sample("oneflow_ddp.dsl"), "two.plan", "--ranks", 2), 2, "--print", "w")
        plan = self.compile(self.sample("oneflow_ddp.dsl"), "one.plan", "--ranks", 1, "--replicas", 2)
        one = self.local(plan, 1, "--print", "w")
        self.check_mean(one)
        self.assertEqual(one.labels(), [("replica", 0), ("replica", 1)])
        self.assertEqual(two.labels(), [("rank", 0), ("rank", 1)])
        for number in 0, 1:
            self.assertEqual(one.texts(number), two.texts(number))

    def test_sum_of_gradients_gives_the_sum_column(self):
        plan = self.compile(self.sample("oneflow_ddp.dsl"), "net.plan", "--ranks", 2, "--gradients", "sum")
        self.check_sum(self.local(plan, 2, "--print", "w"))
        self.check_sum(self.mpi(plan, 2, "--print", "w"))

    def check_sum(self, result):
        self.ok(result)
        for rank in 0, 1:
            digits = ["%.6e" % loss for loss in result.losses(rank)]
            self.assertEqual(len(digits), 10, str(result))
            for found, expected in zip(digits, ONEFLOW_SUM[rank]):
                self.assertEqual(found, expected, str(result))
            self.assertEqual(len(set(digits[3:])), 1, "from 200 on nothing moves: %s" % result)
        self.assertIn("\nw = [[2.0000], [3.0000]]\n", result.out)

    def test_sum_at_half_the_learning_rate_is_mean_bit_for_bit(self):
        mean = self.local(self.compile(self.sample("oneflow_ddp.dsl"), "mean.plan", "--ranks", 2), 2)
        half = self.write("half.dsl", edited(self.sample("oneflow_ddp.dsl"), ("lr = 0.01", "lr = 0.005"), ("gradients = mean", "gradients = sum")))
        total = self.local(self.compile(half, "sum.plan", "--ranks", 2), 2)
        for rank in 0, 1:
            self.assertEqual(mean.texts(rank), total.texts(rank))
            self.assertEqual(len(mean.texts(rank)), 10)


class Quickstart(Case):
    def net(self, name, first=HINT, second="", rate="0.4"):
        """The quick start from files with these hints on its two products."""
        for weights in "quickstart_w.npy", "quickstart_w2.npy":
            with open(self.sample(weights), "rb") as file:
                self.write(weights, file.read())
        return self.write(name, edited(self.sample("quickstart_files.dsl"), ("matmul(x, w)" + HINT, "matmul(x, w)" + first),
                                       ("matmul(a, w2)", "matmul(a, w2)" + second), ("lr = 0.4", "lr = " + rate)))

    def check(self, result, what):
        self.assertClose(self.ok(result).losses(), QUICKSTART, absolute=TOLERANCE, what=what)

    def both(self, source, ranks, what):
        plan = self.compile(source, "net.plan", "--ranks", ranks)
        self.check(self.local(plan, ranks), what + ", one process")
        self.check(self.mpi(plan, ranks), what + ", mpirun")

    def test_losses_on_8_ranks_with_the_hint(self):
        self.both(self.sample("quickstart_files.dsl"), 8, "the sample")

    def test_losses_on_8_ranks_with_other_hints(self):
        hints = (("", HINT), (" shard ((8, 1), (1, 1))", ""), (" shard ((1, 8), (8, 1))", ""), (" shard ((1, 1), (1, 8))", ""),
                 (" shard ((2, 2), (2, 2))", " shard ((4, 1), (1, 2))"))
        for number, (first, second) in enumerate(hints):
            with self.subTest(first=first, second=second):
                self.both(self.net("hint%d.dsl" % number, first, second), 8, first + "|" + second)

    def test_losses_on_1_2_3_ranks_without_a_hint(self):
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                self.both(self.net("plain.dsl", ""), ranks, "%d ranks" % ranks)

    def test_losses_at_every_level_of_optimization(self):
        for level in "-O0", "-O1", "--redistribution=bound", "--redistribution=canonical":
            plan = self.compile(self.sample("quickstart_files.dsl"), "net.plan", "--ranks", 8, level)
            self.check(self.local(plan, 8), level)

    def test_20th_loss_at_learning_rate_02(self):
        plan = self.compile(self.net("slow.dsl", rate="0.2"), "net.plan", "--ranks", 8)
        losses = self.ok(self.local(plan, 8)).losses()
        self.assertEqual(len(losses), 20)
        self.assertAlmostEqual(losses[19], QUICKSTART_SLOW_20TH, delta=TOLERANCE)

    def test_random_initial_values_begin_at_the_plateau_and_learn(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        result = self.ok(self.mpi(plan, 8, "--all-ranks"))
        losses = result.losses(0)
        self.assertEqual(len(losses), 20)
        self.assertAlmostEqual(losses[0], 0.3857, delta=0.001)
        self.assertLess(losses[19], 0.12)
        self.assertEqual(result.labels(), [("rank", rank) for rank in range(8)])
        for rank in range(1, 8):
            self.assertEqual(result.texts(rank), result.texts(0), "rank %d prints what rank 0 prints" % rank)

    def test_one_rank_prints_without_all_ranks(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        result = self.ok(self.local(plan, 8))
        self.assertEqual((len(result.texts()), result.labels()), (20, []))


if __name__ == "__main__":
    harness.main()
