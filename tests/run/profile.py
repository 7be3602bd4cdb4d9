#!/usr/bin/env python3
"""prun --profile and --trace: the table's times add up to the step's, and the trace tells every operator and communication of every rank."""
import json
import os
import resource
import re
import unittest

import harness
from harness import Case

NET = """net small {
    input x  : f32[64, 96];
    input t  : f32[64, 16];
    param w1 : f32[96, 128] = normal(0.1);
    param w2 : f32[128, 16] = normal(0.1);
    a = matmul(x, w1) shard ((2, 1), (1, 2));
    h = relu(a);
    loss mse(matmul(h, w2), t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); epochs = 2; steps = 6; }
"""
BIASED = """import "nn.dsl";
net biased(batch = 16) {
    input x : f32[batch, 32];
    input t : f32[batch, 16];
    a = linear(x, 64);
    loss mse(linear(relu(a), 16), t);
}
train { optimizer = adamw(lr = 0.1); data = normal(seed = 1); steps = 3; }
"""
STRIDED = """net strided {
    input x  : f32[16, 32, 33, 33];
    input t  : f32[16, 64, 17, 17];
    param w1 : f32[32, 32, 3, 3] = normal(0.1);
    param w2 : f32[64, 32, 3, 3] = normal(0.1);
    h = conv2d(x, w1, padding = 1);
    loss mse(conv2d(h, w2, stride = 2, padding = 1), t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); steps = 12; }
"""
ROW = re.compile(r"^  (\S.*?) {2,}(?:(\S+) {2,})?(\d+\.\d+) +(\d+\.\d) %", re.M)


class Profile(Case):
    def plan(self):
        return self.compile(self.write("net.dsl", NET), "net.plan", "--ranks", 4)

    def table(self, out):
        head = re.search(r"^profile of rank 0 on the CPU: (\d+) steps after the first, (\S+) ms each$", out, re.M)
        self.assertIsNotNone(head, out)
        self.assertEqual(int(head[1]), 11)
        return float(head[2]), {name: (calls, float(ms), float(share)) for name, calls, ms, share in ROW.findall(out)}

    def test_times_add_up_to_the_step(self):
        for result in (self.local(self.plan(), 4, "--profile"), self.mpi(self.plan(), 4, "--profile")):
            step, rows = self.table(self.ok(result).out)
            self.assertAlmostEqual(sum(ms for _, ms, _ in rows.values()), step, delta=0.02 * step + 0.001 * len(rows))
            self.assertAlmostEqual(sum(share for _, _, share in rows.values()), 100, delta=2 + 0.1 * len(rows))
            self.assertEqual((rows["matmul"][0], rows["matmul+relu"][0]), ("1", "1"))
            self.assertEqual(rows["sgd"][0], "2")
            self.assertIn("all_reduce", rows)

    def test_operations_of_strided_windows_are_counted_once(self):
        out = self.ok(self.local(self.compile(self.write("net.dsl", STRIDED), "net.plan"), 1, "--profile")).out
        whole, strided = 2 * 9 * 32 * 32 * 16 * 33 * 33, 2 * 9 * 32 * 64 * 16 * 17 * 17
        for name, flops in ("conv2d", whole + strided), ("conv2d_grad_x", strided), ("conv2d_grad_w", whole + strided):
            ms, gflops = re.search(rf"^  {name} +\d+ +(\S+) +\S+ % +(\S+) ", out, re.M).groups()
            self.assertAlmostEqual(float(ms) * float(gflops) * 1e6, flops, delta=0.01 * flops)

    def test_losses_are_the_same(self):
        plan = self.plan()
        self.assertEqual(self.local(plan, 4, "--profile").texts(), self.ok(self.local(plan, 4)).texts())

    def test_trace_tells_all(self):
        plan = self.plan()
        for run in (self.local, self.mpi):
            path = self.path("trace.json")
            self.ok(run(plan, 4, "--trace", path))
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            spans = [event for event in events if event["ph"] == "X"]
            self.assertEqual({event["pid"] for event in spans}, {0, 1, 2, 3})
            self.assertEqual({event["args"]["step"] for event in spans}, set(range(1, 13)))
            for rank in range(4):
                own = [event for event in spans if event["pid"] == rank]
                self.assertEqual(sum(event["name"] == "matmul" for event in own), 12)
                self.assertEqual(sum(event["name"] == "matmul+relu" for event in own), 12)
                self.assertTrue(any(event["name"].startswith("start all_reduce") for event in own))
                self.assertTrue(any(event["name"].startswith("wait all_reduce") for event in own))
                for before, after in zip(own, own[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1, "actions of a rank follow each other")
            os.remove(path)

    def test_a_trace_names_steps_as_the_predicted_one_does(self):
        """Of einsum+sum_to the CPU runs two kernels: each has its own step."""
        for level in "-O0", "-O1", "-O2":
            plan = self.compile(self.write("net.dsl", BIASED), "net.plan", "--ranks", 4, level, "--search=sharding_propagation", "--timeline", self.path("predicted.json"))
            self.ok(self.local(plan, 4, "--trace", "trace.json"))
            spans = lambda name: [event for event in json.loads(self.read(name))["traceEvents"] if event["ph"] == "X"]
            predicted = {(e["args"]["plan_step"], e["tid"]): (e["name"], e["args"]["value"]) for e in spans("predicted.json")}
            for rank in range(4):
                measured = {(e["args"]["plan_step"], e["tid"]): (e["name"], e["args"]["value"]) for e in spans("trace.json") if e["pid"] == rank and e["args"]["step"] == 2}
                starts = {at for at, (name, _) in measured.items() if name.startswith("start ")}
                for step, lane in predicted:
                    name, value = predicted[step, lane]
                    if name == "einsum+sum_to":
                        self.assertEqual([measured[step + i, 0][0] for i in (0, 1)], ["einsum", "sum_to"])
                        self.assertEqual([measured[step + i, 0][1] for i in (0, 1)], [value, value.replace("weight", "bias")])
                    elif lane == 0:
                        self.assertEqual(measured[step, lane], (name, value), "%s, step %d" % (level, step))
                    else:
                        self.assertEqual(measured[step, 0], ("start " + name, value), "%s, step %d" % (level, step))
                behind = {(step + 1, lane) for (step, lane), (name, _) in predicted.items() if name == "einsum+sum_to"}
                self.assertEqual(set(measured) - starts, {at for at in predicted if at[1] == 0} | behind)
            names = {name for name, _ in predicted.values()}
            self.assertTrue(any(name.startswith("wait ") for name in names), names)
            self.assertEqual("einsum+sum_to" in names, level == "-O2", names)
        self.assertIn(("matmul+add+relu", "loss.relu"), predicted.values())  # and not a.y, which lies nowhere

    def test_a_file_that_cannot_be_written_is_one_message(self):
        for run in (self.local, self.mpi):
            result = run(self.plan(), 4, "--trace", "/nowhere/trace.json")
            self.assertEqual(result.code, 3, result)
            self.assertEqual(result.err.count("cannot write /nowhere/trace.json"), 1, result)

    def test_a_trace_that_is_not_whole_does_not_stay(self):
        """No file grows beyond 4 KiB."""
        plan, trace = self.plan(), self.write("trace.json", "that of before")
        for ranks in ["--ranks", "4"], ["--nproc", "4"]:
            result = harness.run([harness.prun, *ranks, "--trace", trace, plan], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
            self.assertEqual(result.code, 3, result)
            self.assertEqual(result.err.count("cannot write %s: File too large" % trace), 1, result)
            self.assertEqual([name for name in os.listdir(self.folder) if "trace" in name], ["trace.json"])
            self.assertEqual(self.read("trace.json"), b"that of before")


if __name__ == "__main__":
    harness.main()
