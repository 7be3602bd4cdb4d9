#!/usr/bin/env python3
"""prun --calibrate: measures by level, prints units, and writes a machine file that pcc reads."""
import os
import re

import harness
from harness import Case, run

LEVEL = re.compile(r"^(rank|node) +([0-9.]+) us +([0-9.]+) GB/s( +not measured: .*)?$", re.M)


KERNELS = {"f32": "FLOP/s", "f64": "FLOP/s", "f16": "FLOP/s", "bf16": "FLOP/s", "vector": "FLOP/s", "convolution": "FLOP/s", "memory": "B/s", "update": "B/s", "cache": "B/s", "kernel": "s"}


def machine(text):
    """The figures of a machine file: name, ranks a node, (seconds, bytes a second) of rank and node."""
    lines = [line.split("#")[0].split() for line in text.decode().splitlines()]
    assert lines[0] == ["pcc-machine", "1"], text
    keys = {line[0]: line[1:] for line in lines[1:] if line}
    level = lambda words: (float(words[0]), float(words[2]))
    for key, unit in KERNELS.items():
        assert keys[key][1] == unit and 0 < float(keys[key][0]) < 1e16, text
    assert keys["memory"][3] == "B" and float(keys["memory"][2]) > 1 << 20, text
    return keys["name"][0], int(keys["ranks_per_node"][0]), level(keys["rank"]), level(keys["node"])


class Calibrate(Case):
    def check(self, result, name, ranks_per_node, measured):
        """What is printed is what is written, and pcc takes it."""
        self.ok(result)
        levels = {m[0]: m for m in LEVEL.findall(result.out)}
        self.assertEqual(sorted(levels), ["node", "rank"], str(result))
        self.assertEqual([level for level in ("rank", "node") if not levels[level][3]], measured, str(result))
        word, per_node, *figures = machine(self.read(name))
        self.assertEqual(per_node, ranks_per_node, str(result))
        for level, (latency, bandwidth) in zip(("rank", "node"), figures):
            self.assertTrue(0 < latency < 1 and 1e3 < bandwidth < 1e15, str(result))
            self.assertLessEqual(abs(float(levels[level][1]) - 1e6 * latency), 0.01 + 1e-3 * 1e6 * latency, str(result))
            self.assertLessEqual(abs(float(levels[level][2]) - 1e-9 * bandwidth), 0.001 + 1e-3 * 1e-9 * bandwidth, str(result))
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", "8", "--machine", self.path(name))
        with open(plan) as file:
            self.assertRegex(file.read(), r'\noptions ".* machine=%s\(%d,' % (re.escape(word), ranks_per_node))
        self.ok(run([harness.pcc, "redistribute", "--mesh", "x=2,y=2", "--shape", "8x8", "--from", "[x y]", "--to", "[- -]", "--machine", self.path(name)]))

    def calibrate(self, ranks, *words, env=None):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        return run([harness.mpirun, "-n", ranks, harness.prun, "--calibrate", *words], cwd=self.folder, env=env)

    def test_two_ranks_of_a_node(self):
        self.check(self.calibrate(2, "two.machine"), "two.machine", 2, ["rank"])

    def test_two_nodes_of_two_ranks(self):
        self.check(self.calibrate(4, "four.machine", env={"PRUN_COMM": "nodes:2"}), "four.machine", 2, ["rank", "node"])

    def test_nodes_of_one_rank(self):
        self.check(self.calibrate(3, env={"PRUN_COMM": "nodes:1"}), "calibrated.machine", 1, ["node"])

    def test_all_ranks_in_one_process(self):
        self.check(run([harness.prun, "--ranks", "6", "--calibrate=six.machine"], cwd=self.folder), "six.machine", 6, ["rank"])
        latency, _ = machine(self.read("six.machine"))[2]
        self.assertLess(latency, 3e-6, "what is computed between messages is a mebibyte, and not of the latency")

    def test_nodes_of_unequal_size_are_said_to_be(self):
        result = self.ok(self.calibrate(3, env={"PRUN_COMM": "nodes:2"}))
        self.assertRegex(result.out, "not consecutive or equally many")

    def test_one_rank_measures_kernels_alone(self):
        self.check(run([harness.prun, "--calibrate"], cwd=self.folder), "calibrated.machine", 1, [])

    def test_too_many_words(self):
        self.assertFails(run([harness.prun, "--calibrate", "a.machine", "net.plan"], cwd=self.folder), 2, "takes one file and no plan, 'net.plan' is too much")

    def test_a_file_that_cannot_be_written(self):
        result = run([harness.prun, "--ranks", "2", "--calibrate", self.path("missing", "a.machine")], cwd=self.folder)
        self.assertEqual(result.code, 3, str(result))
        self.assertRegex(result.err, "prun: cannot write .*a.machine: No such file or directory")
        self.assertEqual(result.out, "", "it is said before anything is measured")

    def test_a_folder_is_refused_before_anything_is_measured(self):
        before = os.listdir(self.folder)
        for result in run([harness.prun, "--ranks", "2", "--calibrate", self.folder], cwd=self.folder), self.calibrate(2, self.folder):
            self.assertEqual(result.code, 3, str(result))
            self.assertIn("prun: cannot write %s: it is a folder; name a file\n" % self.folder, result.err)
            self.assertEqual(result.out, "", str(result))
        result = run([harness.prun, "--calibrate="], cwd=self.folder)
        self.assertEqual((result.code, result.err, result.out), (3, "prun: cannot write '': it names no file\n", ""), str(result))
        self.assertEqual(os.listdir(self.folder), before)

    def test_ranks_in_one_process_under_mpirun(self):
        result = self.calibrate(2, "--ranks", "4")
        self.assertEqual(result.code, 2, str(result))
        self.assertEqual(result.err.count("prun: --ranks 4 puts all ranks in one process: leave out mpirun, or --ranks\n"), 1, str(result))

    def test_only_a_machine_file_is_overwritten(self):
        self.write("net.plan", "pcc-plan 1\n")
        for result in run([harness.prun, "--ranks", "2", "--calibrate", "net.plan"], cwd=self.folder), self.calibrate(2, "net.plan"):
            self.assertEqual(result.code, 2, str(result))
            self.assertEqual(result.err.count("prun: --calibrate net.plan would overwrite a file that is no machine file; it takes no plan\n"), 1, str(result))
            self.assertEqual(self.read("net.plan"), b"pcc-plan 1\n")
        self.write("here.machine", "pcc-machine 1\n")
        self.check(run([harness.prun, "--ranks", "2", "--calibrate", "here.machine"], cwd=self.folder), "here.machine", 2, ["rank"])


if __name__ == "__main__":
    harness.main()
