#!/usr/bin/env python3
"""What prun prints as training goes: templates, a progress line on a terminal, metrics, a file per rank."""
import csv
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

import harness
from harness import Case, edited, run

LINE = 'log_every = 50;\n    log "%s";'


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def records(data):
    """The records of a TFRecord file, their checksums compared."""
    masked = lambda part: ((crc32c(part) >> 15 | crc32c(part) << 17) + 0xa282ead8) & 0xffffffff
    while data:
        n, head, = struct.unpack("<QI", data[:12])
        body, = struct.unpack("<I", data[12 + n:16 + n])
        assert head == masked(data[:8]) and body == masked(data[12:12 + n]), "a checksum differs"
        yield data[12:12 + n]
        data = data[16 + n:]


def fields(data):
    """Of a message of Protocol Buffers: field -> values."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        n = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value = varint()
        else:
            n = varint() if n is None else n
            value = data[at:at + n]
            at += n
        found.setdefault(key >> 3, []).append(value)
    return found


def scalars(summary):
    values = [fields(value) for value in fields(summary).get(1, [])]
    return {value[1][0].decode(): struct.unpack("<f", value[2][0])[0] for value in values}


class Log(Case):
    def net(self, template, more=()):
        """OneFlow's quick start with a log line."""
        return self.write("net.dsl", edited(self.sample("oneflow_ddp.dsl"), ("log_every = 50;", 'log_every = 50;\n    log %s;' % template), *more))

    def plan(self, template, more=()):
        return self.compile(self.net(template, more), "net.plan", "--ranks", 2)

    def test_oneflows_lines_come_out_whole(self):
        plan = self.plan('"{global_step}/{steps} loss:{loss}" on all')
        for result in (self.local(plan, 2), self.mpi(plan, 2)):
            lines = [line for line in self.ok(result).out.splitlines() if "loss:" in line]
            self.assertEqual(len(lines), 20)
            self.assertEqual(lines[0], "50/500 loss:0.00025336415274068713")
            self.assertEqual(lines[1], "50/500 loss:0.004111831542104483")
            self.assertEqual(sorted(lines[-2:]), ["500/500 loss:4.547473508864641e-12", "500/500 loss:6.184563972055912e-11"])

    def test_fields_digits_braces_and_one_rank(self):
        plan = self.plan('"{{{rank}}} e{epoch} s{step} {loss:.3e} lr={lr} {local_rank}" on rank 1')
        lines = [line for line in self.ok(self.local(plan, 2)).out.splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 10)
        self.assertEqual(lines[0], "{1} e1 s50 4.112e-03 lr=0.01 1")
        plan = self.plan('"{pid} {samples_per_s:.1f}" on all')
        done = self.ok(self.mpi(plan, 2))
        pids = {line.split()[0] for line in done.out.splitlines() if re.match(r"\d+ \d+\.\d$", line)}
        self.assertEqual(len(pids), 2, "a process a rank")

    def test_the_mean_of_the_losses_since_the_line_before(self):
        """Of each rank its own, in one process and several, on all ranks and on one."""
        for who, ranks in ("on all", (0, 1, 2)), ("on rank 2", (2,)), ("", (0,)):
            text = """net n(batch = 4) { input x : f32[batch, 3]; input t : f32[batch, 1]; param w : f32[3, 1] = normal(0.5); loss mse(matmul(x, w), t); }
                train { data = normal(seed = 1); optimizer = sgd(lr = 0.05); steps = 10; log_every = EVERY; log "{rank} {global_step} {FIELD}" %s; } parallel { mode = data_parallel; }""" % who
            lines = []
            for every, field in (1, "loss"), (5, "mean_loss"):
                self.write("n.dsl", text.replace("EVERY", str(every)).replace("FIELD", field))
                plan = self.compile("n.dsl", "n%d.plan" % every, "--ranks", 3)
                lines.append([{(int(rank), int(step)): float(number) for rank, step, number in re.findall(r"(?m)^(\d) (\d+) (\d\S+)$", self.ok(result).out)} for result in (self.local(plan, 3), self.mpi(plan, 3))])
            for each, means in zip(*lines):
                self.assertEqual((len(each), sorted(means)), (10 * len(ranks), [(rank, step) for rank in ranks for step in (5, 10)]))
                for (rank, step), mean in means.items():
                    self.assertAlmostEqual(mean, sum(each[rank, step - i] for i in range(5)) / 5, places=12)

    def test_lines_that_count_from_0(self):
        more = [("log_every = 50;", "log_every = 50; log_from = 0;")]
        plan = self.plan('"{epoch} {step} {global_step} {total_steps}"', more)
        lines = [line for line in self.ok(self.local(plan, 2)).out.splitlines() if re.match(r"\d+ \d+ \d+ 500$", line)]
        self.assertEqual(lines, ["0 %d %d 500" % (step, step) for step in range(0, 500, 50)])
        self.write("net.dsl", edited(self.sample("oneflow_ddp.dsl"), *more))  # MindSpore's line
        done = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", 2), 2, "--metrics", "m.jsonl"))
        self.assertEqual(re.findall(r"(?m)^\[rank 0\] epoch: (\d) step: (\d+), loss is", done.out), [("0", str(step)) for step in range(0, 500, 50)])
        self.assertIn(b'"global_step": 51,', self.read("m.jsonl"), "figures count from 1")

    def test_the_rate_of_the_step_that_comes_next(self):
        plan = self.plan('"{lr} {next_lr}"', [("log_every = 50;", "log_every = 250; schedule = linear();")])
        lines = [line for line in self.ok(self.local(plan, 2)).out.splitlines() if re.match(r"\S+ \S+$", line) and line[0].isdigit()]
        self.assertEqual(lines, ["0.00502 0.005", "2e-05 0.0"] if lines[-1].endswith("0.0") else ["0.00502 0.005", "2e-05 0"])

    def test_wrong_templates_are_diagnosed(self):
        for template, words in (('"{los}"', "log has no field {los}"), ('"{loss:.4}"', "digits are those of a real number"), ('"{loss"', "not closed"),
                                ('"{loss}" on rank 2', "the rank is 0 to 1, not 2"), ('"{loss}" on some', "a log is on rank 0"), ("3", "")):
            done = run([harness.pcc, self.net(template), "--ranks", 2, "-o", self.path("x.plan")])
            self.assertEqual(done.code, 1, done)
            self.assertIn(words, done.err)

    def test_a_file_per_rank_and_metrics_as_json_lines(self):
        plan = self.plan('"{global_step} {loss}"')
        for result in (self.local(plan, 2, "--log-dir", self.path("a"), "--metrics", self.path("a.json")),
                       self.mpi(plan, 2, "--log-dir", self.path("b"), "--metrics", self.path("b.json"))):
            self.ok(result)
        for folder in "ab":
            for rank, last in ((0, "4.547473508864641e-12"), (1, "6.184563972055912e-11")):
                lines = self.read(folder, "rank_%d.log" % rank).decode().splitlines()
                self.assertEqual(len(lines), 10)
                self.assertEqual(lines[-1], "500 " + last)
            metrics = [json.loads(line) for line in self.read(folder + ".json").decode().splitlines()]
            self.assertEqual([m["global_step"] for m in metrics], list(range(50, 501, 50)))
            self.assertEqual(metrics[-1]["loss"], 4.547473508864641e-12)
            self.assertEqual(sorted(metrics[0]), ["epoch", "global_step", "loss", "lr", "samples_per_s", "seconds", "step"])
        self.assertFails(self.local(plan, 2, "--metrics", self.path("no", "such")), 3, "cannot be written")

    def test_fields_of_the_whole_training(self):
        plan = self.plan('"{global_step} of {total_steps} on {world_size}, {eta}"', [("steps     = 500;", "epochs = 4; steps = 500;")])
        lines = [line for line in self.ok(self.local(plan, 2)).out.splitlines() if " of 2000 on 2, " in line]
        self.assertEqual(len(lines), 40)
        self.assertRegex(lines[0], r"^50 of 2000 on 2, \d+ s$")
        self.assertEqual(lines[-1], "2000 of 2000 on 2, 0 s")
        done = run([harness.pcc, self.net('"{eta:.1f}"'), "--ranks", 2, "-o", self.path("x.plan")])
        self.assertEqual(done.code, 1, done)

    def norms(self, steps, clip):
        """The norms of the gradients of OneFlow's net, in doubles, and the scales of their noise."""
        rows, w, found, signal, noise = [([1, 2], 8), ([2, 3], 13), ([4, 6], 26), ([3, 1], 9)], [0.0, 0.0], [], 0, 0
        for _ in range(steps):
            off = [(x, 2 * (x[0] * w[0] + x[1] * w[1] - y)) for x, y in rows]
            own = [[sum(x[i] * d for x, d in off[r:r + 2]) for i in (0, 1)] for r in (0, 2)]
            g = [(a + b) / 2 for a, b in zip(*own)]
            whole, each = sum(v * v for v in g), sum(v * v for part in own for v in part) / 2
            signal, noise = 0.95 * signal + 0.05 * (2 * whole - each), 0.95 * noise + 0.05 * (each - whole) / (1 / 2 - 1 / 4)
            found.append((whole ** 0.5, noise / signal))
            w = [w[i] - 0.01 * g[i] * min(1, clip / found[-1][0]) for i in (0, 1)]
        return found

    def test_the_norm_of_gradients_is_before_clipping_and_the_same_on_any_ranks(self):
        for clip, more in ((1e9, []), (2, ["clip = norm(2);"])):
            net = self.net('"{grad_norm} {grad_norm:.3f}"', [("log_every = 50;", "log_every = 1; metrics = noise_scale;" + "".join(more)), ("steps     = 500;", "steps = 4;")])
            for ranks in (1, 2):
                plan = self.compile(net, "norm.plan", "--ranks", ranks, "--replicas", 2)
                out = self.ok(self.local(plan, ranks, "--metrics", "m.csv")).out.splitlines()[:8 // ranks:2 // ranks]  # a line a replica that the rank has
                rows = list(csv.DictReader(self.read("m.csv").decode().splitlines()))
                for expected, line, row in zip(self.norms(4, clip), out, rows):
                    self.assertClose([float(row["grad_norm"]), float(row["noise_scale"])], expected, 1e-4)
                    self.assertEqual(line, "%s %.3f" % (row["grad_norm"], float(row["grad_norm"])))

    def test_a_table_of_other_columns_is_not_gone_on_with(self):
        plan = self.compile(self.net('"{loss}"', [("log_every = 50;", "log_every = 50; checkpoint every 200 steps;")]), "c.plan", "--ranks", 2)
        self.ok(self.local(plan, 2, "--metrics", "c.csv"))
        table = self.read("c.csv")
        more = self.compile(self.net('"{loss}"', [("log_every = 50;", "log_every = 50; checkpoint every 200 steps; metrics = grad_norm;")]), "more.plan", "--ranks", 2)
        self.assertFails(self.local(more, 2, "--metrics", "c.csv", "--resume", "latest", "--checkpoint-dir", plan + ".checkpoints"), 3, r"c\.csv: holds .* or other columns")
        self.assertEqual(self.read("c.csv"), table)

    def test_metrics_of_a_resumed_run_have_each_step_once(self):
        plan = self.plan('"{loss}"', [("log_every = 50;", "log_every = 50; checkpoint every 200 steps;")])
        metrics = lambda: [json.loads(line)["global_step"] for line in self.read("m.json").decode().splitlines()]
        self.ok(self.local(plan, 2, "--metrics", "m.json"))
        self.assertEqual(metrics(), list(range(50, 501, 50)))
        whole = self.read("m.json")
        # The newest checkpoint is of step 400: what came after it is done again. A run that was killed may have left half a line, or none of it may be there.
        for rest in (b"", b'{"epoch": 1, "st', b'{"epoch": 1, "step": 450, "global_step": 450'):
            self.write("m.json", whole + rest)
            self.ok(self.local(plan, 2, "--metrics", "m.json", "--resume", "latest"))
            self.assertEqual(metrics(), list(range(50, 501, 50)))
        self.write("m.json", whole[:len(whole) // 2])
        self.ok(self.local(plan, 2, "--metrics", "m.json", "--resume", "latest"))
        self.assertEqual(metrics()[-2:], [450, 500])
        os.remove(self.path("m.json"))
        self.ok(self.local(plan, 2, "--metrics", "m.json", "--resume", "latest"))
        self.assertEqual(metrics(), [450, 500])
        for other in (b"my notes\n", b'{"a": 1}\n'):
            self.write("m.json", other)
            self.assertFails(self.local(plan, 2, "--metrics", "m.json", "--resume", "latest"), 3, "holds something else than the metrics")
            self.assertEqual(self.read("m.json"), other)

    def evaluated(self, name="net.plan"):
        """A net that is evaluated at steps 200 and 400, with a checkpoint there."""
        self.write("eval.dsl", """net n(batch = 4) {
            input x : f32[batch, 3]; input label : i32[batch];
            param w : f32[3, 2] = normal(0.1);
            loss cross_entropy(matmul(x, w), label);
        }
        train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 500; log_every = 100; checkpoint every 200 steps; }
        eval { data = normal(seed = 2); steps = 2; every = 200 steps; metrics = loss, accuracy; }
        """)
        return self.compile("eval.dsl", name, "--ranks", 2)

    def test_metrics_as_a_table(self):
        plan = self.evaluated()
        self.ok(self.local(plan, 2, "--metrics", "m.csv", "--checkpoint-dir", "a"))
        self.ok(self.local(plan, 2, "--metrics", "m.json", "--checkpoint-dir", "b"))
        rows = lambda: list(csv.DictReader(self.read("m.csv").decode().splitlines()))
        whole, lines = rows(), [json.loads(line) for line in self.read("m.json").decode().splitlines()]
        self.assertEqual(list(whole[0]), ["epoch", "step", "global_step", "eval", "rows", "loss", "lr", "seconds", "samples_per_s", "accuracy"])
        self.assertEqual([(row["global_step"], row["eval"]) for row in whole],
                         [("100", "0"), ("200", "0"), ("200", "1"), ("300", "0"), ("400", "0"), ("400", "1"), ("500", "0")])
        for row, line in zip(whole, lines):
            self.assertEqual([float(row["loss"]), row["eval"] == "1", row["rows"]], [line["loss"], line.get("eval", False), str(line.get("rows", ""))])
            self.assertEqual(row["accuracy"], "%g" % line["accuracy"] if "accuracy" in line else "")
        text = self.read("m.csv")
        for rest in b"", b"1,5":
            self.write("m.csv", text + rest)
            self.ok(self.local(plan, 2, "--metrics", "m.csv", "--checkpoint-dir", "a", "--resume", "latest"))
            self.assertEqual([(row["global_step"], row["eval"], row["loss"]) for row in rows()], [(row["global_step"], row["eval"], row["loss"]) for row in whole])
        self.write("m.csv", "a,b\n1,2\n")
        self.assertFails(self.local(plan, 2, "--metrics", "m.csv", "--checkpoint-dir", "a", "--resume", "latest"), 3, "holds something else than the metrics")

    def test_metrics_as_events_of_tensorboard(self):
        plan = self.evaluated()
        self.ok(self.local(plan, 2, "--metrics", "m.json", "--checkpoint-dir", "a"))
        self.ok(self.local(plan, 2, "--metrics", "runs/", "--checkpoint-dir", "b"))
        name, = os.listdir(self.path("runs"))
        self.assertRegex(name, r"^events\.out\.tfevents\.\d+\..*\.\d+$")
        events = [fields(event) for event in records(self.read("runs", name))]
        self.assertEqual(events[0][3], [b"brain.Event:2"])
        self.assertEqual((events[1].get(2, [0]), fields(events[1][7][0])), ([0], {1: [1]}))
        found = [(event[2][0], scalars(event[5][0])) for event in events[2:]]
        lines = [json.loads(line) for line in self.read("m.json").decode().splitlines()]
        self.assertEqual([step for step, _ in found], [line["global_step"] for line in lines])
        for (_, numbers), line in zip(found, lines):
            kind = "eval" if line.get("eval") else "train"
            self.assertEqual(sorted(numbers), sorted(kind + "/" + key for key in line if key in ("loss", "lr", "samples_per_s", "accuracy")))
            self.assertEqual(numbers[kind + "/loss"], struct.unpack("<f", struct.pack("<f", line["loss"]))[0])
        self.ok(self.local(plan, 2, "--metrics", "runs", "--checkpoint-dir", "b", "--resume", "latest"))
        again, = set(os.listdir(self.path("runs"))) - {name}
        events = [fields(event) for event in records(self.read("runs", again))]
        self.assertEqual((events[1][2], [event[2][0] for event in events[2:]]), ([401], [400, 500]))

    def test_a_terminal_sees_progress_and_a_file_does_not(self):
        plan = self.plan('"{loss}"', [("steps     = 500;", "steps     = 60000;"), ("log_every = 50", "log_every = 60000")])
        self.assertNotIn("samples/s", self.ok(self.local(plan, 2)).err)
        for launcher in [harness.prun, "--ranks", 2], [harness.prun, "--nproc", 2], [harness.mpirun, "-n", 2, harness.prun]:
            if launcher[0]:
                with self.subTest(launcher=launcher):
                    self.assertRegex(self.progress([*launcher, plan]), r"epoch 1/1  step \d+/60000  loss \S+  lr 0.\d+  \S+ samples/s  .* left")
        with self.subTest("a narrow one"):
            self.assertEqual({len(line) for line in re.findall(r"epoch[^\x1b]*", self.progress([harness.prun, "--ranks", 2, plan], columns=30))}, {29})

    def test_losses_that_go_elsewhere_leave_the_progress_line(self):
        self.write("often.dsl", "net n { param w : f32[64, 64] = ones; loss mean(w * w); } train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.01); steps = 100000; log_every = 100; }")
        plan = self.compile("often.dsl", "often.plan")
        for launcher in [harness.prun], [harness.mpirun, "-n", 1, harness.prun]:
            if launcher[0]:
                with self.subTest(launcher=launcher):
                    seen = self.progress([*launcher, plan])
                    shown = seen.count("left\x1b[K")
                    self.assertGreater(shown, 1, "more often than before the first loss")
                    self.assertEqual(seen.count("\x1b[K"), shown + 1, "nothing but the end removes it")

    def progress(self, command, columns=200):
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        child = harness.started(command, self, stdout=subprocess.DEVNULL, stderr=other, env={"TERM": "xterm"})
        os.close(other)
        seen = b""
        while True:
            try:
                got = os.read(main, 4096)
            except OSError:
                break
            if not got:
                break
            seen += got
        self.assertEqual(child.wait(), 0)
        os.close(main)
        self.assertTrue(seen.decode().rstrip().endswith("\x1b[K"), "removed at the end")
        return seen.decode()


if __name__ == "__main__":
    harness.main()
