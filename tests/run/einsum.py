#!/usr/bin/env python3
"""einsum("bthd,bshd->bhts", q, k) against its definition, a sum of products over all indices, in Python's doubles: values and gradients, on one rank and split."""
import itertools
import json
import random
import struct

import harness
from harness import Case

SIZES = {"a": 2, "b": 2, "c": 3, "d": 4, "e": 3, "f": 5, "h": 2, "s": 5, "t": 4, "i": 4, "j": 6, "k": 3, "l": 2, "m": 1, "A": 3}
TEXTS = ["bthd,bshd->bhts", "bhts,bshd->bthd", "ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,kj->ik", "ij->ji", "ij->i", "ij->", "ij->ij", "i,i->", "i,j->ij", "i,j->ji", "bi,bi->b",
         "bij,bjk->bik", "ij,jk,kl->il", "ij,jk,kl", "ij,kl,jk->il", "ijk,jkl->il", "bd,d->bd", "d,bd->bd", "bcd,cd->bd", "abc,cd->abd", "abc,abd->cd", "ijk,k,j->i", "bi,ij,bj->b", "im,mj->ij", "cA,A->Ac",
         "ij,ij->ij", "i,jk->", "abf,fe,ec,cd->abd", " b i , i j -> b j ", "cA,cd"]


def parse(text):
    text = text.replace(" ", "")
    operands, arrow, result = text.partition("->")
    operands = operands.split(",")
    letters = "".join(operands)
    return operands, result if arrow else "".join(sorted(x for x in set(letters) if letters.count(x) == 1))


def place(letters, index):
    at = 0
    for letter in letters:
        at = at * SIZES[letter] + index[letter]
    return at


def count(letters):
    n = 1
    for letter in letters:
        n *= SIZES[letter]
    return n


def literal(values, sizes):
    if not sizes:
        return repr(values[0])
    part = len(values) // sizes[0]
    return "[%s]" % ", ".join(literal(values[i * part:(i + 1) * part], sizes[1:]) for i in range(sizes[0]))


class Einsum(Case):
    def states(self, name):
        data = self.read(name)
        n, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + n])
        return {key: struct.unpack("<%dd" % ((v["data_offsets"][1] - v["data_offsets"][0]) // 8), data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
                for key, v in header.items() if key != "__metadata__"}

    def check(self, text, ranks, shard, *options):
        """The loss is the sum of the result times a weight for each of its elements: a step of 1 leaves operand less gradient."""
        operands, result = parse(text)
        pick = random.Random(text)
        values = [[pick.randrange(-8, 9) / 4 for _ in range(count(x))] for x in operands]
        weight = [pick.randrange(1, 9) / 4 for _ in range(count(result))]
        letters = sorted(set("".join(operands)))
        total, gradients = 0.0, [[0.0] * len(v) for v in values]
        for numbers in itertools.product(*[range(SIZES[x]) for x in letters]):
            index = dict(zip(letters, numbers))
            factors = [v[place(x, index)] for x, v in zip(operands, values)]
            scale = weight[place(result, index)]
            product = scale
            for factor in factors:
                product *= factor
            total += product
            for k, x in enumerate(operands):
                others = scale
                for i, factor in enumerate(factors):
                    others *= factor if i != k else 1
                gradients[k][place(x, index)] += others
        lines = ["net n {"]
        for k, x in enumerate(operands):
            sizes = [SIZES[letter] for letter in x]
            lines.append("    param x%d : f64%s = %s;" % (k, sizes, literal(values[k], sizes)))
            if shard and SIZES[x[0]] % ranks == 0:
                lines.append("    y%d = x%d * 1.0 shard ((%s), ());" % (k, k, ", ".join([str(ranks)] + ["1"] * (len(x) - 1))))
            else:
                lines.append("    y%d = x%d * 1.0;" % (k, k))
        sizes = [SIZES[letter] for letter in result]
        lines.append("    const c : f64%s = %s;" % (sizes, literal(weight, sizes)))
        lines.append('    y = einsum("%s", %s);' % (text, ", ".join("y%d" % k for k in range(len(operands)))))
        lines.append("    loss sum(y * c);\n}\ntrain { optimizer = sgd(lr = 1); epochs = 1; steps = 1; }\n")
        self.write("net.dsl", "\n".join(lines))
        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--prove", *options)
        done = self.ok(self.local(plan, ranks, "--save", "w.safetensors"))
        self.assertClose(done.losses(), [total], relative=1e-6, absolute=1e-6, what=text)
        after = self.states("w.safetensors")
        for k, v in enumerate(values):
            self.assertClose([a - b for a, b in zip(v, after["x%d" % k])], gradients[k], absolute=1e-9, what="%s, gradient of operand %d" % (text, k))

    def test_values_and_gradients(self):
        for text in TEXTS:
            for ranks, shard in ((1, False), (2, True)):
                with self.subTest(text=text, ranks=ranks):
                    self.check(text, ranks, shard)

    def test_on_more_ranks_and_levels(self):
        for text in ("bthd,bshd->bhts", "bhts,bshd->bthd", "ijk,jkl->il", "abf,fe,ec,cd->abd", "i,j->ji"):
            for ranks, level in ((4, "-O0"), (3, "-O1"), (8, "-O2")):
                with self.subTest(text=text, ranks=ranks):
                    self.check(text, ranks, True, level)

    def products(self, text, **sizes):
        """The sizes of the results of the matrix products, in their order."""
        operands, _ = parse(text)
        params = ["param x%d : f32[%s] = normal(1);" % (k, ", ".join(str(sizes[letter]) for letter in x)) for k, x in enumerate(operands)]
        self.write("net.dsl", 'net n { %s y = einsum("%s", %s); loss sum(y); } train { optimizer = sgd(lr = 1); steps = 1; }' %
                   (" ".join(params), text, ", ".join("x%d" % k for k in range(len(operands)))))
        plan = self.read(self.compile("net.dsl", "net.plan", "--ranks", 1)).decode()
        return [line.split("f32")[1].split("]")[0] + "]" for line in plan.splitlines() if line.strip().startswith("node") and " matmul " in line]

    def test_pairs_are_in_the_order_of_the_fewest_multiplications(self):
        self.assertEqual(self.products("ij,jk,kl->il", i=2, j=50, k=40, l=30), ["[2, 40]", "[2, 30]"])
        self.assertEqual(self.products("ij,jk,kl->il", i=30, j=40, k=50, l=2), ["[40, 2]", "[30, 2]"])
        self.assertEqual(self.products("ij,kl,jk->il", i=2, j=50, k=40, l=30), ["[2, 40]", "[2, 30]"])

    def test_scores_of_attention_are_one_product_without_copies(self):
        """Both transposes only exchange dimensions before the last: the product reads them where they are."""
        self.write("net.dsl", """net n { param q : f32[8, 64, 4, 32] = normal(1); param k : f32[8, 64, 4, 32] = normal(1);
            s = einsum("bthd,bshd->bhts", q * 1.5, k * 0.5); loss sum(square(s)); } train { optimizer = sgd(lr = 1); steps = 1; }""")
        plan = self.read(self.compile("net.dsl", "net.plan", "--ranks", 1)).decode()
        found = [line for line in plan.splitlines() if line.strip().startswith("node") and " matmul " in line]
        self.assertEqual(len(found), 1)
        self.assertIn("f32[8, 4, 64, 64] {transpose_b: 1}", found[0])
        for value in found[0].split("(")[1].split(")")[0].split(", "):
            self.assertRegex(plan, r"value \d+ %s layout=\d+ view" % value)


if __name__ == "__main__":
    harness.main()
