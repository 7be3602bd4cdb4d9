#!/usr/bin/env python3
"""What outlives a run: --save and --load, checkpoints, --resume, on the same and on other numbers of ranks, and after SIGKILL at any moment."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import harness
from harness import Case, run

NET = """net small(batch = 16) {
    input x : f32[batch, 24]; input y : f32[batch, 8];
    param w : f32[24, 32] = normal(0.3); param w2 : f32[32, 8] = normal(0.3);
    h = tanh(matmul(x, w)) ; p = matmul(h, w2) %s; loss mse(p, y);
}
train { data = normal(seed = 3); optimizer = momentum(lr = 0.05, momentum = 0.9); epochs = 3; steps = %d; %s }
"""


def header(path):
    """The JSON header of a safetensors file and the bytes behind it."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def no_large_file():
    """In the child: no file grows beyond 1 KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


class Checkpoints(Case):
    def plan(self, ranks, settings="", shard="", steps=6, name=None):
        name = name or "r%d" % ranks
        source = os.path.join(self.folder, name + ".dsl")
        with open(source, "w", encoding="utf-8") as file:
            file.write(NET % (shard, steps, settings))
        plan = os.path.join(self.folder, name + ".plan")
        done = run(harness.compiling(source, "--ranks", ranks, "-o", plan))
        self.assertEqual(done.code, 0, done)
        return plan

    def prun(self, ranks, plan, *more):
        done = run([harness.prun, "--ranks", ranks, plan, *more])
        self.assertEqual(done.code, 0, done)
        return done

    def test_parameters_are_saved_whole_and_loaded_on_any_number_of_ranks(self):
        four, one = self.plan(4, shard="shard ((2, 2), (2, 1))"), self.plan(1)
        self.prun(4, four, "--save", self.path("w.safetensors"))
        names, data = header(self.path("w.safetensors"))
        self.assertEqual(sorted(name for name in names if name != "__metadata__"), ["w", "w2"])
        self.assertEqual(names["w"]["dtype"], "F32")
        self.assertEqual(names["w"]["shape"], [24, 32])
        self.assertEqual(len(data), 4 * (24 * 32 + 32 * 8))
        first = [self.prun(ranks, plan, "--load", self.path("w.safetensors")).losses()[0] for ranks, plan in ((4, four), (1, one))]
        self.assertAlmostEqual(first[0], first[1], delta=1e-5 * abs(first[1]))
        self.prun(1, one, "--load", self.path("w.safetensors"), "--save", self.path("end.safetensors"))
        self.assertNotEqual(header(self.path("end.safetensors"))[1], data, "it went on training")

    def test_a_resumed_run_equals_an_uninterrupted_one(self):
        for ranks, shard in ((1, ""), (4, "shard ((2, 2), (2, 1))"), (3, "")):
            plan = self.plan(ranks, "checkpoint every 5 steps;", shard)
            whole = self.prun(ranks, plan, "--save", self.path("whole"))
            taken = sorted(os.listdir(plan + ".checkpoints"))
            self.assertEqual(taken, ["lock"] + ["step-%09d.safetensors" % step for step in (5, 10, 15)])
            for step in (5, 10):
                rest = self.prun(ranks, plan, "--resume", os.path.join(plan + ".checkpoints", "step-%09d.safetensors" % step), "--save", self.path("rest"))
                self.assertEqual(rest.texts(), whole.texts()[step:], "bit for bit")
                self.assertEqual(header(self.path("rest"))[1], header(self.path("whole"))[1])
            self.assertEqual(self.prun(ranks, plan, "--resume", "latest").texts(), whole.texts()[15:])

    def test_other_ranks_and_strategies_go_on_within_rounding(self):
        plan = self.plan(4, "checkpoint every 7 steps;", "shard ((2, 2), (2, 1))")
        whole = self.prun(4, plan).losses()
        taken = os.path.join(plan + ".checkpoints", "step-000000007.safetensors")
        for ranks, shard in ((1, ""), (2, "shard ((1, 2), (2, 1))"), (8, "shard ((2, 2), (2, 2))")):
            rest = self.prun(ranks, self.plan(ranks, shard=shard), "--resume", taken).losses()
            self.assertEqual(len(rest), len(whole) - 7)
            for got, expected in zip(rest, whole[7:]):
                self.assertAlmostEqual(got, expected, delta=1e-4 * abs(expected))

    def test_with_another_batch_size_no_row_is_left_out_and_none_comes_twice(self):
        """Row i holds 2^i, so a loss, the sum over a batch, says which rows it had."""
        rows = 32
        with open(self.path("x.csv"), "w", encoding="utf-8") as file:
            file.write("".join("%d\n" % 2 ** i for i in range(rows)))

        def plan(batch, ranks, settings="order = shuffle(seed = 7);"):
            text = """net s { input x : f64[%d, 1]; param w : f64[1] = ones; loss sum(x * w); }
                      train { data = csv(x = "x.csv"); %s epochs = 2; optimizer = sgd(lr = 1e-300); checkpoint every 1 steps; }""" % (batch, settings)
            name = self.path("b%d" % batch)
            with open(name + ".dsl", "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(run(harness.compiling(name + ".dsl", "--ranks", ranks, "-o", name + ".plan")).code, 0)
            return name + ".plan"

        def at(step):
            return self.path("kept", "step-%09d.safetensors" % step)

        whole = self.prun(2, plan(4, 2), "--checkpoint-dir", self.path("kept")).losses()
        self.assertEqual(len(whole), 16)
        for batch, ranks, step in ((8, 2, 2), (8, 4, 6), (16, 1, 4), (2, 2, 3), (8, 1, 8), (32, 2, 8), (8, 2, 12)):
            per = rows // batch
            epochs = [whole[:8], whole[8:]]
            left = [sum(epochs[e][i * batch // 4:(i + 1) * batch // 4]) for e in range(2) for i in range(per)][step * 4 // batch:] if batch >= 4 else None
            got = self.prun(ranks, plan(batch, ranks), "--resume", at(step), "--checkpoint-dir", self.path("to%d_%d" % (batch, step))).losses()
            if left is None:
                self.assertEqual([a + b for a, b in zip(got[::2], got[1::2])], whole[step:])
            else:
                self.assertEqual(got, left, "batches of %d behind step %d" % (batch, step))
        for batch, settings, step, words in ((8, "order = shuffle(seed = 7);", 3, "behind row 12 of epoch 1, in steps of 4 rows, and steps of 8 rows do not come to stand there"),
                                             (4, "order = shuffle(seed = 8);", 3, "within an epoch of rows 1 to 32 shuffled with seed 7, and now they are rows 1 to 32 shuffled with seed 8"),
                                             (4, "", 3, "and now they are rows 1 to 32 in their order")):
            done = run([harness.prun, "--ranks", 2, plan(batch, 2, settings), "--resume", at(step), "--checkpoint-dir", self.path("other")])
            self.assertEqual((done.code, done.out, done.err.count("\n")), (3, "", 1), done)
            self.assertIn(words, done.err)
            self.assertIn("--load takes its parameters alone", done.err)

    def test_with_another_batch_size_schedules_go_on_where_they_stood(self):
        """Half of the training is done: half of the rate is left, however many steps the rest takes; Adam's correction counts what was done."""
        rates = {}
        for batch in 4, 8:
            text = """net s { input x : f64[%d, 1]; param w : f64[1] = ones; loss sum(x * w); }
                      train { data = normal(seed = 1); steps = %d; optimizer = sgd(lr = 1); schedule = linear; checkpoint every 1 steps; log "{lr}"; }""" % (batch, 64 // batch)
            name = self.path("s%d" % batch)
            with open(name + ".dsl", "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(run(harness.compiling(name + ".dsl", "--ranks", 1, "-o", name + ".plan")).code, 0)
            more = ("--resume", self.path("s4.plan.checkpoints", "step-%09d.safetensors" % 8)) if batch == 8 else ()
            rates[batch] = [float(line) for line in self.prun(1, name + ".plan", *more).out.splitlines() if line[0].isdigit()]
        self.assertEqual(rates[4], [1 - i / 16 for i in range(16)])
        self.assertEqual(rates[8], [0.5, 0.375, 0.25, 0.125])

    def test_checkpoints_after_epochs_and_only_the_newest_stay(self):
        plan = self.plan(2, "checkpoint every epoch; keep = 2;")
        open_left = os.path.join(plan + ".checkpoints")
        os.makedirs(open_left)
        with open(os.path.join(open_left, "step-000000001.safetensors.tmp"), "w", encoding="utf-8") as file:
            file.write("left behind")
        self.prun(2, plan)
        self.assertEqual(sorted(os.listdir(open_left)), ["lock", "step-000000012.safetensors", "step-000000018.safetensors"])

    def test_what_a_killed_save_has_left_goes_when_the_next_run_claims_the_folder(self):
        """Even if that run saves nothing."""
        plan = self.plan(1, "checkpoint every 1000 steps;")
        os.makedirs(plan + ".checkpoints")
        for name in "step-000000003.safetensors.tmp", "notes.tmp":
            with open(os.path.join(plan + ".checkpoints", name), "w", encoding="utf-8") as file:
                file.write("left behind")
        self.prun(1, plan)
        self.assertEqual(sorted(os.listdir(plan + ".checkpoints")), ["lock", "notes.tmp"])

    def test_mpirun_ranks_write_one_file_together(self):
        if harness.mpirun is None:
            self.skipTest("no mpirun")
        plan = self.plan(4, "checkpoint every 9 steps;", "shard ((2, 2), (2, 1))")
        local = self.prun(4, plan, "--save", self.path("local"), "--checkpoint-dir", self.path("a"))
        done = run([harness.mpirun, "-n", 4, harness.prun, plan, "--save", self.path("mpi"), "--checkpoint-dir", self.path("b")])
        self.assertEqual(done.code, 0, done)
        self.assertEqual(header(self.path("local"))[1], header(self.path("mpi"))[1])
        self.assertEqual(header(self.path("a/step-000000009.safetensors")), header(self.path("b/step-000000009.safetensors")))
        rest = run([harness.mpirun, "-n", 4, harness.prun, plan, "--resume", self.path("b/step-000000009.safetensors")])
        self.assertEqual(rest.texts(), local.texts()[9:])

    def test_what_cannot_be_loaded_is_said(self):
        plan = self.plan(2, "checkpoint every 9 steps;")
        self.prun(2, plan, "--save", self.path("w"))
        with open(self.path("w"), "rb") as file:
            good = file.read()
        n = 8 + struct.unpack("<Q", good[:8])[0]

        def expect(data, words, *flags):
            with open(self.path("bad"), "wb") as file:
                file.write(data)
            done = run([harness.prun, "--ranks", 2, plan, *(flags or ("--load", self.path("bad")))])
            self.assertEqual(done.code, 3, done)
            self.assertIn(words, done.err)
            self.assertEqual(done.err.count("\n"), 1, done)

        expect(good[:-1], "is damaged")
        expect(good[:n - 20], "cut off")
        expect(b"", "too short")
        expect(b"\xff" * 40, "no safetensors file")
        expect(good[:8] + b"[" + good[9:], "no JSON object")
        expect(good.replace(b'"w2"', b'"w3"'), "has no 'w2'")
        expect(good.replace(b"[24,32]", b"[32,24]"), "the shape of 'w' is [32, 24], and the net's is [24, 32]")
        expect(good, "does not say where training stood", "--resume", self.path("bad"))
        expect(good, "No such file", "--load", self.path("nothing"))
        expect(good, "there is no checkpoint to resume from", "--resume", "latest", "--checkpoint-dir", self.path("empty"))

    def test_a_full_disk_ends_the_run_and_leaves_nothing_half_written(self):
        plan = self.plan(2)
        done = run([harness.prun, "--ranks", 2, plan, "--save", "/dev/full/w"])
        self.assertEqual(done.code, 3, done)
        done = run([harness.prun, "--ranks", 2, plan, "--save", self.path("no/such/directory/w")])
        self.assertEqual(done.code, 3, done)
        self.assertIn("cannot be made", done.err)

    def test_a_file_that_cannot_grow_ends_the_run_and_leaves_the_older_one(self):
        plan = self.plan(2)
        self.prun(2, plan, "--save", self.path("w"))
        before = header(self.path("w"))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

        done = run([harness.prun, "--ranks", 2, plan, "--save", self.path("w")], preexec_fn=limit)
        self.assertEqual(done.code, 3, done)
        self.assertIn("File too large", done.err)
        self.assertEqual(header(self.path("w")), before)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])

    def test_where_nothing_can_be_saved_is_said_before_training(self):
        plan = self.plan(2, "checkpoint every 6 steps;")
        os.mkfifo(self.path("pipe"))
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("no directory")
        for words, flags in (("pipe: cannot be made: it is no ordinary file", ("--save", self.path("pipe"))),
                             (": cannot be made: it is a directory", ("--save", self.folder)),
                             ("no/w: cannot be made: No such file or directory", ("--save", self.path("no/w"))),
                             ("file: checkpoints go into a directory, and this is none", ("--checkpoint-dir", self.path("file"))),
                             ("no/dir: cannot be made: No such file", ("--checkpoint-dir", self.path("no/dir")))):
            for launch in ([harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]):
                if launch[0] is not None:
                    done = run([*launch, plan, *flags])
                    self.assertEqual((done.code, done.out), (3, ""), done)
                    self.assertEqual(done.err.count(words), 1, done)

    def test_runs_that_save_one_file_at_the_same_time_leave_one_of_theirs(self):
        plan = self.plan(2)
        self.assertEqual(run([harness.prun, "--ranks", 2, plan, "--save", self.path("alone")]).code, 0)
        for _ in range(5):
            jobs = [harness.started([harness.prun, "--ranks", 2, plan, "--save", self.path("shared")], self) for _ in range(4)]
            for job in jobs:
                out, err = job.communicate()
                self.assertEqual(job.returncode, 0, err)
            self.assertEqual(self.read("shared"), self.read("alone"))
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])

    def test_two_runs_do_not_write_into_one_directory(self):
        plan = self.plan(2, "checkpoint every 1000000 steps;", steps=1000000)
        first = subprocess.Popen([harness.prun, "--ranks", "2", plan], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            first.stdout.readline()
            done = run([harness.prun, "--ranks", 2, plan])
            self.assertEqual(done.code, 3, done)
            self.assertIn("another run writes its checkpoints there", done.err)
        finally:
            first.kill()
            first.communicate()
        self.assertEqual(run([harness.prun, "--ranks", 2, self.plan(2, "checkpoint every 3 steps;")]).code, 0, "a killed run holds nothing")

    def test_a_new_run_leaves_an_earlier_ones_checkpoints_alone(self):
        """Its own would be the older ones by their steps: removed at once, or passed over by --resume latest."""
        plan = self.plan(2, "checkpoint every 3 steps; keep = 2;")
        whole = self.prun(2, plan).texts()
        folder, other = plan + ".checkpoints", self.path("other")
        names = sorted(os.listdir(folder))
        for words in (), ("--load", os.path.join(folder, names[-1])), ("--checkpoint-dir", folder):
            done = run([harness.prun, "--ranks", 2, plan, *words])
            self.assertEqual((done.code, done.out), (3, ""), done)
            self.assertIn("has checkpoints of an earlier run, up to step 18: --resume latest goes on from them", done.err)
        self.assertEqual(sorted(os.listdir(folder)), names)
        self.assertEqual(self.prun(2, plan, "--checkpoint-dir", other).texts(), whole)
        done = run([harness.prun, "--ranks", 2, plan, "--resume", os.path.join(folder, names[1]), "--checkpoint-dir", other])
        self.assertEqual(done.code, 3, "another run's, and newer: %s" % done)

    def test_overwrite_replaces_an_earlier_runs_checkpoints_with_its_first(self):
        plan = self.plan(2, "checkpoint every 3 steps;")
        whole = self.prun(2, plan).texts()
        folder = plan + ".checkpoints"
        other = self.plan(2, "checkpoint every 7 steps;", name="other")
        for launch in ([harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]):
            if launch[0] is None:
                continue
            self.prun(2, plan, "--overwrite")
            self.assertEqual(len(os.listdir(folder)), 7)
            done = run([*launch, other, "--checkpoint-dir", folder, "--overwrite"])
            self.assertEqual((done.code, done.texts()), (0, whole), done)
            self.assertEqual(done.err.count("prun: note: %s: 6 checkpoints of an earlier run, up to step 18: removed when this run has written its first\n" % folder), 1, done)
            self.assertEqual(sorted(os.listdir(folder)), ["lock", "step-000000007.safetensors", "step-000000014.safetensors"])
        rare = self.plan(2, "checkpoint every 100 steps;", name="rare")
        self.prun(2, rare, "--checkpoint-dir", folder, "--overwrite")
        self.assertEqual(len(os.listdir(folder)), 3, "it wrote none: the old ones stay")
        self.assertEqual(self.prun(2, other, "--checkpoint-dir", folder, "--overwrite", "--resume", "latest").err, "", "what it goes on from is its own")

    def test_a_run_that_goes_back_drops_what_came_after(self):
        """Killed between its first and its last save it resumes from its own newest, not from what it went back behind."""
        plan = self.plan(2, "checkpoint every 2 steps; keep = 3;")
        whole = self.prun(2, plan).texts()
        folder = plan + ".checkpoints"
        name = lambda step: "step-%09d.safetensors" % step
        self.assertEqual(sorted(os.listdir(folder)), ["lock", name(14), name(16), name(18)])
        other = self.plan(2, "checkpoint every 5 steps; keep = 3;", name="other")
        rest = self.prun(2, other, "--resume", os.path.join(folder, name(14)), "--checkpoint-dir", folder)
        self.assertEqual(rest.texts(), whole[14:])
        self.assertEqual(sorted(os.listdir(folder)), ["lock", name(14), name(15)])

    def test_columns_are_saved_as_they_are_loaded(self):
        """Many small runs in the file: the ranks exchange them before they write."""
        text = """net s { input x : f32[4, 24]; param w : f32[2000, 24] = normal(1) shard %s; param v : f64[3, 200, 6] = normal(1) shard %s;
                  loss mean(x) * mean(w) + 1e-9 * mean(x) ; } train { data = normal(seed = 1); optimizer = sgd(lr = 1e-30); }
                  parallel { mode = semi_auto; mesh (a = 2, b = 2, c = 2); }"""
        saved = {}
        for ranks, w, v in ((1, "(-, -)", "(-, -, -)"), (8, "(-, c.a)", "(-, -, b)"), (8, "(b, a)", "(-, a, c)"), (8, "(-, b)", "(-, -, -)")):
            source, plan = self.path("s.dsl"), self.path("s.plan")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text % (w, v))
            self.assertEqual(run(harness.compiling(source, "--ranks", ranks, "-o", plan)).code, 0)
            for name, launch in (("local", [harness.prun, "--ranks", ranks]), ("mpi", [harness.mpirun, "-n", ranks, harness.prun])):
                if launch[0] is None or (name == "mpi" and ranks == 1):
                    continue
                out = self.path(name)
                done = run([*launch, plan, "--save", out])
                self.assertEqual(done.code, 0, done)
                self.assertIn("plan: at most", done.out)
                saved[ranks, w, name] = header(out)
                done = run([*launch, plan, "--load", out, "--save", self.path("again")])
                self.assertEqual(done.code, 0, done)
                self.assertEqual(header(self.path("again")), saved[ranks, w, name], "loaded and saved again")
        self.assertEqual(len({data for _, data in saved.values()}), 1, "the same bytes, whatever the layout")

    def test_what_another_optimizer_kept_is_left_out_with_a_note_and_what_it_did_not_keep_is_an_error(self):
        plans = {}
        for kind, words in ("adam", "adam(lr = 0.05)"), ("sgd", "sgd(lr = 0.05)"), ("momentum", "momentum(lr = 0.05, momentum = 0.9)"):
            plans[kind] = self.plan(2, "checkpoint every epoch;", name=kind)
            self.write(kind + ".dsl", harness.edited(self.path(kind + ".dsl"), ("momentum(lr = 0.05, momentum = 0.9)", words)))
            self.assertEqual(run(harness.compiling(self.path(kind + ".dsl"), "--ranks", 2, "-o", plans[kind])).code, 0)
            self.prun(2, plans[kind])
        taken = {kind: os.path.join(plan + ".checkpoints", "step-000000006.safetensors") for kind, plan in plans.items()}
        for kind, of, words in (("sgd", "adam", "the plan has no w.m, w.v and 2 more: left out"), ("sgd", "momentum", "the plan has no w.momentum, w2.momentum: left out")):
            for launch in ([harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]):
                if launch[0] is not None:
                    done = run([*launch, plans[kind], "--resume", taken[of], "--checkpoint-dir", self.path("to_" + of + str(len(launch)))])
                    self.assertEqual(done.code, 0, done)
                    self.assertEqual(done.err.count("prun: note: %s: %s (was it taken with another optimizer?)\n" % (taken[of], words)), 1, done)
                    self.assertEqual(len(done.losses()), 12, "it goes on where the other stood")
        for kind, of, slot in (("adam", "sgd", "w.m"), ("momentum", "adam", "w.momentum"), ("adam", "momentum", "w.m")):
            done = run([harness.prun, "--ranks", 2, plans[kind], "--resume", taken[of], "--checkpoint-dir", self.path("to_" + of)])
            self.assertEqual((done.code, done.out), (3, ""), done)
            self.assertIn("has no '%s': it was taken with another optimizer; --load takes its parameters alone" % slot, done.err)
        self.assertEqual(run([harness.prun, "--ranks", 2, plans["adam"], "--resume", taken["adam"], "--checkpoint-dir", self.path("own")]).err, "")

    def test_latest_passes_over_damaged_checkpoints_with_a_note(self):
        plan = self.plan(2, "checkpoint every 6 steps;")
        whole = self.prun(2, plan).texts()
        at = lambda step: os.path.join(plan + ".checkpoints", "step-%09d.safetensors" % step)
        good = {step: self.read(at(step)) for step in (6, 12, 18)}
        self.write(at(18), good[18][:-5])
        for launch in ([harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]):
            if launch[0] is not None:
                self.write(at(18), good[18][:-5])
                done = run([*launch, plan, "--resume", "latest"])
                self.assertEqual((done.code, done.texts()), (0, whole[12:]), done)
                self.assertRegex(done.err, r"prun: note: %s: .*damaged.*: going on from %s\n" % (at(18), at(12)))
                self.assertEqual(done.err.count("prun: "), 1, done)
                self.assertEqual(self.read(at(18)), good[18], "saved again")
        self.write(at(18), b"")
        self.write(at(12), good[12].replace(b"pcc.epoch", b"pcc.epoca"))
        done = run([harness.prun, "--ranks", 2, plan, "--resume", at(18)])
        self.assertEqual((done.code, done.out), (3, ""), "one that is named is an error: %s" % done)
        done = self.prun(2, plan, "--resume", "latest")
        self.assertEqual(done.texts(), whole[6:])
        self.assertEqual([line.split(": ")[2] for line in done.err.splitlines()], [at(18), at(12)], done)
        for step in good:
            self.write(at(step), b"")
        done = run([harness.prun, "--ranks", 2, plan, "--resume", "latest"])
        self.assertEqual((done.code, done.out, done.err.count("\n")), (3, "", 1), done)
        self.assertIn(at(18), done.err)

    def test_parameters_in_two_bytes_are_read(self):
        """F16 and BF16, as PyTorch saves them: exact in f32, on any number of ranks; other types are named."""
        self.prun(2, self.plan(2), "--save", self.path("w"))
        entries, _ = header(self.path("w"))
        draw = random.Random(3)
        special = [0.0, -0.0, 1.0, -2.5, 6.103515625e-05, 5.960464477539063e-08, 65504.0, -1.1920928955078125e-07]
        numbers = {name: special + [float(draw.randrange(-128, 128)) / 64 for _ in range(entry["shape"][0] * entry["shape"][1] - len(special))]
                   for name, entry in entries.items() if name != "__metadata__"}
        f16 = lambda values: struct.pack("<%de" % len(values), *values)
        bf16 = lambda values: b"".join(struct.pack("<f", v)[2:] for v in values)
        f32 = lambda values: struct.pack("<%df" % len(values), *values)

        def file(name, dtype, pack):
            tensors, body = {}, b""
            for tensor, values in numbers.items():
                data = pack(values)
                tensors[tensor] = {"dtype": dtype, "shape": entries[tensor]["shape"], "data_offsets": [len(body), len(body) + len(data)]}
                body += data
            text = json.dumps(tensors).encode()
            with open(self.path(name), "wb") as out:
                out.write(struct.pack("<Q", len(text)) + text + body)
            return self.path(name)

        for dtype, pack in ("F16", f16), ("BF16", bf16):
            if dtype == "BF16":  # those that bfloat16 has
                numbers = {name: [struct.unpack("<f", b"\0\0" + struct.pack("<f", v)[2:])[0] for v in values] for name, values in numbers.items()}
            half, whole = file("half", dtype, pack), file("whole", "F32", f32)
            for ranks, shard in ((1, ""), (4, "shard ((2, 2), (2, 1))")):
                plan = self.plan(ranks, shard=shard, steps=1)
                texts = [self.prun(ranks, plan, "--load", path).texts() for path in (half, whole)]
                self.assertEqual(*texts, "%s on %d ranks" % (dtype, ranks))
        done = run([harness.prun, "--ranks", 2, self.plan(2), "--load", file("f8", "F8_E4M3", lambda values: bytes(len(values)))])
        self.assertEqual(done.code, 3, done)
        self.assertIn("of a type that prun does not read, 2: w, w2\n", done.err)

    def test_parameters_come_from_one_place(self):
        plan = self.plan(2, "checkpoint every epoch;")
        self.prun(2, plan, "--save", self.path("w"))
        done = run([harness.prun, "--ranks", 2, plan, "--load", self.path("w"), "--resume", "latest"])
        self.assertEqual((done.code, done.out), (2, ""), done)
        self.assertIn("--load says what parameters begin with: leave out --resume", done.err)

    def test_nothing_left_to_train_is_noted(self):
        plan = self.plan(2, "checkpoint every epoch;")
        self.prun(2, plan)
        done = self.prun(2, plan, "--resume", "latest")
        self.assertIn("stands at the end of epoch 3, and the plan has 3: nothing is left to train", done.err)

    def test_runs_killed_at_any_moment_resume_where_they_stood(self):
        plan = self.plan(2, "checkpoint every 1 steps; keep = 3;", steps=60)
        began = time.monotonic()
        whole = self.prun(2, plan).texts()
        seconds = time.monotonic() - began
        rare = self.plan(2, "checkpoint every 60 steps;", steps=60, name="rare")
        self.prun(2, rare)
        taken = os.path.join(rare + ".checkpoints", "step-000000060.safetensors")
        pick = random.Random(7)
        for trial in range(14):
            where = self.path("kill%d" % trial)
            command = [harness.prun, "--ranks", 2, plan, "--checkpoint-dir", where]
            if trial == 0:  # a save that fails in the middle leaves nothing
                os.mkdir(where)
                shutil.copy(taken, where)
                killed = run([*command, "--resume", "latest"], preexec_fn=no_large_file)
                self.assertEqual((killed.code, killed.err.count("File too large")), (3, 1), killed)
                self.assertFalse(any(f.endswith(".tmp") for f in os.listdir(where)))
            else:
                child = harness.started(command, self, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if trial < 6:  # where it is seen that a save has begun, soon after that
                    while child.poll() is None and not (os.path.isdir(where) and any(f.endswith(".tmp") for f in os.listdir(where))):
                        pass
                else:
                    time.sleep(pick.random() * seconds)
                child.kill()
                child.wait()
            files = os.listdir(where) if os.path.isdir(where) else []
            done = [int(f[5:14]) for f in files if f.endswith(".safetensors")]
            if not done:
                continue
            ranks = (2, 2, 1, 3)[trial % 4]
            rest = self.prun(ranks, plan if ranks == 2 else self.plan(ranks, steps=60), "--resume", "latest", "--checkpoint-dir", where)
            if ranks == 2:
                self.assertEqual(rest.texts(), whole[max(done):], "trial %d" % trial)
            else:
                self.assertEqual(len(rest.losses()), len(whole) - max(done))


if __name__ == "__main__":
    harness.main()
