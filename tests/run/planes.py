#!/usr/bin/env python3
"""Convolutions, pools and a ResNet: values, gradients and losses are PyTorch's (planes/torch.json), on one rank and split; samples have the parameters that torchvision's
nets have."""
import json
import math
import os
import re
import struct
import sys

import harness
from harness import Case, run, npy, safetensors

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "planes"))
import cases

# The loss is the sum of y * c: with a rate of 1 one step leaves x - dx, w - dw, c - y.
NET = """net n {
    param x : f64%(x)r = file("x.npy");
    param w : f64%(w)r = file("w.npy");
    param c : f64%(y)r = file("c.npy");
    y = %(call)s;
    loss sum(y * c);
}
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
parallel { mode = semi_auto; }
"""

# Likewise, with the statistics: one step leaves s - mean, t - variance.
NORM = """net n {
    param x : f64%(x)r = file("x.npy");
    param w : f64[%(c)d] = file("w.npy");
    param b : f64[%(c)d] = file("b.npy");
    param c : f64%(x)r = file("c.npy");
    param s : f64[%(c)d] = file("s.npy");
    param t : f64[%(c)d] = file("t.npy");
    y, mean, variance = batch_norm(x, w, b, eps = %(eps)r)%(hint)s;
    loss sum(y * c) + sum(mean * s) + sum(variance * t);
}
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
parallel { mode = semi_auto; }
"""

# In 16 bits.
HALF_NORM = """net n {
    param x : f32%(x)r = file("x.npy");
    param w : f32[%(c)d] = file("w.npy");
    param b : f32[%(c)d] = file("b.npy");
    param c : f32%(x)r = file("c.npy");
    param s : f32[%(c)d] = file("s.npy");
    param t : f32[%(c)d] = file("t.npy");
    y, mean, variance = batch_norm(cast(x, to = %(dtype)s), cast(w, to = %(dtype)s), cast(b, to = %(dtype)s), eps = %(eps)r)%(hint)s;
    loss sum(cast(y, to = f32) * c) + sum(mean * s) + sum(variance * t);
}
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
parallel { mode = semi_auto; }
"""


def written(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Planes(Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(HERE, "planes", "torch.json")) as file:
            self.torch = json.load(file)

    def compare(self, what, got, start, expected, tolerance=1e-13):
        """start - got is expected."""
        for k, (a, b, e) in enumerate(zip(got, start, expected, strict=True)):
            self.assertAlmostEqual(b - a, e, delta=tolerance * (4 + abs(e) + abs(a)), msg="%s[%d]" % (what, k))

    def operator(self, case, hint, ranks):
        attrs = "".join(", %s = %s" % (key, written(value)) for key, value in case["attrs"].items())
        has_w = "w" in case
        call = "%s(x%s%s)%s" % (case["op"], ", w" if has_w else "", attrs, hint)
        text = NET % dict(x=case["x"], w=case.get("w"), y=case["shape"], call=call)
        if not has_w:
            text = re.sub(r"    param w.*\n", "", text)
        start = {"x": cases.numbers(1, case["x"]), "c": cases.numbers(3, case["shape"])}
        self.write("x.npy", npy(start["x"], case["x"], "d"))
        self.write("c.npy", npy(start["c"], case["shape"], "d"))
        if has_w:
            start["w"] = cases.numbers(2, case["w"])
            self.write("w.npy", npy(start["w"], case["w"], "d"))
        self.write("n.dsl", text)
        self.ok(self.local(self.compile("n.dsl", "n.plan", "--ranks", ranks), ranks, "--save", "after.safetensors"))
        after = self.saved("after.safetensors")
        for name, expected in ("c", case["y"]), ("x", case["dx"]), ("w", case.get("dw")):
            if expected:
                self.compare("%s: %s" % (call, name), after[name], start[name], expected)

    def splits(self, case):
        """Of height and width, as far as there are windows."""
        height, width = case["shape"][2:]
        return [(a, b) for a, b in ((2, 1), (3, 1), (1, 2), (2, 2)) if a <= height and b <= width]

    def test_operators_are_pytorchs(self):
        self.assertGreaterEqual(len(self.torch["operators"]), len(cases.OPERATORS))
        for case in self.torch["operators"]:
            groups = case["attrs"].get("groups", 1)
            hints = {"": 1}
            if case["op"] == "conv2d":
                hints[" shard ((2, 1, 1, 1), (1, 1, 1, 1))"] = 2
                hints[" shard ((1, 2, 1, 1), (%s, 1, 1))" % ("2, 1" if groups > 1 else "1, 2")] = 2
                hints.update({" shard ((1, 1, %d, %d), (1, 1, 1, 1))" % split: split[0] * split[1] for split in self.splits(case)})
            elif case["op"].endswith("_pool"):
                hints.update({" shard ((%s))" % split: 2 for split in ("2, 1, 1, 1", "1, 2, 1, 1")})
                hints.update({" shard ((1, 1, %d, %d))" % split: split[0] * split[1] for split in self.splits(case)})
            for hint, ranks in hints.items():
                with self.subTest(op=case["op"], attrs=case["attrs"], hint=hint):
                    self.operator(case, hint, ranks)

    def test_a_gradient_may_begin_behind_what_its_windows_see(self):
        """Rank 1 has rows 5 to 9 of the gradient, and windows that reach these see rows 6 to 10 of x: as many, from another one on."""
        self.write("net.dsl", """net n {
            param x : f64[1, 1, 14, 2] = normal(1);
            y = max_pool(x, kernel_size = [2, 1], stride = [3, 1]) shard ((1, 1, 3, 1));
            loss sum(y * y * y);
        }
        train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
        parallel { mode = semi_auto; }""")
        self.compile("net.dsl", "one.plan", "--ranks", 1)
        plan = self.compile("net.dsl", "net.plan", "--ranks", 3)
        self.ok(self.local(plan, 3, "--verify=" + self.path("one.plan")))

    def test_more_ranks_than_windows_divide_their_gradient(self):
        """-O2 has the gradient of 2 windows in 4 parts: what each of them needs of dy is half of it."""
        plan, one = (self.compile(self.write("avg.dsl", """net avg {
            input x : f32[4, 1];
            param w : f32[1, 4] = uniform(-0.5, 0.5); param b : f32[] = normal(0.3);
            y = avg_pool(matmul(x, w), kernel_size = [2, 3], padding = [0, 1]) shard ((1, 2));
            loss sum(y - b);
        }
        train { data = normal(seed = 8); optimizer = sgd(lr = 0.01); steps = 1; }
        parallel { mode = semi_auto; dataset = auto; }
        """), name, *words) for name, words in (("avg.plan", ["--ranks", 4]), ("one.plan", ["--mode", "stand_alone"])))
        self.ok(self.local(plan, 4, "--verify=" + one))

    def test_groups_that_do_not_divide_the_channels_are_said_to(self):
        with open(self.sample("nn.dsl")) as file:
            self.write("nn.dsl", file.read())
        for call, words in (("conv2d(x, 6, 3, groups = 3)", "groups is 3, out is 6"), ("conv2d(x, 6, 3, groups = 4)", "groups is 4, out is 6"),
                            ("conv1d(x[:, :, 0], 6, 3, groups = 3)", "groups is 3, out is 6"), ("conv1d(x, 6, 3)", "x is [n, c, w]")):
            self.write("net.dsl", """import "nn.dsl"; net n(batch = 2) { input x : f32[batch, 4, 9, 9]; loss sum(%s); }
                train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }""" % call)
            failed = run([harness.pcc, self.path("net.dsl"), "-o", self.path("net.plan"), "--ranks", 1])
            self.assertEqual(failed.code, 1, str(failed))
            self.assertRegex(failed.err, r"(?s)error: (the channels of x and of the result are divided among the groups evenly|x is \[n, c, w\]).*%s" % re.escape(words))

    def test_batch_norm_is_pytorchs(self):
        self.assertGreaterEqual(len(self.torch["norms"]), len(cases.NORMS))
        for case in self.torch["norms"]:
            shape, ndim = case["x"], len(case["x"])
            start = {name: cases.numbers(seed, shape if name in "xc" else [shape[1]])
                     for name, seed in (("x", 1), ("w", 2), ("c", 3), ("b", 4), ("s", 5), ("t", 6))}
            for name, values in start.items():
                self.write(name + ".npy", npy(values, shape if name in "xc" else [shape[1]], "d"))
            splits = [(), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3)] + [(1, 1, 2), (2, 1, 2)] * (ndim > 2) + [(1, 2, 1, 2)] * (ndim > 3)
            for split in splits:
                split += (1,) * (ndim - len(split))
                ranks = math.prod(split)
                if any(a > b for a, b in zip(split, shape)):
                    continue
                hint = " shard (%s, (%d), (%d))" % (split, split[1], split[1]) if ranks > 1 else ""
                with self.subTest(x=shape, split=split):
                    self.write("n.dsl", NORM % dict(x=shape, c=shape[1], eps=case["eps"], hint=hint))
                    self.ok(self.local(self.compile("n.dsl", "n.plan", "--ranks", ranks), ranks, "--save", "after.safetensors"))
                    after = self.saved("after.safetensors")
                    for name, expected in ("c", "y"), ("x", "dx"), ("w", "dweight"), ("b", "dbias"), ("s", "mean"), ("t", "variance"):
                        self.compare("batch_norm of %s: %s" % (shape, expected), after[name], start[name], case[expected])

    def test_statistics_of_16_bits_are_f32_as_pytorchs(self):
        """y and gradients are rounded to 16 bits, now and then elsewhere than PyTorch does; mean and variance have f32's digits."""
        self.assertGreaterEqual(len(self.torch["half_norms"]), len(cases.HALF_NORMS))
        for case in self.torch["half_norms"]:
            shape, c = case["x"], [case["x"][1]]
            start = {name: make(seed, size) for name, seed, size, make in (("x", 1, shape, cases.numbers), ("c", 3, shape, cases.numbers), ("w", 2, c, cases.few_digits),
                                                                           ("b", 4, c, cases.few_digits), ("s", 5, c, cases.numbers), ("t", 6, c, cases.numbers))}
            for name, values in start.items():
                self.write(name + ".npy", npy(values, shape if name in "xc" else c, "f"))
            unit = 2.0 ** (-8 if case["dtype"] == "bf16" else -11)
            for split in (1, 1), (2, 1), (1, 2), (3, 2):
                ranks = math.prod(split)
                hint = " shard (%s, (%d), (%d))" % (split + (1,) * (len(shape) - 2), split[1], split[1]) if ranks > 1 else ""
                with self.subTest(x=shape, dtype=case["dtype"], split=split):
                    self.write("n.dsl", HALF_NORM % dict(x=shape, c=c[0], eps=case["eps"], dtype=case["dtype"], hint=hint))
                    self.ok(self.local(self.compile("n.dsl", "n.plan", "--ranks", ranks), ranks, "--save", "after.safetensors"))
                    after = self.saved("after.safetensors")
                    for name, expected, tolerance in (("c", "y", unit), ("x", "dx", unit), ("w", "dweight", unit), ("b", "dbias", unit),
                                                      ("s", "mean", 1e-7), ("t", "variance", 1e-7)):
                        self.compare("batch_norm of %s: %s" % (shape, expected), after[name], start[name], case[expected], tolerance)

    def resnet(self, ranks, *options):
        """Ten steps from the starting values that PyTorch had: the losses, and what is saved."""
        made = self.torch["resnet18"]
        starts = cases.starting_values(made["shapes"])
        self.write("start.safetensors", safetensors({n: ("F32", made["shapes"][n], starts[n]) for n in starts}))
        self.write("image.bin", b"".join(struct.pack("<%df" % (cases.BATCH * 3 * cases.SIDE ** 2), *cases.images(step)) for step in range(cases.STEPS)))
        self.write("label.bin", b"".join(struct.pack("<%di" % cases.BATCH, *cases.labels(step)) for step in range(cases.STEPS)))
        net = harness.edited(self.sample("resnet18.dsl"), ("normal(seed = 1)", 'raw(image = "image.bin", label = "label.bin")'), ("lr = 0.1", "lr = %s" % cases.LR))
        self.write("net.dsl", net)
        sizes = [word for name, value in (("batch", cases.BATCH), ("side", cases.SIDE), ("width", cases.WIDTH), ("classes", cases.CLASSES))
                 for word in ("-D", "%s=%d" % (name, value))]
        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, *sizes, *options)
        done = self.ok(self.local(plan, ranks, "--load", "start.safetensors", "--save", "after.safetensors"))
        return done.losses(None), self.saved("after.safetensors")

    def test_resnet18_has_pytorchs_losses(self):
        made = self.torch["resnet18"]
        channels = ("--shard", "conv1=((8, 1, 1, 1), (1, 1, 1, 1))", "--shard", "layer4.*.conv1=((1, 2, 1, 1), (4, 2, 1, 1))")
        planes = ("--shard", "conv1=((1, 1, 4, 1), (1, 1, 1, 1))", "--shard", "layer1.*.conv*=((1, 1, 2, 2), (1, 1, 1, 1))")
        for ranks, options in (1, ()), (8, ()), (8, channels), (4, planes):
            with self.subTest(ranks=ranks, options=options):
                losses, after = self.resnet(ranks, *options)
                self.assertClose(losses[:3], made["losses"][:3], relative=5e-5, what=str(losses))
                self.assertClose(losses, made["losses"], relative=3e-3, what=str(losses))  # norms over 32 numbers each: roundings grow
                self.assertClose(after["bn1.running_mean"], made["running_mean"], relative=1e-3, absolute=1e-5)
                self.assertClose(after["bn1.running_var"], made["running_var"], relative=1e-3, absolute=1e-5)

    def test_samples_have_torchvisions_parameters(self):
        for name, parameters in ("lenet", 61706), ("resnet18", 11689512), ("resnet50", 25557032):
            done = self.ok(run([harness.pcc, self.sample(name + ".dsl"), "--ranks", 8, "--search", "sharding_propagation", "--stats", "-o", self.path("net.plan")]))
            self.assertRegex(done.out, r"(?m)^parameters +%d in " % parameters)
        plan = self.read("net.plan").decode()
        for state in "conv1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight", "layer3.5.bn3.running_var", "fc.bias":
            self.assertRegex(plan, r"(?m)^state \d+ %s f32" % re.escape(state))


if __name__ == "__main__":
    harness.main()
