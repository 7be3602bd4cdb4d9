#!/usr/bin/env python3
"""prun on devices: the samples give what one rank on the CPU gives, captured or not, twice the same; evaluation, checkpoints and files go through it. It runs
over whatever PRUN_CUDA_MODULE names: the tests' stand-in for a device, or the real module."""
import json
import os
import re
import unittest

import harness
from harness import Case, run
from pages import rows

SMALL = """net small(batch = 24, rows = 100) {
    input x  : f32[batch, 12];
    input t  : f32[batch, 4];
    param w1 : f32[12, 20] = normal(0.3);
    param b1 : f32[20] = zeros;
    param w2 : f32[20, 4] = normal(0.3);
    a = matmul(x, w1)%s;
    h = gelu(a + b1);
    loss mse(matmul(h, w2), t);
}
train { optimizer = adam(lr = 0.01); clip = norm(1.0); accumulate = %d; data = normal(seed = 1); epochs = 2; steps = 6;%s }
"""

# Large tensors, few products.
WIDE = """net wide(batch = 1024, d = 2048) {
    input x : f32[batch, d];
    param w : f32[batch, d] = normal(0.3);
    param v : f32[d, 4] = normal(0.3);
    h = gelu(x * w);
    loss mean(square(matmul(h, v)));
}
train { optimizer = adam(lr = 0.01); data = normal(seed = 1); epochs = 1; steps = 2; }
"""


NAN = """net log_of_zero(batch = 8) {
    input x : f32[batch, 4];
    param w : f32[4, 6] = normal(0.1);
    param v : f32[6, 2] = normal(0.1);
    h = matmul(x, w);
    r = log(%s);
    loss mean(square(matmul(r, v)));
}
train { data = csv("d.csv"); optimizer = adam(lr = 0.001); epochs = 2; log_every = 4; }
"""


class Cuda(Case):
    def test_what_is_not_finite_is_found(self):
        rows = [["%.3f" % (((r * 31 + c * 17) % 101) / 50 - 1) for c in range(4)] for r in range(64)]
        self.write("d.csv", "\n".join(",".join(row) for row in rows))
        for ranks in (1, 2):
            plan = self.compile(self.write("net.dsl", NAN % "relu(h)"), "net.plan", "--ranks", ranks)
            done = self.local(plan, ranks)
            self.assertEqual(done.code, 4, str(done))
            self.assertRegex(done.err, r"epoch 1 step 1: parameter [wv] holds .* --sync looks at each loss")
            done = self.local(plan, ranks, "--sync")
            self.assertEqual(done.code, 4, str(done))
            self.assertRegex(done.err, r"epoch 1 step 1: the first result .* \(log of r\), .*net\.dsl:6: -inf at")
        rows[37][2] = "nan"
        self.write("d.csv", "\n".join(",".join(row) for row in rows))
        for ranks in (1, 2):
            plan = self.compile(self.write("net.dsl", NAN % "square(h) + 1"), "net.plan", "--ranks", ranks)
            for options, words in ((), r"epoch 1 step 8: .*d\.csv:38:\d+, in epoch 1 step 5;"), (("--sync",), r"epoch 1 step 5: .*d\.csv:38:\d+;"):
                done = self.local(plan, ranks, *options)
                self.assertEqual(done.code, 4, str(done))
                self.assertRegex(done.err, words)

    def setUp(self):
        super().setUp()
        os.environ["STANDIN_PROTECT"] = "0"  # the stand-in's own checks of host accesses: tests of the module have them

    def on_device(self, plan, ranks, *options, env=None):
        """One process drives all ranks, on one device."""
        return run([harness.prun, "--device", "cuda", "--ranks", ranks, *options, plan], cwd=self.folder, env=env)

    def launched(self, plan, ranks, *options, env=None):
        """A process and a device for each rank."""
        return self.mpi(plan, ranks, "--device", "cuda", *options, env={"STANDIN_DEVICES": str(ranks), **(env or {})})

    def plans(self, source, ranks, *options):
        return self.compile(source, "net.plan", "--ranks", ranks, *options), self.compile(source, "one.plan", "--ranks", 1, *options)

    def small(self, shard="", accumulate=1, more=""):
        return self.write("net.dsl", SMALL % (shard, accumulate, more))

    def test_large_tensors_lie_in_memory_that_nccl_knows(self):
        plan = self.compile(self.write("net.dsl", """net wide(batch = 4) {
    input x : f32[batch, 1024];
    param w : f32[1024, 700] = normal(0.1);
    loss mean(square(matmul(x, w)));
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 3; }
"""), "net.plan", "--ranks", 2, "--mode", "data_parallel")
        expected = self.ok(self.launched(plan, 2, "--comm", "nccl"))
        self.assertEqual(expected.err, "")
        for name in "ncclMemAlloc", "ncclCommRegister": # and where the library will not have it, elsewhere
            done = self.ok(self.launched(plan, 2, "--comm", "nccl", env={"STANDIN_FAIL": name + ":0:1"}))
            self.assertEqual(done.texts(), expected.texts())
            self.assertIn(name + " fails, as STANDIN_FAIL asks", done.err)

    def test_registered_memory_meets_no_other_in_a_call(self):
        """NCCL's rule, which the stand-in checks: pieces that are packed meet such that lie in a large arena; and one rank alone cannot register."""
        plan = self.compile(self.write("net.dsl", """net square(batch = 1024) {
    input x : f32[batch, 8];
    param w : f32[8, 1024] = normal(0.1);
    param v : f32[1024, 2] = normal(0.1);
    h = matmul(x, w) shard ((2, 1), (1, 1));
    loss mean(square(matmul(h, v) shard ((1, 2), (2, 1))));
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 3; }
"""), "net.plan", "--ranks", 2)
        expected = self.ok(self.launched(plan, 2, "--comm", "nccl"))
        self.assertEqual(expected.err, "")
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        command = [harness.prun, "--device", "cuda", "--comm", "nccl", plan]
        for fail in "ncclMemAlloc:1:1", "ncclCommRegister:1:1", "ncclCommRegister:2:1":
            done = self.ok(run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=" + fail, *command], cwd=self.folder, env={"STANDIN_DEVICES": "2"}))
            self.assertEqual(done.texts(), expected.texts())
            self.assertNotIn("registered buffers", done.err)

    def test_each_stage_of_a_pipeline_has_its_convolutions_by_cudnn(self):
        """What the first process has no shapes of is chosen by the first that has."""
        plan = self.compile(self.sample("lenet.dsl"), "two.plan", "--ranks", 2, "--stages", 2, "-D", "batch=8")
        one = self.compile(self.sample("lenet.dsl"), "one.plan", "--ranks", 1, "-D", "batch=8")
        done = self.ok(self.launched(plan, 2, "--deterministic", "-v", "--verify=" + one, env={"PRUN_CUDNN": os.environ["PRUN_NCCL"]}))
        self.assertRegex(done.out, r"(?m)^rank 0: .*, 2 of 2 convolutions by cuDNN 9\.13\.0, ")
        self.assertRegex(done.out, r"(?m)^rank 1: .*, 3 of 3 convolutions by cuDNN 9\.13\.0, ")
        self.assertRegex(done.out, r"(?m)^verified: ")

    def test_random_numbers_are_the_cpus(self):
        source = self.write("net.dsl", """import "nn.dsl";
net dropped(batch = 12) {
    input x : f32[batch, 6];
    param w : f32[6, 8] = normal(0.5);
    h = dropout(matmul(x, w), 0.4);
    loss mean(square(h));
}
train { data = %s(%s); optimizer = sgd(lr = 0.1); epochs = 2; steps = 4; %s }
""" % ("%s", "%s", "%s"))
        with open(self.path("x.npy"), "wb") as file:
            file.write(harness.npy([i % 11 - 5 for i in range(100 * 6)], (100, 6), "f"))
        for data, more in (("normal", "seed = 1"), ("numpy_rand", "seed = 1, rows = 12"), ("npy", 'x = "x.npy"')):
            for accumulate in 1, 2:
                with open(source, encoding="ascii") as file:
                    text = file.read()
                net = self.write("one.dsl", text % (data, more, "accumulate = %d;" % accumulate))
                for ranks in 1, 3:
                    plan, one = self.plans(net, ranks)
                    cpu = self.ok(run([harness.prun, "--device", "cpu", one], cwd=self.folder))
                    done = self.ok(self.on_device(plan, ranks, "-v", "--verify=" + one))
                    self.assertEqual(len(done.losses()), len(cpu.losses()))
                    self.assertEqual(len(set(done.texts())), len(done.texts()), "numbers are others in each step")
                    for ours, theirs in zip(done.losses(), cpu.losses()):
                        self.assertAlmostEqual(ours, theirs, delta=1e-5 * abs(theirs))

    def test_samples_equal_one_rank(self):
        for name, ranks in (("quickstart", 8), ("transformer", 1), ("transformer", 4), ("evaluation", 3)):
            plan, one = self.plans(self.sample(name + ".dsl"), ranks)
            done = self.ok(self.on_device(plan, ranks, "-v", "--verify=" + one))
            self.assertRegex(done.out, r"(?m)^verified: ")
            self.assertRegex(done.out, r"rank 0: .*device 0, ")
            self.assertRegex(done.out, r"(?m)^steps are replayed as one graph of \d+ nodes$")

    def test_ranks_with_devices_of_their_own(self):
        plan, one = self.plans(self.small(" shard ((2, 1), (1, 2))"), 4)
        for options, how in ((("--comm", "nccl"), "NCCL"), (("--comm", "ipc"), "IPC"), (("--comm", "host"), "host")):
            done = self.ok(self.launched(plan, 4, "-v", "--verify=" + one, *options))
            self.assertRegex(done.out, r"rank 3: .*%s" % how)
            self.assertRegex(done.out, r"(?m)^verified: ")

    def test_a_captured_step_is_the_step(self):
        plan = self.compile(self.small(accumulate=2), "net.plan", "--ranks", 2)
        captured = self.ok(self.on_device(plan, 2, "--print", "w1", "-v"))
        eager = self.ok(self.on_device(plan, 2, "--print", "w1", "--no-graph", "-v"))
        waited = self.ok(self.on_device(plan, 2, "--print", "w1", "--sync", "--no-graph"))
        self.assertIn("one graph of", captured.out)
        self.assertIn("operator by operator", eager.out)
        values = [re.search(r"^w1 = .*", result.out, re.M)[0] for result in (captured, eager, waited)]
        self.assertEqual(values[0], values[1])
        self.assertEqual(values[0], values[2])
        self.assertEqual(captured.texts(), eager.texts())

    def test_steps_that_nothing_is_read_of_are_not_waited_for(self):
        """The batches of an epoch are other ones in every step: what one step reads must not be written for the next while it runs."""
        for ranks, run_on in ((1, self.on_device), (2, self.on_device), (2, self.launched)):
            every = self.compile(self.small(), "every.plan", "--ranks", ranks)
            seldom = self.compile(self.small(more=" log_every = 5;"), "seldom.plan", "--ranks", ranks)
            for order in "late", "random:3":
                expected = self.ok(run_on(every, ranks, "--print", "w1", env={"STANDIN_ORDER": order}))
                found = self.ok(run_on(seldom, ranks, "--print", "w1", env={"STANDIN_ORDER": order}))
                self.assertEqual(found.texts(), expected.texts()[4::5])
                self.assertEqual(found.out.splitlines()[-1], expected.out.splitlines()[-1])
        failed = self.on_device(self.compile(self.small(more=" log_every = 100;"), "net.plan", "--ranks", 1), 1, env={"STANDIN_FAIL": "cudaEventSynchronize:9:719"})
        self.assertFails(failed, 3, r"in step \d or the one before of epoch 1: .*waiting for")

    def test_one_rank_may_be_told_how_to_talk(self):
        plan = self.compile(self.small(), "net.plan", "--ranks", 1)
        for how in "nccl", "ipc", "host":
            self.ok(self.mpi(plan, 1, "--device", "cuda", "--comm", how))

    def test_whatever_order_streams_take(self):
        plan = self.compile(self.small(" shard ((2, 1), (1, 2))"), "net.plan", "--ranks", 4)
        expected = self.ok(self.launched(plan, 4, "--comm", "nccl", "--print", "w2")).out.splitlines()[-1]
        for order in ("eager", "random:1", "random:2"):
            found = self.ok(self.launched(plan, 4, "--comm", "nccl", "--print", "w2", env={"STANDIN_ORDER": order})).out.splitlines()[-1]
            self.assertEqual(found, expected, order)

    def test_checkpoints_go_from_one_to_the_other(self):
        saves = " checkpoint every epoch;"
        plan = self.compile(self.small(more=saves), "net.plan", "--ranks", 2)
        whole = self.ok(self.on_device(plan, 2)).texts()
        for first, second in ((self.on_device, self.local), (self.local, self.on_device)):
            half = self.compile(self.write("half.dsl", (SMALL % ("", 1, saves)).replace("epochs = 2", "epochs = 1")), "half.plan", "--ranks", 2)
            place = self.path("local" if first == self.local else "device")
            self.ok(first(half, 2, "--checkpoint-dir", place))
            rest = self.ok(second(plan, 2, "--checkpoint-dir", place, "--resume", "latest"))
            self.assertClose(rest.losses(), [float(text) for text in whole[6:]], relative=1e-5)

    def test_a_report_leaves_the_steps_as_they_are(self):
        plan = self.compile(self.write("net.dsl", SMALL.replace("steps = 6", "steps = 30") % (" shard ((2, 1), (1, 2))", 1, "")), "net.plan", "--ranks", 4)
        for ranks in (lambda *options: self.local(plan, 4, "--device", "cuda", "-v", *options), lambda *options: self.launched(plan, 4, "--comm", "nccl", "-v", *options)):
            plain, measured = self.ok(ranks()), self.ok(ranks("--report", "run.html"))
            self.assertEqual(plain.texts(), measured.texts())
            nodes = [re.search(r"replayed as one graph of (\d+) nodes", result.out)[1] for result in (plain, measured)]
            self.assertEqual(*nodes)  # behind the measured steps no points in time are left in it
            run = json.loads(re.search(r'id="run">(.*?)</script>', self.read("run.html").decode(), re.S)[1])
            self.assertEqual((run["measured"], len(run["lanes"])), (16, 4))
            self.assertTrue(all(event[4] >= 0 for lane in run["lanes"] for event in rows(lane["events"])))
            self.assertTrue(all(row[3] > 0 for row in run["memory"]))

    def test_memory_is_what_pcc_prints(self):
        source = self.write("wide.dsl", WIDE)
        pieces = {"nccl": 4, "ipc": 4}  # MiB: small tensors lie in pieces of 2 MiB there
        for ranks, ways in (1, (None,)), (2, ("nccl", "ipc", "host")):
            stats = self.ok(run([harness.pcc, source, "-o", self.path("wide.plan"), "--ranks", ranks, "--machine", "gpu8", "--stats=json"], cwd=self.folder)).out
            printed = json.loads(stats[stats.index("{"):])["memory"]["rank"] / 2**20
            for way in ways:
                done = self.launched("wide.plan", ranks, "--comm", way, "--profile") if way else self.on_device("wide.plan", 1, "--profile")
                taken, used = re.search(r"device memory: ([\d.]+) MiB taken .*, ([\d.]+) of", self.ok(done).out).groups()
                for found in taken, used:
                    self.assertLessEqual(abs(float(found) - printed), 0.02 * printed + pieces.get(way, 0), "%s MiB, pcc printed %.1f: %s" % (found, printed, way))

    def test_profile_and_trace(self):
        plan = self.compile(self.small(" shard ((2, 1), (1, 2))"), "net.plan", "--ranks", 4)
        path = self.path("trace.json")
        out = self.ok(self.launched(plan, 4, "--comm", "nccl", "--profile", "--trace", path, "-v")).out
        self.assertRegex(out, r"(?m)^steps are replayed as one graph of \d+ nodes$")
        self.assertRegex(out, r"profile of rank 0 on device 0")
        self.assertRegex(out, r"device memory: \d+\.\d MiB taken")
        with open(path, encoding="utf-8") as file:
            spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in spans}, {0, 1, 2, 3})
        self.assertTrue(any(event["tid"] == 1 and event["name"] == "all_reduce" for event in spans), "communications have a row of their own")


if __name__ == "__main__":
    harness.main()
