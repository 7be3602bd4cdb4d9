#!/usr/bin/env python3
"""PyTorch's DDP tutorials: the ToyModel on rows of its own on each rank, and saving by rank 0, loading by all."""
import os
import re
import struct
import time
import unittest

import harness
from harness import Case, edited

LINE = re.compile(r"^\[(\d+)\] \(rank = (\d+), local_rank = (\d+)\) loss = (\S+)$", re.M)


class Ddp(Case):
    def toymodel(self, ranks, *edits, name="toy"):
        source = self.write("%s%d.dsl" % (name, ranks), edited(self.sample("ddp_toymodel.dsl"), *edits))
        return self.compile(os.path.basename(source), "%s%d.plan" % (name, ranks), "--ranks", ranks)

    def test_each_ranks_first_loss_is_what_a_toymodels_is(self):
        """Mean 1.102, standard deviation 0.160 over 3,000 trials; 99 % lie in [0.745, 1.565]."""
        for ranks in 1, 2, 4, 8:
            plan = self.toymodel(ranks)
            for result in (self.local(plan, ranks, "--check-replicas"), self.mpi(plan, ranks, "--check-replicas")):
                lines = LINE.findall(self.ok(result).out)
                self.assertEqual([(int(rank), int(local)) for _, rank, local, _ in lines], [(r, r) for r in range(ranks)])
                losses = [float(loss) for _, _, _, loss in lines]
                self.assertEqual(len(set(losses)), ranks, "every rank has rows of its own")
                for loss in losses:
                    self.assertTrue(0.745 <= loss <= 1.565, losses)
                if ranks > 1:
                    self.assertIn("all equal bit for bit", result.out)
            self.assertEqual(len({pid for pid, _, _, _ in lines}), ranks, "a process a rank")

    def test_rank_0_saves_all_load_and_step_together(self):
        """samples/ddp_checkpoint.dsl as its comment runs it: parameters are equal bit for bit after loading and after a step, which another number of ranks repeats."""
        source, model = self.sample("ddp_checkpoint.dsl"), self.path("model.safetensors")
        for ranks in 2, 4, 8:
            save = self.compile(source, "save.plan", "--ranks", ranks, "-D", "updates=0")
            step = self.compile(source, "step.plan", "--ranks", ranks)
            self.ok(self.mpi(save, ranks, "--save", model))
            before = self.read("model.safetensors")
            done = self.ok(self.mpi(step, ranks, "--load", model, "--save", self.path("next.safetensors"), "--check-replicas"))
            self.assertRegex(done.out, r"replicas: [1-9]\d* comparisons of parts of states, all equal bit for bit")
            self.assertEqual(self.read("model.safetensors"), before, "loading changes nothing")
            self.assertNotEqual(self.read("next.safetensors"), before)
            os.remove(model)

    def test_the_quick_start_runs_in_the_background_with_its_log_in_device(self):
        if harness.mpirun is None:
            self.skipTest("no mpirun")
        env = {"PCC": harness.pcc, "PRUN": harness.prun, "MPIRUN": harness.mpirun}
        missing = harness.run(["sh", self.sample("run_with_mpi.sh")], cwd=self.folder, env=env | {"PRUN": "/nowhere/prun"})
        self.assertEqual(missing.code, 3)
        self.assertIn("there is no program /nowhere/prun", missing.err)
        result = self.ok(harness.run(["sh", self.sample("run_with_mpi.sh")], cwd=self.folder, env=env))
        self.assertRegex(result.out, r"[^\n]*\n?process (\d+) trains; its log is device/train.log\n")
        read = lambda: self.read("device", "train.log").decode()
        began = time.monotonic()
        while "sent per rank and step" not in read() and time.monotonic() - began < harness.TIMEOUT:
            time.sleep(0.02)
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        expected = self.ok(self.local(plan, 8)).texts()
        log = harness.Result([], 0, read(), "", 0)
        for rank in range(8):
            self.assertEqual(log.texts(rank), expected, read())

    def test_replicas_that_differ_are_named(self):
        plan = self.toymodel(2, ("uniform(-0.31622776601683794, 0.31622776601683794);\n    param b1", 'file("w.npy");\n    param b1'), name="file")
        for folder, value in (("a", 1.0), ("b", 2.0)):
            self.array(folder, value)
        # two processes that find other files: what goes wrong on clusters without a shared disk
        result = harness.run([harness.mpirun or self.skipTest("no mpirun"), "-n", 1, "-wdir", self.path("a"), harness.prun, "--check-replicas", plan, ":", "-n", 1,
                              "-wdir", self.path("b"), harness.prun, "--check-replicas", plan], cwd=self.folder)
        self.assertFails(result, 4, r"before the first step: ranks 0 and 1 hold the same part of w1, and other bits")

    def array(self, folder, value):
        os.makedirs(self.path(folder))
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10, 10), }".ljust(117) + b"\n"
        self.write(folder + "/w.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + struct.pack("<f", value) * 100)


if __name__ == "__main__":
    harness.main()
