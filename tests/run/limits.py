#!/usr/bin/env python3
"""Under any limit of memory prun trains, or says in an error how much it needs: it waits for nothing that does not come."""
import os

import harness
from harness import Case, edited, run

KIB = (30000, 60000, 100000, 150000, 200000, 300000, 340000, 500000, 2000000)  # ulimit -v
NEEDS = r"(?m)^prun: .*memory.* \d+ (MiB|bytes)|^prun: .*cannot allocate \d+ bytes|out of memory: \d+ more bytes"
SECONDS = 60  # a hundred times what the slowest takes


def limited(kib, *command):
    """On two cores: what threads need is then the same everywhere."""
    return ["sh", "-c", 'ulimit -v "$0" && exec "$@"', str(kib), *command]


def two_cores():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


class Limits(Case):
    def setUp(self):
        super().setUp()
        large = self.write("net.dsl", edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 2;")))
        self.plans = {n: self.compile(large, "net%d.plan" % n, "--ranks", n, "-D", "in_dim=256", "-D", "batch=64") for n in (1, 2, 8)}

    def check(self, kib, *command):
        """Whether it trained."""
        result = run(limited(kib, *command), cwd=self.folder, preexec_fn=two_cores, env={"PRUN_TIMEOUT": "30"})
        self.assertLess(result.seconds, SECONDS, str(result))
        if result.code != 0: # where there are more cores a note says that two are few
            self.assertEqual((result.code, result.out), (3, ""), str(result))
            self.assertRegex(result.err, NEEDS, str(result))
        return result.code == 0

    def test_all_ranks_in_one_process(self):
        for ranks, plan in self.plans.items():
            trained = [self.check(kib, harness.prun, "--ranks", ranks, plan) for kib in KIB]
            self.assertEqual((trained[0], trained[-1]), (False, True))
            self.assertEqual(trained, sorted(trained), "more memory, and it no longer trains")

    def test_products_of_two_libraries(self):
        """784 x 128 x 4096, the gradient of a weight, is OpenBLAS's, 4096 x 256 x 256 oneDNN's where there is one."""
        net = self.write("two.dsl", edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1;")))
        plan = self.compile(net, "two.plan", "--ranks", 1, "-D", "batch=4096", "-D", "hidden2=256")
        trained = [self.check(kib, harness.prun, plan) for kib in (100000, 150000, 200000, 300000, 400000, 500000, 600000, 2000000)]
        self.assertEqual((trained[0], trained[-1], trained), (False, True, sorted(trained)))

    def test_ranks_of_their_own(self):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        for kib, ranks in (100000, 2), (200000, 8), (350000, 2), (2000000, 2):
            with self.subTest(kib=kib, ranks=ranks):
                result = run([harness.mpirun, "-n", ranks, *limited(kib, harness.prun, self.plans[ranks])], cwd=self.folder, preexec_fn=two_cores)
                self.assertLess(result.seconds, SECONDS, str(result))
                self.assertIn(result.code, (0, 3), str(result))
                if result.code == 3:
                    self.assertRegex(result.err, NEEDS)
                self.assertEqual(result.code == 0, kib == 2000000, str(result))

    def test_what_needs_no_memory_takes_none(self):
        for words, code in (["--help"], 0), (["--version"], 0), (["--frobnicate"], 2), (["missing.plan"], 3):
            result = run(limited(40000, harness.prun, *words), cwd=self.folder)
            self.assertEqual(result.code, code, str(result))

    def test_a_net_without_products_opens_no_blas(self):
        plan = self.compile(self.write("sum.dsl", "net sum(n = 64) {\n    input x : f32[n, 8];\n    param w : f32[8] = ones;\n    loss mean(x * w);\n}\n"
                                                  "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n"), "sum.plan", "--ranks", 1)
        self.ok(run(limited(150000, harness.prun, plan), cwd=self.folder, preexec_fn=two_cores))


if __name__ == "__main__":
    harness.main()
