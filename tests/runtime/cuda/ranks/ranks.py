#!/usr/bin/env python3
"""prun on several ranks with devices, in each way in which they can talk: results, bytes, choices, failures. Over the stand-in; PRUN_CUDA_MODULE names the module,
PRUN_NCCL the library."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "run"))
import harness
from harness import Case

WAYS = {
    "local": "one process, on its device",
    "nccl": "NCCL 2.28.9",
    "ipc": "CUDA IPC",
    "host": "host memory, shared memory",
}
SENT = re.compile(r"^sent per rank and step: (\d+) bytes.* \(plan: at most (\d+)\)$", re.M)


class Ranks(Case):
    def net(self, ranks, sample="mlp_small.dsl"):
        return self.compile(self.sample(sample), "%s%d.plan" % (sample[:-4], ranks), "--ranks", ranks)

    def run_on(self, way, plan, ranks, *options, **env):
        """way: of WAYS, or None: whatever prun chooses under mpirun."""
        env = {"STANDIN_DEVICES": str(ranks) if way == "nccl" else "1", "PRUN_TIMEOUT": "60", **env}
        if way == "local":
            return harness.run([harness.prun, "--device", "cuda", "--ranks", ranks, *options, plan], cwd=self.folder, env=env)
        how = ["--comm", way] if way else []
        return self.mpi(plan, ranks, "--device", "cuda", *how, *options, env=env)

    def test_every_way_trains_as_one_rank_does_and_sends_what_the_plan_says(self):
        one = self.net(1)
        for ranks in 2, 4:
            plan = self.net(ranks)
            for way, words in WAYS.items():
                with self.subTest(way=way, ranks=ranks):
                    done = self.ok(self.run_on(way, plan, ranks, "-v", "--verify", one, "--check-replicas"))
                    self.assertIn(words, done.out)
                    self.assertRegex(done.out, r"verified: \d+ steps, [1-9]\d* numbers equal one rank's")
                    self.assertIn("all equal bit for bit", done.out)
                    sent = SENT.search(done.out)
                    self.assertTrue(sent and sent[1] == sent[2], done.out)
                    if way in ("local", "nccl"):
                        self.assertRegex(done.out, r"steps are replayed as one graph of \d+ nodes")
                    else:
                        self.assertIn("steps run operator by operator: ranks talk by " + words, done.out)

    def test_deterministic_sums_are_the_same_in_every_way(self):
        """All add up terms in one order; with a graph and without, in layouts of every kind."""
        plan = self.net(8, "quickstart.dsl")
        found = {}
        for way in WAYS:
            for graph in ([], ["--no-graph"]) if way in ("local", "nccl") else ([],):  # the others record no steps
                done = self.ok(self.run_on(way, plan, 8, "--deterministic", "--print", "w", *graph))
                found[way, len(graph)] = done.texts(), re.findall(r"^w = .*$", done.out, re.M)
                self.assertTrue(all(found[way, len(graph)]), done.out)
        self.assertEqual(len({str(each) for each in found.values()}), 1, found)

    def test_checkpoints_pass_between_ways(self):
        plan = self.net(4)
        files = set()
        for way in WAYS:
            name = self.path(way + ".safetensors")
            self.ok(self.run_on(way, plan, 4, "--deterministic", "--save", name))
            files.add(self.read(name))
        self.assertEqual(len(files), 1)
        for way in WAYS:
            self.ok(self.run_on(way, plan, 4, "--load", self.path("ipc.safetensors")))

    def test_the_first_way_that_works_is_taken_and_said(self):
        plan = self.net(2)
        each = self.ok(self.run_on(None, plan, 2, "-v", STANDIN_DEVICES="2"))
        self.assertRegex(each.out, r"(?m)^rank 1: .*, NCCL 2\.28\.9$")
        one = self.ok(self.run_on(None, plan, 2, "-v"))
        self.assertRegex(one.out, r"(?m)^rank 1: .*, CUDA IPC \(ranks 0 and 1 share a GPU, NCCL 2\.28 wants one a rank\)$")
        events = self.ok(self.run_on(None, plan, 2, "-v", STANDIN_DEVICES="1", STANDIN_FAIL="cudaIpcOpenEventHandle:1:801"))
        self.assertRegex(events.out, r"host memory.*no CUDA IPC: .*opening another rank's event")
        neither = self.ok(self.run_on(None, plan, 2, "-v", STANDIN_IPC="0"))
        self.assertRegex(neither.out, r"(?m)^rank 1: .*, host memory, shared memory \(ranks 0 and 1 share a GPU, .*; no CUDA IPC: rank 0 .*CUDA says")
        newer = self.ok(self.run_on(None, plan, 2, "-v", STANDIN_NCCL="23000", NCCL_MULTI_RANK_GPU_ENABLE="1"))
        self.assertRegex(newer.out, r"(?m)^rank 1: .*, NCCL 2\.30\.0$")
        without = self.ok(self.run_on(None, plan, 2, "-v", PRUN_NCCL="/nowhere/libnccl.so"))
        self.assertRegex(without.out, r"(?m)^rank 1: .*, CUDA IPC \(no NCCL on rank 0")

    def test_what_was_asked_for_and_cannot_be_is_an_error(self):
        plan = self.net(2)
        self.assertFails(self.run_on("nccl", plan, 2, STANDIN_DEVICES="1"), 3, r"--comm nccl: ranks 0 and 1 share a GPU, NCCL 2\.28 wants one a rank; use as many GPUs")
        self.assertFails(self.run_on("nccl", plan, 2, STANDIN_DEVICES="1", STANDIN_NCCL="23000"), 3, r"wants NCCL_MULTI_RANK_GPU_ENABLE=1")
        self.assertFails(self.run_on("nccl", plan, 2, PRUN_NCCL="/nowhere/libnccl.so"), 3, r"no NCCL on rank 0 \(.*\): NCCL cannot be opened: /nowhere/libnccl\.so")
        self.assertFails(self.run_on("nccl", plan, 2, STANDIN_NCCL="21200"), 3, r"is NCCL 2\.12, and 2\.14 or later is needed")
        self.assertFails(self.run_on("nccl", plan, 2, PRUN_NCCL="libm.so.6"), 3, r"no NCCL on rank 0 .*: libm\.so\.6 is not NCCL")
        one = [harness.prun, "--device", "cuda", "--comm", "nccl", plan]
        other = harness.run([harness.mpirun, "-n", 1, *one, ":", "-n", 1, "-x", "PRUN_NCCL=/nowhere/libnccl.so", *one], cwd=self.folder, env={"STANDIN_DEVICES": "2"})
        self.assertFails(other, 3, r"no NCCL on rank 1 \(.*\): NCCL cannot be opened: /nowhere/libnccl\.so")
        self.assertFails(self.run_on("ipc", plan, 2, STANDIN_IPC="0"), 3, r"--comm ipc: rank 0 .*CUDA says .*; --comm host does without")
        alone = harness.run([harness.prun, "--device", "cuda", "--ranks", 2, "--comm", "nccl", plan], cwd=self.folder)
        self.assertFails(alone, 2, r"--comm nccl: all ranks run in this process")

    def test_failures_of_nccl_name_rank_call_and_remedy(self):
        plan = self.net(4)
        for fail, pattern in (
            ("ncclCommInitRankConfig:1:2", r"joining NCCL's communicator of all ranks: NCCL says .*/dev/shm may be too small.*NCCL_DEBUG=INFO"),
            ("ncclGroupEnd:3:1", r"rank \d, step \d+ \(.*: rank \d, device \d: .* \(communication \d+\): NCCL says .*the driver may be too old"),
            ("ncclGroupEnd:1:5", r"two ranks may be on one GPU"),
        ):
            with self.subTest(fail=fail):
                result = self.run_on("nccl", plan, 4, STANDIN_FAIL=fail)
                self.assertEqual(result.code, 3, str(result))
                self.assertRegex(result.err, pattern, str(result))

    def test_a_rank_that_fails_alone_ends_the_job(self):
        plan = self.net(3)
        for way, fail, words in (
            ("nccl", "ncclCommInitRankConfig:1:2", "rank 1, device 1: joining NCCL's communicator"),
            ("nccl", "ncclGroupEnd:3:3", r"rank 1, device 1: .*NCCL says internal error"),
            ("ipc", "cudaIpcGetEventHandle:2:2", r"rank 1 .*sharing an event by CUDA IPC"),
            ("host", "cudaEventCreateWithFlags:5:2", r"rank 1 .*making an event"),
        ):
            with self.subTest(way=way, fail=fail):
                command = [harness.prun, "--device", "cuda", "--comm", way, plan]
                result = harness.run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=" + fail, *command, ":", "-n", 1, *command], cwd=self.folder,
                                     env={"STANDIN_DEVICES": "3", "PRUN_TIMEOUT": "100"})
                self.assertEqual(result.code, 3, str(result))
                self.assertRegex(result.err, words, str(result))
                self.assertNotIn("PRUN_TIMEOUT", result.err)

    def test_steps_are_replayed_on_all_ranks_or_on_none(self):
        plan = self.net(3)
        command = [harness.prun, "--device", "cuda", "--comm", "nccl", "-v", plan]
        done = self.ok(harness.run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=cudaGraphInstantiate:1:2", *command, ":", "-n", 1, *command],
                                   cwd=self.folder, env={"STANDIN_DEVICES": "3", "PRUN_TIMEOUT": "40"}))
        self.assertRegex(done.out, r"(?m)^steps run operator by operator: rank 1 .*capturing a step: ")

    def test_whenever_the_device_does_its_work_all_of_it_meets(self):
        plan, one = self.net(4), self.net(1)
        for order in "eager", "random:7": # late is what all the others are
            for way in WAYS:
                with self.subTest(order=order, way=way):
                    self.ok(self.run_on(way, plan, 4, "--verify", one, STANDIN_ORDER=order))


if __name__ == "__main__":
    harness.main()
