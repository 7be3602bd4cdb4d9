"""The program eval: a loss over all rows of held-out data, each once, on any number of ranks; predictions in file order.

The expected numbers are computed here, in double precision, from the parameters that the run saved.
"""
import json
import math
import os
import random
import re
import struct

import harness

EVAL = re.compile(r"^(?:epoch: (\d+)(?: step: (\d+))?, )?eval: loss is (\S+?)(?:, accuracy is (\S+))? \((\d+) rows?\)$", re.M)

NET = """
net held_out(batch = 16, in_dim = 6, hidden_dim = 8, out_dim = 4) {
    input x     : f32[batch, in_dim];
    input label : f32[batch, out_dim];
    param w     : f32[in_dim, hidden_dim]  = normal(0.5);
    param w2    : f32[hidden_dim, out_dim] = normal(0.5);
    h = matmul(x, w) SHARD;
    a = relu(h);
    y = matmul(a, w2);
    loss LOSS;
}
train {
    data      = npy(x = "x.npy", label = "label.npy");
    optimizer = momentum(lr = 0.1, momentum = 0.5);
    epochs    = 3;
}
eval {
    every   = EVERY;
    batch   = BATCH;
    data    = npy(x = "held_x.npy", label = "held_label.npy");
    metrics = loss;
}
parallel { MODE }
"""


def npy(rows):
    """A .npy file of f32[len(rows), len(rows[0])]."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"".join(struct.pack("<%df" % len(r), *r) for r in rows)


def read_npy(content):
    """Rows of a .npy file of f32[n, m]."""
    n = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + n].decode()
    shape = [int(word) for word in re.search(r"'shape': \(([^)]*)\)", header)[1].split(",") if word.strip()]
    assert content[:8] == b"\x93NUMPY\x01\x00" and "'descr': '<f4'" in header and (10 + n) % 64 == 0, header
    values = struct.unpack("<%df" % (shape[0] * shape[1]), content[10 + n:])
    return [list(values[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]


def tensors(content):
    """name -> (shape, values) of a safetensors file of f32."""
    n = struct.unpack("<Q", content[:8])[0]
    out = {}
    for name, tensor in json.loads(content[8:8 + n]).items():
        if name == "__metadata__": continue
        begin, end = tensor["data_offsets"]
        out[name] = tensor["shape"], struct.unpack("<%df" % ((end - begin) // 4), content[8 + n + begin:8 + n + end])
    return out


def area(scores, labels):
    """The share of pairs of a row of class 1 and one of class 0 that stand in this order, equal ones counted half."""
    pairs = [(a > b) + (a == b) / 2 for a, y in zip(scores, labels) if y for b, other in zip(scores, labels) if not other]
    return sum(pairs) / len(pairs)


class Evaluation(harness.Case):
    HELD = 37  # rows: divided by no batch and no number of ranks here

    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        rows = lambda n, m: [[draw.uniform(-1, 1) for _ in range(m)] for _ in range(n)]
        self.x, self.label = rows(self.HELD, 6), rows(self.HELD, 4)
        for name, content in ("x", rows(32, 6)), ("label", rows(32, 4)), ("held_x", self.x), ("held_label", self.label):
            self.write(name + ".npy", npy(content))

    def plan(self, ranks, name=None, shard="", loss="mse(y, label)", every="epoch", batch=16, mode="mode = auto;", more=(), edit=lambda text: text):
        text = NET.replace("SHARD", shard and "shard " + shard).replace("LOSS", loss).replace("EVERY", every).replace("BATCH", str(batch)).replace("MODE", mode)
        name = name or "net%d" % ranks
        self.write(name + ".dsl", edit(text))
        done = harness.run(harness.compiling(name + ".dsl", "--ranks", ranks, "-o", name + ".plan", *more, cwd=self.folder), cwd=self.folder)
        self.assertEqual(done.code, 0, done)
        return name + ".plan"

    def prun(self, *words, code=0):
        done = harness.run([harness.prun, *words], cwd=self.folder)
        self.assertEqual(done.code, code, done)
        return done

    def answers(self, weights):
        """y of every held-out row, in double precision."""
        (shape, w), (shape2, w2) = weights["w"], weights["w2"]
        out = []
        for row in self.x:
            hidden = [max(0.0, sum(row[i] * w[i * shape[1] + j] for i in range(shape[0]))) for j in range(shape[1])]
            out.append([sum(hidden[i] * w2[i * shape2[1] + j] for i in range(shape2[0])) for j in range(shape2[1])])
        return out

    def expected(self, weights, reduce=lambda squares: sum(squares) / len(squares)):
        rows = [reduce([(a - b) ** 2 for a, b in zip(y, label)]) for y, label in zip(self.answers(weights), self.label)]
        return sum(rows) / len(rows)

    def test_every_row_counts_once_on_any_number_of_ranks(self):
        losses = set()
        for ranks, shard in (1, ""), (2, ""), (3, ""), (4, "((2, 2), (2, 1))"), (8, "((2, 2), (2, 2))"), (8, ""):
            for batch in 16, 5, 64:
                plan = self.plan(ranks, shard=shard, batch=batch)
                done = self.prun("--ranks", ranks, plan, "--save", "w.safetensors")
                found = EVAL.findall(done.out)
                self.assertEqual([(epoch, rows) for epoch, _, _, _, rows in found], [("1", "37"), ("2", "37"), ("3", "37")], done)
                loss = float(found[-1][2])
                self.assertAlmostEqual(loss, self.expected(tensors(self.read("w.safetensors"))), delta=1e-6 * loss + 1e-7)
                losses.add(round(loss, 5))
        self.assertLessEqual(max(losses) - min(losses), 2e-5)

    def test_steps_of_several_batches_are_trainings_alone(self):
        """An eval has no batches to accumulate: 37 rows are neither fewer nor too few for a step."""
        for batch, accumulate in (16, 2), (5, 4), (64, 2):
            plan = self.plan(2, batch=batch, edit=lambda text: text.replace("epochs    = 3;", "epochs = 3; accumulate = %d; last = pad;" % accumulate), more=("-D", "batch=8"))
            done = self.prun("--ranks", 2, plan, "--save", "w.safetensors")
            found = EVAL.findall(done.out)
            self.assertEqual([rows for _, _, _, _, rows in found], ["37", "37", "37"], done)
            loss = float(found[-1][2])
            self.assertAlmostEqual(loss, self.expected(tensors(self.read("w.safetensors"))), delta=1e-6 * loss + 1e-7)

    def test_a_loss_that_is_a_sum_is_the_mean_of_the_rows_sums(self):
        plan = self.plan(4, loss='mse(y, label, reduction = "sum")', edit=lambda text: text.replace("lr = 0.1", "lr = 0.001"))
        loss = float(EVAL.findall(self.prun("--ranks", 4, plan, "--save", "w.safetensors").out)[-1][2])
        self.assertAlmostEqual(loss, self.expected(tensors(self.read("w.safetensors")), sum), delta=2e-6 * loss)

    def test_sums_over_a_batch_divided_by_its_rows_are_means(self):
        """Whatever the batch of the eval is: it is that of a row alone."""
        total = "sum((y - label) * (y - label))"
        for loss, mode, of in (("mse(y, label, reduction = sum) / batch", "", sum), ("1.0 / size(x, 0) * %s" % total, "", sum),
                               ("%s / (batch * out_dim) + 0.0 * sum(w)" % total, "", lambda squares: sum(squares) / 4), ("-(-0.5 * %s) / batch * 2" % total, "", sum),
                               ("%s / batch" % total, "mode = data_parallel;", sum), ("%s / 37" % total, "", lambda squares: sum(squares) / 37)):
            for batch in 5, 16, 37:
                plan = self.plan(3, loss=loss, batch=batch, mode=mode or "mode = auto;", edit=lambda text: text.replace("lr = 0.1", "lr = 0.001"), more=("-D", "batch=8"))
                found = float(EVAL.findall(self.prun("--ranks", 3, plan, "--save", "w.safetensors").out)[-1][2])
                self.assertAlmostEqual(found, self.expected(tensors(self.read("w.safetensors")), of), delta=2e-6 * found, msg="%s, %d rows" % (loss, batch))

    def test_rows_stay_rows_where_values_are_turned_and_joined(self):
        turned = "t = transpose(reshape(y, shape = (batch, 2, 2)), perm = (1, 0, 2)) * 1.0; flat = reshape(transpose(t, perm = (1, 0, 2)), shape = (batch * 2, 2)); " \
                 "back = reshape(softmax(flat) * 0.0 + flat, shape = (batch, 4)); loss mse(back, label);"
        for batch in 5, 1, 16:
            plan = self.plan(2, batch=batch, edit=lambda text: text.replace("loss mse(y, label);", turned))
            loss = float(EVAL.findall(self.prun("--ranks", 2, plan, "--save", "w.safetensors").out)[-1][2])
            self.assertAlmostEqual(loss, self.expected(tensors(self.read("w.safetensors"))), delta=2e-6 * loss)

    def test_rows_that_depend_on_their_batch_are_refused(self):
        """Rows that only fill it up would count in it; and a first dimension of the batch's size need not be the batch."""
        def fails(words, statement, last="drop", eval_data=None):
            text = NET.replace("SHARD", "").replace("loss LOSS;", statement).replace("EVERY", "epoch").replace("BATCH", "8").replace("MODE", "")
            text = text.replace("epochs    = 3;", "epochs = 3; last = %s;" % last)
            self.write("mixed.dsl", re.sub(r"(?s)eval \{.*?\}\n", eval_data, text) if eval_data is not None else text)
            done = harness.run(harness.compiling("mixed.dsl", "-D", "batch=8", "--ranks", 2, "-o", "mixed.plan", cwd=self.folder), cwd=self.folder)
            self.assertEqual(done.code, 1 if words else 0, done)
            self.assertIn(words, done.err)

        centred = "d = y - mean(y, axes = 0, keep_dims = true); loss mse(d, label);"
        depends = "depends on the other rows of its batch"
        for statement in centred, "loss mse(softmax(y, axis = 0), label);", "loss mse(matmul(matmul(y, transpose(y)), y), label);":
            fails(depends, statement)
            fails(depends, statement, "pad", "")
            fails("", statement, "drop", "eval { data = normal(seed = 1); steps = 3; }\n")
        fails("rows cannot be told apart", "loss mean(square(transpose(h)));")  # [hidden_dim, batch], both 8
        fails("cannot be left out", "loss mean(square(transpose(h)));", "pad", "")

    def test_terms_of_a_loss_are_told_apart_by_rows(self):
        plan = self.plan(4, loss="mse(y, label) + 0.5 * mean(a) + sum(w) * 0.001")
        loss = float(EVAL.findall(self.prun("--ranks", 4, plan, "--save", "w.safetensors").out)[-1][2])
        weights = tensors(self.read("w.safetensors"))
        shape, w = weights["w"]
        hidden = [max(0.0, sum(row[i] * w[i * shape[1] + j] for i in range(shape[0]))) for row in self.x for j in range(shape[1])]
        expected = self.expected(weights) + 0.5 * sum(hidden) / len(hidden) + 0.001 * sum(w)
        self.assertAlmostEqual(loss, expected, delta=2e-6 * abs(expected))

    def test_replicas_divide_the_rows_among_them(self):
        for ranks, more in (2, ()), (4, ()), (2, ("--replicas", "4")):
            more = ("-D", "batch=8", *more)
            plan = self.plan(ranks, mode="mode = data_parallel;", batch=5, more=more)
            loss, rows = [(float(m[2]), m[4]) for m in EVAL.findall(self.prun("--ranks", ranks, plan, "--save", "w.safetensors").out)][-1]
            weights = tensors(self.read("w.safetensors"))
            self.assertEqual(rows, "37")
            self.assertAlmostEqual(loss, self.expected(weights), delta=2e-6 * loss)
            self.prun("--ranks", ranks, plan, "--load", "w.safetensors", "--predict", "y.npy")
            self.check_predictions("y.npy", weights)

    def check_predictions(self, name, weights):
        found, expected = read_npy(self.read(name)), self.answers(weights)
        self.assertEqual((len(found), len(found[0])), (len(expected), len(expected[0])))
        for row, other in zip(found, expected):
            for a, b in zip(row, other):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def test_metrics_are_those_of_all_rows_however_they_come_in_batches(self):
        """Scores and labels are read from files, so that every figure is known here."""
        rows, classes, draw = 37, 7, random.Random(5)
        for n in 2, classes:
            scores = [[draw.randrange(-50, 50) + k / 8 for k in range(n)] for _ in range(rows)]
            labels = [draw.randrange(n) for _ in range(rows)]
            self.write("d.csv", "".join(",".join(map(str, row + [label])) + "\n" for row, label in zip(scores, labels)))
            best = [max(range(n), key=lambda k: row[k]) for row in scores]
            hits = [sum(b == k == y for b, y in zip(best, labels)) for k in range(n)]
            found, there = [best.count(k) for k in range(n)], [labels.count(k) for k in range(n)]
            share = lambda part, whole: part / whole if whole else 0.0
            each = [(share(hits[k], found[k]), share(hits[k], there[k]), share(2 * hits[k], found[k] + there[k])) for k in range(n)]
            loss = sum(math.log(sum(math.exp(v / 32) for v in row)) - row[y] / 32 for row, y in zip(scores, labels)) / rows
            expected = {"accuracy": sum(hits) / rows, "top5": sum(sum(v > row[y] for v in row) < 5 for row, y in zip(scores, labels)) / rows, "perplexity": math.exp(loss)}
            expected.update(("%s_macro" % name, sum(one[k] for one in each) / n) for k, name in enumerate(("precision", "recall", "f1")))
            if n == 2:
                expected.update(zip(("precision", "recall", "f1"), each[1]))
                expected["auc"] = area([row[1] - row[0] for row in scores], labels)
            self.write("net.dsl", """net n(batch = 6) { input x : f64[batch, %d]; input y : i32[batch]; param w : f64[1] = ones; loss cross_entropy(x * w / 32, y); }
                train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); steps = 1; }
                eval { every = end; batch = 8; data = csv("d.csv"); metrics = loss, %s; }""" % (n, ", ".join(expected)))
            for ranks in 1, 2, 3:
                plan = self.path("net.plan")
                self.ok(harness.run(harness.compiling(self.path("net.dsl"), "--ranks", ranks, "-o", plan)))
                printed = re.search(r"eval: (.*) \(37 rows\)", self.ok(self.local(plan, ranks)).out).group(1)
                figures = dict(part.split(" is ") for part in printed.split(", "))
                for name, value in expected.items():
                    self.assertAlmostEqual(float(figures[name]), value, delta=1e-9, msg="%s on %d ranks" % (name, ranks))

    def test_a_macro_average_is_of_the_classes_that_occur(self):
        """Of three classes the last neither is a row's nor an answer: f1 of classes 0 and 1 are 2/3 and 4/5."""
        self.write("d.csv", "".join("%d,%d,-9,%d\n" % row for row in ((1, 0, 0), (0, 1, 0), (0, 1, 1), (0, 1, 1))))
        self.write("net.dsl", """net n(batch = 4) { input x : f64[batch, 3]; input y : i32[batch]; param w : f64[1] = ones; loss cross_entropy(x * w, y); }
            train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); steps = 1; }
            eval { every = end; data = csv("d.csv"); metrics = precision(macro), recall(macro), f1(macro); }""")
        plan = self.path("net.plan")
        self.ok(harness.run(harness.compiling(self.path("net.dsl"), "-o", plan)))
        found = dict(re.findall(r"(\w+_macro) is ([0-9.]+)", self.ok(self.local(plan, 1)).out))
        for name, value in ("precision_macro", 5 / 6), ("recall_macro", 3 / 4), ("f1_macro", (2 / 3 + 4 / 5) / 2):
            self.assertAlmostEqual(float(found[name]), value, places=12)

    def test_the_area_under_a_curve_counts_pairs_of_rows_and_halves_of_equal_ones(self):
        """scikit-learn's roc_auc_score, by its definition: of one logit a row, with many ties, in batches that are filled up, of replicas in several processes too."""
        draw = random.Random(7)
        scores = [draw.randrange(6) / 4 for _ in range(37)]
        targets = [int(draw.random() < 0.3 + score / 4) for score in scores]
        self.write("d.csv", "".join("%r,%d\n" % pair for pair in zip(scores, targets)))
        self.write("net.dsl", """net n(batch = 4) { input x : f32[batch, 1]; input t : f32[batch, 1]; param w : f32[1] = ones; loss bce_with_logits(x * w, t); }
            train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); steps = 1; }
            eval { every = end; data = csv("d.csv"); metrics = auc, loss; }""")
        expected = area(scores, targets)
        self.assertNotEqual(expected, area([-score for score in scores], targets))
        for ranks, mode, run in ((1, "auto", self.local), (3, "auto", self.mpi), (2, "data_parallel", self.local), (3, "data_parallel", self.mpi)):
            plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--mode", mode)
            self.assertEqual(float(re.search(r"auc is (\S+) ", self.ok(run(plan, ranks)).out).group(1)), expected, "%d ranks, %s" % (ranks, mode))
        self.write("d.csv", "1,1\n" * 12)
        self.assertIn("auc is nan", self.ok(self.local(plan, 3)).out, "no row of class 0")

    def test_distances_from_a_target_and_metrics_that_do_not_apply(self):
        draw = random.Random(6)
        pairs = [(draw.randrange(-64, 64) / 8, draw.randrange(-64, 64) / 8) for _ in range(29)]
        self.write("d.csv", "".join("%r,%r\n" % pair for pair in pairs))
        body = """net n(batch = 4) { input x : f64[batch, 1]; input y : f64[batch, 1]; param w : f64[1] = ones; loss mse(x * w, y); }
            train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); steps = 1; }
            eval { every = end; data = csv("d.csv"); metrics = loss, %s; }"""
        plan = self.path("net.plan")
        for ranks in 1, 2, 3:
            self.ok(harness.run(harness.compiling(self.write("net.dsl", body % "mae, rmse"), "--ranks", ranks, "-o", plan)))
            found = re.search(r"mae is (\S+), rmse is (\S+) ", self.ok(self.local(plan, ranks)).out)
            self.assertAlmostEqual(float(found.group(1)), sum(abs(a - b) for a, b in pairs) / 29, delta=1e-12)
            self.assertAlmostEqual(float(found.group(2)), math.sqrt(sum((a - b) ** 2 for a, b in pairs) / 29), delta=1e-12)
        for metric, words in (("f1", "f1 is for classes"), ("top5", "top5 is for classes"), ("auc", "auc is for two classes"), ("f3", "unknown metric 'f3'")):
            self.assertFails(harness.run(harness.compiling(self.write("net.dsl", body % metric), "-o", plan)), 1, words)
        self.assertFails(harness.run(harness.compiling(self.write("net.dsl", body.replace("mse(x * w, y)", "mean(x * w - y)") % "rmse"), "-o", plan)), 1, "rmse is for a prediction and its target")
        three = """net n() { input x : f64[4, 3]; input y : i32[4]; param w : f64[1] = ones; loss cross_entropy(x * w, y); }
            train { data = csv("d.csv"); optimizer = sgd(lr = 0.0); } eval { data = csv("d.csv"); metrics = f1; }"""
        self.assertFails(harness.run(harness.compiling(self.write("net.dsl", three), "-o", plan)), 1, "f1 is that of class 1 of two, and here are 3 classes")
        self.assertFails(harness.run(harness.compiling(self.write("net.dsl", three.replace("f1", "auc")), "-o", plan)), 1, "auc is for two classes")

    def test_a_penalty_is_what_no_data_goes_into_once_on_any_ranks(self):
        """With its signs and factors, of each step and of the eval, whose batches are filled up; w and u are known at the beginning, and saved at the end."""
        draw, rows, lr = random.Random(8), 23, 0.01
        x = [[draw.uniform(-1, 1) for _ in range(4)] for _ in range(rows)]
        y = [draw.uniform(-1, 1) for _ in range(rows)]
        self.write("d.csv", "".join(",".join(map(repr, [*row, label])) + "\n" for row, label in zip(x, y)))
        cases = (("mse(p, y) + 0.25 * sum(square(w)) - abs(w[1, 0]) / 8", lambda w, u: sum(v * v for v in w) / 4 - abs(w[1]) / 8),
                 ("2 * (mse(p, y) - mean(square(w)) * 3)", lambda w, u: -6 * sum(v * v for v in w) / 4), ("u * u - -mse(p, y)", lambda w, u: u * u),
                 ("u + mse(p, y)", lambda w, u: u), ("mse(p, y) - u", lambda w, u: -u), ("-(u - mse(p, y)) / 4", lambda w, u: -u / 4))
        for loss, penalty in cases:
            for ranks, mode, batch, more in ((1, "auto", 6, ""), (3, "auto", 6, ""), (4, "semi_auto", 6, "accumulate = 2;"), (2, "data_parallel", 3, ""), (2, "manual", 3, ""), (4, "auto; stages = 2", 6, "micro_batches = 2;")):
                self.write("net.dsl", """net n(batch = %d) { input x : f64[batch, 4]; input y : f64[batch, 1]; param w : f64[4, 1] = [[0.5], [-1.5], [2.0], [0.25]]; param u : f64[] = 0.75;
                    p = matmul(x, w); loss %s; }
                    train { data = csv("d.csv"); optimizer = sgd(lr = %r); epochs = 2; metrics = penalty; %s %s }
                    eval { every = epoch; batch = 5; data = csv("d.csv"); metrics = loss, penalty; }
                    parallel { mode = %s; }""" % (batch, loss, lr, more, "last = short;" if ranks == 3 else "", mode))
                plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
                what = "%s, %d ranks, %s" % (loss, ranks, mode)
                done = self.ok(self.local(plan, ranks, "--metrics", "m.jsonl", "--save", self.path("w.safetensors")))
                lines = [json.loads(line) for line in self.read("m.jsonl").decode().splitlines()]
                self.assertAlmostEqual(lines[0]["penalty"], penalty([0.5, -1.5, 2.0, 0.25], 0.75), delta=1e-12, msg=what)
                self.assertNotEqual(lines[1]["penalty"], lines[0]["penalty"], "before an update")
                if mode == "manual":
                    continue  # each rank has parameters of its own
                if "stages" in mode:
                    self.assertIn("2 stages", self.ok(harness.run(harness.compiling(self.path("net.dsl"), "--ranks", ranks, "--stats", "-o", self.path("other.plan")))).out)
                ends = self.read("w.safetensors")
                names = sorted((info["data_offsets"][0], name) for name, info in json.loads(ends[8:8 + struct.unpack("<Q", ends[:8])[0]]).items() if name != "__metadata__")
                values = struct.unpack("<5d", ends[-40:])
                w, u = (values[1:], values[0]) if names[0][1] == "u" else (values[:4], values[4])
                evals = [line for line in lines if "eval" in line]
                data = sum((sum(a * b for a, b in zip(row, w)) - label) ** 2 for row, label in zip(x, y)) / rows
                factor = 2 if loss.startswith("2 *") else 1 / 4 if loss.endswith("/ 4") else 1
                self.assertAlmostEqual(evals[-1]["penalty"], penalty(w, u), delta=1e-12, msg=what)
                self.assertAlmostEqual(evals[-1]["loss"], factor * data + penalty(w, u), delta=1e-12, msg=what)
                self.assertRegex(done.out, r"eval: loss is \S+, penalty is \S+ \(23 rows\)")
                alone = self.ok(self.local(plan, ranks, "--eval", "--load", self.path("w.safetensors"))).out
                self.assertAlmostEqual(float(re.search(r"penalty is (\S+) ", alone).group(1)), penalty(w, u), delta=1e-12, msg=what)
        self.ok(self.local(plan, ranks, "--metrics", "m.csv"))
        self.assertEqual(self.read("m.csv").decode().splitlines()[0], "epoch,step,global_step,eval,rows,loss,lr,seconds,samples_per_s,penalty")

    def test_a_loss_without_a_penalty_has_none_to_report(self):
        """A factor is no term; neither is what depends on the data."""
        for loss in "mse(p, y)", "2 * mse(p, y) / u", "mse(p, y) + 0.1 * mean(abs(p))", "sqrt(mse(p, y) + sum(w))":
            for train, evaluation in (("penalty", "loss"), ("grad_norm", "penalty")):
                if loss.startswith("sqrt") and evaluation == "penalty":
                    continue
                self.write("net.dsl", """net n(batch = 3) { input x : f64[batch, 4]; input y : f64[batch, 1]; param w : f64[4, 1] = ones; param u : f64[] = 2.0; p = matmul(x, w); loss %s; }
                    train { data = csv("d.csv"); optimizer = sgd(lr = 0.1); metrics = %s; } eval { data = csv("d.csv"); metrics = %s; every = %s; }""" % (loss, train, evaluation, "never" if loss.startswith("sqrt") else "end"))
                self.assertFails(harness.run(harness.compiling(self.path("net.dsl"), "-o", self.path("net.plan"))), 1, "penalty is what no data goes into, and the loss of net n has no such term\n")

    def test_predictions_stand_in_file_order_without_filler(self):
        for ranks, shard in (1, ""), (2, ""), (3, ""), (8, "((2, 2), (2, 2))"):
            plan = self.plan(ranks, shard=shard, batch=10)
            self.prun("--ranks", ranks, plan, "--save", "w.safetensors")
            done = self.prun("--ranks", ranks, plan, "--load", "w.safetensors", "--predict", "y.npy")
            self.assertRegex(done.out, r"(?m)^predictions: y.npy, 37 rows of f32\[4\]$")
            self.assertNotIn("step", done.out)
            self.check_predictions("y.npy", tensors(self.read("w.safetensors")))

    def test_where_no_prediction_can_lie_is_said_before_there_is_one(self):
        plan = self.plan(2)
        os.mkdir(self.path("folder"))
        for path, words in (".", "is a directory"), ("folder", "is a directory"), ("no/y.npy", "cannot be made"):
            done = self.prun("--ranks", 2, "--predict", path, plan, code=3)
            self.assertEqual(done.out, "", done)
            self.assertIn(words, done.err)

    def test_parameters_that_nobody_loaded_are_noted(self):
        plan = self.plan(2)
        self.prun("--ranks", 2, plan, "--save", "w.safetensors")
        self.assertIn("neither --load nor --resume", self.prun("--ranks", 2, "--eval", plan).err)
        self.assertEqual(self.prun("--ranks", 2, "--eval", "--load", "w.safetensors", plan).err, "")

    def test_another_value_can_be_the_prediction(self):
        plan = self.plan(4, shard="((1, 2), (2, 2))", edit=lambda text: text.replace("metrics = loss;", "metrics = loss; predict = h;"))
        self.prun("--ranks", 4, plan, "--save", "w.safetensors")
        self.prun("--ranks", 4, plan, "--load", "w.safetensors", "--predict", "h.npy")
        shape, w = tensors(self.read("w.safetensors"))["w"]
        found = read_npy(self.read("h.npy"))
        self.assertEqual(len(found), 37)
        for row, h in zip(self.x, found):
            for j in range(shape[1]):
                self.assertAlmostEqual(h[j], sum(row[i] * w[i * shape[1] + j] for i in range(shape[0])), delta=1e-5)

    def test_labels_are_not_needed_for_predictions(self):
        """No file for them, or one that is not there; y.npy is the same, and a loss cannot be had."""
        for ranks, shard in (1, ""), (3, ""), (8, "((2, 2), (2, 2))"):
            plan = self.plan(ranks, shard=shard, batch=10)
            self.prun("--ranks", ranks, plan, "--save", "w.safetensors", "--load", self.begin(ranks, plan))
            weights = tensors(self.read("w.safetensors"))
            os.rename(self.path("held_label.npy"), self.path("away.npy"))
            done = self.prun("--ranks", ranks, plan, "--load", "w.safetensors", "--predict", "y.npy")
            os.rename(self.path("away.npy"), self.path("held_label.npy"))
            self.assertEqual((done.out, done.err), ("predictions: y.npy, 37 rows of f32[4]\n", "prun: note: held_label.npy, the data of input label, cannot be read: predictions without a loss\n"))
            self.check_predictions("y.npy", weights)
            without = lambda text: text.replace('npy(x = "held_x.npy", label = "held_label.npy")', 'npy(x = "held_x.npy")')
            plan = self.plan(ranks, shard=shard, batch=10, every="never", edit=without)
            for launch in [["--ranks", ranks]] + ([None] if ranks == 3 and harness.mpirun else []):
                if launch:
                    done = self.prun(*launch, plan, "--load", "w.safetensors", "--predict", "y2.npy")
                else:
                    done = harness.run([harness.mpirun, "-n", 3, harness.prun, plan, "--load", "w.safetensors", "--predict", "y2.npy"], cwd=self.folder)
                    self.assertEqual(done.code, 0, done)
                self.assertIn("prun: note: there is no data for input label: predictions without a loss\n", done.err)
                self.assertEqual(self.read("y2.npy"), self.read("y.npy"))
            done = self.prun("--ranks", ranks, plan, "--load", "w.safetensors", "--eval", code=2)
            self.assertIn("the eval block gives no data for input label: --predict can do without, a loss cannot", done.err)
        self.write("held_x.npy", b"")
        self.prun("--ranks", ranks, plan, "--load", "w.safetensors", "--predict", "y2.npy", code=3)

    def test_other_files_may_be_evaluated(self):
        plan = self.plan(3, batch=10)
        self.prun("--ranks", 3, plan, "--save", "w.safetensors")
        weights = tensors(self.read("w.safetensors"))
        os.rename(self.path("held_x.npy"), self.path("other.npy"))
        os.rename(self.path("held_label.npy"), self.path("labels.npy"))
        done = self.prun("--ranks", 3, plan, "--load", "w.safetensors", "--predict", "y.npy", "--data", "x=other.npy")
        self.assertEqual((done.out, done.err), ("predictions: y.npy, 37 rows of f32[4]\n", "prun: note: there is no data for input label: predictions without a loss\n"))
        self.check_predictions("y.npy", weights)
        self.assertIn("held_label.npy", self.prun("--ranks", 3, plan, "--load", "w.safetensors", "--eval", "--data", "x=other.npy", code=3).err)
        both = ("--load", "w.safetensors", "--data", "x=other.npy", "--data", "label=labels.npy")
        for more in ("--eval",), ("--predict", "y2.npy"):
            found = EVAL.findall(self.prun("--ranks", 3, plan, *both, *more).out)
            expected = self.expected(weights)
            self.assertAlmostEqual(float(found[0][2]), expected, delta=2e-6 * expected)
        self.assertEqual(self.read("y2.npy"), self.read("y.npy"))
        for words, text in ((("--data", "x=other.npy"), "--data says what is evaluated: add --eval or --predict FILE"), (("--eval", "--data", "z=other.npy"), "the net has no such input; it has x, label"), (("--predict", "y.csv"), "--predict writes a .npy file, and y.csv is the name of another"),
                            (("--eval", "--data", "other.npy"), "it says INPUT=FILE"), (("--predict", "other.npy", "--data", "x=other.npy"), "would overwrite what --data reads")):
            self.assertIn(text, self.prun("--ranks", 3, plan, *words, code=2).err)

    def begin(self, ranks, plan):
        """A file of the parameters that the net begins with."""
        self.prun("--ranks", ranks, plan, "--eval", "--save", "begin.safetensors")
        return "begin.safetensors"

    def test_an_evaluation_saves_what_it_loaded(self):
        plan = self.plan(4, shard="((2, 2), (2, 1))")
        self.prun("--ranks", 4, plan, "--save", "w.safetensors")
        done = self.prun("--ranks", 4, plan, "--eval", "--load", "w.safetensors", "--save", "again.safetensors", "--print", "w2")
        self.assertEqual(self.read("again.safetensors"), self.read("w.safetensors"))
        self.assertRegex(done.out, r"^eval: loss is .*\nw2 = \[\[")
        self.assertIn("cannot be made", self.prun("--ranks", 4, plan, "--eval", "--save", "no/w", code=3).err)

    def test_numbers_of_the_net_may_be_others_in_the_eval(self):
        """y times scale: 0, a fraction, a negative number; and a branch that only training takes."""
        self.write("x.csv", "".join("%d,%d,%d\n" % (i, i + 1, 2 * i) for i in range(12)))
        net = """net n(batch = 4, scale = 1, noise = 0.5) { input x : f32[batch, 2]; input t : f32[batch]; param a : f32[2] = [1, 2];
            h = x; if noise > 0 { param b : f32[2] = ones; h = x * b; } y = sum(h * a, axes = 1) * scale; loss mse(y, t); }
            train { data = csv("x.csv"); optimizer = sgd(lr = 0); } eval { %s data = csv("x.csv"); }"""
        for numbers, scale in ("", 1), ("scale = 0;", 0), ("scale = 0.5; batch = 5; noise = 0;", 0.5), ("batch (scale = -2, batch = 3);", -2), ("scale = 1e-1 * 5; noise = -1;", 0.5):
            self.write("n.dsl", net % numbers)
            for ranks in 1, 2:
                done = harness.run(harness.compiling("n.dsl", "--ranks", ranks, "-o", "n.plan", cwd=self.folder), cwd=self.folder)
                self.assertEqual(done.code, 0, done)
                loss = float(EVAL.findall(self.prun("--ranks", ranks, "n.plan", "--eval").out)[0][2])
                expected = sum((scale * (i + 2 * (i + 1)) - 2 * i) ** 2 for i in range(12)) / 12
                self.assertAlmostEqual(loss, expected, delta=1e-5 * expected, msg=numbers)
        for head, words in ("dim = 3;", "a is f32[3] in the eval, and in training f32[2]"), ("other = 1;", "c, f32[2], is a parameter of the eval, and training has none of that name"):
            self.write("n.dsl", """net n(batch = 4, dim = 2, other = 0) { input x : f32[batch, dim]; input t : f32[batch]; param a : f32[dim] = ones;
                h = x * a; if other { param c : f32[2] = ones; h = h * c; } loss mse(sum(h, axes = 1), t); }
                train { data = csv("x.csv"); optimizer = sgd(lr = 0); } eval { %s data = csv("x.csv"); }""" % head)
            done = harness.run(harness.compiling("n.dsl", cwd=self.folder), cwd=self.folder)
            self.assertEqual((done.code, done.err.count("error: ")), (1, 1), done)
            self.assertIn(words, done.err)

    def test_evaluation_alone_repeats_the_last_one(self):
        plan = self.plan(4)
        last = EVAL.findall(self.prun("--ranks", 4, plan, "--save", "w.safetensors").out)[-1]
        for name in "x.npy", "label.npy":  # of training: not needed
            self.write(name, b"")
        done = self.prun("--ranks", 4, plan, "--eval", "--load", "w.safetensors", "--metrics", "m.jsonl")
        self.assertEqual(done.out, "eval: loss is %s (37 rows)\n" % last[2])
        line = json.loads(self.read("m.jsonl"))
        self.assertEqual((line["eval"], line["rows"], repr(line["loss"])), (True, 37, last[2]))
        self.write("held_x.npy", npy(self.x[:36]))
        self.assertIn("36", self.prun("--ranks", 4, plan, "--eval", "--load", "w.safetensors", code=3).err)

    def test_a_resumed_run_says_where_it_stands(self):
        plan = self.plan(2, edit=lambda text: text.replace("epochs    = 3;", "epochs    = 3;\n    checkpoint every epoch;"))
        last = EVAL.findall(self.prun("--ranks", 2, plan).out)[-1]
        done = self.prun("--ranks", 2, plan, "--eval", "--resume", "latest")
        self.assertEqual(done.out, "epoch: 3, eval: loss is %s (37 rows)\n" % last[2])

    def test_an_evaluation_behind_the_checkpoint_is_not_lost_by_a_kill(self):
        """What a run killed after the checkpoint of a step has left: the metrics end with that step, or within its evaluation, or behind it."""
        for every, resumed in (("epoch", 4), ("3", 3), ("end", 6)):
            plan = self.plan(2, every=every, edit=lambda text: text.replace("epochs    = 3;", "epochs    = 3;\n    checkpoint every 1 steps;"))
            self.prun("--ranks", 2, plan, "--overwrite", "--metrics", "m.jsonl")
            lines = self.read("m.jsonl").splitlines(keepends=True)
            places = lambda some: [(m["global_step"], m.get("eval", False), m["loss"]) for m in map(json.loads, some)]
            at = [place[:2] for place in places(lines)].index((resumed, True))
            taken = self.path("net2.plan.checkpoints", "step-%09d.safetensors" % resumed)
            for rest in (b"".join(lines[:at]), b"".join(lines[:at]) + lines[at][:20], b"".join(lines[:at + 1]), b"".join(lines)):
                self.write("m.jsonl", rest)
                self.prun("--ranks", 2, plan, "--resume", taken, "--checkpoint-dir", self.path("other"), "--overwrite", "--metrics", "m.jsonl")
                self.assertEqual(places(self.read("m.jsonl").splitlines()), places(lines), (every, rest[-60:]))

    def test_parameters_from_within_an_epoch_say_their_step(self):
        plan = self.plan(2, every="3", edit=lambda text: text.replace("epochs    = 3;", "epochs    = 3;\n    checkpoint every 3 steps;"))
        first = EVAL.findall(self.prun("--ranks", 2, plan).out)[0]
        self.assertEqual(first[:2], ("2", "1"))
        done = self.prun("--ranks", 2, plan, "--eval", "--resume", self.path("net2.plan.checkpoints", "step-000000003.safetensors"))
        self.assertEqual(done.out, "epoch: 2 step: 1, eval: loss is %s (37 rows)\n" % first[2])

    def test_evaluations_come_when_the_block_says(self):
        places = lambda **how: [m[:2] for m in EVAL.findall(self.prun("--ranks", 2, self.plan(2, **how), "--metrics", "m.jsonl").out)]
        self.assertEqual(places(every="end"), [("3", "")])
        self.assertEqual(places(every="never"), [])
        self.assertEqual(places(every="2"), [("1", ""), ("2", ""), ("3", "")])  # two steps an epoch
        self.assertEqual(places(every="3"), [("2", "1"), ("3", "")])
        lines = [json.loads(line) for line in self.read("m.jsonl").decode().splitlines()]
        self.assertEqual([line["global_step"] for line in lines if line.get("eval")], [3, 6])

    def test_training_is_the_same_with_and_without(self):
        losses = set()
        for edit in (lambda text: text), (lambda text: re.sub(r"(?s)eval \{.*?\}\n", "", text)):
            done = self.prun("--ranks", 4, self.plan(4, shard="((2, 2), (2, 1))", edit=edit))
            losses.add(tuple(done.texts()))
            self.assertEqual(len(re.findall(r"sent per rank and step: (\d+) bytes.*at most \1\)", done.out)), 1, done)
        self.assertEqual(len(losses), 1)

    def test_one_rank_verifies_it(self):
        one = self.plan(1, name="one")
        done = self.prun("--ranks", 4, self.plan(4), "--verify=" + one)
        self.assertIn("verified: 6 steps", done.out)
        plan = self.plan(4, name="other", edit=lambda text: text.replace("held_x", "x").replace("held_label", "label"))
        self.assertIn("of another net", self.prun("--ranks", 4, plan, "--verify=" + one, code=1).err)

    def test_random_data_is_the_same_rows_each_time(self):
        edit = lambda text: re.sub(r"data    = npy\(.*?\);", "data = normal(seed = 7); steps = 3;", text)
        alone = set()
        for ranks in 1, 2, 4:
            plan = self.plan(ranks, edit=edit)
            found = EVAL.findall(self.prun("--ranks", ranks, plan, "--save", "w.safetensors").out)
            self.assertEqual(found[0][4], "48")
            again = EVAL.findall(self.prun("--ranks", ranks, plan, "--eval", "--load", "w.safetensors").out)
            self.assertEqual(again[0][2], found[-1][2])
            alone.add(round(float(again[0][2]), 4))
        self.assertEqual(len(alone), 1)

    def test_a_net_without_the_block_is_not_evaluated(self):
        plan = self.plan(1, edit=lambda text: re.sub(r"(?s)eval \{.*?\}\n", "", text))
        for words in ("--eval",), ("--predict", "y.npy"):
            self.assertIn("no eval block", self.prun(*words, plan, code=2).err)

    CLASSES = 5

    def classify(self, ranks, shard="", init="normal(0.5)", batch=10, lr=0.5):
        """A net of classes: plan, rows, labels."""
        draw = random.Random(9)
        labels = [draw.randrange(self.CLASSES) for _ in range(self.HELD)]
        integers = lambda values: npy([[v] for v in values]).replace(b"<f4", b"<i4").replace(b"(%d, 1)" % len(values), b"(%d,)  " % len(values))[:-4 * len(values)]
        self.write("held_label.npy", integers(labels) + struct.pack("<%di" % len(labels), *labels))
        train = [draw.randrange(self.CLASSES) for _ in range(32)]
        self.write("label.npy", integers(train) + struct.pack("<%di" % len(train), *train))
        edit = lambda text: (text.replace("label : f32[batch, out_dim]", "label : i32[batch]").replace("out_dim = 4", "out_dim = 5")
                             .replace("metrics = loss", "metrics = loss, accuracy").replace("normal(0.5);\n    h", init + ";\n    h").replace("lr = 0.1", "lr = %r" % lr)
                             .replace("y = matmul(a, w2)", "y = matmul(a, w2)" + (shard and " shard " + shard)))
        return self.plan(ranks, loss="cross_entropy(y, label)", batch=batch, edit=edit), labels

    def test_accuracy_counts_every_row_once(self):
        for ranks, shard in (1, ""), (2, ""), (3, ""), (4, "((2, 1), (1, 2))"), (8, "((2, 2), (2, 2))"), (8, "((1, 2), (2, 4))"):
            plan, labels = self.classify(ranks, shard)
            done = self.prun("--ranks", ranks, plan, "--save", "w.safetensors")
            found = EVAL.findall(done.out)[-1]
            answers = self.answers(tensors(self.read("w.safetensors")))
            right = sum(max(range(self.CLASSES), key=lambda c: y[c]) == label for y, label in zip(answers, labels))
            self.assertGreater(right, 0)
            self.assertAlmostEqual(float(found[3]), right / self.HELD, places=9, msg=str(done))
            loss = sum(math.log(sum(math.exp(v) for v in y)) - y[label] for y, label in zip(answers, labels)) / self.HELD
            self.assertAlmostEqual(float(found[2]), loss, delta=3e-6)

    def test_of_equal_scores_the_first_class_is_the_answer(self):
        for ranks, shard in (1, ""), (8, "((2, 2), (2, 2))"):
            plan, labels = self.classify(ranks, shard, init="zeros", lr=0.0)
            found = EVAL.findall(self.prun("--ranks", ranks, plan).out)[-1]
            self.assertAlmostEqual(float(found[3]), labels.count(0) / self.HELD, places=9)

    def test_scores_that_are_no_numbers_are_wrong(self):
        plan, _ = self.classify(4, "((2, 1), (1, 2))", lr=1e30)
        found = EVAL.findall(self.prun("--ranks", 4, "--on-nan", "go", plan).out)[-1]
        self.assertEqual(found[2:4], ("nan", "0.0"))

    def test_a_row_that_makes_the_loss_infinite_is_named_once(self):
        rows = ["%d,%d,1" % (i, i % 3) for i in range(12)]
        self.write("t.csv", "a,b,y\n" + "\n".join(rows) + "\n")
        rows[9] = "9,inf,1"
        self.write("e.csv", "a,b,y\n" + "\n".join(rows) + "\n")
        self.write("n.dsl", """net n(batch = 4) { input x : f32[batch, 2]; input y : f32[batch, 1]; param w : f32[2, 1] = ones; loss mse(matmul(x, w), y); }
            train { data = files(x = csv("t.csv", column = 0), y = csv("t.csv", column = 2)); optimizer = sgd(lr = 0.0001); epochs = 2; }
            eval { every = epoch; data = files(x = csv("e.csv", column = 0), y = csv("e.csv", column = 2)); }""")
        for ranks, options in (1, ()), (2, ()), (2, ("--mode", "data_parallel", "-D", "batch=2")):
            plan = self.compile("n.dsl", "n.plan", "--ranks", ranks, *options)
            results = [self.local(plan, ranks, "--save", "w"), self.local(plan, ranks, "--eval", "--load", "w")]
            for result in results + ([self.mpi(plan, ranks)] if harness.mpirun is not None else []):
                said = re.findall("(?m)^prun: warning: .*", self.ok(result).err)
                self.assertEqual(len(said), 1, str(result))
                self.assertRegex(said[0], r": the loss of the evaluation is not finite: input x holds inf at \[[\d, ]*1\]: \S*e\.csv:11:3$")
        self.write("e.csv", self.read("t.csv"))
        self.assertEqual(self.ok(self.local(plan, 2)).err, "")

    def test_processes_write_one_file(self):
        if harness.mpirun is None:
            self.skipTest("no mpirun")
        plan = self.plan(4, shard="((2, 2), (2, 1))", batch=10)
        self.prun("--ranks", 4, plan, "--save", "w.safetensors")
        done = harness.run([harness.mpirun, "-n", 4, harness.prun, plan, "--load", "w.safetensors", "--predict", "y.npy"], cwd=self.folder)
        self.assertEqual(done.code, 0, done)
        weights = tensors(self.read("w.safetensors"))
        self.check_predictions("y.npy", weights)
        self.assertAlmostEqual(float(EVAL.findall(done.out)[0][2]), self.expected(weights), delta=1e-6)


if __name__ == "__main__":
    harness.main()
