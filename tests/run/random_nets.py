#!/usr/bin/env python3
"""Nets that nobody thought of: random operators, shapes, strategies, layouts and options. Each is compiled and proved for 1 to 12 ranks, trained beside the
plan of one rank, which must agree (--verify), and must send no more than its plan says.

A failure names the seed; `PCC_SEED=117 random_nets.py ...` runs that net alone and prints it. PCC_NETS=1500 runs more of them.
"""
import os
import random
import re
import sys
import unittest

import harness
from harness import Case, run

NETS = int(os.environ.get("PCC_NETS", "150"))
MOST_ELEMENTS = 3000
BIG_BYTES = 256 << 10  # parameters from here on are updated in parts
UNARY = {"neg": "neg({0})", "relu": "relu({0})", "tanh": "tanh({0})", "exp": "exp(tanh({0}))", "log": "log({0} * {0} + 0.5)", "sqrt": "sqrt({0} * {0} + 0.5)"}


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def broadcast(a, b):
    """The shape of a + b, or None."""
    n = max(len(a), len(b))
    pairs = list(zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b))
    return tuple(max(pair) for pair in pairs) if all(x == y or 1 in (x, y) for x, y in pairs) else None


class Net:
    """The text of a net, the ranks and the options to compile it with."""

    def __init__(self, seed):
        self.random = pick = random.Random(seed)
        self.type = pick.choice(["f64", "f32"])
        self.ranks = pick.randint(1, 12)
        self.mode = pick.choice(["auto", "auto", "semi_auto", "data_parallel"])
        self.sizes = pick.choice([[1, 2, 3], [2, 3, 4, 5, 6, 7, 8, 12], [4, 8, 12, 16]])
        self.big = pick.random() < 0.1
        self.axes = self.make_axes() if self.mode != "data_parallel" and pick.random() < 0.4 else []
        self.names, self.declared, self.statements = 0, [], []
        self.inputs = [self.shape(pick.randint(2, 3)) for _ in range(pick.randint(1, 2))]
        self.values = [(self.declare("input", shape), shape) for shape in self.inputs]
        for _ in range(pick.randint(3, 12)):
            pick.choice([self.matmul, self.matmul, self.elementwise, self.elementwise, self.unary, self.reduction, self.transpose, self.reshape])()
        self.product(self.values[-1])  # whatever happened, a parameter reaches the loss
        self.options = ["--ranks", self.ranks, pick.choice(["-O0", "-O1", "-O2", "-O2", "-O2"])]
        self.options += pick.choice([[], [], ["--redistribution=bound"], ["--redistribution=canonical"], ["--whole-updates"]])
        self.one = ["--mode", "stand_alone"]
        if self.mode == "data_parallel":
            self.one = ["--replicas", self.ranks + pick.choice([0, 0, 1, 5, self.ranks])]
            self.options += self.one
        self.text = self.whole()

    # ---- sizes, names, strategies

    def shape(self, ndim):
        shape = tuple(self.random.choice(self.sizes) for _ in range(ndim))
        return shape if product(shape) <= MOST_ELEMENTS else shape[:2]

    def make_axes(self):
        """A mesh of part of the ranks."""
        axes, rest = [], self.ranks
        while rest > 1 and self.random.random() < 0.8:
            size = self.random.choice([d for d in range(2, rest + 1) if rest % d == 0])
            axes.append(("m%d" % len(axes), size))
            rest //= size
        return axes

    def splits(self, sizes):
        """For each size how it is split: counts whose product divides the ranks, or axes of the mesh."""
        if self.axes and self.random.random() < 0.7:
            held = [[] for _ in sizes]
            for name, size in self.random.sample(self.axes, len(self.axes)):
                i = self.random.randrange(2 * len(sizes)) if sizes else 0
                if i < len(sizes) and not held[i] and size <= sizes[i]:
                    held[i].append(name)
            return ["".join(names) or "-" for names in held]
        counts, rest = [1] * len(sizes), self.ranks
        for i in self.random.sample(range(len(sizes)), len(sizes)):
            if self.random.random() < 0.6:
                counts[i] = self.random.choice([d for d in range(1, sizes[i] + 1) if rest % d == 0])
                rest //= counts[i]
        return counts

    def strategy(self, letters, sizes, often=0.4):
        """A shard clause, mostly none. letters: per operand those of its dimensions, '.' for one that cannot be split; sizes: of each letter."""
        if self.mode == "data_parallel" or self.random.random() > often:
            return ""
        split = dict(zip(sizes, self.splits(list(sizes.values()))))
        split["."] = "-" if any(isinstance(s, str) for s in split.values()) else 1
        tuples = ["(%s)" % ", ".join(str(split[letter]) for letter in operand) for operand in letters]
        return " shard (%s)" % ", ".join(tuples)

    def declare(self, what, shape):
        self.names += 1
        name = "%s%d" % (what[0], self.names)
        # Of thousands of equal terms an f32 product rounds each the same way: one rank is then off by more than --verify accepts.
        initial = "" if what == "input" else " = " + self.random.choice(["normal(0.3)", "uniform(-0.5, 0.5)", "normal(1)" if self.big else "ones"])
        shard = self.strategy(["abc"[:len(shape)]], dict(zip("abc", shape)), 0.2)
        self.declared.append("%s %s : %s%s%s%s;" % (what, name, self.type, list(shape), initial, shard))
        return name

    def add(self, expression, shape, strategy=""):
        self.names += 1
        self.statements.append("v%d = %s%s;" % (self.names, expression, strategy))
        self.values.append(("v%d" % self.names, shape))
        return self.values[-1]

    def some(self, accepts=lambda shape: True):
        return self.random.choice([value for value in self.values if accepts(value[1])] or [(None, ())])

    # ---- operators

    def product(self, operand):
        """operand times a parameter or an earlier value."""
        name, shape = operand
        if len(shape) < 2:
            name, shape = self.add("reshape(%s, shape = [1, -1])" % name, (1, product(shape)))
        across, turned = self.random.random() < 0.3, self.random.random() < 0.4
        rows, depth = (shape[-1], shape[-2]) if across else (shape[-2], shape[-1])
        columns = self.random.choice(self.sizes)
        if self.big and rows * product(shape[:-2]) <= 64:
            columns = BIG_BYTES // (8 if self.type == "f64" else 4) // depth + self.random.choice([1, 5])
        other = self.declare("param", (columns, depth) if turned else (depth, columns))
        letters = [("ab"[:len(shape) - 2] if len(shape) < 5 else "." * (len(shape) - 2)) + ("km" if across else "mk"), "nk" if turned else "kn"]
        sizes = dict(zip("ab"[:len(shape) - 2], shape), m=rows, k=depth, n=columns)
        flags = ", transpose_a = true" * across + ", transpose_b = true" * turned
        value = self.add("matmul(%s, %s%s)" % (name, other, flags), shape[:-2] + (rows, columns), self.strategy(letters, sizes))
        return self.add("tanh(%s)" % value[0], value[1])

    def matmul(self):
        operand = self.some(lambda shape: 2 <= len(shape) <= 4 and product(shape) <= MOST_ELEMENTS)
        if operand[0]:
            self.product(operand)

    def elementwise(self):
        a, shape = self.some(lambda shape: len(shape) <= 3)
        b, other = self.some(lambda shape_b: broadcast(shape, shape_b) and product(broadcast(shape, shape_b)) <= MOST_ELEMENTS)
        if not a or not b or self.random.random() < 0.4:
            if not a or product(shape) > MOST_ELEMENTS:
                return
            other = tuple(1 if self.random.random() < 0.2 else size for size in shape[self.random.randint(0, len(shape)):])
            b = self.declare("param", other)
        operator = self.random.choice(["+", "-", "*", "/"])
        if operator == "/":
            b, other = self.add("%s * %s + 1.5" % (b, b), other)
        result = broadcast(shape, other)
        sizes = dict(zip("abcdefgh", result))
        letters = ["".join(l if size > 1 or sizes[l] == 1 else "." for l, size in zip("abcdefgh"[len(result) - len(s):], s)) for s in (shape, other)]
        self.add("%s %s %s" % (a, operator, b), result, self.strategy(letters, sizes))

    def unary(self):
        a, shape = self.some()
        self.add(UNARY[self.random.choice(sorted(UNARY))].format(a), shape, self.strategy(["abcdefgh"[:len(shape)]], dict(zip("abcdefgh", shape))))

    def reduction(self):
        a, shape = self.some(lambda shape: len(shape) >= 2)
        if not a:
            return
        axis, keep = self.random.randrange(len(shape)), self.random.random() < 0.5
        result = shape[:axis] + (1,) * keep + shape[axis + 1:]
        strategy = self.strategy(["abcdefgh"[:len(shape)]], dict(zip("abcdefgh", shape)))
        name = self.random.choice(["sum", "mean"])
        self.add("%s(%s, axes = %d, keep_dims = %s)" % (name, a, axis - len(shape) * (axis % 2), str(keep).lower()), result, strategy)

    def transpose(self):
        a, shape = self.some(lambda shape: len(shape) >= 2)
        if a:
            order = self.random.sample(range(len(shape)), len(shape))
            strategy = self.strategy(["abcdefgh"[:len(shape)]], dict(zip("abcdefgh", shape)))
            self.add("transpose(%s, perm = %s)" % (a, order), tuple(shape[d] for d in order), strategy)

    def reshape(self):
        a, shape = self.some()
        rows = self.random.choice([d for d in range(1, product(shape) + 1) if product(shape) % d == 0])
        result = self.random.choice([(rows, product(shape) // rows), (product(shape),), (1,) + shape[:2] + (product(shape[2:]),)])
        self.add("reshape(%s, shape = %s)" % (a, list(result[:-1]) + [-1]), result if len(result) < 5 else result)

    # ---- the file

    def whole(self):
        pick, (name, shape) = self.random, self.values[-1]
        other, other_shape = self.some()
        label = self.declare("input", shape)
        self.inputs.append(shape)
        loss = "mse(%s, %s, reduction = %s)" % (name, label, pick.choice(["mean", "sum"]))
        if pick.random() < 0.5:
            loss += " + 0.1 * %s(%s * %s)" % (pick.choice(["mean", "sum"]), other, other)
        settings = ["mode = %s;" % self.mode]
        if self.axes:
            settings.append("mesh (%s);" % ", ".join("%s = %d" % axis for axis in self.axes))
        if self.mode == "data_parallel":
            settings.append("gradients = %s;" % pick.choice(["mean", "sum"]))
        else:
            settings.append("dataset = %s;" % pick.choice(["auto", "data_parallel", "full_batch"]))
        rows = pick.choice(["", ", rows = 1", ", rows = 2"]) if all(shape and shape[0] > 1 for shape in self.inputs) else ""
        optimizer = pick.choice(["sgd(lr = 0.01)", "momentum(lr = 0.01, momentum = 0.9)"])
        return "net random {\n    %s\n    loss %s;\n}\ntrain { data = numpy_rand(seed = %d%s); optimizer = %s; steps = 2; }\nparallel { %s }\n" % (
            "\n    ".join(self.declared + self.statements), loss, pick.randrange(1000), rows, optimizer, " ".join(settings))


class RandomNets(Case):
    def check(self, seed):
        """False when pcc rejects the net with a diagnostic."""
        net = Net(seed)
        source = self.write("net.dsl", net.text)
        said = "seed %d, options %s\n%s" % (seed, " ".join(map(str, net.options)), net.text)
        many = run([harness.pcc, source, "-o", self.path("many.plan"), *net.options])
        if many.code == 1 and ": error: " in many.err:
            return False
        self.assertEqual(many.code, 0, said + str(many))
        self.assertIn("proved in", many.out, said)
        self.compile(source, "one.plan", *net.one)
        trained = self.local(self.path("many.plan"), net.ranks, "--verify=" + self.path("one.plan"))
        self.assertEqual(trained.code, 0, said + str(trained))
        self.assertIn("verified: 2 steps", trained.out, said)
        sent, most = re.search(r"sent per rank and step: (\S+) bytes.*\(plan: at most (\d+)\)", trained.out).groups()
        self.assertLessEqual(float(sent), int(most), said + trained.out)
        return True

    def test_all_ranks_train_as_one(self):
        if "PCC_SEED" in os.environ:
            seed = int(os.environ["PCC_SEED"])
            print(Net(seed).options, Net(seed).text, sep="\n")
            self.check(seed)
            return
        accepted = sum(self.check(seed) for seed in range(NETS))
        print("%d of %d nets accepted, proved and trained" % (accepted, NETS), file=sys.stderr)
        self.assertGreaterEqual(accepted, 0.8 * NETS, "the generator writes too many nets that pcc rejects")


if __name__ == "__main__":
    harness.main()
