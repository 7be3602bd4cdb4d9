#!/usr/bin/env python3
"""Weights that other programs wrote: names, orientation, types, and what prun says of those that do not fit."""
import json
import os
import random
import re
import struct
import unittest

import harness
from harness import Case, run



def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


PACK = {"F32": lambda v: struct.pack("<%df" % len(v), *v), "F64": lambda v: struct.pack("<%dd" % len(v), *v), "F16": lambda v: struct.pack("<%de" % len(v), *v), "BF16": bf16,
        "I32": lambda v: struct.pack("<%di" % len(v), *map(int, v))}


def transposed(values, rows, columns):
    """Of a matrix [rows, columns], row after row."""
    return [values[r * columns + c] for c in range(columns) for r in range(rows)]


class Weights(Case):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(5)

    def numbers(self, n):
        return [self.draw.randrange(-64, 64) / 32 for _ in range(n)]  # in all real types

    def tensors(self, name, metadata=None, **more):
        """Writes a safetensors file: name = (type, shape, numbers)."""
        entries, body = ({"__metadata__": metadata} if metadata else {}), b""
        for tensor, (dtype, shape, values) in more.items():
            data = PACK[dtype](values)
            entries[tensor] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(entries).encode()
        return self.write(name, struct.pack("<Q", len(text)) + text + body)

    def saved(self, name):
        """The tensors of an F32 file: name -> (shape, numbers)."""
        data = self.read(name)
        n = struct.unpack("<Q", data[:8])[0]
        found = {}
        for tensor, entry in json.loads(data[8:8 + n]).items():
            if tensor != "__metadata__":
                begin, end = entry["data_offsets"]
                found[tensor] = (entry["shape"], list(struct.unpack("<%df" % ((end - begin) // 4), data[8 + n + begin:8 + n + end])))
        return found

    def net(self, body, ranks, name="net", head="batch = 8"):
        """A net over x: f32[batch, 6] and label y: f32[batch, 6], whose parameters are trained with a rate of nothing."""
        self.write(name + ".dsl", """import "nn.dsl"; net n(%s) { input x : f32[batch, 6]; input y : f32[batch, 6]; %s }
            train { data = normal(seed = 3); optimizer = sgd(lr = 0); steps = 1; }""" % (head, body))
        return self.compile(self.path(name + ".dsl"), name + ".plan", "--ranks", ranks, "-I", self.sample(""))

    def load(self, plan, ranks, *flags, launch=None):
        """What the net has after a step that changes nothing."""
        done = (launch or self.local)(plan, ranks, *flags, "--save", "saved")
        self.ok(done)
        return self.saved("saved"), done

    def test_a_transposed_matrix_is_loaded_on_any_split(self):
        body = """param w : f32[6, 40] = normal(1) shard %s; param v : f32[40, 6] = normal(1) shard %s;
                  loss mse(matmul(relu(matmul(x, w)), v), y);"""
        w, v = self.numbers(240), self.numbers(240)
        self.tensors("t", w=("F32", (40, 6), transposed(w, 6, 40)), v=("F64", (6, 40), transposed(v, 40, 6)))
        for ranks, one, other in ((1, "(1, 1)", "(1, 1)"), (4, "(1, 4)", "(4, 1)"), (4, "(2, 2)", "(1, 2)"), (3, "(3, 1)", "(3, 1)")):
            plan = self.net(body % (one, other), ranks)
            for launch in self.local, self.mpi:
                if ranks > 1 or launch == self.local:
                    found, done = self.load(plan, ranks, "--load", "t", "--transpose", "*", launch=launch)
                    self.assertEqual(found, {"w": ([6, 40], w), "v": ([40, 6], v)})
                    self.assertNotIn("prun:", done.err)

    def test_printing_in_full_shows_every_digit(self):
        plan = self.net("param w : f32[40, 30] = uniform(0, 1); loss mse(x, y) + 0 * sum(w);", 2)
        found, done = self.load(plan, 2, "--print", "w:full", "--print", "w")
        text = re.search(r"(?m)^w = (.*)$", done.out)[1]
        numbers = [number for row in json.loads(text) for number in row]
        self.assertEqual([struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers], found["w"][1])
        self.assertIn("...", done.out.splitlines()[-1])
        self.assertFails(self.local(plan, 2, "--print", "w:all"), 2, "--print w:all: behind a name stands nothing or :full")
        self.assertFails(self.local(plan, 2, "--print", "v:full"), 2, "the net has no such parameter")
        plan = self.net("fc1 = linear(x, 6); loss mse(fc1, y);", 2)
        self.assertFails(self.local(plan, 2, "--print", "fc1"), 2, "the net has no such parameter; did you mean fc1.weight\\?")
        self.assertFails(self.local(plan, 2, "--print", "fc1:full"), 2, "the net has no such parameter; did you mean fc1.weight:full\\?")

    def test_what_fits_transposed_is_said(self):
        plan = self.net("param w : f32[6, 4] = ones; param v : f32[4, 6] = ones; loss mse(matmul(matmul(x, w), v), y);", 2)
        self.tensors("one", w=("F32", (4, 6), [1] * 24), v=("F32", (4, 6), [1] * 24))
        self.assertFails(self.local(plan, 2, "--load", "one"), 3, r"^prun: one: the shape of 'w' is \[4, 6\], and the net's is \[6, 4\]: it fits transposed: --transpose w\n$")
        self.load(plan, 2, "--load", "one", "--transpose", "w")
        self.assertFails(self.local(plan, 2, "--load", "one", "--transpose", "*"), 3, r"the shape of 'v' is \[4, 6\], and .* fits as it is, without --transpose")
        self.tensors("alone", w=("F32", (6, 4), [1] * 24))
        self.assertFails(self.local(plan, 2, "--load", "alone"), 3, r"^prun: alone: has no 'v'; with --fresh v it begins as the net says\n$")
        self.tensors("both", w=("F32", (4, 6), [1] * 24), v=("F32", (6, 4), [1] * 24))
        self.assertFails(self.local(plan, 2, "--load", "both"), 3, r"both: does not fit the net\n  fits transposed, with --transpose, 2: w, v\n$")
        self.assertFails(self.local(plan, 2, "--load", "saved", "--transpose", "*"), 3, "\n  fits the other way round, with --transpose or without, 2: w, v\n$")
        found, done = self.load(plan, 2, "--load", "one", "--transpose", "w", "--fresh", "v")
        self.assertEqual(done.err, "prun: note: one: 1 parameter newly initialised, as --fresh says: v\n")

    def test_a_square_matrix_of_another_program_is_warned_of(self):
        plan = self.net("param w : f32[6, 6] = ones; param b : f32[6] = zeros; loss mse(matmul(x, w) + b, y);", 2)
        w = self.numbers(36)
        self.tensors("t", w=("F32", (6, 6), w), b=("F32", (6,), [0] * 6))
        found, done = self.load(plan, 2, "--load", "t")
        self.assertEqual(found["w"], ([6, 6], w))
        self.assertRegex(done.err, r"^prun: warning: t: 1 square matrix is loaded as stored; whether the file has it transposed cannot be told from the shape: w; --transpose PATTERN")
        found, done = self.load(plan, 2, "--load", "t", "--transpose", "w")
        self.assertEqual((found["w"], done.err), (([6, 6], transposed(w, 6, 6)), ""))
        self.assertEqual(self.load(plan, 2, "--load", "saved")[1].err, "", "prun's own file")

    def test_numbered_modules_are_loaded_by_other_names(self):
        """What torch.save of nn.Sequential(Linear, ReLU, Linear) has: 0.weight, 0.bias, 2.weight, 2.bias, [out, in]."""
        plan = self.net("fc1 = linear(x, 4); fc2 = linear(relu(fc1), 6); loss mse(fc2, y);", 2)
        numbers = {"0.weight": (4, 6), "0.bias": (4,), "2.weight": (6, 4), "2.bias": (6,)}
        values = {name: self.numbers(shape[0] * (shape[1] if len(shape) > 1 else 1)) for name, shape in numbers.items()}
        self.tensors("t", {"format": "pt"}, **{name: ("F32", shape, values[name]) for name, shape in numbers.items()})
        found, done = self.load(plan, 2, "--load", "t", "--rename", "fc1.*=0.*", "--rename", "fc2.*=2.*")
        self.assertEqual({name: found[name.replace("0.", "fc1.").replace("2.", "fc2.")] for name in numbers}, {name: (list(numbers[name]), values[name]) for name in numbers})
        self.assertEqual(done.err, "")
        done = self.local(plan, 2, "--load", "t")
        self.assertFails(done, 3, "\n  missing, 4: .*\n  unexpected, in the file and not in the net, 4: 0.weight, 0.bias, 2.weight, 2.bias\n.*--rename 'fc1.\\*=0.\\*'; ")
        for rules, words in ((("fc1.*=0.*", "fc2.*=0.*"), r"--rename: fc1\.\w+ and fc2\.\w+ of the net would both be 0\.\w+ of t"),
                             (("fc1.*=fc2.*", "fc2.*=2.*"), r"--rename: fc1\.\w+ and fc2\.\w+ of the net would both be 2\.\w+ of t"),
                             (("fc3.*=0.*",), r"--rename fc3.\*=0.\*: the net has no parameter with the path fc3.\*"),
                             (("**.fc1=**.0",), r"the net has no parameter with the path"), (("fc*=0",), "both sides have the same"), (("fc1",), "it says NET=FILE"),
                             (("=a",), "it says NET=FILE"), (("a=",), "it says NET=FILE")):
            self.assertFails(self.local(plan, 2, "--load", "t", *[word for rule in rules for word in ("--rename", rule)]), 2, words)
        for option in "--rename", "--transpose", "--fresh":
            self.assertFails(self.local(plan, 2, option, "fc1.*"), 2, "%s says how --load reads a file: add --load FILE" % option)
        for option in "--transpose", "--fresh":
            self.assertFails(self.local(plan, 2, "--load", "t", option, "fc3.*"), 2, "%s fc3.\\*: the net has no (parameter|matrix) with the path fc3.\\*" % option)
        self.assertFails(self.local(plan, 2, "--load", "t", "--transpose", "**.bias"), 2, "no matrix")

    def test_a_parameter_is_put_together_of_numbered_pieces(self):
        """Three experts' matrices under a number each, as Mixtral's, on one rank and with experts or rows split, for which each rank reads its part."""
        body = "h = expert_linear(reshape(x, shape = [batch, 1, 6]), 3, 4)%s; s = reshape(sum(h, axes = 2), shape = [batch, 4]); out = linear(s, 6); loss mean(square(out - y));"
        pieces, rest = [self.numbers(24) for _ in range(3)], {"out.weight": ("F32", (6, 4), self.numbers(24)), "out.bias": ("F32", (6,), self.numbers(6))}
        whole = [value for piece in pieces for value in piece]
        self.tensors("w.safetensors", **{"h.%d.weight" % k: ("BF16" if k else "F32", (4, 6), pieces[k]) for k in (2, 0, 1)}, **rest)
        self.tensors("turned.safetensors", **{"e.h.%d.weight" % k: ("F32", (6, 4), transposed(pieces[k], 4, 6)) for k in range(3)}, **rest)
        for ranks, shard in (1, ""), (3, " shard ((1, 1, 1), (3, 1))"), (2, " shard ((1, 1, 1), (2, 1))"), (4, " shard ((1, 1, 2), (2, 2))"), (8, ""):
            plan = self.net(body % shard, ranks)
            for options in ("--load", "w.safetensors"), ("--load", "turned.safetensors", "--rename", "h.weight=e.h.weight", "--transpose", "**.weight", "--fresh", "out.*"):
                done = self.ok(self.local(plan, ranks, *options, "--save", "after"))
                self.assertEqual(self.saved("after")["h.weight"], ([3, 4, 6], whole), (ranks, shard, options))
                self.assertNotIn("no parameter for", done.err)
        self.ok(self.local(plan, 8, "--load", "after"))
        for name, shapes, error in (("few", [(4, 6)] * 2, r"the 2 tensors 'h\.\*\.weight' are together \[2, 4, 6\], and the net's is \[3, 4, 6\]"), ("many", [(4, 6)] * 4, r"are together \[4, 4, 6\]"),
                                    ("mixed", [(4, 6), (4, 6), (6, 4)], r"the 3 tensors 'h\.\*\.weight' are of several shapes"), ("turned", [(6, 4)] * 3, r"it fits transposed: --transpose h\.weight"),
                                    ("none", [], "has no 'h.weight'")):
            self.tensors("bad.safetensors", **{"h.%d.weight" % k: ("F32", shape, self.numbers(24)) for k, shape in enumerate(shapes)}, **rest)
            self.assertFails(self.local(plan, 8, "--load", "bad.safetensors"), 3, error)
        self.tensors("gap.safetensors", **{"h.%d.weight" % k: ("F32", (4, 6), pieces[0]) for k in (0, 2)}, **rest)
        self.assertFails(self.local(plan, 8, "--load", "gap.safetensors"), 3, r"the 1 tensors? 'h\.\*\.weight' are together")

    def test_a_model_in_several_files_is_loaded_by_its_index(self):
        body = "h = expert_linear(reshape(x, shape = [batch, 1, 6]), 3, 4); s = reshape(sum(h, axes = 2), shape = [batch, 4]); out = linear(s, 6); loss mean(square(out - y));"
        pieces, weight, bias = [self.numbers(24) for _ in range(3)], self.numbers(24), self.numbers(6)
        os.mkdir(self.path("model"))
        self.tensors("model/a.safetensors", **{"h.0.weight": ("F32", (4, 6), pieces[0]), "out.bias": ("F32", (6,), bias), "h.1.weight": ("F32", (4, 6), pieces[1])})
        self.tensors("model/b.safetensors", **{"h.2.weight": ("BF16", (4, 6), pieces[2]), "out.weight": ("F32", (6, 4), weight), "more": ("F32", (1,), [0])})
        files = {"h.0.weight": "a", "h.1.weight": "a", "h.2.weight": "b", "out.bias": "a", "out.weight": "b", "more": "b"}
        index = lambda **other: self.write("model/model.safetensors.index.json", json.dumps({"metadata": {"total_size": 1}, "weight_map": {**{name: file + ".safetensors" for name, file in files.items()}, **other}}))
        for ranks in 1, 3:
            index()
            plan = self.net(body, ranks)
            found, done = self.load(plan, ranks, "--load", "model/model.safetensors.index.json")
            self.assertEqual(found, {"h.weight": ([3, 4, 6], sum(pieces, [])), "out.weight": ([6, 4], weight), "out.bias": ([6], bias)})
            self.assertIn("1 tensor that the net has no parameter for: more", done.err)
        for other, error in (({"out.bias": "c.safetensors"}, "model/c.safetensors: cannot be opened"), ({"out.bias": "b.safetensors"}, "model/b.safetensors: it has no 'out.bias', which the index says it has"),
                             ({"out.bias": "../a.safetensors"}, "its entry for 'out.bias' names no file beside it"), ({"out.bias": 3}, "its entry for 'out.bias' names no file beside it")):
            index(**other)
            self.assertFails(self.local(plan, 3, "--load", "model/model.safetensors.index.json"), 3, error)
        self.write("model/model.safetensors.index.json", "[1]")
        self.assertFails(self.local(plan, 3, "--load", "model/model.safetensors.index.json"), 3, "it has no weight_map")

    def test_renames_follow_each_other(self):
        """A norm in an encoder: other names before it and behind it."""
        plan = self.net("encoder = layer_norm(linear(x, 6)); loss mse(encoder, y);", 2)
        names = [name for name in self.load(plan, 2)[0]]
        self.assertEqual(sorted(names), ["encoder.bias", "encoder.linear.bias", "encoder.linear.weight", "encoder.weight"])
        theirs = {"encoder.bias": "bert.encoder.beta", "encoder.weight": "bert.encoder.gamma"}
        theirs = {name: theirs.get(name, "bert." + name) for name in names}
        numbers = {name: self.numbers(36 if name == "encoder.linear.weight" else 6) for name in names}
        self.tensors("t", {"pcc.net": "0"}, **{theirs[name]: ("F32", (6, 6) if len(values) == 36 else (6,), values) for name, values in numbers.items()})
        found, done = self.load(plan, 2, "--load", "t", "--rename", "encoder.**=bert.encoder.**", "--rename", "bert.*.weight=bert.*.gamma", "--rename", "bert.*.bias=bert.*.beta")
        self.assertEqual({name: values for name, (_, values) in found.items()}, numbers)

    def test_many_names_are_grouped_and_deeper_ones_need_two_stars(self):
        plan = self.net("encoder = x; for i in 0..3 { encoder = mlp(encoder, 4, 6); } loss mse(linear(encoder, 6), y);", 2)
        shapes = {}
        for i in range(3):
            for name, shape in (("up", (4, 6)), ("down", (6, 4))):
                shapes["bert.encoder.%d.%s.weight" % (i, name)], shapes["bert.encoder.%d.%s.bias" % (i, name)] = shape, shape[:1]
        shapes["cls.weight"] = (2, 6)
        self.tensors("t", **{name: ("F16", shape, self.numbers(shape[0] * (shape[1] if len(shape) > 1 else 1))) for name, shape in shapes.items()})
        self.assertFails(self.local(plan, 2, "--load", "t", "--rename", "encoder.*=bert.encoder.*"), 2, r"no parameter with the path encoder.\*; did you mean encoder.\*\*\?")
        rename = ("--rename", "encoder.**=bert.encoder.**")
        done = self.local(plan, 2, "--load", "t")
        self.assertFails(done, 3, "^prun: t: does not fit the net\n")
        self.assertIn("\n  missing, 14: encoder.*.up.weight (3), encoder.*.up.bias (3), encoder.*.down.weight (3), encoder.*.down.bias (3), loss.linear.weight, loss.linear.bias\n", done.err)
        self.assertIn("\n  unexpected, in the file and not in the net, 13: bert.encoder.*.up.weight (3), ", done.err)
        self.assertIn("--rename NET=FILE says what the file calls a parameter, --rename '**=bert.**'; ", done.err)
        self.assertFails(self.local(plan, 2, "--load", "t", *rename), 3, "missing, 2: loss.linear.weight, loss.linear.bias\n  unexpected, in the file and not in the net, 1: cls.weight\n")
        first = self.load(plan, 2)[0]
        found, done = self.load(plan, 2, "--load", "t", *rename, "--fresh", "loss.**")
        self.assertEqual(found["loss.linear.weight"], first["loss.linear.weight"], "as the net begins")
        self.assertNotEqual(found["encoder.2.up.weight"], first["encoder.2.up.weight"])
        self.assertIn("prun: note: t: 1 tensor that the net has no parameter for: cls.weight\n", done.err)
        self.assertIn("prun: note: t: 2 parameters newly initialised, as --fresh says: loss.linear.weight, loss.linear.bias\n", done.err)

    def test_a_checkpoint_gives_its_parameters_without_a_word(self):
        self.write("net.dsl", """net n { input x : f32[8, 6]; param w : f32[6, 6] = normal(1); loss mean(square(matmul(x, w))); }
            train { data = normal(seed = 3); optimizer = adam(); checkpoint every epoch; }""")
        plan = self.compile(self.path("net.dsl"), "net.plan", "--ranks", 2)
        self.ok(self.local(plan, 2))
        taken = self.path("net.plan.checkpoints", "step-000000001.safetensors")
        done = self.ok(self.local(plan, 2, "--load", taken, "--checkpoint-dir", "other"))
        self.assertEqual(done.err, "")

    def test_reals_of_any_width_are_read_and_other_types_are_not(self):
        plan = self.net("param w : f32[6, 6] = ones; loss mse(matmul(x, w), y);", 2)
        w = self.numbers(36)
        for dtype in "F16", "BF16", "F32", "F64":
            self.tensors("t", w=(dtype, (6, 6), w))
            for flags, expected in ((), w), (("--transpose", "w"), transposed(w, 6, 6)):
                self.assertEqual(self.load(plan, 2, "--load", "t", *flags)[0]["w"][1], expected, dtype)
        self.tensors("t", w=("I32", (6, 6), w))
        self.assertFails(self.local(plan, 2, "--load", "t"), 3, "holds i32, and f32 is needed")


if __name__ == "__main__":
    harness.main()
