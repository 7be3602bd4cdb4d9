#!/usr/bin/env python3
"""Two nodes: network namespaces of this machine with a link between them and a host name each, so that mpirun starts ranks on both and they talk by TCP; or a prun on each, without MPI. The second node has another clock.

As root, with ip of iproute2 and unshare, nsenter of util-linux; skipped otherwise. The namespaces live as long as the two processes that hold them.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
import killed
from ddp import LINE
from harness import Case, run
from pages import elements
from killed import gone

LINK = "10.77.0.%d/24"
SMALL = "-D", "in_dim=64", "-D", "batch=32"
AHEAD_S = 1000  # that the second node's clock is before the first one's
ENDS_S = 30  # in which a job ends of which one rank is gone; it takes two


def inside(holder, *command):
    """A command in the namespaces of a process."""
    return ["nsenter", "-t", str(holder), "-n", "-u", "--time=/proc/%s/ns/time_for_children" % holder, *command]


class Nodes(Case):
    """Two of them, for each test."""

    def setUp(self):
        super().setUp()
        if harness.mpirun is None or os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
            self.skipTest("needs mpirun, root, ip, unshare and nsenter")
        self.node = [self.hold("node%d" % i, ahead) for i, ahead in ((1, 0), (2, AHEAD_S))]
        one, two = self.node
        self.ok(run(inside(one, "ip", "link", "add", "link1", "type", "veth", "peer", "name", "link2", "netns", str(two))))
        for i, node in enumerate(self.node, 1):
            self.ok(run(inside(node, "sh", "-ec", "ip addr add %s dev link%d; ip link set lo up; ip link set link%d up" % (LINK % i, i, i))))
        self.write("hosts", "".join("%s slots=2\n" % (LINK % i).split("/")[0] for i in (1, 2)))
        self.write("agent", "#!/bin/sh\nshift\nexec %s sh -c \"$*\"\n" % " ".join(inside(two)))  # instead of ssh; its first word is the node
        os.chmod(self.path("agent"), 0o755)

    def hold(self, name, ahead):
        """The process that holds a node's namespaces."""
        job = subprocess.Popen(["unshare", "--net", "--uts", "--time", "--monotonic", str(ahead), "sh", "-c", "hostname %s && echo ready && exec sleep infinity" % name],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for clean in job.stderr.close, job.stdout.close, job.wait, job.kill:  # last first
            self.addCleanup(clean)
        if job.stdout.readline() != b"ready\n":
            self.skipTest("no namespaces here: " + job.communicate()[1].decode())
        return job.pid

    def command(self, *words, ranks=4):
        options = {"plm_rsh_agent": self.path("agent"), "btl": "tcp,self", "btl_tcp_if_include": LINK % 0, "oob_tcp_if_include": LINK % 0}
        return inside(self.node[0], harness.mpirun, "--hostfile", self.path("hosts"), "-n", str(ranks), *sum((["--mca", *each] for each in options.items()), []), harness.prun, *words)

    def launched(self, node, *words, nproc=2):
        """The command that starts so many ranks on a node, without MPI."""
        meeting = "--nproc", str(nproc), "--nnodes", "2", "--node-rank", str(node), "--master-addr", (LINK % 1).split("/")[0], "--master-port", "4711"
        return inside(self.node[node], harness.prun, *meeting, *words)


class TwoNodes(Nodes):
    def link_bytes(self):
        """Bytes that have come to the second node."""
        counted = self.ok(run(inside(self.node[1], "cat", "/proc/net/dev"))).out
        return int(re.search(r"(?m)^\s*link2:\s*(\d+)", counted)[1])

    def test_losses_are_those_of_one_node(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 4, *SMALL)
        here = self.ok(self.mpi(plan, 4))
        for env, how in ({}, "shared memory and messages"), ({"PRUN_COMM": "messages"}, "messages"):
            with self.subTest(how):
                before = self.link_bytes()
                there = self.ok(run(self.command("-v", plan), cwd=self.folder, env=env))
                self.assertEqual(re.findall(r"(?m)^rank (\d): .* node (\S+), pid \d+, .*, ([a-z ]+)$", there.out), [(str(rank), "node%d" % (rank // 2 + 1), how) for rank in range(4)])
                self.assertEqual(there.texts(), here.texts())
                sent = int(re.search(r"by the busiest, (\d+) by the idlest", there.out)[1])
                self.assertGreater(self.link_bytes() - before, sent * len(there.texts()) // 4, "what crossed the link")

    def test_losses_are_those_of_one_node_without_mpi(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 4, *SMALL)
        here = self.ok(self.local(plan, 4))
        for env, how in ({}, "shared memory and messages"), ({"PRUN_COMM": "messages"}, "messages"):
            with self.subTest(how):
                before = self.link_bytes()
                second = harness.started(self.launched(1, "-v", plan), self, env=env, cwd=self.folder)
                there = self.ok(run(self.launched(0, "-v", plan), cwd=self.folder, env=env))
                out, err = second.communicate(timeout=harness.TIMEOUT)
                self.assertEqual((second.returncode, out), (0, b""), err)
                self.assertEqual(re.findall(r"(?m)^rank (\d): local rank (\d) of 2, node (\S+), pid \d+, .*, ([a-z ]+)$", there.out),
                                 [(str(rank), str(rank % 2), "node%d" % (rank // 2 + 1), how) for rank in range(4)])
                self.assertEqual(there.texts(), here.texts())
                sent = int(re.search(r"by the busiest, (\d+) by the idlest", there.out)[1])
                self.assertGreater(self.link_bytes() - before, sent * len(there.texts()) // 4, "what crossed the link")

    def test_trace_and_report_have_one_clock(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 4, *SMALL)
        clocks = [float(self.ok(run(inside(node, "python3", "-c", "import time; print(time.monotonic())"))).out) for node in self.node]
        self.assertAlmostEqual(clocks[1] - clocks[0], AHEAD_S, delta=ENDS_S)
        began = time.monotonic()
        self.ok(run(self.command("--trace", "trace.json", "--report", "run.html", plan), cwd=self.folder))
        most = time.monotonic() - began
        events = [event for event in json.loads(self.read("trace.json"))["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in events}, {0, 1, 2, 3})
        waits = {}  # (step, step of the plan) -> begin and end of each rank's wait for the same communication
        for event in events:
            self.assertTrue(-0.05e6 < event["ts"] < most * 1e6, event)
            if event["name"].startswith("wait all_reduce"):
                waits.setdefault((event["args"]["step"], event["args"]["plan_step"]), {})[event["pid"]] = (event["ts"], event["ts"] + event["dur"])
        self.assertGreater(len(waits), 10)
        early = [max(begin for begin, _ in of.values()) - min(end for _, end in of.values()) for of in waits.values()]
        self.assertLess(sorted(early)[len(early) // 2], 50000, "no rank has a sum, in microseconds, before the last one has come to it; clocks are compared to half a barrier")
        measured = elements(self.read("run.html").decode())["run"]
        self.assertEqual((measured["nodes"], [lane["node"] for lane in measured["lanes"]]), (2, [0, 0, 1, 1]))
        self.assertLess(max(event[3] for lane in measured["lanes"] for event in lane["events"]), most * 1e9)

    def test_the_toymodel_on_two_nodes_of_four(self):
        """samples/ddp_toymodel.dsl: a line of each of eight ranks, with its process and its number on its node."""
        plan = self.compile(self.sample("ddp_toymodel.dsl"), "net.plan", "--ranks", 8)
        here = {(rank, loss) for _, rank, _, loss in LINE.findall(self.ok(self.local(plan, 8)).out)}
        second = harness.started(self.launched(1, plan, nproc=4), self, cwd=self.folder)
        there = LINE.findall(self.ok(run(self.launched(0, plan, nproc=4), cwd=self.folder)).out)
        out, err = second.communicate(timeout=harness.TIMEOUT)
        self.assertEqual((second.returncode, out), (0, b""), err)
        self.assertEqual([(rank, local) for _, rank, local, _ in there], [(str(rank), str(rank % 4)) for rank in range(8)])
        self.assertEqual({(rank, loss) for _, rank, _, loss in there}, here)
        self.assertEqual(len({pid for pid, _, _, _ in there}), 8, "a process a rank")

    def test_a_rank_killed_on_the_other_node_ends_the_job_without_mpi(self):
        endless = self.write("endless.dsl", harness.edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000; log_every = 5;")))
        plan = self.compile(endless, "net.plan", "--ranks", 4, *SMALL)
        second = harness.started(self.launched(1, "-v", plan), self, cwd=self.folder)
        first = harness.started(self.launched(0, "-v", plan), self, cwd=self.folder)
        pids = harness.ranks(harness.until(first, b"loss is"))
        os.kill(pids[3], signal.SIGKILL)
        began = time.monotonic()
        ended = [job.communicate(timeout=harness.TIMEOUT)[1].decode() for job in (first, second)]
        self.assertEqual((first.returncode, second.returncode), (3, 137), str(ended))
        self.assertRegex(ended[1], r"prun: rank 3 \(process \d+\) was ended by signal 9 \(Killed\)")
        self.assertLess(time.monotonic() - began, ENDS_S)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")

    def test_a_rank_stopped_on_the_other_node_is_named_without_mpi(self):
        """Its place is known from the rank beside it."""
        endless = self.write("endless.dsl", harness.edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000; log_every = 5;")))
        plan = self.compile(endless, "net.plan", "--ranks", 4, *SMALL)
        second, first = (harness.started(self.launched(node, "-v", plan), self, cwd=self.folder, env={"PRUN_TIMEOUT": "4"}) for node in (1, 0))
        pids = harness.ranks(harness.until(first, b"loss is"))
        os.kill(pids[3], signal.SIGSTOP)
        began = time.monotonic()
        ended = [job.communicate(timeout=harness.TIMEOUT)[1].decode() for job in (first, second)]
        self.assertEqual((first.returncode, second.returncode), (3, 3), str(ended))
        self.assertRegex(ended[0], r"not all ranks came within 4 s \(PRUN_TIMEOUT\): rank 3 is stopped by a signal\nprun:   rank 3 \(process %d on node2\) is stopped by a signal: (?:in|behind) step \d+" % pids[3])
        self.assertNotIn("PRUN_TIMEOUT", ended[1], "one message")
        self.assertLess(time.monotonic() - began, ENDS_S)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")

    def test_a_rank_killed_on_the_other_node_ends_the_job(self):
        endless = self.write("endless.dsl", harness.edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000; log_every = 5;")))
        plan = self.compile(endless, "net.plan", "--ranks", 4, *SMALL)
        job = harness.started(self.command("-v", plan), self, cwd=self.folder)
        pids = harness.ranks(harness.until(job, b"loss is"))
        os.kill(pids[3], signal.SIGKILL)
        began = time.monotonic()
        out, err = job.communicate(timeout=harness.TIMEOUT)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(err.decode(), r"process rank 3 with PID \d+ on node \S+ exited on\s+signal 9|prun: rank 3 ")
        while not all(map(gone, pids.values())) and time.monotonic() < began + ENDS_S:  # mpirun need not wait for its daemon on the other node
            time.sleep(0.05)
        self.assertLess(time.monotonic() - began, ENDS_S)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")


class Resumed(Nodes, killed.Resumed):
    """Any rank of either node, or a launcher, is killed at any moment."""

    def ways(self):
        return {"a prun on each": ((2, 4), lambda ranks, *words: [self.launched(node, *words, nproc=ranks // 2) for node in (0, 1)]),
                "mpirun on both": ((3, 4), lambda ranks, *words: [self.command(*words, ranks=ranks)])}


if __name__ == "__main__":
    harness.main()
