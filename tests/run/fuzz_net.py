#!/usr/bin/env python3
"""pcc fuzz-net as a user runs it: the first lines of a net say how to compile it and how to compare it with one rank, and what they say works, in one
process and under mpirun. (nets.c checks thousands of these nets.)"""
import os
import re
import shlex
import shutil
import unittest

import harness
from harness import Case, run

SEEDS = [*range(12), 3784]  # the last: integers whose user as an index is pruned
UNDER_MPIRUN = 3  # of the nets for at most 4 ranks


class FuzzNet(Case):
    def write_net(self, seed):
        """The net's lines that begin with #, as commands of words."""
        made = run([harness.pcc, "fuzz-net", "--seed", seed, "-o", self.path("net.dsl")])
        self.assertEqual(made.code, 0, str(made))
        with open(self.path("net.dsl"), encoding="utf-8") as file:
            return [shlex.split(line[1:]) for line in file if line.startswith("#")]

    def test_the_commands_in_the_net_work(self):
        left = UNDER_MPIRUN
        for seed in SEEDS:
            made, many, one, prun = self.write_net(seed)
            self.assertEqual(made, ["pcc", "fuzz-net", "--seed", str(seed)])
            for command in (many, one):
                compiled = run([harness.pcc, *command[1:]], cwd=self.path("."))
                self.assertEqual(compiled.code, 0, "seed %d\n%s" % (seed, compiled))
            trained = run([harness.prun, *prun[1:]], cwd=self.path("."))
            self.assertEqual(trained.code, 0, "seed %d\n%s" % (seed, trained))
            self.assertIn("verified: 2 steps", trained.out)
            sent, most = re.search(r"sent per rank and step: (\S+) bytes.*\(plan: at most (\d+)\)", trained.out).groups()
            self.assertLessEqual(float(sent), int(most), trained.out)
            ranks = int(prun[prun.index("--ranks") + 1])
            if harness.mpirun and ranks <= 4 and left > 0:
                left -= 1
                spread = run([harness.mpirun, "-n", ranks, harness.prun, prun[3], prun[4]], cwd=self.path("."))
                self.assertEqual(spread.code, 0, "seed %d\n%s" % (seed, spread))
                self.assertEqual(spread.texts(), trained.texts(), "seed %d: other digits under mpirun" % seed)

    def test_a_seed_is_one_net(self):
        texts = [run([harness.pcc, "fuzz-net", "--seed=%d" % seed]).out for seed in (5, 5, 6)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0].split("\n")[4:], texts[2].split("\n")[4:])

    def test_mistakes_are_usage_errors(self):
        for arguments in ([], ["--seed"], ["--seed", "-1"], ["--seed", "x"], ["--seed", "1", "-o"], ["--sed", "1"]):
            self.assertEqual(run([harness.pcc, "fuzz-net", *arguments]).code, 2, arguments)
        self.assertEqual(run([harness.pcc, "fuzz-net", "--seed", "1", "-o", self.path("no/net.dsl")]).code, 3)
        self.assertEqual(run([harness.pcc, "fuzz-net", "--help"]).code, 0)

    def test_the_generator_may_lie_elsewhere(self):
        generator = os.path.join(os.path.dirname(harness.pcc), "../tests/nets/pcc-fuzz-net")
        os.mkdir(self.path("bin"))
        alone = shutil.copy(harness.pcc, self.path("bin/pcc"))
        missing = run([alone, "fuzz-net", "--seed", "1"])
        self.assertEqual(missing.code, 3)
        self.assertIn("there is no program pcc-fuzz-net", missing.err)
        here = run([harness.pcc, "fuzz-net", "--seed", "1"])
        self.assertEqual(run([alone, "fuzz-net", "--seed", "1"], env={"PCC_FUZZ_NET": generator}).out, here.out)
        self.assertEqual(run([alone, "fuzz-net", "--seed", "1"], env={"PCC_FUZZ_NET": self.path("none")}).code, 3)
        shutil.copy(generator, self.path("bin/pcc-fuzz-net"))
        self.assertEqual(run([alone, "fuzz-net", "--seed", "1"]).out, here.out)


if __name__ == "__main__":
    harness.main()
