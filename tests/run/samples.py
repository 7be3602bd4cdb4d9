#!/usr/bin/env python3
"""Every sample on 2, 3, 4 and 8 ranks, under mpirun or in one process, computes what it computes on one: the same losses within rounding, and by
prun --verify the same loss and states after each step. Then that --verify does not pass what is wrong."""
import glob
import os
import re

import harness
from harness import Case, edited, run

RANKS = 2, 4, 8
MPI = 4     # under mpirun; the others in one process
UNEVEN = 3  # of samples that no strategy ties to 8

# Strategies that name 8 ranks, as they are written for 2 and 4. A sample without an entry must compile at every number of ranks as it stands.
FEWER = {
    "quickstart": [("shard ((2, 4), (4, 1))", "shard ((1, {0}), ({0}, 1))")],
    "quickstart_files": [("shard ((2, 4), (4, 1))", "shard ((1, {0}), ({0}, 1))")],
    "output": [("shard ((2, 4), (4, 1)) -> (8, 1)", "shard ((2, {1}), ({1}, 1)) -> ({0}, 1)"), ("shard (2, 4)", "shard (2, {1})"), ("shard (8, 1)", "shard ({0}, 1)")],
    "mesh": [("mesh (dp = 2, tp = 4)", "mesh (dp = 2, tp = {1})")],
}
# What makes a sample fit into a test's time, and one with data for two replicas run on as many ranks as it has lists.
OPTIONS = {"mlp": ["-D", "batch=64", "-D", "in_dim=48", "-D", "hidden=96"], "mlp_small": ["-D", "batch=32", "-D", "in_dim=96"],
           "gpt2": ["-D", "batch=4", "-D", "places=8", "-D", "dim=16", "-D", "heads=2", "-D", "layers=2", "-D", "words=48", "-D", "most=9", "-D", "dropped=0.1"],
           "bert_tiny": ["-D", "batch=8", "-D", "places=6", "-D", "dim=16", "-D", "words=48", "-D", "most=8"],
           "llama": ["-D", "batch=4", "-D", "places=8", "-D", "dim=32", "-D", "heads=8", "-D", "groups=2", "-D", "hidden=24", "-D", "layers=2", "-D", "words=48"],
           "mixtral": ["-D", "batch=4", "-D", "places=8", "-D", "dim=32", "-D", "heads=8", "-D", "groups=2", "-D", "experts=4", "-D", "hidden=12", "-D", "layers=2", "-D", "words=48"],
           "bert_base": ["-D", "batch=4", "-D", "places=6", "-D", "dim=16", "-D", "heads=2", "-D", "layers=2", "-D", "words=48", "-D", "most=8"],
           "vae": ["-D", "batch=16", "-D", "pixels=48", "-D", "hidden=24", "-D", "code=6"], "unet_tiny": ["-D", "batch=8", "-D", "side=8", "-D", "width=4"],
           "lstm": ["-D", "batch=16", "-D", "places=5"], "dlrm": ["-D", "rows=50", "-D", "tables=6", "-D", "batch=32", "-D", "wide=32", "-D", "middle=16", "-D", "narrow=8"], "moe_tiny": ["-D", "places=16", "-D", "dim=32", "-D", "hidden=48"], "lenet": ["-D", "batch=16"], **{net: ["-D", "batch=16", "-D", "side=32", "-D", "width=4", "-D", "classes=10"] for net in ("resnet18", "resnet50")},
           "oneflow_ddp": ["--replicas", "8"], "ddp_toymodel": ["--replicas", "8"], "ddp_checkpoint": ["--replicas", "8", "-D", "updates=4"],
           "collectives": ["--replicas", "8"]}
# Small steps of ResNets: a sum in another order ends on the other side of a relu now and then, and a few images to a norm make much of it. So does a place whose expert is
# another one.
MORE = {"moe_tiny": [("lr = 0.01", "lr = 0.001")], "mixtral_tiny": [("lr = 0.01", "lr = 0.001")], **{net: [("lr = 0.1", "lr = 0.0000001"), ("steps     = 10", "steps     = 3")] for net in ("resnet18", "resnet50")}, "collectives": [("steps     = 1;", "steps     = 3;")], "ddp_toymodel": [('    log "[{pid}] (rank = {rank}, local_rank = {local_rank}) loss = {loss}" on all;\n', "    steps     = 4;\n")],
        "oneflow_ddp": [("[[[1, 2], [2, 3]], [[4, 6], [3, 1]]]", "[%s]" % ", ".join(["[[1, 2], [2, 3]], [[4, 6], [3, 1]]"] * 4)),
                        ("[[[8], [13]], [[26], [9]]]", "[%s]" % ", ".join(["[[8], [13]], [[26], [9]]"] * 4))]}


class Samples(Case):
    """A method per sample is added below."""

    def source(self, name, *edits):
        """A copy of a sample, and of the files that it names."""
        text = edited(self.sample(name + ".dsl"), *edits)
        for weights in set(re.findall(r'(?:file\(|import )"(.*?)"', text)):
            with open(self.sample(weights), "rb") as file:
                self.write(weights, file.read())
        return self.write(name + ".dsl", text)

    def plans(self, name, ranks):
        """Of a sample as written for so many ranks: its plan, and that of the same text for one rank."""
        edits = MORE.get(name, [])
        if ranks < 8 and name in FEWER:
            refused = run([harness.pcc, self.sample(name + ".dsl"), "-o", self.path("refused.plan"), "--ranks", ranks])
            self.assertEqual(refused.code, 1, "%s is for 8 ranks: %s" % (name, refused))
            self.assertFalse(os.path.exists(self.path("refused.plan")), "a rejected net leaves no plan")
            edits = [(old, new.format(ranks, ranks // 2)) for old, new in FEWER[name]]
        source = self.source(name, *edits)
        options = OPTIONS.get(name, [])
        alone = ["--mode", "stand_alone"] if name == "mesh" else []  # its named mesh has 8 ranks
        return self.compile(source, "net.plan", "--ranks", ranks, *options), self.compile(source, "one.plan", "--ranks", 1, *options, *alone)

    def check(self, name):
        for ranks in (*RANKS, UNEVEN):
            if ranks == UNEVEN and name in FEWER:
                continue
            with self.subTest(ranks=ranks):
                plan, one = self.plans(name, ranks)
                expected = self.ok(self.local(one, 1))
                numbers = [number for _, number in expected.labels()] or [None]
                self.assertGreater(len(expected.losses(numbers[0])), 1, str(expected))
                result = self.ok((self.mpi if ranks == MPI else self.local)(plan, ranks, "--verify=" + one))
                self.assertRegex(result.out, r"\nverified: \d+ steps, \d+ numbers equal one rank's", str(result))
                self.assertEqual(result.err, "")
                sent = re.search(r"\nsent per rank and step: (\d+) bytes.* \(plan: at most (\d+)\)\n", result.out)
                self.assertTrue(sent and 0 < int(sent[1]) <= int(sent[2]) < 1.2 * int(sent[1]), "what is counted fits the plan's figure: %s" % result)
                for number in numbers:
                    self.assertClose(result.losses(number), expected.losses(number), relative=2e-4, absolute=1e-11, what=str(result))


def is_net(path):
    """Others are libraries and hints; those that need files have tests of their own (mnist.py, characters.py, reference_nets.py)."""
    with open(path) as file:
        text = file.read()
    return re.search(r"(?m)^net ", text) is not None and not re.search(r"= *(idx|raw|npy|csv|cifar10)\(", text)


def add_samples(sources):
    names = sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(sources, "samples", "*.dsl")) if is_net(path))
    assert names, "no samples in %s" % sources
    assert set(FEWER) | set(OPTIONS) | set(MORE) <= set(names), "a sample that is named above is gone"
    for name in names:
        setattr(Samples, "test_%s_computes_on_all_ranks_what_it_does_on_one" % name, lambda self, name=name: self.check(name))


class Verify(Case):
    """prun --verify finds what differs."""

    def plans(self):
        source = self.sample("quickstart_files.dsl")
        return self.compile(source, "net.plan", "--ranks", 8), self.compile(source, "one.plan", "--ranks", 1)

    def check_wrong(self, pattern, *edits):
        """The plan for one rank edited by hand, its checksum renewed."""
        plan, one = self.plans()
        self.write("one.plan", edited(one, *edits))
        self.ok(run([harness.pcc, "check", "--update", one]))
        for how in self.local, self.mpi:
            result = how(plan, 8, "--verify=" + one)
            self.assertEqual(result.code, 4, str(result))
            self.assertRegex(result.err, pattern)
            self.assertEqual(result.err.count("prun: --verify: "), 1, str(result))

    def test_another_learning_rate_makes_a_state_differ(self):
        self.check_wrong(r"(?m)^prun: --verify: w2?\[\d+, \d+\] differs after epoch 1 step 1: ", ("lr: 0.4", "lr: 0.41"), ("lr=0.4", "lr=0.41"))

    def test_another_momentum_makes_a_state_differ_once_there_is_velocity(self):
        self.check_wrong(r"(?m)^prun: --verify: \S+\[\d+, \d+\] differs after epoch 1 step 2: ", ("momentum: 0.1", "momentum: 0.2"), ("momentum=0.1", "momentum=0.2"))

    def test_other_data_makes_the_loss_differ(self):
        self.check_wrong(r"(?m)^prun: --verify: loss(\[\])? differs after epoch 1 step 1: ", ("numpy_rand seed=1 ", "numpy_rand seed=2 "))

    def test_the_reference_must_be_of_the_same_net_and_for_one_rank(self):
        plan, one = self.plans()
        other = self.compile(self.sample("quickstart.dsl"), "other.plan", "--ranks", 1)
        self.assertFails(self.local(plan, 8, "--verify=" + other), 1, "is of another net")
        self.assertFails(self.mpi(plan, 8, "--verify=" + plan), 1, "is for 8 ranks: compile the net with --ranks 1")
        self.assertFails(self.mpi(plan, 8, "--verify=" + self.path("missing.plan")), 3, "missing.plan: No such file")
        self.ok(self.local(plan, 8, "--verify=" + one))


if __name__ == "__main__":
    import sys
    if len(sys.argv) > 4:
        add_samples(sys.argv[4])
    harness.main()
