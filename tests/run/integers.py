#!/usr/bin/env python3
"""Integers wrap, modulo 2^32 and 2^64, so that sums of them do not depend on how they are split: rows at the ends of the range, on one rank and many, by shared memory,
by messages and in one process, and what Python's integers say."""
import json
import random
import struct

import harness
from harness import Case

ROWS, LENGTH = 4, 8
ISSUE = [2147483647, 1, 0, 0, -2147483647, -1, -2, -2]
WAYS = (1, "(1, 1, 1)"), (2, "(1, 1, 2)"), (2, "(1, 2, 1)"), (3, "(1, 1, 3)"), (4, "(1, 2, 2)"), (6, "(1, 2, 3)"), (8, "(1, 1, 8)")


def wrapped(number, bits):
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


class Integers(Case):
    def setUp(self):
        super().setUp()
        pick = random.Random(3)
        narrow, wide = [-2**31, -2**31 + 1, -1, 0, 1, 2**31 - 1, 2**30, -7], [-2**63, -2**63 + 1, -1, 0, 1, 2**63 - 1, 2**62, 3037000500, -2**40]
        # One row of data: which rank has which of several is for the data to say.
        self.i = [ISSUE] + [[pick.choice(narrow) for _ in range(LENGTH)] for _ in range(1, ROWS)]
        self.j = [[pick.choice(wide) for _ in range(LENGTH)] for _ in range(ROWS)]
        self.write("i.bin", struct.pack("<%di" % (ROWS * LENGTH), *sum(self.i, [])))
        self.write("j.bin", struct.pack("<%dq" % (ROWS * LENGTH), *sum(self.j, [])))

    # name: bits, number of results, what pcc computes, what Python computes
    def sums(self):
        i, j = self.i, self.j
        columns = [[row[k] for row in i] for k in range(LENGTH)]
        return {
            "a": (32, ROWS, "sum(i, axes = 2) shard (SPLIT)", [sum(row) for row in i]),
            "b": (32, LENGTH, "sum(i * i - 3 * i, axes = [0, 1])", [sum(x * x - 3 * x for x in column) for column in columns]),
            "c": (64, ROWS, "sum(j, axes = 2) shard (SPLIT)", [sum(row) for row in j]),
            "d": (64, ROWS, "-c * sum(square(j), axes = 2)", [-sum(row) * sum(x * x for x in row) for row in j]),
            "e": (64, ROWS, "sum(cast(i, to = i64) * 65537 - j, axes = 2)", [sum(x * 65537 - y for x, y in zip(p, q)) for p, q in zip(i, j)]),
            "f": (32, ROWS, "sum(cast(j, to = i32), axes = 2) shard (SPLIT)", [sum(row) for row in j]),
        }

    def plan(self, name, ranks, split):
        """The low bits of a result are left in a parameter, and for the high ones the result as a real in another."""
        params, loss = "", []
        for key, (bits, count, _, _) in self.sums().items():
            shape = [LENGTH] if count == LENGTH else [1, ROWS]
            params += "param %s_low : f64%s = zeros; param %s_all : f64%s = zeros;\n" % (key, shape, key, shape)
            loss += ["sum(cast(cast(%s, to = i32), to = f64) * %s_low) + sum(cast(%s, to = f64) * %s_all)" % (key, key, key, key)]
        lines = "".join("%s = %s;\n" % (key, text.replace("SPLIT", split)) for key, (_, _, text, _) in self.sums().items())
        self.write("net.dsl", "net n {\ninput i : i32[1, %d, %d]; input j : i64[1, %d, %d];\n%s%sloss %s;\n}\n" % (ROWS, LENGTH, ROWS, LENGTH, params, lines, " + ".join(loss)) +
                   'train { data = raw(i = "i.bin", j = "j.bin"); optimizer = sgd(lr = 1.0); steps = 1; }\n')
        return self.compile("net.dsl", name, "--ranks", ranks, "-Wno-uneven", "-Wno-replicated")

    def check(self, result, what):
        self.ok(result)
        data = self.read("w.safetensors")
        end = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:end])
        for key, (bits, count, _, expected) in self.sums().items():
            expected = [wrapped(number, bits) for number in expected]
            for part, numbers in ("low", [wrapped(number, 32) for number in expected]), ("all", expected):
                begin, stop = header["%s_%s" % (key, part)]["data_offsets"]
                found = [-x for x in struct.unpack("<%dd" % count, data[end + begin:end + stop])]
                self.assertEqual(found, [float(number) for number in numbers], "%s_%s, %s" % (key, part, what))

    def test_the_row_of_one_rank_is_that_of_two(self):
        self.assertEqual(wrapped(sum(ISSUE), 32), -4)
        for ranks, split in (1, "(1, 1)"), (2, "(1, 2)"):
            self.write("net.dsl", "net n { input i : i32[1, 8]; param w : f64[1] = ones; a = sum(i, axes = 1) shard (%s); loss sum(cast(a, to = f64) * w); }\n" % split +
                       'train { data = raw(i = "i.bin"); optimizer = sgd(lr = 0.1); steps = 1; }\n')
            plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
            self.assertEqual(self.ok(self.local(plan, ranks)).losses(), [-4.0])
            self.assertEqual(self.ok(self.mpi(plan, ranks)).losses(), [-4.0])

    def test_sums_are_those_of_pythons_integers_however_they_are_split(self):
        one = self.plan("one.plan", 1, "(1, 1, 1)")
        for ranks, split in WAYS:
            plan = self.plan("net.plan", ranks, split)
            self.check(self.local(plan, ranks, "--save", "w.safetensors"), "%d ranks, %s" % (ranks, split))
            self.ok(self.local(plan, ranks, "--verify=" + one))

    def test_processes_compute_what_one_does(self):
        plan = self.plan("net.plan", 4, "(1, 1, 4)")
        for way in "shared", "messages", "nodes:2":
            self.check(self.mpi(plan, 4, "--save", "w.safetensors", env={"PRUN_COMM": way}), way)

    def test_integers_of_a_csv_that_a_real_does_not_hold_are_refused(self):
        self.write("net.dsl", "net n { input j : i64[1, 2]; param w : f64[1] = ones; loss sum(cast(sum(j, axes = 1), to = f64) * w); }\n"
                   'train { data = csv("j.csv"); optimizer = sgd(lr = 0.1); steps = 1; }\n')
        plan = self.compile("net.dsl", "net.plan", "--ranks", 1)
        self.write("j.csv", "9007199254740992,-9007199254740991\n")
        self.assertEqual(self.ok(self.local(plan, 1)).losses(), [1.0])
        self.write("j.csv", "1,9007199254740994\n")
        self.assertFails(self.local(plan, 1), 3, r"input j: j.csv:1:3: about 9007199254740994: a CSV's integers are exact up to 2\^53; .npy and raw files hold any")


if __name__ == "__main__":
    harness.main()
