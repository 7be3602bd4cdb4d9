#!/usr/bin/env python3
"""How a training ends before its last step: signals, losses that are not finite, and a plan of no steps."""
import json
import os
import re
import signal
import time

import harness
from harness import Case, Result, run

NET = """net small(batch = 8) {
    input x : f32[batch, 4];
    input y : f32[batch, 2];
    param w : f32[4, 6] = normal(0.1);
    param v : f32[6, 2] = normal(0.1);
    %s
}
train { data = csv("d.csv"); optimizer = %s; %s }
"""
MSE = "loss mse(matmul(tanh(matmul(x, w)), v), y);"
LOG = "h = matmul(x, w); q = relu(h); r = log(q); loss mse(matmul(r, v), y);"
RANKS = 4


class Stop(Case):
    def net(self, body=MSE, optimizer="sgd(lr = 0.0001)", more="", rest="", bad=None):
        """The plan of a small net over 64 rows; bad: a row whose third column is nan."""
        rows = [["%.4f" % (((r * 31 + c * 17) % 101) / 50 - 1) for c in range(6)] for r in range(64)]
        if bad is not None:
            rows[bad][2] = "nan"
        self.write("d.csv", "a,b,c,d,e,f\n" + "".join(",".join(row) + "\n" for row in rows))
        return self.write("net.dsl", NET % (body, optimizer, more) + rest)

    def plan(self, ranks=RANKS, options=(), **net):
        return self.compile(self.net(**net), "net.plan", "--ranks", ranks, *options)

    def folder_of(self, plan):
        names = os.listdir(plan + ".checkpoints") if os.path.isdir(plan + ".checkpoints") else []
        return sorted(name for name in names if name != "lock")

    # ------------------------------------------------------------ signals

    def stopped(self, command, number, whom=None, env=None):
        """Starts, sends a signal when the first loss is there, waits for the end. whom: of what was printed, the process; else the one started."""
        job = harness.started(command, self, env=env, cwd=self.folder)
        lines = harness.until(job, b"loss is")
        began = time.monotonic()
        os.kill(job.pid if whom is None else whom(lines), number)
        out, err = job.communicate(timeout=60)
        return Result([str(word) for word in command], job.returncode, out.decode(), err.decode(), time.monotonic() - began)

    LONG = "epochs = 1000000; log_every = 200; checkpoint every 1000000 steps;"

    def test_a_signal_ends_a_training_with_a_checkpoint_and_says_how_it_goes_on(self):
        plan = self.plan(more=self.LONG)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
            done = self.stopped([harness.prun, "--ranks", RANKS, "--save", "a b.st", "--load=a b.st" if number != signal.SIGINT else "-v", plan], number)
            self.assertEqual(done.code, 128 + number, str(done))
            self.assertIn("prun: %s: training ends after epoch" % number.name, done.err)
            self.assertEqual(len(self.folder_of(plan)), 1)
            self.assertTrue(os.path.exists(self.path("a b.st")))
            command = done.err.split("goes on with\n")[1].splitlines()[0].strip()
            self.assertIn("--ranks 4 --save 'a b.st'", command)
            self.assertNotIn("--load", command)
            # It does go on: from the very step.
            step = int(self.folder_of(plan)[0][5:14])
            again = self.stopped(["/bin/sh", "-c", "exec " + command + " --metrics m.json"], signal.SIGINT)
            self.assertEqual(again.code, 130, str(again))
            steps = [json.loads(line)["global_step"] for line in self.read("m.json").decode().splitlines()]
            self.assertGreater(steps[0], step)
            for name in self.folder_of(plan):
                os.remove(os.path.join(plan + ".checkpoints", name))

    def test_without_checkpoints_it_says_that_nothing_goes_on(self):
        plan = self.plan(more="epochs = 1000000; log_every = 5000;")
        done = self.stopped([harness.prun, "--ranks", RANKS, plan], signal.SIGTERM)
        self.assertEqual(done.code, 143, str(done))
        self.assertIn("the plan takes no checkpoints", done.err)

    def test_one_rank_or_mpirun_is_told_and_all_ranks_stop_at_one_step(self):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        plan = self.plan(more=self.LONG)
        command = [harness.mpirun, "-n", RANKS, harness.prun, "-v", "--save", "s.st", plan]
        for number, whom in ((signal.SIGTERM, None), (signal.SIGINT, None), (signal.SIGUSR2, None), (signal.SIGTERM, 2)):
            for name in self.folder_of(plan):  # of a job that was killed before --save
                os.remove(os.path.join(plan + ".checkpoints", name))
            done = self.stopped(command, number, whom and (lambda lines: harness.ranks(lines)[whom]))
            self.assertNotEqual(done.code, 0, str(done))
            if whom is None and number != signal.SIGUSR2 and not os.path.exists(self.path("s.st")):
                continue # mpirun kills its ranks a second later: too soon for a machine that does much else
            self.assertIn("mpirun -n %d " % RANKS, done.err, str(done))
            self.assertEqual(len(self.folder_of(plan)), 1, str(done))
            self.assertTrue(os.path.exists(self.path("s.st")))
            os.remove(self.path("s.st"))

    def asked(self, command, whom=None):
        """Starts, asks twice for a checkpoint, each when something was printed since; then ends it. whom: as in stopped. What was said of both, and all checkpoints."""
        job = harness.started(command, self, cwd=self.folder)
        lines = harness.until(job, b"loss is")
        said = []
        for _ in range(2):
            os.kill(job.pid if whom is None else whom(lines), signal.SIGUSR1)
            said.append(harness.until(job, b"SIGUSR1: after epoch", job.stderr)[-1].decode())
        names = self.folder_of(self.path("net.plan"))
        self.assertIsNone(job.poll(), "training goes on")
        job.send_signal(signal.SIGUSR2)
        job.communicate(timeout=60)
        return said, names

    def test_a_checkpoint_is_written_when_it_is_asked_for_and_training_goes_on(self):
        plan = self.plan(more=self.LONG)
        commands = [([harness.prun, "--ranks", RANKS, plan], None), ([harness.prun, "--nproc", RANKS, plan], None)]
        if harness.mpirun is not None:
            commands += [([harness.mpirun, "-n", RANKS, harness.prun, plan], None),
                         ([harness.mpirun, "-n", RANKS, harness.prun, "-v", plan], lambda lines: harness.ranks(lines)[2])]
        for command, whom in commands:
            said, names = self.asked(command, whom)
            self.assertEqual(len(names), 2, str(command))
            for line, name in zip(said, names):
                self.assertIn(name, line)
                self.assertIn("training goes on", line)
            # The file is whole: another run goes on from it.
            again = run([harness.prun, "--export", "p.st", "--resume", os.path.join(plan + ".checkpoints", names[0]), plan], cwd=self.folder)
            self.assertEqual(again.code, 0, str(again))
            for name in self.folder_of(plan):
                os.remove(os.path.join(plan + ".checkpoints", name))

    def test_a_plan_without_checkpoints_says_so_when_one_is_asked_for(self):
        plan = self.plan(more="epochs = 1000000; log_every = 5000;")
        said, names = self.asked([harness.prun, "--ranks", RANKS, plan])
        self.assertEqual(names, [])
        for line in said:
            self.assertIn("the plan takes none", line)

    def test_the_second_of_a_kind_ends_it_at_once(self):
        # One step takes seconds: nothing looks at the first signal before the second comes.
        source = self.write("slow.dsl", "net slow(n = 800) { input x : f32[n, n]; param w : f32[n, n] = normal(0.001);\n" +
                            "h0 = matmul(x, w);" + "".join("h%d = matmul(h%d, w);" % (i + 1, i) for i in range(30)) +
                            " loss mean(square(h30)); }\ntrain { data = uniform(seed = 1); optimizer = sgd(lr = 0.0); steps = 1000; checkpoint every epoch; }")
        plan = self.compile(source, "slow.plan", "--ranks", 1)
        job = harness.started([harness.prun, plan], self, cwd=self.folder)
        harness.until(job, b"loss is")
        job.send_signal(signal.SIGINT)
        time.sleep(0.2)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
        self.assertIn(job.returncode, (130, -signal.SIGINT), "a shell says 130 of both: the second may come when prun has ended the training and awaits no signal any more")
        self.assertTrue(b"training ends" in err or self.folder_of(plan) == [], err)

    def test_signals_leave_products_alone(self):
        # oneDNN's products, 2048 x 256 x 256, use the stack below its pointer: a handler there ended training, or changed its numbers.
        source = self.write("products.dsl", "net products(n = 2048) { input x : f32[n, 256]; param w : f32[256, 256] = normal(0.06);\n" +
                            "h0 = matmul(x, w);" + "".join("h%d = matmul(h%d, w);" % (i + 1, i) for i in range(30)) +
                            " loss mean(square(h30)); }\ntrain { data = uniform(seed = 1); optimizer = sgd(lr = 0.0); steps = 20; log_every = 1; }")
        plan = self.compile(source, "products.plan", "--ranks", 1)
        command = [harness.prun, plan]
        job = harness.started(command, self, cwd=self.folder)
        lines = harness.until(job, b"loss is")
        for step in range(2, 19):  # none at the end, where handlers are taken away
            lines += harness.until(job, b"step: %d," % step)
            for _ in range(30):
                job.send_signal(signal.SIGUSR1)
                time.sleep(0.001)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, err)
        losses = lambda text: re.findall(rb"loss is (\S+)", text)
        self.assertEqual(losses(b"".join(lines) + out), losses(self.ok(run(command, cwd=self.folder)).out.encode()))

    def test_a_checkpoint_is_there_before_its_evaluation(self):
        """The evaluation finds its data gone."""
        plan = self.plan(more="epochs = 1000000; log_every = 20000; checkpoint every 40000 steps;", rest='eval { data = raw(x = "x.raw", y = "y.raw"); every = 40000 steps; }')
        for name, columns in ("x", 4), ("y", 2):
            self.write(name + ".raw", bytes(12 * columns * 4))
        job = harness.started([harness.prun, "--ranks", RANKS, plan], self, cwd=self.folder)
        harness.until(job, b"loss is")
        os.truncate(self.path("x.raw"), 0)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 3, err)
        self.assertIn(b"x.raw: has become shorter", err)
        self.assertEqual(self.folder_of(plan), ["step-000040000.safetensors"])

    # ------------------------------------------------------------ not finite

    def bad(self, plan, words, ranks=RANKS, mpi=True):
        """Both ways of running stop with one message, which has these words."""
        for start in (self.local, self.mpi)[:2 if mpi and harness.mpirun is not None else 1]:
            result = start(plan, ranks)
            self.assertEqual(result.code, 4, str(result))
            said = [line for line in result.err.splitlines() if line.startswith("prun: ")]
            self.assertEqual(len(said), 1, str(result))
            self.assertRegex(said[0], words)
            for name in self.folder_of(plan):
                os.remove(os.path.join(plan + ".checkpoints", name))

    def test_the_first_operator_is_named(self):
        self.bad(self.plan(body=LOG), r"epoch 1 step 1: .*rank 0, step \d+ \(log of r\), .*net\.dsl:6: -inf at \[0, \d\]; training stops")

    def test_the_row_of_the_data_is_named_and_the_last_checkpoint(self):
        for options in ((), ("--mode", "data_parallel", "-D", "batch=2")):
            plan = self.plan(bad=37, more="epochs = 2; checkpoint every 2 steps;", options=options)
            self.bad(plan, r"epoch 1 step 5: input x holds nan at \[.*2\]: \S*d\.csv:39:16; .*step-000000004\.safetensors")
        self.bad(self.plan(ranks=2, bad=37, more="accumulate = 2;"), r"epoch 1 step 3: input x holds nan at \[.*2\]: \S*d\.csv:39:16", ranks=2)

    def test_states_stay_as_they_were_where_ranks_share_the_loss(self):
        # Tensor parallel: the loss is waited for after the updates in the plan.
        body = LOG.replace("matmul(x, w);", "matmul(x, w) shard ((1, 1), (1, 2));")
        self.bad(self.plan(body=body, options=("-D", "batch=8")), r"\(log of r\), .*-inf at")
        self.bad(self.plan(optimizer="momentum(lr = 1e30, momentum = 0.9)", more="epochs = 2;"), r"epoch 1 step \d: the first result that is not finite, .*loss.*inf at", mpi=False)

    def test_an_infinity_that_is_meant_is_not_blamed(self):
        body = "m = log(relu(x) * 0); s = softmax(m + 0 * x); h = matmul(x, w); loss mse(matmul(log(relu(h)), v), y) + 0 * mean(exp(m));"
        self.bad(self.plan(body=body), r"\(log of ", mpi=False)
        message = self.local(self.plan(body=body), RANKS).err
        self.assertNotIn("log of m)", message)

    def test_a_gradient_that_is_not_finite_is_found_by_the_parameter(self):
        body = "loss mean(sqrt(square(matmul(matmul(x, w), v)) * 0)) + mse(matmul(matmul(x, w), v), y);"
        plan = self.plan(body=body, more="epochs = 1; steps = 3;")
        self.bad(plan, r"epoch 1 step 2: parameter [vw] holds nan at \[.*\]: the update of the step before")
        # The last update: nothing of it is written.
        plan = self.plan(body=body, more="epochs = 1; steps = 1; checkpoint every epoch;")
        self.write("s.st", "kept")
        done = self.local(plan, RANKS, "--save", "s.st")
        self.assertEqual(done.code, 4, str(done))
        self.assertIn("holds nan", done.err)
        self.assertEqual(self.folder_of(plan), [])
        self.assertEqual(self.read("s.st"), b"kept")
        self.ok(self.local(plan, RANKS, "--save", "s.st", "--on-nan", "go"))
        self.assertNotEqual(self.read("s.st"), b"kept")

    def test_on_nan_go_goes_on(self):
        plan = self.plan(body=LOG, more="epochs = 2; on_nan = go;")
        done = self.ok(self.local(plan, RANKS))
        self.assertEqual(done.texts(), ["nan"] * 16)
        self.assertIn("on_nan=go", self.read("net.plan").decode())
        self.assertEqual(done.err.count("warning: the loss is nan since epoch 1 step 1"), 1)
        self.assertEqual(self.local(plan, RANKS, "--on-nan", "stop").code, 4)
        self.assertEqual(self.local(plan, RANKS, "--on-nan", "perhaps").code, 2)
        plain = self.plan(body=LOG, more="epochs = 2;")
        self.assertNotIn("on_nan", self.read("net.plan").decode())
        self.ok(self.local(plain, RANKS, "--on-nan", "go"))

    # ------------------------------------------------------------ no steps

    def test_no_steps_evaluate_and_save(self):
        for more in ("steps = 0;", "epochs = 0;", "epochs = 3; steps = 0; checkpoint every epoch;"):
            plan = self.plan(more=more, rest='eval { data = csv("d.csv"); every = epoch; }')
            done = self.ok(self.local(plan, RANKS, "--save", "s.st", "--print", "v"))
            self.assertEqual(done.texts(), [])
            self.assertEqual(len(re.findall(r"^eval: loss is ", done.out, re.M)), 1, str(done))
            self.assertIn("v", done.out)
            self.assertTrue(os.path.exists(self.path("s.st")))
            os.remove(self.path("s.st"))
            self.assertEqual(self.folder_of(plan), [])
        # They take no batch of the rows either.
        self.write("few.csv", "1,2\n3,4\n5,6\n")
        few = "net d(batch = 8) { input x : f32[batch, 2]; param w : f32[2] = ones; loss mean(x * w); } train { data = csv(\"few.csv\"); optimizer = sgd(lr = 0.1); %s } eval { data = csv(\"few.csv\"); }"
        done = self.ok(self.local(self.compile(self.write("few.dsl", few % "steps = 0;"), "few.plan"), 1))
        self.assertEqual(done.out.splitlines(), ["eval: loss is 3.5 (3 rows)"])
        self.assertFails(self.local(self.compile(self.write("few.dsl", few % ""), "few.plan"), 1), 3, "few.csv has 3 rows, and a batch takes 8")
        plan = self.compile(self.write("drawn.dsl", "net d { input x : f32[2, 2]; param w : f32[2, 2] = ones; loss mean(x * w); }\n"
                                       "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 0; schedule = cosine(warmup = 2); }"), "d.plan")
        self.assertEqual(self.ok(self.local(plan, 1, "--print", "w")).texts(), [])


if __name__ == "__main__":
    harness.main()
