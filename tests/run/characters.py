#!/usr/bin/env python3
"""The sample characters: on a text made here, always, with and without its strategies; on a real one where it is (PCC_TEXT, or ../shared/data/text beside the
sources)."""
import json
import os
import random
import unittest

import harness
from harness import Case, edited

SMALL = (("batch = 32, places = 64, dim = 64", "batch = 8, places = 12, dim = 16"), ("steps     = 200", "steps     = 12"), ("log_every = 20", "log_every = 1"))


class Characters(Case):
    def files(self, text, *edits):
        self.write("text.txt", text)
        self.write("characters.dsl", edited(self.sample("characters.dsl"), *edits))
        for name in "nn.dsl", "characters_hints.dsl":
            self.write(name, edited(self.sample(name)))

    def learn(self, ranks, *flags, mpi=False):
        plan = self.compile("characters.dsl", "net.plan", "--ranks", ranks, *flags)
        return self.ok(self.mpi(plan, ranks) if mpi else self.local(plan, ranks)).losses()

    def test_all_ranks_and_strategies_learn_alike(self):
        pick = random.Random(3)
        words = ["".join(pick.choice("abcdefgh") for _ in range(pick.randint(2, 5))) for _ in range(12)]
        self.files(" ".join(pick.choice(words) for _ in range(600)), *SMALL)
        one = self.learn(1)
        self.assertEqual(len(one), 12)
        self.assertLess(one[-1], one[0] - 1)
        for ranks in 2, 3, 4, 8:
            self.assertClose(self.learn(ranks), one, relative=2e-3, what="%d ranks" % ranks)
        for ranks, mesh in (1, "dp = 2, tp = 2"), (2, "dp = 1, tp = 2"), (4, "dp = 2, tp = 2"), (8, "dp = 2, tp = 4"), (8, "dp = 4, tp = 2"):
            self.write("hints.dsl", edited(self.sample("characters_hints.dsl"), ("dp = 2, tp = 2", mesh)))
            self.assertClose(self.learn(ranks, "--hints", "hints.dsl"), one, relative=2e-3, what="%d ranks, hints, %s" % (ranks, mesh))
        self.assertClose(self.learn(4, "--hints", "characters_hints.dsl", mpi=True), one, relative=2e-3, what="hints, mpirun")

    def test_the_answers_are_never_gathered(self):
        """With the alphabet over tp: no communication of a tensor with a dimension of letters."""
        self.files("x" * 4000, *SMALL)
        stats = self.ok(harness.run(harness.compiling("characters.dsl", "--ranks", 4, "--hints", "characters_hints.dsl", "--stats=json", "-o", "net.plan", cwd=self.folder), cwd=self.folder)).out
        for communication in json.loads(stats)["communications"]:
            self.assertNotIn(communication["value"], ("logits", "logits.y", "d_logits", "logits.y.grad", "loss.shifted", "loss.exp"), communication)
            self.assertLess(communication["sent"]["max"], 8 * 12 * 128 * 4, communication)

    def test_a_letter_out_of_the_alphabet_is_named(self):
        self.files("plain text, and then \u00e4" * 200, *SMALL)
        plan = self.compile("characters.dsl", "net.plan", "--ranks", 2)
        self.assertFails(self.local(plan, 2), 3, r"text\.txt: row \d+ holds (195|164), and it must be in 0 \.\. 127")

    def test_shakespeare_is_learned_to_2_6_in_200_steps(self):
        path = os.environ.get("PCC_TEXT") or os.path.join(harness.sources, "..", "shared", "data", "text", "tinyshakespeare.txt")
        if not os.path.exists(path):
            self.skipTest("no text here")
        with open(path, encoding="utf-8") as file:
            self.files(file.read())
        losses = self.learn(4)
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], 2.6)


if __name__ == "__main__":
    harness.main()
