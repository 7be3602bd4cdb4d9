#!/usr/bin/env python3
"""What all ranks must have alike is compared before they train; a rank without its mpirun ends; what killed jobs leave in shared memory is removed by the next."""
import os
import re
import signal
import struct
import subprocess
import time

import harness
from harness import Case, edited, run

ENDS = 60  # seconds within which a rank ends that has lost its mpirun


def gone(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def until(condition, seconds=ENDS):
    began = time.monotonic()
    while not condition() and time.monotonic() - began < seconds:
        time.sleep(0.02)
    return condition()


def npy(rows, columns):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%df" % (rows * columns), *([0.5] * rows * columns))


class Alike(Case):
    def setUp(self):
        super().setUp()
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")

    def each(self, *ranks, env=None):
        """A job of one rank a line: options of mpirun and prun."""
        command = [harness.mpirun]
        for launch, words in ranks:
            command += [":"] * (len(command) > 1) + ["-n", 1, *launch, harness.prun, *words]
        return run(command, cwd=self.folder, env={"PRUN_TIMEOUT": "60", **(env or {})})

    def test_options_and_variables(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 2)
        for one, other, words in ((([], ["--resume", "latest"]), ([], []), "--resume is not the same on all ranks: latest on rank 0, not given on rank 1"),
                                  (([], ["--save=a"]), ([], ["--save=b"]), "--save is not the same on all ranks: a on rank 0, b on rank 1"),
                                  (([], []), ([], ["-v"]), "--verbose is not the same on all ranks: not given on rank 0, given on rank 1"),
                                  ((["-x", "PRUN_COMM=messages"], []), ([], []), "PRUN_COMM is not the same on all ranks: messages on rank 0, not given on rank 1")):
            with self.subTest(words=words):
                result = self.each((one[0], [*one[1], plan]), (other[0], [*other[1], plan]))
                self.assertFails(result, 2, "(?m)^prun: %s$" % re.escape(words))
        result = self.each(([], ["--metrics", "m", "--print", "w", plan]), ([], ["--print", "w", "--metrics", "m", "other.plan"]))
        self.assertFails(result, 2, r"(?m)^prun: the plan is not the same on all ranks: \S+net.plan on rank 0, other.plan on rank 1$")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith((".plan", ".tmp", "m"))], ["net.plan"], "nothing is written")

    def test_a_mistake_on_one_command_line_is_said_by_its_first_rank(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 2)
        self.assertFails(self.each(([], [plan]), ([], ["--ranks", "5", plan])), 2, "(?m)^prun: --ranks 5 puts all ranks in one process")

    def test_the_error_is_said_before_mpirun_ends_the_rank_that_says_it(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 4)
        for trial in range(8):
            result = self.each(*[([], ["--save", name, plan]) for name in "aabb"])
            self.assertFails(result, 2, "(?m)^prun: --save is not the same on all ranks: a on ranks 0, 1, b on ranks 2, 3$")

    def test_files_of_rows(self):
        self.write("net.dsl",
                   "net rows(batch = 4) {\n    input x : f32[batch, 3];\n    param w : f32[3, 2] = ones;\n    loss mean(square(matmul(x, w)));\n}\n"
                   'train { data = npy(x = "x.npy"); optimizer = sgd(lr = 0.1); epochs = 2; }\n')
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        os.mkdir(self.path("here"))
        os.mkdir(self.path("there"))
        self.write("here/x.npy", npy(40, 3))
        self.write("there/x.npy", npy(32, 3))
        result = self.each((["-wdir", self.path("here")], [plan]), (["-wdir", self.path("there")], [plan]))
        self.assertFails(result, 3, r"(?m)^prun: the data of x \(x.npy\) is not the same on all ranks: 40 rows of 3 elements \(f32\) in \d+ bytes on rank 0, 32 rows .* on rank 1$")


class Orphans(Case):
    def setUp(self):
        super().setUp()
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        endless = self.write("endless.dsl", edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000; log_every = 50;")))
        self.plan = self.compile(endless, "net.plan", "--ranks", 2)
        self.one = self.compile(endless, "one.plan", "--ranks", 1)
        self.folder_of_sessions = self.path("sessions")
        os.mkdir(self.folder_of_sessions)

    def pid_in(self, name):
        """The number that a process wrote before it became prun."""
        self.assertTrue(until(lambda: os.path.exists(self.path(name)) and self.read(name).endswith(b"\n")))
        return int(self.read(name))

    def test_a_rank_that_waits_for_others_when_mpirun_is_killed(self):
        """Rank 1 never comes: rank 0 waits in MPI_Init."""
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 1000; fi; echo $$ > pid; exec "$0" "$1"'
        job = harness.started([harness.mpirun, "-n", 2, "sh", "-c", script, harness.prun, self.plan], self, cwd=self.folder)
        pid = self.pid_in("pid")
        time.sleep(0.2)  # anywhere in its start
        job.kill()
        self.assertTrue(until(lambda: gone(pid)), "rank 0 lives on")

    def test_a_rank_whose_shell_s_launcher_ends(self):
        """What Open MPI does not see: the process above is another one."""
        launcher = harness.started(["sh", "-c", 'sh -c "echo \\$\\$ > pid; exec \\"$0\\" \\"$1\\"" & wait', harness.prun, self.one], self, cwd=self.folder,
                                   env={"OMPI_COMM_WORLD_SIZE": "2"})
        harness.until(launcher, b"loss is")
        pid = self.pid_in("pid")
        launcher.kill()
        err = launcher.stderr.read().decode()  # until it ends
        self.assertRegex(err, r"(?m)^prun: rank \S+: mpirun has ended without this rank, which ends too$")
        self.assertTrue(until(lambda: gone(pid)))

    def test_ranks_that_never_come_are_waited_for_until_the_timeout(self):
        result = run([harness.mpirun, "-n", 1, "sleep", 1000, ":", "-n", 1, harness.prun, self.plan], cwd=self.folder, env={"PRUN_TIMEOUT": "2"})
        self.assertFails(result, 3, r"(?m)^prun: rank 1: MPI_Init: not all ranks came within 2 s \(PRUN_TIMEOUT\)$")

    def start(self):
        job = harness.started([harness.mpirun, "-n", 2, harness.prun, "-v", self.plan], self, cwd=self.folder, env={"TMPDIR": self.folder_of_sessions})
        pids = harness.ranks(harness.until(job, b"loss is"))
        marks = [name for folder, _, names in os.walk(self.folder_of_sessions) if folder.endswith("pid.%d" % job.pid) for name in names if name.startswith("prun-job-")]
        self.assertEqual(len(marks), 1)
        return job, pids, marks[0][len("prun-job-"):]

    def memory(self, number):
        return [name for name in os.listdir("/dev/shm") if ".%s." % number in name or "-%s-" % number in name]

    def test_shared_memory_of_killed_jobs_is_removed_by_the_next(self):
        job, pids, dead = self.start()
        left = "/dev/shm/prun-%d-%s-1" % (pids[0], dead)  # as if it had been killed before its ranks had each other's memory
        with open(left, "wb"):
            pass
        self.addCleanup(lambda: os.path.exists(left) and os.remove(left))
        before = self.memory(dead)
        _, _, first = self.start()  # beside it: nothing of a job that lives is removed
        self.assertEqual(sorted(self.memory(dead)), sorted(before))
        job.kill()
        self.assertTrue(until(lambda: all(gone(pid) for pid in pids.values())), "ranks live on")
        self.assertTrue(self.memory(dead))
        alive = self.memory(first)
        self.start()
        self.assertEqual(self.memory(dead), [])
        self.assertEqual(sorted(self.memory(first)), sorted(alive))


if __name__ == "__main__":
    harness.main()
