#!/usr/bin/env python3
"""Functions and losses of the language, values and gradients, on one rank and split. The expected numbers are PyTorch's definitions, in Python's doubles; at the corners where a
definition leaves a choice, the numbers that PyTorch gives."""
import json
import math
import random
import struct
import unittest

import harness
from harness import Case, compiling, run

X = [-4.0, -3.0, -1.5, -0.25, -1e-9, 0.0, 0.5, 2.0, 3.0, 7.25]
NET = """import "nn.dsl";
net n { param w : f64[%(n)d] = %(x)r; const t : f64[%(n)d] = %(t)r; const c : f64[%(n)d] = %(c)r;
    x = w + 0 shard ((%(ranks)d), ());
    y = %(y)s;
    loss %(loss)s; }
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
"""
ROWS = """net n { param w : f64[4, 3] = [[0.5, -1, 2], [1000, 998, 1001], [0.25, 0.25, -3], [1, 2, 3]]; const label : i32[4] = [2, -100, 0, 1];
    y = w %s;
    loss cross_entropy(y + 0.0, label, %s); }
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
"""


def softmax(row):
    most = max(row)
    powers = [math.exp(x - most) for x in row]
    return [p / sum(powers) for p in powers]


class Functions(Case):
    def run_saved(self, text, ranks):
        """The loss of the first step; the states after it, by name."""
        self.write("net.dsl", text)
        result = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--save", "w.safetensors"))
        saved = self.read("w.safetensors")
        n, = struct.unpack("<Q", saved[:8])
        states = {}
        for name, entry in json.loads(saved[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                form, size = {"F32": ("f", 4), "F64": ("d", 8)}[entry["dtype"]]
                states[name] = struct.unpack("<%d%s" % ((end - begin) // size, form), saved[8 + n + begin:8 + n + end])
        return result.losses()[0], states

    def run_net(self, text, ranks):
        loss, states = self.run_saved(text, ranks)
        return loss, states["w"]

    def expect(self, y, value, slope, x=X, t=None, loss="sum(y * c)", scale=None):
        """value(x, t), slope(x, t): of an element."""
        n = len(x)
        t = t or [0.5 * i - 2 for i in range(n)]
        c = scale or [1 + 0.125 * i for i in range(n)]
        expected = [w * slope(a, b) for w, a, b in zip(c, x, t)]
        for ranks in 1, 2, 3:
            with self.subTest(y=y, ranks=ranks):
                total, after = self.run_net(NET % dict(n=n, x=x, t=t, c=c, y=y, loss=loss, ranks=ranks), ranks)
                self.assertClose([total], [sum(w * value(a, b) for w, a, b in zip(c, x, t))], relative=1e-6)
                for a, b, d in zip(x, after, expected):
                    self.assertAlmostEqual(a - b, d, delta=1e-12 * (1 + abs(d) + abs(a)), msg="at %r" % a)

    def test_functions_of_one_number(self):
        self.expect("expm1(x)", lambda x, t: math.expm1(x), lambda x, t: math.exp(x))
        self.expect("hardswish(x)", lambda x, t: x * min(max(x + 3, 0), 6) / 6, lambda x, t: 0 if x <= -3 else 1 if x >= 3 else x / 3 + 0.5)
        self.expect("floor(x) + 0 * x", lambda x, t: math.floor(x), lambda x, t: 0)
        self.expect("sign(x) + 0 * x", lambda x, t: (x > 0) - (x < 0), lambda x, t: 0)
        self.expect("leaky_relu(x, 0.25)", lambda x, t: x if x > 0 else 0.25 * x, lambda x, t: 1 if x > 0 else 0.25)
        self.expect("elu(x)", lambda x, t: x if x > 0 else math.expm1(x), lambda x, t: 1 if x > 0 else math.exp(x))
        self.expect("elu(x, 0.5)", lambda x, t: x if x > 0 else 0.5 * math.expm1(x), lambda x, t: 1 if x > 0 else 0.5 * math.exp(x))
        self.expect("where(isnan(log(x)), 3.0, x)", lambda x, t: 3 if x < 0 else x, lambda x, t: x >= 0)

    def test_cells_refuse_numbers_that_mean_nothing(self):
        for call, text, numbers in (("dropout(x, p = 1.5)", "p is the share of elements that become 0", "p is 1.5"),
                                    ("dropout(x, p = 1)", "p is the share of elements that become 0", "p is 1"),
                                    ("layer_norm(x, eps = -0.5)", "eps is -0.5, and must be above 0", ""), ("batch_norm(x, eps = -1)", "eps is above 0", "eps is -1"),
                                    ("batch_norm(x, momentum = 2)", "momentum is the share", "momentum is 2"),
                                    ("group_norm(x, 3)", "the channels are divided among the groups evenly", ""), ("batch_norm(x[0, 0])", "x is \\[n, c\\]", ""), ("huber(x, x, delta = 0)", "delta is above 0", "delta is 0"),
                                    ("transformer_block(x, 3)", "divided among the heads evenly", "dim is 8, heads is 3"),
                                    ("attention(x, 0)", "at least one head", "heads is 0"), ("split_heads(x, 16)", "evenly", "dim is 8, heads is 16")):
            with self.subTest(call=call):
                self.write("net.dsl", 'import "nn.dsl";\nnet n { param x : f32[2, 4, 8] = normal(1); y = %s; loss sum(y); }\ntrain { optimizer = sgd(lr = 1); }' % call)
                result = run(compiling("net.dsl", cwd=self.folder), cwd=self.folder)
                self.assertFails(result, 1, r"nn\.dsl:\d+:\d+: error: [^\n]*" + text)
                self.assertIn("hint: %s\n" % numbers if numbers else "", result.err)
                self.assertIn("called here as y", result.err)
        self.write("net.dsl", 'import "nn.dsl";\nnet n { param x : f32[2, 4, 8] = normal(1); y = dropout(attention(layer_norm(x), 4), p = 0); loss sum(y); }\ntrain { optimizer = sgd(lr = 1); }')
        self.compile("net.dsl", "net.plan", "--ranks", 1)

    def test_group_norm_is_pytorchs_however_it_is_split(self):
        samples, channels, places, groups, eps = 4, 6, 4, 3, 0.25
        pick = random.Random(5)
        x, c = ([pick.randrange(-256, 257) / 128 for _ in range(samples * channels * places)] for _ in range(2))
        total, dx, dweight, dbias = 0.0, [0.0] * len(x), [0.0] * channels, [0.0] * channels
        width = channels // groups * places
        for first in range(0, len(x), width):
            row, scale = x[first:first + width], c[first:first + width]
            mean = sum(row) / width
            root = 1 / math.sqrt(sum((a - mean) ** 2 for a in row) / width + eps)
            flat = [(a - mean) * root for a in row]
            total += sum(a * b for a, b in zip(flat, scale))
            along, middle = sum(a * b for a, b in zip(flat, scale)) / width, sum(scale) / width
            for i in range(width):
                channel = (first + i) // places % channels
                dx[first + i] = (scale[i] - middle - flat[i] * along) * root
                dweight[channel] += scale[i] * flat[i]
                dbias[channel] += scale[i]
        net = """import "nn.dsl";
net n { param w : f32[%d] = %r; const c : f32[%d] = %r;
    x = reshape(w, shape = [4, 6, 2, 2]) * 1 shard ((%d, %d, 1, 1), ());
    norm = group_norm(x, 3, eps = 0.25);
    loss sum(norm * reshape(c, shape = [4, 6, 2, 2])); }
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
"""
        for split in (1, 1), (4, 1), (2, 3), (1, 6), (3, 2):
            with self.subTest(split=split):
                loss, after = self.run_saved(net % (len(x), x, len(c), c, *split), split[0] * split[1])
                self.assertClose([loss], [total], relative=1e-5)
                for name, start, expected in ("w", x, dx), ("norm.weight", [1.0] * channels, dweight), ("norm.bias", [0.0] * channels, dbias):
                    for i, (a, b, d) in enumerate(zip(start, after[name], expected, strict=True)):
                        self.assertAlmostEqual(a - b, d, delta=1e-5, msg="%s[%d]" % (name, i))

    def test_conv1d_and_operators_that_cells_have_the_names_of(self):
        x = [0.5 * (i % 5) - 0.25 * (i % 3) for i in range(2 * 2 * 9)]
        loss, after = self.run_saved("""import "nn.dsl";
net n { param w : f32[%d] = %r; y = conv1d(reshape(w, shape = [2, 2, 9]), 3, 3, stride = 2, padding = 1); loss sum(y * y); }
train { optimizer = sgd(lr = 0); epochs = 1; steps = 1; }
""" % (len(x), x), 1)
        total = 0.0
        for sample in range(2):
            for out in range(3):
                for place in range(5):
                    seen = [(channel, tap) for channel in range(2) for tap in range(3) if 0 <= 2 * place + tap - 1 < 9]
                    total += sum(after["y.weight"][(out * 2 + channel) * 3 + tap] * x[(sample * 2 + channel) * 9 + 2 * place + tap - 1] for channel, tap in seen) ** 2
        self.assertClose([loss], [total], relative=1e-5)
        self.write("net.dsl", """import "nn.dsl";
net n { param x : f32[2, 3, 8, 8] = normal(1); param k : f32[4, 3, 3, 2] = normal(1); param g : f32[4] = normal(1); param b : f32[4] = normal(1);
    c = conv2d(x, k, stride = [1, 2], padding = [1, 0]); y = layer_norm(c, g, b, eps = 0.5); loss sum(y); }
train { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
""")
        self.compile("net.dsl", "net.plan", "--ranks", 1)

    def test_powers(self):
        positive = [0.0, 0.25, 1.0, 1.5, 2.0, 9.0]
        self.expect("x ** 2.5", lambda x, t: x ** 2.5, lambda x, t: 2.5 * x ** 1.5, x=positive)
        self.expect("pow(x, t)", lambda x, t: x ** t, lambda x, t: t * x ** (t - 1) if t else 0, x=positive, t=[1.5, -1, 0, 2, 0.5, -0.5])
        self.expect("t ** x", lambda x, t: t ** x, lambda x, t: t ** x * math.log(t) if t else 0, x=[0.5, 1.0, -2.0, 3.0], t=[0.0, 2.0, 0.5, 1.5])
        self.expect("pow(x, 3.0)", lambda x, t: x ** 3, lambda x, t: 3 * x * x)

    def test_huber_and_kl(self):
        n = len(X)
        mean = [1 / n] * n
        self.expect("x", lambda x, t: (x - t) ** 2 / 2 if abs(x - t) <= 1.5 else 1.5 * (abs(x - t) - 0.75), lambda x, t: max(-1.5, min(1.5, x - t)), loss="huber(x, t, 1.5)", scale=mean)
        logs, shares = [-0.5, -1.0, -2.0, -3.0], [0.5, 0.25, 0.0, 0.25]
        self.expect("x", lambda x, t: (t * math.log(t) if t else 0) - t * x, lambda x, t: -t, x=logs, t=shares, loss="kl_div(x, t)", scale=[0.25] * 4)
        self.expect("x", lambda x, t: math.exp(t) * (t - x), lambda x, t: -math.exp(t), x=logs, t=[-1.0, -0.5, -2.0, -0.25], loss="kl_div(x, t, log_target = true, batchmean = true)",
                    scale=[0.25] * 4)

    def test_labels_that_are_ignored_and_smoothing(self):
        x, label = [[0.5, -1, 2], [1000, 998, 1001], [0.25, 0.25, -3], [1, 2, 3]], [2, -100, 0, 1]
        for reduction, share in ("mean", 1 / 3), ("sum", 1):
            for smoothing in 0, 0.25:
                loss, slope = 0.0, []
                for row, right in zip(x, label):
                    p = softmax(row)
                    target = [smoothing / 3 + (1 - smoothing) * (k == right) for k in range(3)]
                    loss += share * sum(-a * math.log(b) for a, b in zip(target, p)) * (right >= 0)
                    slope += [share * (b - a) * (right >= 0) for a, b in zip(target, p)]
                for ranks, shard in (1, ""), (4, ""), (3, "+ 0 shard ((1, 3), ())"), (6, "+ 0 shard ((2, 3), ())"):
                    with self.subTest(reduction=reduction, smoothing=smoothing, shard=shard):
                        found, after = self.run_net(ROWS % (shard, "ignore_index = -100, label_smoothing = %r, reduction = %s" % (smoothing, reduction)), ranks)
                        self.assertClose([found], [loss], relative=1e-6)
                        for a, b, d in zip(sum(x, []), after, slope):
                            self.assertAlmostEqual(a - b, d, delta=1e-6 + 1e-4 * (abs(a) > 100))


if __name__ == "__main__":
    harness.main()
