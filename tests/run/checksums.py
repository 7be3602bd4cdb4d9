#!/usr/bin/env python3
"""What a disk does to a checkpoint is found: a changed byte of any tensor, on the ranks that wrote it and on others."""
import json
import os
import struct
import unittest

import harness
from harness import Case, run

NET = """net small(batch = 16) {
    input x : f32[batch, 24]; input y : f32[batch, 8];
    param w : f32[24, 32] = normal(0.3); param w2 : f32[32, 8] = normal(0.3);
    h = tanh(matmul(x, w)) ; p = matmul(h, w2) %s; loss mse(p, y);
}
train { data = normal(seed = 3); optimizer = %s; epochs = 3; steps = 6; checkpoint every 6 steps; }
"""
SHARD = "shard ((2, 2), (2, 1))"
MOMENTUM = "momentum(lr = 0.05, momentum = 0.9)"


def xxh64(data):
    """XXH64 with seed 0, from its specification (doc/xxhash_spec.md of Cyan4973/xxHash)."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    mask = 2 ** 64 - 1

    def rotl(x, r):
        return (x << r | x >> 64 - r) & mask

    def mix(lane, word):
        return rotl((lane + word * p2) & mask, 31) * p1 & mask

    at = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        for at in range(0, len(data) - 31, 32):
            lanes = [mix(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
        at += 32
        h = sum(rotl(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            h = ((h ^ mix(0, lane)) * p1 + p4) & mask
    else:
        h = p5
    h = (h + len(data)) & mask
    while at + 8 <= len(data):
        h = (rotl(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        h = (rotl(h ^ struct.unpack_from("<I", data, at)[0] * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * p5 & mask, 11) * p1 & mask
    h = (h ^ h >> 33) * p2 & mask
    h = (h ^ h >> 29) * p3 & mask
    return h ^ h >> 32


def parts(path):
    """Of a safetensors file: its header as text and as JSON, and the place of its elements."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    return data[8:8 + n], json.loads(data[8:8 + n]), 8 + n


def tensors(names):
    return [name for name in names if name not in ("__metadata__", "pcc:checksums")]


def joined(names, data):
    """A safetensors file of these entries; data_offsets are theirs already."""
    text = json.dumps(names, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


class Checksums(Case):
    def plan(self, ranks, shard="", optimizer=MOMENTUM, name=None):
        name = name or "r%d" % ranks
        self.write(name + ".dsl", NET % (shard, optimizer))
        return self.compile(name + ".dsl", name + ".plan", "--ranks", ranks)

    def taken(self, plan, step=6):
        return os.path.join(plan + ".checkpoints", "step-%09d.safetensors" % step)

    def flip(self, path, at):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))

    def resumes(self, ranks, plan, path, code=0, mpi=False):
        """Resumed elsewhere; a run that is refused says one line and nothing else."""
        launch = [harness.mpirun, "-n", ranks, harness.prun] if mpi else [harness.prun, "--ranks", ranks]
        where = self.path("elsewhere")
        done = run([*launch, plan, "--resume", path, "--checkpoint-dir", where])
        self.assertEqual(done.code, code, done)
        for name in os.listdir(where) if os.path.isdir(where) else []:
            os.remove(os.path.join(where, name))
        if code:
            self.assertEqual(done.out, "", done)
            self.assertEqual(done.err.count("prun: "), 1, done)
        return done

    def test_they_are_xxh64_of_what_ranks_wrote_and_of_the_header(self):
        self.assertEqual([xxh64(data) for data in (b"", b"a", bytes(range(101)))], [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0xE99038495F85381E])
        plan = self.plan(4, SHARD)
        self.ok(self.local(plan, 4))
        text, names, begin = parts(self.taken(plan))
        data = self.read(self.taken(plan))[begin:]
        first, last = names["pcc:checksums"]["data_offsets"]
        self.assertEqual((last, names["pcc:checksums"]["dtype"]), (len(data), "I64"), "the last tensor")
        sums = list(struct.unpack("<%dQ" % ((last - first) // 8), data[first:last]))
        self.assertEqual(names["__metadata__"]["pcc.checksums"], "xxh64")
        self.assertEqual(sums.pop(0), xxh64(text))
        cuts = set()
        for name in tensors(names):
            rows, columns = names[name]["shape"]
            cut = names["__metadata__"]["pcc.boxes." + name]
            cuts.add(cut)
            down, across = (1 if dim == "-" else int(dim.split("@")[0]) for dim in cut.strip("[]").split())
            begin = names[name]["data_offsets"][0]
            for i in range(down):
                for j in range(across):
                    h, w = rows // down, columns // across
                    box = b"".join(data[begin + 4 * (row * columns + j * w):][:4 * w] for row in range(i * h, (i + 1) * h))
                    self.assertEqual(sums.pop(0), xxh64(box), "%s %d %d" % (name, i, j))
        self.assertEqual(sums, [])
        self.assertGreater(len(cuts), 1)

    def test_a_changed_byte_of_any_tensor_is_found_on_any_ranks(self):
        four, three, one = self.plan(4, SHARD), self.plan(3), self.plan(1)
        here = [(4, four, False), (3, three, False), (1, one, False)]
        there = [(2, self.plan(2), True), (4, four, True)] if harness.mpirun else []
        for ranks, plan, readers in (4, four, here + there), (3, three, here[:2]), (1, one, here[1:]):
            self.ok(self.local(plan, ranks))
            path = self.taken(plan)
            _, names, begin = parts(path)
            self.assertEqual(len(tensors(names)), 4)
            for name in tensors(names):
                first, last = (begin + place for place in names[name]["data_offsets"])
                rows, columns = names[name]["shape"]
                for at in (first, (first + last) // 2 + 1, last - 1)[:3 if ranks == 4 else 1]:
                    self.flip(path, at)
                    row, column = divmod((at - first) // 4, columns)
                    for reading, reader, mpi in readers:
                        if mpi and at > first:
                            continue
                        done = self.resumes(reading, reader, path, 3, mpi)
                        self.assertRegex(done.err, r"(?m)^prun: %s: damaged: '%s' \[\d+:\d+, \d+:\d+\] is not what was written there$" % (path, name))
                        a, b, c, d = (int(word) for word in done.err.split("' [")[1].split("]")[0].replace(",", ":").split(":"))
                        self.assertTrue(a <= row < b <= rows and c <= column < d <= columns, done)
                    self.flip(path, at)
            for reading, reader, mpi in readers:
                self.resumes(reading, reader, path, mpi=mpi)

    def test_columns_that_ranks_exchanged_before_they_wrote(self):
        text = """net s { input x : f32[4, 24]; param w : f32[2000, 24] = normal(1) shard %s; loss mean(x) * mean(w); }
                  train { data = normal(seed = 1); optimizer = sgd(lr = 1e-30); steps = 2; checkpoint every 1 steps; } parallel { mode = semi_auto; mesh (a = 4, b = 2); }"""
        plans = {}
        for name, cut in ("columns", "(-, b.a)"), ("rows", "(a, -)"):
            self.write(name + ".dsl", text % cut)
            plans[name] = self.compile(name + ".dsl", name + ".plan", "--ranks", 8)
        self.ok(self.local(plans["columns"], 8))
        path = self.taken(plans["columns"], 1)
        _, names, begin = parts(path)
        self.assertEqual(names["__metadata__"]["pcc.boxes.w"], "[2@4.4@1 -]")
        for at, box in (0, "0:250"), (24 * 4 * 1000 - 1, "750:1000"), (24 * 4 * 2000 - 1, "1750:2000"):
            self.flip(path, begin + at)
            for plan in plans.values():
                done = self.resumes(8, plan, path, 3)
                self.assertIn("damaged: 'w' [%s, 0:24] is not what was written there" % box, done.err)
            self.flip(path, begin + at)
        for plan in plans.values():
            self.resumes(8, plan, path)

    def test_a_changed_header_or_checksum_is_found(self):
        plan = self.plan(2)
        self.ok(self.local(plan, 2))
        path = self.taken(plan)
        good = self.read(path)
        text, names, begin = parts(path)
        sums = begin + names["pcc:checksums"]["data_offsets"][0]
        for words, data in (("its header is not what was written", good.replace(b'"pcc.step":"6"', b'"pcc.step":"5"')),
                            ("its header is not what was written", good[:sums] + bytes([good[sums] ^ 1]) + good[sums + 1:]),
                            (r"'w' \[.*\] is not what was written there", good[:sums + 8] + bytes([good[sums + 8] ^ 1]) + good[sums + 9:]),
                            ("its checksums are not where they were written", good.replace(b"pcc:checksums", b"pcc:chacksums")),
                            ("its checksums are not where they were written", good.replace(b"pcc.checksums", b"pcc.chacksums")),
                            ("its checksums are of a kind that this prun does not know", good.replace(b'"xxh64"', b'"xxh99"'))):
            self.assertNotEqual(data, good)
            self.write("bad", data)
            for launch in False, True:
                if harness.mpirun or not launch:
                    done = self.resumes(2, plan, self.path("bad"), 3, mpi=launch)
                    self.assertRegex(done.err, r"(?m)^prun: %s: (damaged: )?%s" % (self.path("bad"), words))

    def test_latest_passes_over_what_a_disk_has_changed(self):
        plan = self.plan(2)
        whole = self.ok(self.local(plan, 2)).texts()
        at = {step: self.taken(plan, step) for step in (6, 12, 18)}
        good = {step: self.read(path) for step, path in at.items()}
        text, names, begin = parts(at[18])
        element = begin + names["w2"]["data_offsets"][0] + 77
        for launch in ([harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]):
            if launch[0] is None:
                continue
            self.flip(at[18], element)
            done = self.ok(run([*launch, plan, "--resume", "latest"]))
            self.assertEqual(done.texts(), whole[12:])
            self.assertRegex(done.err, r"^prun: note: %s: damaged: 'w2' \[.*\] is not what was written there: going on from %s\n$" % (at[18], at[12]))
            self.assertEqual(self.read(at[18]), good[18], "saved again")
            self.flip(at[18], element)
            self.write(at[12], good[12][:-5])
            done = self.ok(run([*launch, plan, "--resume", "latest"]))
            self.assertEqual(done.texts(), whole[6:])
            self.assertRegex(done.err, r"^prun: note: %s: damaged: 'w2' .*: going on from %s\nprun: note: %s: .*: going on from %s\n$" % (at[18], at[6], at[12], at[6]))
            self.assertEqual(self.read(at[12]), good[12])
            for path in at.values():
                self.flip(path, element)
            done = run([*launch, plan, "--resume", "latest"])
            self.assertFails(done, 3, r"(?m)^prun: %s: damaged: 'w2' \[.*\] is not what was written there$" % at[18])
            for path in at.values():
                self.flip(path, element)

    def test_only_what_is_taken_has_to_be_intact(self):
        plan, plain = self.plan(2), self.plan(2, optimizer="sgd(lr = 0.05)", name="plain")
        self.ok(self.local(plan, 2))
        path = self.taken(plan)
        _, names, begin = parts(path)
        self.flip(path, begin + names["w.momentum"]["data_offsets"][0])
        self.ok(self.local(plain, 2, "--load", path))
        done = self.resumes(2, plain, path)
        self.assertIn("the plan has no w.momentum, w2.momentum: left out", done.err)
        self.assertNotIn("pcc:", done.err)
        self.assertIn("'w.momentum' [0:", self.resumes(2, plan, path, 3).err)
        self.flip(path, begin + names["w"]["data_offsets"][0])
        for ranks in 1, 2:
            self.assertFails(self.local(self.plan(ranks), ranks, "--load", path), 3, "damaged: 'w' ")

    def test_checkpoints_of_an_earlier_prun_have_none_and_are_read(self):
        plan = self.plan(2)
        whole = self.ok(self.local(plan, 2)).texts()
        _, names, begin = parts(self.taken(plan))
        data = self.read(self.taken(plan))[begin:begin + names["pcc:checksums"]["data_offsets"][0]]
        del names["pcc:checksums"]
        names["__metadata__"] = {key: value for key, value in names["__metadata__"].items() if key != "pcc.checksums" and not key.startswith("pcc.boxes.")}
        old = self.write("old", joined(names, data))
        for ranks, reader in (2, plan), (1, self.plan(1)):
            done = self.resumes(ranks, reader, old)
            self.assertEqual(done.err, "")
            if ranks == 2:
                self.assertEqual(done.texts(), whole[6:])
        names["w.momentun"] = names.pop("w.momentum")
        done = self.resumes(2, plan, self.write("old", joined(names, data)), 3)
        self.assertIn("has no 'w.momentum': it was taken with another optimizer; --load takes its parameters alone", done.err)

    def test_files_of_parameters_alone_are_for_others_too_and_have_none(self):
        plan = self.plan(2)
        self.ok(self.local(plan, 2, "--save", self.path("w")))
        _, names, _ = parts(self.path("w"))
        self.assertEqual(sorted(names), ["__metadata__", "w", "w2"])
        self.assertEqual(list(names["__metadata__"]), ["pcc.net"])


if __name__ == "__main__":
    harness.main()
