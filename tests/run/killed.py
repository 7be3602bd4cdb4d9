#!/usr/bin/env python3
"""A rank that is killed, stopped or fails ends the job within 3 seconds, with a message that names it, and leaves nothing behind; training goes on from what it had saved.

PRUN_KILLS=200 in the environment: so many kills at random moments instead of a few; PRUN_SEED=N: others.
"""
import functools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

import harness
from harness import Case, Result, edited, run

SECONDS = 3   # what is promised
BUSY = 2      # what a machine adds that does other things too; more where starting the job took long
WAITS = 4     # for a rank that has stopped (PRUN_TIMEOUT); MPI_Init takes more than half of that on a busy machine
HANGS = 60    # nothing that goes on takes so long, and a rank that waits in vain waits for 600 (PRUN_TIMEOUT)
RANKS = 4
KILLS, SEED = int(os.environ.get("PRUN_KILLS", "2")), int(os.environ.get("PRUN_SEED", "1"))


def gone(pid):
    """Of a process that has ended other threads may live on for a moment, with its files."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            return fields[0] in "ZX" and int(fields[17]) <= 1
    except OSError:
        return True


def left_behind(pids):
    """Shared memory (prun-PID-..) of these processes."""
    names = [re.fullmatch(r"prun-(\d+)-.*", name) for name in os.listdir("/dev/shm")]
    return [name[0] for name in names if name and int(name[1]) in pids]


class Killed(Case):
    def setUp(self):
        super().setUp()
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        endless = self.write("endless.dsl", edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000; log_every = 50;")))
        self.plan = self.compile(endless, "net.plan", "--ranks", RANKS, "-D", "in_dim=64", "-D", "batch=32")

    def start(self, env=None, launcher=None):
        """Runs until the first loss is printed: in mid-training. Returns the job and the ranks' process numbers, from -v."""
        began = time.monotonic()
        job = harness.started([*(launcher or [harness.mpirun, "-n", RANKS, harness.prun]), "-v", self.plan], self, cwd=self.folder, env=env or {})
        pids = harness.ranks(harness.until(job, b"loss is"))
        self.assertEqual(sorted(pids), list(range(RANKS)))
        self.busy = max(BUSY, 4 * (time.monotonic() - began))
        return job, pids

    def busy_now(self):
        """The same for a job that ends before its first loss: by what one takes that only starts and ends."""
        return max(BUSY, 4 * self.ok(run([harness.mpirun, "-n", RANKS, harness.prun, "--version"])).seconds)

    def end(self, job, pids, pattern, seconds=SECONDS, prompt=True):
        """Waits for the end of the job; its time counts from now. prompt: it must end within these seconds."""
        began = time.monotonic()
        try:
            out, err = job.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            self.fail("the job hangs")
        result = Result(["mpirun"], job.returncode, out.decode()[-500:], err.decode(), time.monotonic() - began)
        self.assertNotEqual(result.code, 0, str(result))
        if prompt:
            self.assertLess(result.seconds, seconds + self.busy, str(result))
        self.assertTrue(re.search(pattern, result.err), str(result))
        waited = time.monotonic()
        while not all(gone(pid) for pid in pids.values()) and time.monotonic() - waited < HANGS:
            time.sleep(0.05)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")
        self.assertEqual(left_behind(pids.values()), [], "shared memory that stays")
        return result

    def check_killed(self, rank, number=signal.SIGKILL, env=None):
        for last in False, True:  # on a busy machine one end in about fifty was seen to take ten seconds more: not two in a row
            job, pids = self.start(env=env)
            os.kill(pids[rank], number)
            result = self.end(job, pids, r"process rank %d with PID \d+ on node \S+ exited on\s+signal %d|prun: rank %d " % (rank, number, rank), prompt=last)
            self.assertEqual(result.code, 128 + number, str(result))
            if result.seconds < SECONDS + self.busy:
                return

    def test_rank_0_killed(self):
        self.check_killed(0)

    def test_another_rank_killed(self):
        self.check_killed(2)

    def test_a_rank_killed_that_sends_messages(self):
        self.check_killed(3, env={"PRUN_COMM": "messages"})

    def test_a_rank_that_crashes(self):
        self.check_killed(1, number=signal.SIGABRT)

    def check_stopped(self, result, stopped, pid, sees=True):
        """One message: of the rank that is stopped, and where it and the others are. sees: the others see its place, in shared memory."""
        others = [rank for rank in range(RANKS) if rank != stopped]
        place = r"(?:in step \d+, \w+ of \S+ \(\S*endless\.dsl:\d+\)|(?:in|behind|reading the data of) step \d+)"
        told = (r"(?m)^prun: in step \d+ of epoch 1: rank %d, .*: not all ranks came within %d s \(PRUN_TIMEOUT\): rank %d is stopped by a signal\n"
                r"prun:   rank %d \(process %d on \S+\) is stopped by a signal: %s\n(?:prun:   ranks? [0-9 ,and]+ waits?: %s\n)+prun: rank %d on \S+ ends the job with exit code 3$"
                % (others[0], WAITS, stopped, stopped, pid, place if sees else "where it was this rank cannot see", place, others[0]))
        self.assertRegex(result.err, told, str(result))
        self.assertEqual(result.err.count("PRUN_TIMEOUT"), 1, str(result))
        self.assertEqual(result.err.count("ends the job"), 1, str(result))
        named = re.findall(r"\d+", " ".join(re.findall(r"prun:   ranks? ([0-9 ,and]+) waits?", result.err)))
        self.assertEqual(sorted(map(int, named)), others, str(result))

    def test_a_rank_that_stops_is_named_after_the_timeout(self):
        for launcher in [harness.mpirun, "-n", RANKS, harness.prun], [harness.prun, "--nproc", RANKS]:
            for stopped, env, sees in (2, {}, True), (0, {"PRUN_COMM": "messages"}, False), (3, {"PRUN_COMM": "nodes:2"}, True):
                with self.subTest(launcher=launcher, env=env):
                    for last in False, False, True:  # as above: a busy machine is late by chance
                        job, pids = self.start({**env, "PRUN_TIMEOUT": str(WAITS)}, launcher)
                        os.kill(pids[stopped], signal.SIGSTOP)
                        result = self.end(job, pids, "PRUN_TIMEOUT", seconds=WAITS + SECONDS - BUSY, prompt=last)
                        self.assertEqual(result.code, 3, str(result))
                        # of two nodes each speaks where the other's answer comes late
                        if not last and (result.seconds >= WAITS + SECONDS or result.err.count("PRUN_TIMEOUT") > 1):
                            continue
                        self.check_stopped(result, stopped, pids[stopped], sees)
                        break

    def test_a_rank_that_stops_is_ended_where_there_is_no_launcher(self):
        with socket.socket() as one:
            one.bind(("", 0))
            port = one.getsockname()[1]
        began = time.monotonic()
        jobs = [harness.started([harness.prun, "-v", self.plan], self, cwd=self.folder,
                                env={"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "PRUN_TIMEOUT": str(WAITS)}) for rank in range(RANKS)]
        pids = harness.ranks(harness.until(jobs[0], b"loss is"))
        self.busy = max(BUSY, 4 * (time.monotonic() - began))
        os.kill(pids[1], signal.SIGSTOP)
        began = time.monotonic()
        err = "".join(job.communicate(timeout=HANGS)[1].decode() for job in jobs)
        result = Result(["prun"], 3, "", err, time.monotonic() - began)
        self.assertEqual([job.returncode for job in jobs], [3, -signal.SIGKILL, 3, 3], str(result))
        self.check_stopped(result, 1, pids[1])

    def test_mpirun_told_to_end_takes_all_ranks_along(self):
        job, pids = self.start()
        job.send_signal(signal.SIGTERM)
        self.end(job, pids, ".*")

    def test_a_rank_that_fails_alone_before_training_is_named(self):
        """Only rank 1 cannot find the initial values: it runs in another directory."""
        for weights in "quickstart_w.npy", "quickstart_w2.npy":
            with open(self.sample(weights), "rb") as file:
                self.write(weights, file.read())
        self.write("net.dsl", edited(self.sample("quickstart_files.dsl"), (" shard ((2, 4), (4, 1))", "")))
        os.mkdir(self.path("plans"))
        os.mkdir(self.path("empty"))
        self.ok(run([harness.pcc, "net.dsl", "--ranks", "2", "-o", "plans/files.plan"], cwd=self.folder))
        plan = self.path("plans", "files.plan")
        result = run([harness.mpirun, "-n", "1", "-wdir", self.folder, harness.prun, plan, ":", "-n", "1", "-wdir", self.path("empty"), harness.prun, plan])
        self.assertFails(result, 3, r"(?m)^prun: rank 1 \(\S+\): parameter w: cannot open quickstart_w.npy: No such file")
        self.assertLess(result.seconds, SECONDS + self.busy_now())

    def test_a_rank_that_fails_in_mid_training_is_named(self):
        """Rank 0 cannot write the metrics."""
        result = run([harness.mpirun, "-n", str(RANKS), "sh", "-c", 'echo "pid $$" >&2; exec "$0" --metrics /dev/full "$1" > /dev/null', harness.prun, self.plan])
        self.assertEqual(result.code, 3, str(result))
        self.assertRegex(result.err, r"(?m)^prun: /dev/full: cannot be written")
        self.assertRegex(result.err, r"(?m)^prun: rank 0 on \S+ ")
        self.assertLess(result.seconds, SECONDS + self.busy_now())
        pids = [int(pid) for pid in re.findall(r"(?m)^pid (\d+)$", result.err)]
        self.assertEqual(len(pids), RANKS, str(result))
        self.assertEqual(left_behind(pids), [], "shared memory that stays")


NET = """net small(batch = 12) {
    input x : f32[batch, 24]; input y : f32[batch, 8];
    param w : f32[24, 36] = normal(0.3); param w2 : f32[36, 8] = normal(0.3);
    h = tanh(matmul(x, w)); p = matmul(h, w2); loss mse(p, y);
}
train { data = normal(seed = 3); optimizer = adam(lr = 0.01); epochs = 3; steps = 40; checkpoint every 5 steps keep 3%s; }
"""
STEPS = 120


class Resumed(Case):
    """Killed at any moment, during saves too, a training ends with what an uninterrupted one ends with: bit for bit on the same ranks, within rounding on others."""

    def plan(self, ranks, kind):
        name = "r%d%s" % (ranks, kind)
        self.write(name + ".dsl", NET % (" per_rank" if kind else ""))
        return self.compile(name + ".dsl", name + ".plan", "--ranks", ranks)

    @functools.lru_cache(None)
    def whole(self, ranks):
        """What an uninterrupted run saves in the end."""
        self.write("w.dsl", re.sub("checkpoint .*?;", "", NET % ""))
        self.ok(self.local(self.compile("w.dsl", "w.plan", "--ranks", ranks), ranks, "--save", "w"))
        return self.read("w")

    def saving(self, where):
        """Whether a file of a checkpoint is being written."""
        return any(name.endswith(".tmp") for _, _, names in os.walk(where) for name in names)

    def ways(self):
        """How ranks are started: name -> how many it may be, and the commands that start so many with these words; the first one prints the losses."""
        ways = {"nproc": ((2, 3, 4), lambda ranks, *words: [[harness.prun, "--nproc", ranks, *words]])}
        if harness.mpirun:
            ways["mpirun"] = (2, 3, 4), lambda ranks, *words: [[harness.mpirun, "-n", ranks, harness.prun, *words]]
        return ways

    def strike(self, job, victims, where, draw, until):
        """Kills one of these processes behind this step of the job that prints the losses, while it saves or not; says when."""
        how = draw.choice(("step", "save", "save"))
        for line in job.stdout:
            epoch, step = map(int, re.match(rb"epoch: (\d+) step: (\d+)", line).groups())
            if (epoch - 1) * STEPS // 3 + step >= until:
                break
        while how == "save" and job.poll() is None and not self.saving(where):
            pass
        time.sleep(draw.random() * 1e-3)
        how = "save" if self.saving(where) else "step"
        try:
            os.kill(draw.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            how = "ended"
        return how

    def kill(self, commands, where, draw):
        """Starts a training and kills one of its ranks, or a launcher, at a random moment; says when."""
        jobs = [harness.started([*command, "-v"], self, cwd=self.folder, stderr=subprocess.DEVNULL) for command in commands]
        pids = harness.ranks(harness.until(jobs[0], b"loss is"))
        how = self.strike(jobs[0], [*(job.pid for job in jobs), *pids.values()], where, draw, draw.randrange(1, STEPS))
        for job in jobs:
            job.communicate(timeout=HANGS)
        waited = time.monotonic()
        while not all(map(gone, pids.values())) and time.monotonic() - waited < HANGS:
            time.sleep(0.01)
        self.assertEqual([rank for rank, pid in pids.items() if not gone(pid)], [], "ranks that live on")
        return how

    def test_a_training_that_is_killed_at_any_moment_ends_as_if_it_were_not(self):
        for way, (numbers, commands) in self.ways().items():
            with self.subTest(way):
                self.check_way(way, numbers, commands)

    def check_way(self, way, numbers, commands):
        draw, counts = random.Random(SEED), {"step": 0, "save": 0, "ended": 0, "nothing saved": 0}
        plans = functools.lru_cache(None)(self.plan)

        for trial in range(KILLS):
            what = "%s, trial %d" % (way, trial)
            where, ranks, kind = self.path("%s%d" % (way, trial)), draw.choice(numbers), draw.choice(("", "slices"))
            counts[self.kill(commands(ranks, plans(ranks, kind), "--checkpoint-dir", where), where, draw)] += 1
            if not any(name.startswith("step-") and name.endswith(".safetensors") for name in os.listdir(where)):
                counts["nothing saved"] += 1
                continue
            there = draw.choice((ranks, ranks, 1, 2, 3, 4))
            rest = run([harness.prun, "--ranks", there, plans(there, draw.choice(("", "slices"))), "--resume", "latest", "--checkpoint-dir", where, "--save", "w"], cwd=self.folder)
            self.assertEqual((rest.code, rest.err.count("damaged")), (0, 0), "%s: %s" % (what, rest))
            saved = self.read("w")
            if there == ranks:
                self.assertEqual(saved, self.whole(ranks), what)
            else:
                found, expected = harness.tensors(saved), harness.tensors(self.whole(1))
                for name in expected:
                    self.assertClose(found[name], expected[name], relative=1e-3, absolute=1e-4, what="%s: %s" % (what, name))
            self.assertFalse(self.saving(where), "what the killed save has left")
        print(way, counts, end=" ", file=sys.stderr)

    def test_ranks_that_are_killed_and_started_again_end_as_if_they_were_not(self):
        """One after the other, within one job of --max-restarts."""
        draw, counts = random.Random(SEED), {"step": 0, "save": 0, "ended": 0}
        for trial in range(KILLS):
            where, ranks, kind = self.path("again%d" % trial), draw.choice((2, 3, 4)), draw.choice(("", "slices"))
            plan, saved = self.plan(ranks, kind), self.path("again.safetensors")
            job = harness.started([harness.prun, "--nproc", ranks, "--max-restarts", 3, "--checkpoint-dir", where, "--save", saved, "-v", plan], self, cwd=self.folder)
            for until in sorted(draw.sample(range(1, STEPS), 3)):
                lines = []
                while len(harness.ranks(lines)) < ranks and (line := job.stdout.readline()):
                    lines.append(line)
                if not line:
                    break
                harness.until(job, b"loss is")
                counts[self.strike(job, list(harness.ranks(lines).values()), where, draw, until)] += 1
            err = job.communicate(timeout=HANGS)[1].decode()
            self.assertEqual((job.returncode, err.count("damaged")), (0, 0), "trial %d: %s" % (trial, err))
            self.assertEqual(self.read(saved), self.whole(ranks), "trial %d" % trial)
            self.assertFalse(self.saving(where), "what a killed save has left")
        print(counts, end=" ", file=sys.stderr)


if __name__ == "__main__":
    harness.main()
