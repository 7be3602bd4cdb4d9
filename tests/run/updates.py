#!/usr/bin/env python3
"""Optimizers against PyTorch's numbers, on one rank and on two that each update a part: the table optimizers.json, which torch_optimizers.py makes."""
import json
import os
import shutil
import struct

import harness
import torch_optimizers
from harness import Case, run
from torch_optimizers import CASES, SHAPES, STEPS

ULPS = 4 # of the largest of old and new number: one of the two fuses a product with a sum where the other does not
EPSILON = {"float32": 2.0 ** -23, "float64": 2.0 ** -52}
FORM = {"float32": ("f32", "<f4", "f"), "float64": ("f64", "<f8", "d")}


def literal(values, shape):
    if not shape:
        return repr(values[0])
    part = len(values) // shape[0]
    return "[%s]" % ", ".join(literal(values[i * part:(i + 1) * part], shape[1:]) for i in range(shape[0]))


def npy(rows, shape, descr, code):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (descr, ", ".join(map(str, (len(rows),) + shape)))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    values = [value for row in rows for value in row]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%d%s" % (len(values), code), *values)


def states(data, code):
    n, = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = struct.unpack("<%d%s" % ((end - begin) // struct.calcsize(code), code), data[8 + n + begin:8 + n + end])
    return found


def net(settings, dtype, ranks, more):
    """Every gradient is the step's input, exactly. Two rows a batch, of which the second is 0: split over the batch a gradient is a sum of two terms."""
    kind = FORM[dtype][0]
    lines = ["net n(batch = 2) {"]
    for name, shape in SHAPES.items():
        sizes = ", ".join(map(str, shape))
        lines.append("    input g_%s : %s[batch%s];" % (name, kind, ", " + sizes if shape else ""))
        lines.append("    param %s : %s[%s] = %s;" % (name, kind, sizes, literal(torch_optimizers.starts()[name], shape)))
        lines.append("    y_%s = g_%s * %s shard ((%s), (%s));" % (name, name, name, ", ".join([str(ranks)] + ["1"] * len(shape)), ", ".join(["1"] * len(shape))))
    lines.append("    loss %s;\n}" % " + ".join("sum(y_%s)" % name for name in SHAPES))
    data = ", ".join('g_%s = "g_%s.npy"' % (name, name) for name in SHAPES)
    lines.append("train { data = npy(%s); epochs = 1; steps = %d; checkpoint every 1; %s }" % (data, STEPS[-1], settings))
    return "\n".join(lines) + "\nparallel { dataset = data_parallel; %s }\n" % more


class Updates(Case):
    def checked(self, case, dtype, ranks, more=""):
        with open(torch_optimizers.TABLE, encoding="utf-8") as file:
            table = json.load(file)["cases"][case][dtype]
        _, descr, code = FORM[dtype]
        for name, shape in SHAPES.items():
            rows = [row for step in torch_optimizers.gradients() for row in (step[name], [0.0] * len(step[name]))]
            self.write("g_%s.npy" % name, npy(rows, shape, descr, code))
        self.write("net.dsl", net(CASES[case][0], dtype, ranks, more))
        shutil.rmtree(self.path("net.plan.checkpoints"), ignore_errors=True)
        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--prove")
        self.assertEqual(b" reduce_scatter " in self.read("net.plan"), ranks > 1, "sums of gradients go to the parts that are updated")
        self.ok(self.local(plan, ranks))
        starts = torch_optimizers.starts()
        for k, step in enumerate(STEPS):
            found = states(self.read("net.plan.checkpoints", "step-%09d.safetensors" % step), code)
            for name, expected in table.items():
                for i, (a, b) in enumerate(zip(found[name], expected[k], strict=True)):
                    most = max(abs(b), abs(starts[name.split(".")[0]][i]), 0.125)
                    self.assertLessEqual(abs(a - b), ULPS * EPSILON[dtype] * most, "%s after step %d: element %d is %r, PyTorch's %r" % (name, step, i, a, b))

    def test_every_optimizer_computes_what_pytorch_does(self):
        for case in CASES:
            for dtype in FORM:
                for ranks, more in ((1, ""), (2, "shard_from = 0;")):
                    with self.subTest(case=case, dtype=dtype, ranks=ranks):
                        self.checked(case, dtype, ranks, more)

    def test_tables_by_the_rows_that_occur_are_what_pytorch_computes(self):
        """Rows that occur twice get the sum of both, the others stay, and so do their slots; whole on every rank, and split by rows and columns."""
        with open(torch_optimizers.TABLE, encoding="utf-8") as file:
            tables = json.load(file)["tables"]
        lookups, start = torch_optimizers.lookups(), torch_optimizers.table_start()
        shape = torch_optimizers.ROWS, torch_optimizers.WIDTH
        batch = "--gradients", "sum", "-D", "batch=%d" % (torch_optimizers.LOOKED_UP // 2)
        replicas = (2, ("--mode", "data_parallel", *batch)), (1, ("--mode", "data_parallel", "--replicas", 2, *batch)), (2, ("--mode", "data_parallel", *batch, "-O0"))
        self.write("index.npy", npy([[i] for index, _ in lookups for i in index], (), "<i4", "i"))
        for case, by_type in tables.items():
            for dtype, expected in by_type.items():
                kind, descr, code = FORM[dtype]
                self.write("g.npy", npy([g[at:at + shape[1]] for _, g in lookups for at in range(0, len(g), shape[1])], shape[1:], descr, code))
                self.write("net.dsl", """net n(batch = %d) { input index : i32[batch]; input g : %s[batch, %d]; param t : %s[%d, %d] = %s; loss sum(embedding(t, index) * g); }
train { data = npy(index = "index.npy", g = "g.npy"); epochs = 1; steps = %d; checkpoint every 1; %s }""" % (
                    torch_optimizers.LOOKED_UP, kind, shape[1], kind, *shape, literal(start, shape), STEPS[-1], torch_optimizers.TABLES[case][0]))
                for ranks, options in (1, ()), (2, ()), (2, ("--shard", "t=(2, 1)")), (3, ("--shard", "t=(3, 1)")), (4, ("--shard", "t=(2, 2)")), (2, ("-O0",)), *replicas:
                    with self.subTest(case=case, dtype=dtype, ranks=ranks, options=options):
                        shutil.rmtree(self.path("net.plan.checkpoints"), ignore_errors=True)
                        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--prove", *options)
                        self.assertIn(b"kernel %s " % (b"embedding_sgd" if case == "sgd" else b"lazy_adam"), self.read("net.plan"))
                        self.ok(self.local(plan, ranks))
                        for k, step in enumerate(STEPS):
                            found = states(self.read("net.plan.checkpoints", "step-%09d.safetensors" % step), code)["t"]
                            for i, (a, b) in enumerate(zip(found, expected[k], strict=True)):
                                self.assertLessEqual(abs(a - b), ULPS * EPSILON[dtype] * max(abs(b), abs(start[i]), 0.125), "after step %d: element %d is %r, PyTorch's %r" % (step, i, a, b))

    def test_the_table_is_what_pytorch_computes_here(self):
        """Live, where there is a PyTorch: PEER_PYTHON, or python3."""
        python = os.environ.get("PEER_PYTHON", "python3")
        if run([python, "-c", "import torch"]).code != 0:
            self.skipTest("there is no PyTorch")
        self.ok(run([python, os.path.join(harness.sources, "tests", "run", "torch_optimizers.py"), "--check"]))


if __name__ == "__main__":
    harness.main()
