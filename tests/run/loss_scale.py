#!/usr/bin/env python3
"""`precision = f16`: losses, and how the scale of the loss moves, are those of torch.amp.GradScaler; a step whose gradients overflow changes nothing; all ranks agree on it.

    python3 tests/run/loss_scale.py --torch    # makes loss_scale.json with PyTorch's autocast and GradScaler
"""
import json
import os
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loss_scale.json")
BATCH, STEPS, START = 8, 16, 2.0**24


def numbers(rows, columns, salt):
    """Exact in f16."""
    return [[((i * 7 + j * 13 + salt * 5) % 17 - 8) / 16 for j in range(columns)] for i in range(rows)]


X, T = numbers(BATCH * STEPS, 6, 1), numbers(BATCH * STEPS, 3, 2)
W, B, V = numbers(6, 5, 3), numbers(1, 5, 4)[0], numbers(5, 3, 5)


def with_torch():
    """The loss of each step; the scale and the count of good updates behind it; the parameters in the end."""
    sys.path.pop(0)  # whose profile.py is not Python's
    import torch
    w, b, v = (torch.nn.Parameter(torch.tensor(values)) for values in (W, B, V))
    optimizer = torch.optim.AdamW([w, b, v], lr=0.01, weight_decay=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=START, growth_interval=4)
    made = {"losses": [], "scales": [], "good": []}
    for step in range(STEPS):
        x, t = (torch.tensor(rows[step * BATCH:(step + 1) * BATCH]) for rows in (X, T))
        with torch.autocast("cpu", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(torch.matmul(torch.relu(torch.nn.functional.linear(x, w.T, b)), v).float(), t)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([w, b, v], 0.5)
        scaler.step(optimizer)
        scaler.update()
        made["losses"].append(loss.item())
        made["scales"].append(scaler.get_scale())
        made["good"].append(scaler._get_growth_tracker())
    made["w"], made["b"], made["v"] = (p.detach().flatten().tolist() for p in (w, b, v))
    return made


if __name__ == "__main__" and "--torch" in sys.argv:
    with open(TABLE, "w") as file:
        json.dump(with_torch(), file, indent=0)
        file.write("\n")
    sys.exit()

import harness  # noqa: E402: its arguments are those of the tests
from harness import Case, run  # noqa: E402

NET = """net n(batch = 8) {
  input x : f32[batch, 6]; input t : f32[batch, 3];
  param w : f32[6, 5] = %s; param b : f32[5] = %s; param v : f32[5, 3] = %s;
  y = matmul(relu(matmul(x, w) + b), v);
  loss mse(y, t);
}
train { data = npy(x = "x.npy", t = "t.npy"); optimizer = %s; steps = 16; clip = norm(0.5); checkpoint every 1; precision = f16; loss_scale = %s; %s }
"""
ADAMW = "adamw(lr = 0.01, weight_decay = 0.1)"


class LossScale(Case):
    def setUp(self):
        super().setUp()
        for name, values in (("x.npy", X), ("t.npy", T)):
            self.write(name, harness.npy([element for row in values for element in row], (len(values), len(values[0])), "f"))

    def plan(self, name, ranks, *options, optimizer=ADAMW, start="16777216", more="", interval=4):
        """Of a scale that doubles so soon."""
        self.write(name + ".dsl", NET % (W, B, V, optimizer, start, more))
        plan = self.compile(name + ".dsl", name + ".plan", "--ranks", ranks, *options)
        self.write(name + ".plan", harness.edited(plan, ("{value: 2000}", "{value: %d}" % interval)))
        self.ok(run([harness.pcc, "check", "--update", plan]))
        return plan

    def trained(self, plan, ranks, *options):
        return self.local(plan, ranks, "--overwrite", *options)

    def states(self, plan, step):
        return harness.tensors(self.read(os.path.basename(plan) + ".checkpoints", "step-%09d.safetensors" % step))

    def number(self, plan, step, name):
        return self.states(plan, step)["optimizer." + name][0]

    def test_as_grad_scaler_on_any_ranks(self):
        with open(TABLE) as file:
            torch = json.load(file)
        self.assertEqual([torch["scales"][step] / START for step in (0, 4, 8, 12, 13)], [1 / 2, 1 / 32, 1 / 16, 1 / 8, 1 / 16], "it falls and rises")
        for ranks, options, more in (1, (), ""), (4, (), ""), (4, ("-O0",), ""), (2, (), "micro_batches = 2;"):
            with self.subTest(ranks=ranks, options=options, more=more):
                plan = self.plan("scaled", ranks, *options, more=more)
                done = self.ok(self.trained(plan, ranks))
                self.assertClose(done.losses(), torch["losses"], relative=0.002)
                for step in range(1, STEPS + 1):
                    self.assertEqual(self.number(plan, step, "loss_scale"), torch["scales"][step - 1], step)
                    self.assertEqual(self.number(plan, step, "good_updates"), torch["good"][step - 1], step)
                last = self.states(plan, STEPS)
                for name in "w", "b", "v":
                    self.assertClose(last[name], torch[name], absolute=0.002, what=name)
                self.assertEqual(last["optimizer.updates"][0], sum(b >= a for a, b in zip([START] + torch["scales"], torch["scales"])))

    def test_a_step_that_overflows_changes_nothing(self):
        initial = {"w": sum(W, []), "b": B, "v": sum(V, [])}
        for optimizer in ("sgd(lr = 0.1, weight_decay = 0.1)", "momentum(lr = 0.1, momentum = 0.9)", ADAMW, "lion(lr = 0.01)", "lamb(lr = 0.01)", "adafactor(lr = 0.01)"):
            with self.subTest(optimizer=optimizer):
                one = self.plan("one", 1, optimizer=optimizer, more="ema = 0.5; schedule = linear;")
                done = self.ok(self.trained(one, 1))
                before, after = self.states(one, 5), self.states(one, 6)
                for name, values in before.items():
                    own = name.split(".")[0]
                    if own in initial:
                        self.assertClose(values, initial[own] if name in (own, own + ".ema") else [0] * len(values), absolute=0, what=name)
                        self.assertNotEqual(values, after[name], name)
                self.assertEqual(before["optimizer.updates"] + after["optimizer.updates"], (0, 1))
                many = self.plan("many", 4, optimizer=optimizer, more="ema = 0.5; schedule = linear;")
                self.assertClose(self.ok(self.trained(many, 4, "--verify", one)).losses(), done.losses(), relative=1e-5)

    def test_resumed_and_of_replicas(self):
        plan = self.plan("scaled", 2)
        whole = self.ok(self.trained(plan, 2)).losses()
        at = self.path(os.path.basename(plan) + ".checkpoints", "step-%09d.safetensors" % 6)
        self.assertEqual(self.ok(self.local(plan, 2, "--resume", at)).losses(), whole[6:])
        self.write("hidden.dsl", (NET % (W, B, V, ADAMW, 65536, "")).replace("steps = 16", "steps = 4") + "parallel { mode = data_parallel; }")
        one, many = (self.compile("hidden.dsl", "h%d.plan" % ranks, "--replicas", 4, "--ranks", ranks, "--prove") for ranks in (1, 4))
        self.assertIn("verified", self.ok(self.trained(many, 4, "--verify", one)).out)

    def test_a_run_that_updates_nothing_says_so(self):
        net = NET % (W, B, V, "sgd(lr = 0.1)", "3e38", "")
        self.write("never.dsl", net)
        self.write("plain.dsl", net.replace("precision = f16; loss_scale = 3e38;", ""))
        for ranks in 1, 2:
            done = self.ok(self.trained(self.compile("never.dsl", "never.plan", "--ranks", ranks), ranks))
            self.assertIn("warning: no parameter has changed: in each of the 16 steps a gradient was not finite", done.err)
        self.assertNotIn("no parameter has changed", self.ok(self.trained(self.plan("scaled", 1), 1)).err)
        plain = self.compile("plain.dsl", "plain.plan", "--ranks", 1)
        self.ok(self.trained(plain, 1))
        self.assertFails(self.local(self.path("never.plan"), 2, "--resume", plain + ".checkpoints/step-000000006.safetensors"), 3,
                         "it was taken without precision = f16, which has a scale of the loss; --load takes its parameters alone")
        left = self.ok(self.local(plain, 1, "--checkpoint-dir", "other", "--resume", self.path("never.plan.checkpoints", "step-000000006.safetensors")))
        self.assertRegex(left.err, r"(?m)^prun: note: .*: the plan has no optimizer.loss_scale, optimizer.good_updates: left out \(it was taken with precision = f16\)$")

    def test_a_plan_that_says_f16_has_a_scale(self):
        plan = self.plan("scaled", 1)
        self.write("bad.plan", harness.edited(plan, (" precision=f16", " precision=bf16")))
        self.assertRegex(run([harness.pcc, "check", "--update", self.path("bad.plan")]).err, "not proved: .* new_w updates no state")
        self.write("bad.dsl", (NET % (W, B, V, "sgd(lr = 0.1)", 1024, "")).replace("f16; loss_scale = 1024;", "bf16;"))
        plan = self.compile("bad.dsl", "bad.plan")
        self.write("bad.plan", harness.edited(plan, (" precision=bf16", " precision=f16")))
        self.assertRegex(run([harness.pcc, "check", "--update", plan]).err, "the header says precision=f16, state w is written where a gradient is infinite too")


if __name__ == "__main__":
    harness.main()
