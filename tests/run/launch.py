#!/usr/bin/env python3
"""Ranks without MPI: started by prun itself, by the environment, by Slurm's variables; what is said where some do not come, and what becomes of a job of which one is gone."""
import contextlib
import os
import re
import shutil
import signal
import socket
import time

import harness
from harness import Case, edited, run, started
from killed import gone

SMALL = "-D", "in_dim=64", "-D", "batch=32"
ENDS_S = 10  # in which a job ends of which one rank is gone
STARTS_S = 30  # in which all ranks of a job come, on a busy machine too


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


class Launch(Case):
    def plan(self, ranks, *edits, name="net.plan"):
        self.write("net.dsl", edited(self.sample("mlp_small.dsl"), *edits))
        return self.compile("net.dsl", name, "--ranks", ranks, *SMALL)

    def nproc(self, plan, ranks, *options, env=None):
        return run([harness.prun, "--nproc", ranks, *options, plan], cwd=self.folder, env=env)

    def test_losses_are_those_of_one_process(self):
        for ranks in 2, 3, 8:
            plan = self.plan(ranks)
            for env, how in ({}, "shared memory"), ({"PRUN_COMM": "messages"}, "messages"), ({"PRUN_COMM": "nodes:2"}, "(?:shared memory|shared memory and messages|messages)"):
                with self.subTest(ranks=ranks, how=how):
                    there, here = self.ok(self.nproc(plan, ranks, "-v", env=env)), self.ok(self.local(plan, ranks))
                    self.assertEqual(there.texts(), here.texts())
                    self.assertEqual(len(re.findall(r"(?m)^rank \d: .*, %s$" % how, there.out)), ranks, str(there))

    def processes(self, plan, ranks, settings):
        return [started([harness.prun, plan], self, env=settings(rank), cwd=self.folder) for rank in range(ranks)]

    def check_processes(self, settings):
        plan = self.plan(3)
        ended = [(*job.communicate(timeout=harness.TIMEOUT), job.returncode) for job in self.processes(plan, 3, settings)]
        self.assertEqual([code for _, _, code in ended], [0, 0, 0], str(ended))
        self.assertEqual(harness.Result([], 0, ended[0][0].decode(), "", 0).texts(), self.ok(self.local(plan, 3)).texts())
        self.assertEqual([out for out, _, _ in ended[1:]], [b"", b""])

    def test_ranks_are_found_in_the_environment(self):
        port = free_port()
        self.check_processes(lambda rank: {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})

    def test_ranks_are_found_in_what_slurm_says(self):
        self.check_processes(lambda rank: {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": str(os.getpid()),
                                           "SLURM_STEP_NODELIST": "localhost"})

    def test_a_job_of_slurm_is_one_process_without_srun(self):
        """A batch script and a shell of salloc have the job's variables: a step is what srun starts. Its own number of tasks counts, not the job's."""
        job = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_NODELIST": "localhost", "SLURM_PROCID": "0"}
        one, four = self.plan(1), self.plan(4, name="four.plan")
        for shell in job, {**job, "SLURM_STEP_ID": "4294967291"}, {**job, "SLURM_STEP_ID": "4294967290"}, {**job, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}:
            self.ok(run([harness.prun, one], env=shell))
        self.assertFails(run([harness.prun, "four.plan"], cwd=self.folder, env=job), 1,
                         "^prun: this plan is for 4 ranks, and without srun prun is one process: run `srun -n 4 prun four.plan`, `prun --nproc 4 four.plan` or `prun --ranks 4 four.plan`$")
        self.ok(run([harness.prun, "--nproc", 4, four], env=job))
        step = {**job, "SLURM_STEP_ID": "0"}
        self.assertFails(run([harness.prun, "--ranks", 4, four], env=step), 2, "^prun: --ranks 4 puts all ranks in one process: leave out srun, or --ranks$")

    def test_a_file_that_is_another_on_another_node_is_said(self):
        """Two processes with folders of their own, as on nodes with disks of their own."""
        plan = self.plan(2, ("steps     = 20;", "steps = 3;"))
        for node, saved in ("n0", "a.st"), ("n1", "b.st"):
            os.mkdir(self.path(node))
            shutil.copy(plan, self.path(node))
            self.ok(self.nproc(plan, 2, *(("--load", "a.st") if saved == "b.st" else ()), "--save", saved))
            shutil.copy(self.path(saved), self.path(node, "w.st"))
        for same in False, True:
            if same:
                shutil.copy(self.path("a.st"), self.path("n1", "w.st"))
            port = free_port()
            jobs = [started([harness.prun, "--load", "w.st", os.path.basename(plan)], self, cwd=self.path(node), env={"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
                    for rank, node in enumerate(("n0", "n1"))]
            errs = [job.communicate(timeout=harness.TIMEOUT)[1].decode() for job in jobs]
            said = "w.st is not the same file for all ranks: ranks 0 and 1 hold the same part of w1, and other bits"
            self.assertEqual([job.returncode for job in jobs], [0, 0] if same else [4, 4], errs)
            self.assertEqual("".join(errs).count(said), 0 if same else 1, errs)

    def test_what_all_ranks_find_alike_is_said_once(self):
        plan = self.plan(3)
        for options in ["--eval"], ["--generate", 1, "--prompt", "a"], ["--save", "w.safetensors", "--averages"]:
            with self.subTest(options=options):
                self.assertFails(self.nproc(plan, 3, *options), 2, r"\Aprun: [^\n]+\n\Z")

    def test_without_the_whole_environment_there_is_one_rank(self):
        self.ok(run([harness.prun, self.plan(1)], env={"RANK": "1", "WORLD_SIZE": "4"}))
        for there, missing in ({}, "MASTER_ADDR and MASTER_PORT"), ({"MASTER_ADDR": "localhost"}, "MASTER_PORT"):
            result = run([harness.prun, self.plan(4, name="four.plan")], env={"RANK": "1", "WORLD_SIZE": "4", **there})
            self.assertFails(result, 1, r"^prun: this plan is for 4 ranks, which RANK and WORLD_SIZE do not bring together without %s: set that too, or run `prun --nproc 4 \S+`\n$" % missing)

    def test_an_environment_that_makes_no_sense_is_said(self):
        there = {"RANK": "4", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "2000"}
        self.assertFails(run([harness.prun, self.plan(4)], env=there), 2, "^prun: RANK=4: a number from 0 to 3 is expected\n")
        self.assertFails(run([harness.prun, self.plan(4)], env={**there, "RANK": "0", "MASTER_PORT": "http"}), 2, "^prun: MASTER_PORT=http: a number from 1 to 65535")

    def test_ranks_that_do_not_come_are_named(self):
        plan, began = self.plan(4), time.monotonic()
        meeting = "--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port(), "--start-timeout", 1
        self.assertFails(self.nproc(plan, 2, *meeting, "--node-rank", 0), 3, r"^prun: of 4 ranks 2 did not come to 127\.0\.0\.1:\d+ within 1 s \(--start-timeout\): 2, 3\n$")
        for address, why in ("no.such.host.invalid", r"this host does not know no\.such\.host\.invalid \(.*\): is it misspelt\?"), ("192.0.2.1", r"192\.0\.2\.1 is no address of this host, where rank 0 is: is it misspelt\?"):
            wrong = "--nnodes", 2, "--master-addr", address, "--master-port", free_port(), "--start-timeout", 1
            self.assertFails(self.nproc(plan, 2, *wrong, "--node-rank", 0), 3, r"^prun: of 4 ranks 3 did not come to %s:\d+ within 1 s \(--start-timeout\): 1, 2, 3; %s\n$" % (re.escape(address), why))
        result = self.nproc(self.plan(2, name="two.plan"), 1, *meeting, "--node-rank", 1)
        self.assertEqual(result.code, 3)
        self.assertRegex(result.err, r"^prun: rank 1 cannot reach rank 0 at 127\.0\.0\.1:\d+ within 1 s \(--start-timeout\): Connection refused\n")
        self.assertLess(time.monotonic() - began, ENDS_S)

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as other:
            other.bind(("", 0))
            other.listen()
            port = other.getsockname()[1]
            result = self.nproc(self.plan(2), 2, "--master-port", port, "--start-timeout", 2)
            self.assertFails(result, 3, r"^prun: port %d, where the ranks are to meet \(MASTER_PORT\): it is taken by another process\n$" % port)
            alone = run([harness.prun, self.plan(2)], env={"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
            self.assertFails(alone, 3, r"^prun: port %d, where the ranks are to meet \(MASTER_PORT\): it is taken by another process\n$" % port)

    def test_a_rank_of_another_job_is_refused_and_this_one_goes_on(self):
        plan, four, port = self.plan(2), self.plan(4, name="four.plan"), free_port()
        settings = lambda rank, size: {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        first = started([harness.prun, plan], self, env=settings(0, 2), cwd=self.folder)
        stranger = run([harness.prun, four], cwd=self.folder, env=settings(3, 4))
        self.assertFails(stranger, 3, r"^prun: rank 3 is refused at localhost:\d+: its job has another number of ranks")
        stranger = run([harness.prun, "--job", "another", plan], cwd=self.folder, env=settings(1, 2))
        self.assertFails(stranger, 3, r"^prun: rank 1 is refused at localhost:\d+: the job that meets there is called '', this one 'another' \(--job\)\n$")
        with socket.create_connection(("localhost", port)) as noise:
            noise.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        second = started([harness.prun, plan], self, env=settings(1, 2), cwd=self.folder)
        for job in first, second:
            out, err = job.communicate(timeout=harness.TIMEOUT)
            self.assertEqual(job.returncode, 0, err)

    def node(self, plan, port, number, *words, nnodes=2):
        """The command that starts the ranks of a node of this machine, two where the words do not say it."""
        return [harness.prun, "--nproc", 2, "--nnodes", nnodes, "--node-rank", number, "--master-addr", "127.0.0.1", "--master-port", port, "--start-timeout", STARTS_S, *words, plan]

    def come(self, port, n):
        """Waits until so many have connected with a port of this machine."""
        until = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < until:
            with open("/proc/net/tcp", encoding="ascii") as file:
                if sum(words[2].endswith(":%04X" % port) and words[3] == "01" for words in map(str.split, file)) == n:
                    return
            time.sleep(0.02)
        self.fail("%d do not come" % n)

    def silent(self, port):
        """A connection with a rank 0 that comes, which says nothing."""
        until = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < until:
            try:
                return socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                time.sleep(0.02)
        self.fail("rank 0 does not come")

    def test_a_launch_at_a_port_where_another_one_meets_gets_no_rank_of_it(self):
        """Each prun of a node is a launch of its own; what the job is called tells those of one job from another's."""
        plan, port = self.plan(4), free_port()
        first = started(self.node(plan, port, 0, "--job", "a"), self, cwd=self.folder)
        other = run(self.node(plan, port, 1, "--job", "b"), cwd=self.folder)
        self.assertFails(other, 3, r"^prun: rank [23] is refused at 127\.0\.0\.1:%d: the job that meets there is called 'a', this one 'b' \(--job\)\n$" % port)
        other = run(self.node(plan, port, 0, "--job", "b"), cwd=self.folder)
        self.assertFails(other, 3, r"^prun: port %d, where the ranks are to meet \(MASTER_PORT\): it is taken by another process\n$" % port)
        self.ok(run(self.node(plan, port, 1, "--job", "a"), cwd=self.folder))
        out, err = first.communicate(timeout=harness.TIMEOUT)
        self.assertEqual((first.returncode, err), (0, b""))
        self.assertEqual(harness.Result([], 0, out.decode(), "", 0).texts(), self.ok(self.local(plan, 4)).texts())

    def test_two_launches_at_one_port_that_nothing_tells_apart_are_named(self):
        """Of three nodes the last does not come: whichever of two pruns for the second is the other launch's, none of its ranks is taken."""
        plan, port = self.plan(6), free_port()
        first, *others = (started(self.node(plan, port, number, nnodes=3), self, cwd=self.folder) for number in (0, 1, 1))
        ended = [job.communicate(timeout=harness.TIMEOUT) for job in (first, *others)]
        self.assertEqual([job.returncode for job in (first, *others)], [3, 3, 3], str(ended))
        pids = sorted(job.pid for job in others)
        said = r"\Aprun: two launches meet at 127\.0\.0\.1:%d: node 1 comes from prun (\d+) on \S+ and from prun (\d+) on \S+: give each launch a port of its own, or a name \(--job\)\n\Z" % port
        self.assertRegex(ended[0][1].decode(), said)
        self.assertEqual(sorted(map(int, re.match(said, ended[0][1].decode()).groups())), pids)
        self.assertEqual([err for _, err in ended[1:]], [b"", b""], "one message")

    def test_who_has_connected_when_the_meeting_ends_hears_that_it_was_said_why(self):
        """Rank 0 hears one after the other, and a silent one keeps it from the rest: of three launches that start one node it hears two, and tells the third."""
        plan, port = self.plan(3), free_port()
        node = lambda number: started(self.node(plan, port, number, "--nproc", 1, nnodes=3), self, cwd=self.folder)
        first = node(0)
        with self.silent(port):
            others = [node(1) for _ in range(3)]
            self.come(port, 1 + 3)
        ended = [job.communicate(timeout=harness.TIMEOUT) for job in (first, *others)]
        self.assertEqual([job.returncode for job in (first, *others)], [3, 3, 3, 3], str(ended))
        self.assertRegex(ended[0][1].decode(), r"^prun: two launches meet at 127\.0\.0\.1:%d: node 1 comes from .*\n$" % port)
        self.assertEqual([err for _, err in ended[1:]], [b""] * 3, "one message")

    def test_why_the_meeting_ends_is_said_before_anybody_is_told(self):
        """Rank 0 gives the silent ones a second each; its launcher ends it sooner, once another rank of the node has been told."""
        plan, port = self.plan(6), free_port()
        first = started(self.node(plan, port, 0, nnodes=3), self, cwd=self.folder)
        with contextlib.ExitStack() as behind:
            with self.silent(port):
                others = [started(self.node(plan, port, 1, nnodes=3), self, cwd=self.folder) for _ in range(2)]
                self.come(port, 1 + 1 + 4)
                for _ in range(2):
                    behind.enter_context(self.silent(port))
            _, err = first.communicate(timeout=harness.TIMEOUT)
        self.assertRegex(err.decode(), r"^prun: two launches meet at 127\.0\.0\.1:%d: node 1 comes from .*\n$" % port)
        self.assertEqual([job.communicate(timeout=harness.TIMEOUT)[1] for job in others], [b""] * 2, "one message")

    def test_a_node_that_has_ended_before_the_job_began_may_come_again(self):
        plan, port = self.plan(6), free_port()
        node = lambda number: started(self.node(plan, port, number, nnodes=3), self, cwd=self.folder)
        first, second = node(0), node(1)
        self.come(port, 1 + 2)
        second.kill()
        self.come(port, 1)
        others = [node(1), node(2)]
        ended = [(job.communicate(timeout=harness.TIMEOUT), job.returncode) for job in (first, *others)]
        self.assertEqual([code for _, code in ended], [0, 0, 0], str(ended))

    def endless(self, ranks):
        return self.plan(ranks, ("steps     = 20;", "steps = 1000000000; log_every = 5;"))

    def test_a_rank_that_is_killed_ends_the_job_and_is_named(self):
        for env in {}, {"PRUN_COMM": "messages"}:
            job = started([harness.prun, "--nproc", 4, "-v", self.endless(4)], self, env=env, cwd=self.folder)
            pids = harness.ranks(harness.until(job, b"loss is"))
            os.kill(pids[2], signal.SIGKILL)
            began = time.monotonic()
            _, err = job.communicate(timeout=harness.TIMEOUT)
            self.assertEqual(job.returncode, 137)
            self.assertRegex(err.decode(), r"(?m)^prun: rank 2 \(process %d\) was ended by signal 9 \(Killed\)$" % pids[2])
            self.assertLess(time.monotonic() - began, ENDS_S)
            self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")

    def test_without_a_launcher_the_others_say_who_is_gone(self):
        port = free_port()
        plan = self.endless(3)
        jobs = self.processes(plan, 3, lambda rank: {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
        harness.until(jobs[0], b"loss is")
        jobs[1].kill()
        ended = [job.communicate(timeout=harness.TIMEOUT)[1].decode() for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [3, -9, 3])
        self.assertIn("rank 1 is gone", ended[0] + ended[2])

    def test_who_is_gone_between_steps_is_named_by_itself(self):
        """Ranks that exchange nothing within a step see it where they agree whether training goes on."""
        self.write("own.dsl", """net own(batch = 4) { input x : f32[batch, 4]; param w : f32[4, 4] = normal(0.1); loss mean(square(x @ w)); }
            train { data = normal(seed = 1); optimizer = sgd(lr = 0.001); steps = 1000000000; log_every = 1000000000; }
            parallel { mode = manual; }""")
        plan, port = self.compile("own.dsl", "own.plan", "--ranks", 4), free_port()
        first, second = (started([*self.node(plan, port, number), "-v"], self, cwd=self.folder) for number in (0, 1))
        pids = harness.ranks(harness.until(first, b"rank 3: "))
        time.sleep(0.5)  # now it trains
        os.kill(pids[2], signal.SIGKILL)
        ended = [job.communicate(timeout=harness.TIMEOUT)[1].decode() for job in (first, second)]
        self.assertEqual([job.returncode for job in (first, second)], [3, 137], str(ended))
        self.assertRegex(ended[0], r"(?m)^prun: in step \d+ of epoch 1: rank [23] is gone: it has ended, or the connection to it$")

    def test_a_rank_that_is_killed_while_all_save_ends_the_ranks_of_other_nodes_too(self):
        """Of those only some hear at first that it is gone, while the others wait for these."""
        plan, port = self.plan(4, ("steps     = 20;", "steps = 1000000000; checkpoint every 1 steps keep 1;")), free_port()
        for trial in range(6):
            first, second = (started([*self.node(plan, port, number), "--checkpoint-dir", self.path("kept%d" % trial), "-v"], self, cwd=self.folder) for number in (0, 1))
            pids = harness.ranks(harness.until(first, b"loss is"))
            time.sleep(trial * 2e-3)
            os.kill(pids[2], signal.SIGKILL)
            began = time.monotonic()
            ended = [job.communicate(timeout=3 * ENDS_S)[1].decode() for job in (first, second)]
            self.assertEqual([job.returncode for job in (first, second)], [3, 137], str(ended))
            self.assertRegex(ended[0], r"(?m)^prun: .*rank [23] is gone: it has ended, or the connection to it$")
            self.assertLess(time.monotonic() - began, ENDS_S)

    def test_a_launcher_that_is_killed_leaves_no_rank(self):
        job = started([harness.prun, "--nproc", 3, "-v", self.endless(3)], self, cwd=self.folder)
        pids = harness.ranks(harness.until(job, b"loss is"))
        job.kill()
        until = time.monotonic() + ENDS_S
        while not all(map(gone, pids.values())) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [])

    def test_a_signal_ends_training_with_a_checkpoint(self):
        plan = self.plan(2, ("steps     = 20;", "steps = 1000000000; log_every = 5; checkpoint every epoch;"))
        job = started([harness.prun, "--nproc", 2, plan], self, cwd=self.folder)
        harness.until(job, b"loss is")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, err)
        self.assertRegex(err.decode(), r"with a checkpoint; it goes on with\n +\S*prun --resume latest --nproc 2 \S+\n", "and starts its ranks itself")
        self.assertEqual(len([name for name in os.listdir(self.path("net.plan.checkpoints")) if name.startswith("step-")]), 1)

    def test_restarts_go_on_from_the_latest_checkpoint(self):
        steps = 3000
        plan = self.plan(2, ("steps     = 20;", "steps = %d; log_every = 100; checkpoint every 500 steps;" % steps))
        self.ok(self.nproc(plan, 2, "--save", "whole.safetensors", "--checkpoint-dir", self.path("other")))
        job = started([harness.prun, "--nproc", 2, "--max-restarts", 2, "-v", "--save", self.path("w.safetensors"), plan], self, cwd=self.folder)
        pids = harness.ranks(harness.until(job, b"step: 1000,"))
        os.kill(pids[1], signal.SIGKILL)
        out, err = job.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(job.returncode, 0, err)
        self.assertRegex(err.decode(), r"(?s)prun: rank 1 \(process \d+\) was ended by signal 9 .*\nprun: note: restart 1 of 2, from the latest checkpoint\n")
        self.assertEqual(self.read("w.safetensors"), self.read("whole.safetensors"))

    def test_a_restart_goes_on_from_no_earlier_runs_checkpoints(self):
        """An earlier run of other steps has left 50 to 200. A run beside them that is killed before it has written one begins as it began."""
        old = self.plan(2, ("steps     = 20;", "steps = 200; checkpoint every 50 steps;"), name="old.plan")
        new = self.plan(2, ("steps     = 20;", "steps = 3000; log_every = 100; checkpoint every 2900 steps;"), name="new.plan")
        self.ok(self.nproc(new, 2, "--save", "fresh.safetensors", "--checkpoint-dir", self.path("other")))
        self.ok(self.nproc(old, 2, "--checkpoint-dir", self.path("ck")))
        from_50 = self.path("ck/step-000000050.safetensors")
        shutil.copytree(self.path("ck"), self.path("kept"))
        self.ok(self.nproc(new, 2, "--save", "from_50.safetensors", "--resume", from_50, "--checkpoint-dir", self.path("another")))
        result = self.nproc(new, 2, "--max-restarts", 1, "--save", "w.safetensors", "--checkpoint-dir", self.path("ck"))
        self.assertEqual(result.code, 3, str(result))
        self.assertIn("has checkpoints of an earlier run, up to step 200", result.err)
        self.assertFalse(os.path.exists(self.path("w.safetensors")), "nothing was trained")
        for options, expected, left in (("--overwrite",), "fresh", [2900]), (("--resume", from_50), "from_50", [50, 100, 150, 200, 2900]):
            with self.subTest(options=options):
                job = started([harness.prun, "--nproc", 2, "--max-restarts", 1, "-v", *options, "--checkpoint-dir", self.path("ck"), "--save", self.path("w.safetensors"), new], self, cwd=self.folder)
                pids = harness.ranks(harness.until(job, b"step: 1000,"))
                os.kill(pids[1], signal.SIGKILL)
                out, err = job.communicate(timeout=harness.TIMEOUT)
                self.assertEqual(job.returncode, 0, err)
                self.assertIn(b"restart 1 of 1, as it began: it has written no checkpoint yet", err)
                self.assertEqual(self.read("w.safetensors"), self.read(expected + ".safetensors"))
                self.assertEqual(sorted(int(re.sub(r"\D", "", name)) for name in os.listdir(self.path("ck")) if name.startswith("step-")), left)
                shutil.rmtree(self.path("ck"))
                shutil.copytree(self.path("kept"), self.path("ck"))

    def test_without_a_node_the_job_goes_on_with_fewer_ranks(self):
        """Two nodes of two ranks, of which the second is killed with its prun: on the first two go on from the latest checkpoint with the plan for two, and end as any
        two do that resume there."""
        fewer = "steps = 700; log_every = 10; checkpoint every 100 steps;"
        plans = [self.plan(ranks, ("steps     = 20;", fewer), name="net%d.plan" % ranks) for ranks in (4, 3, 2)]
        port = free_port()

        def node(number):
            words = "--nproc", 2, "--nnodes", 2, "--node-rank", number, "--master-addr", "127.0.0.1", "--master-port", port, "--max-restarts", 1, "--min-ranks", 2, "--start-timeout", 1
            return started([harness.prun, *words, "-v", "--save", self.path("w.safetensors"), plans[0], plans[2], plans[1]], self, cwd=self.folder)

        second, first = node(1), node(0)
        harness.until(first, b"step: 210,")
        second.kill()
        out, err = (text.decode() for text in first.communicate(timeout=harness.TIMEOUT))
        self.assertEqual(first.returncode, 0, err)
        self.assertRegex(err, r"prun: note: restart 1 of 1, from the latest checkpoint\nprun: note: of 4 ranks 2 did not come to 127\.0\.0\.1:\d+ within 1 s \(--start-timeout\): 2, 3: going on with 2 ranks\n")
        self.assertEqual(re.findall(r"(?m)^rank (\d): local rank (\d) of 2,", out), [("0", "0"), ("1", "1")])
        kept = plans[0] + ".checkpoints"
        step = int(re.search(r"step: (\d+),", out[out.rindex("rank 0: "):])[1]) - 10
        self.assertEqual(len([name for name in os.listdir(kept) if name.startswith("step-")]), 7, "of both")
        self.ok(self.local(plans[2], 2, "--resume", os.path.join(kept, "step-%09d.safetensors" % step), "--checkpoint-dir", self.path("other"), "--save", "other.safetensors"))
        self.assertEqual(self.read("w.safetensors"), self.read("other.safetensors"))

    def test_ranks_beyond_the_plan_are_not_needed(self):
        """Three are there of four, and the plan for fewer is for two."""
        port = free_port()
        plans = [self.plan(ranks, name="net%d.plan" % ranks) for ranks in (4, 2)]
        node = lambda number, ranks: [harness.prun, "--nproc", ranks, "--nnodes", 4 // ranks, "--node-rank", number, "--master-addr", "127.0.0.1", "--master-port", port, "--min-ranks", 2,
                                      "--start-timeout", 1, *plans]
        others = [started(node(number, 1), self, cwd=self.folder) for number in (1, 3)]
        first = self.ok(run(node(0, 1), cwd=self.folder))
        self.assertEqual(first.texts(), self.ok(self.local(plans[1], 2)).texts())
        self.assertRegex(first.err, r"of 4 ranks 1 did not come .*: 2: going on with 2 ranks\n$")
        ended = [job.communicate(timeout=harness.TIMEOUT) for job in others]
        self.assertEqual([job.returncode for job in others], [0, 0], str(ended))
        self.assertEqual(ended[1], (b"", b"prun: note: rank 3 is not needed: the job goes on with fewer\n"))

    def test_plans_for_fewer_ranks_that_do_not_fit_are_named_before_anything_starts(self):
        four, three, two = (self.plan(ranks, name="net%d.plan" % ranks) for ranks in (4, 3, 2))
        other = self.compile(self.sample("quickstart.dsl"), "other.plan", "--ranks", 2, "--mode", "data_parallel")
        for plans, code, said in (((four, other), 1, "other.plan is of another net than %s: '" % four), ((three, four), 1, "net4.plan is for 4 ranks, and %s for 3: behind the first" % three),
                                  ((four, two, two), 1, "are both for 2 ranks"), ((four, self.plan(1, name="net1.plan")), 1, "net1.plan is for 1 rank, and --min-ranks says 2"),
                                  ((four, "none.plan"), 3, "none.plan"), ((four,), 2, "--min-ranks 2: with which plan?")):
            self.assertFails(run([harness.prun, "--nproc", 4, "--min-ranks", 2, *plans], cwd=self.folder), code, re.escape(said))

    def test_a_mistake_is_not_made_again(self):
        result = self.nproc(self.plan(2), 3, "--max-restarts", 5)
        self.assertFails(result, 1, "^prun: this plan is for 2 ranks, --nproc says 3: start 2, or compile the net with pcc --ranks 3\n$")

    def test_what_fails_before_the_first_step_would_fail_again(self):
        self.write("x.npy", harness.npy([1.0] * 8, (8, 1), "f"))
        self.write("net.dsl", 'net s { input x : f32[2, 1]; param w : f32[1] = ones; loss sum(x * w); } train { data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1); }')
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        missing = self.nproc(plan, 2, "--max-restarts", 2, "--load", "none.safetensors")
        os.remove(self.path("x.npy"))
        for result, file in (missing, "none.safetensors"), (self.nproc(plan, 2, "--max-restarts", 2), "x.npy"), (self.nproc("none.plan", 2, "--max-restarts", 2), "none.plan"):
            self.assertEqual((result.code, result.out), (3, ""), str(result))
            self.assertRegex(result.err, "^prun: [^\n]*%s[^\n]*\nprun: note: no restart: that was before the first step, and would be again\n$" % re.escape(file), str(result))
        self.assertNotIn("note", self.nproc(plan, 2).err, "none was asked for")

    def test_another_number_of_ranks_than_the_plans_is_said_before_any_is_waited_for(self):
        """Once a node where launchers say who is first there, else by each rank; none of the others is there."""
        plan, port = self.plan(2), free_port()
        meeting, job = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}, {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost"}
        said = "^prun: this plan is for 2 ranks, %s: start 2, or compile the net with pcc --ranks %d\n$"
        for env, who, ranks in (({"RANK": "0", "WORLD_SIZE": "3", **meeting}, "WORLD_SIZE says 3", 3), ({"RANK": "1", "WORLD_SIZE": "3", **meeting}, "WORLD_SIZE says 3", 3),
                                ({"RANK": "4", "WORLD_SIZE": "8", "LOCAL_RANK": "0", **meeting}, "WORLD_SIZE says 8", 8), ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", **meeting}, "", 8),
                                ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", **job}, "SLURM_NTASKS says 4", 4),
                                ({"SLURM_PROCID": "2", "SLURM_LOCALID": "2", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "4", **job}, "", 4)):
            with self.subTest(env=env):
                began = time.monotonic()
                result = run([harness.prun, "--start-timeout", 1, plan], env=env)
                self.assertEqual((result.code, result.out), (1, ""), result)
                self.assertRegex(result.err, said % (who, ranks) if who else "^$")
                self.assertLess(time.monotonic() - began, ENDS_S)
        began = time.monotonic()
        self.assertFails(run(self.node(plan, port, 0, "--start-timeout", 1), cwd=self.folder), 1, said % ("--nnodes 2 and --nproc 2 make 4", 4))
        self.assertLess(time.monotonic() - began, ENDS_S)

    def test_local_ranks_are_those_of_a_launch(self):
        """torchrun's: two launches on one machine count from 0 each; and what the environment says holds."""
        plan, port = self.plan(4, ("steps     = 20;", 'steps = 1; log "{rank} {local_rank}" on all;')), free_port()
        local = lambda out: dict(re.findall(r"(?m)^(\d) (\d)$", out))
        first, second = (started(self.node(plan, port, number), self, cwd=self.folder) for number in (0, 1))
        out = first.communicate(timeout=harness.TIMEOUT)[0].decode()
        self.assertEqual((second.wait(harness.TIMEOUT), local(out)), (0, {"0": "0", "1": "1", "2": "0", "3": "1"}))
        numbers, meeting = "2031", {"WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        slurm = {"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost"}
        for said in (lambda rank: {"RANK": str(rank), "LOCAL_RANK": numbers[rank], **meeting}), (lambda rank: {"SLURM_PROCID": str(rank), "SLURM_LOCALID": numbers[rank], **slurm}):
            ended = [job.communicate(timeout=harness.TIMEOUT) for job in self.processes(plan, 4, said)]
            self.assertEqual(local(ended[0][0].decode()), dict(zip("0123", numbers)), str(ended))
        self.assertEqual(local(self.ok(self.nproc(plan, 4)).out), dict(zip("0123", "0123")))
        self.assertFails(run([harness.prun, plan], env={"RANK": "0", "LOCAL_RANK": "first", **meeting}), 2, "^prun: LOCAL_RANK=first: a number from 0 to ")

    def test_usage(self):
        for options, said in ((("--nproc", 2, "--ranks", 2), "--ranks puts all ranks in one process: leave out --nproc"),
                              (("--nproc", 0), "--nproc takes a number from 1 to 4096, not '0'"),
                              (("--nproc", 2, "--nnodes", 2, "--master-port", 70), "--nnodes 2 wants --node-rank, and where the ranks meet"),
                              (("--nproc", 2, "--node-rank", 1), "--node-rank is from 0 to 0 (--nnodes), not 1"),
                              (("--max-restarts", 2), "--max-restarts is of ranks that prun starts itself: add --nproc N"),
                              (("--nproc", 2, "--min-ranks", 2), "--min-ranks 2: the job has 2, and goes on with fewer"),
                              (("--min-ranks", 2), "--min-ranks is of ranks that prun starts itself: add --nproc N"),
                              (("--nproc", 2, "--start-timeout", "soon"), "--start-timeout takes seconds, 0: no limit, not 'soon'")):
            self.assertFails(run([harness.prun, *options, "net.plan"]), 2, re.escape(said))
        if harness.mpirun:
            result = run([harness.mpirun, "-n", 2, harness.prun, "--nproc", 2, "net.plan"])
            self.assertEqual(result.code, 2)
            self.assertIn("--nproc starts the ranks itself: leave out mpirun, or --nproc", result.err)


if __name__ == "__main__":
    harness.main()
