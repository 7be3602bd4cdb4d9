#!/usr/bin/env python3
"""Rows that are pictures: CIFAR-10's files, folders of PNG and JPEG; their sizes, parts and flips, which are the same on any number of ranks. pictures.json has what
Pillow 12 makes of the same pictures: files of JPEG with their pixels, other sizes, grey."""
import base64
import itertools
import json
import os
import re
import struct
import unittest
import zlib

import harness
from harness import Case

HERE = os.path.dirname(os.path.abspath(__file__))


def png(pixels, kind=2, depth=8, palette=None):
    """A PNG of rows of pixels, each a tuple of its elements; kind: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    height, width = len(pixels), len(pixels[0])
    rows = b"".join(b"\0" + b"".join(struct.pack(">%d%s" % (len(pixel), "B" if depth == 8 else "H"), *pixel) for pixel in row) for row in pixels)
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)) + \
        (chunk(b"PLTE", bytes(itertools.chain(*palette))) if palette else b"") + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def formula(height, width, seed):
    """The picture that pictures.json was made of."""
    return [[tuple((seed * 37 + y * 53 + x * 29 + c * 71 + x * y % 7 * 11) % 256 for c in range(3)) for x in range(width)] for y in range(height)]


def planes(pixels):
    """As a net has them: red, green, blue."""
    return [pixel[c] for c in range(3) for row in pixels for pixel in row]


def part(pixels, top, left, height, width, flip=False):
    whole = [[pixels[y][x] if 0 <= y < len(pixels) and 0 <= x < len(pixels[0]) else (0, 0, 0) for x in range(left, left + width)] for y in range(top, top + height)]
    return [row[::-1] for row in whole] if flip else whole


class Pictures(Case):
    def folder_of(self, name, files):
        """files: "class/file.png" -> bytes."""
        for path, content in files.items():
            os.makedirs(os.path.dirname(self.path(name, path)), exist_ok=True)
            self.write(os.path.join(name, path), content)

    def predict(self, shape, data, ranks=1, predicted="x", batch=2):
        """What the input has of each row, in their order; x is a picture, k its label."""
        self.write("net.dsl", """net n(batch = %d) { input x : f32[batch, %s]; input k : i32[batch]; param w : f32[1] = ones; y = cast(k, to = f32) * 1; loss mean(x * w) + 0 * sum(y); }
            train { data = %s; last = pad; optimizer = sgd(lr = 1); }
            eval { every = never; predict = %s; data = %s; }""" % (batch, shape, data, predicted, data))
        result = self.ok(self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks), ranks, "--predict", self.path("y.npy")))
        body = self.read("y.npy")
        body = body[10 + struct.unpack("<H", body[8:10])[0]:]
        return list(struct.unpack("<%df" % (len(body) // 4), body)), result

    def test_cifar10_of_several_files(self):
        rows = [bytes([r % 10]) + bytes((r * 31 + i * 7 + i // 1024 * 5) % 256 for i in range(3072)) for r in range(11)]
        self.write("data_batch_1.bin", b"".join(rows[:7]))
        self.write("data_batch_2.bin", b"".join(rows[7:]))
        for ranks in 1, 2:
            found, _ = self.predict("3, 32, 32", 'cifar10("data_batch_*.bin")', ranks)
            self.assertEqual(found, [byte for row in rows for byte in row[1:]])
            self.assertEqual(self.predict("3, 32, 32", 'cifar10("data_batch_*.bin")', ranks, "y")[0], [row[0] for row in rows])
        found, _ = self.predict("3, 32, 32", 'cifar10(x = cifar10("data_batch_2.bin", scale = 1.0 / 255, mean = [0.1, 0.2, 0.3], deviation = 0.5, first = 1, rows = 2), k = cifar10("data_batch_2.bin", first = 1, rows = 2))')
        self.assertClose(found, [(byte / 255 - [0.1, 0.2, 0.3][i // 1024]) / 0.5 for row in rows[8:10] for i, byte in enumerate(row[1:])], absolute=1e-6)
        self.write("data_batch_2.bin", rows[0] + b"\x0b" + rows[1][1:])
        plan = self.path("net.plan")
        self.assertFails(self.local(plan, 1, "--predict", self.path("y.npy")), 3, r"data_batch_2\.bin has 2 rows|has 2 rows")
        self.predict("3, 32, 32", 'cifar10("data_batch_1.bin")')
        self.write("data_batch_1.bin", rows[0] + b"\x0b" + rows[1][1:])
        self.assertFails(self.local(plan, 1), 3, r"data_batch_1\.bin: row 1 has label 11, and CIFAR-10's are 0 \.\. 9")
        self.write("data_batch_1.bin", rows[0] + b"1")
        self.assertFails(self.local(plan, 1), 3, r"data_batch_1\.bin: 3074 bytes are no whole number of CIFAR-10's rows of 3073 bytes")

    def test_folders_are_classes_and_pngs_of_all_kinds_are_pixels(self):
        pixels = formula(3, 4, 1)
        grey = [[(pixel[0],) for pixel in row] for row in pixels]
        colours = [(i * 9 % 256, i * 5, 255 - i) for i in range(12)]
        self.folder_of("p", {
            "dog/a.png": png(pixels), "dog/b.PNG": png([[pixel + (y * 60,) for pixel in row] for y, row in enumerate(pixels)], 6), "cat/1.png": png(grey, 0),
            "cat/2.png": png([[tuple(257 * element for element in pixel) for pixel in row] for row in pixels], 2, 16), "cat/in/3.png": png([[(4 * y + x,) for x in range(4)] for y in range(3)], 3, palette=colours),
            "owl/z.png": png([[pixel + (7,) for pixel in row] for row in grey], 4), "owl/notes.txt": b"none", ".git/x.png": b""})
        same = [pixel * 3 for row in grey for pixel in row]
        expected = [[same[4 * y:4 * y + 4] for y in range(3)], pixels, [[colours[4 * y + x] for x in range(4)] for y in range(3)], pixels, pixels, [same[4 * y:4 * y + 4] for y in range(3)]]
        for ranks in 1, 2:
            found, result = self.predict("3, 3, 4", 'pictures("p")', ranks)
            self.assertEqual(found, [element for row in expected for element in planes(row)])
            self.assertEqual(re.findall("note: eval: (.*)", result.err), ["p: 6 pictures of 3 classes: cat, dog, owl", "p: 1 file is left out: no name of .png, .jpg or .jpeg"])
            self.assertEqual(self.predict("3, 3, 4", 'pictures("p")', ranks, "y")[0], [0, 0, 0, 1, 1, 2])
        self.assertEqual(self.predict("3, 3, 4", 'pictures("p", classes = ["owl", "dog", "eel", "cat"])', 1, "y")[0], [0, 1, 1, 3, 3, 3])
        plan = self.compile(self.write("net.dsl", self.read("net.dsl").decode().replace('"eel", "cat"', '"eel"')), "net.plan")
        self.assertFails(self.local(plan, 1), 3, r"p/cat: the folder's name is none of the classes")

    def test_an_eval_has_the_classes_of_training(self):
        """Also where its folder lacks some, or has others: during training, and later with what that has saved."""
        grey = png([[(9,)] * 4] * 3, 0)
        self.folder_of("train", {"cat/1.png": grey, "dog/1.png": grey, "owl/1.png": grey})
        self.folder_of("held", {"owl/1.png": grey, "dog/1.png": grey})
        self.write("net.dsl", """net n(batch = 1) { input x : f32[batch, 3, 4]; input k : i32[batch]; param w : f32[3] = ones; y = cast(k, to = f32) * 1; loss mean(x) * mean(w) + 0 * sum(y); }
            train { data = pictures("train"); optimizer = sgd(lr = 0.1); checkpoint every epoch; }
            eval { data = pictures("held"); every = end; predict = y; metrics = loss; }""")
        plan = self.compile("net.dsl", "net.plan", "--ranks", 1)
        result = self.ok(self.local(plan, 1, "--save", self.path("w.st")))
        self.assertEqual(re.findall("note: (.*: .*pictures.*)", result.err), ["train: train: 3 pictures of 3 classes: 0 cat, 1 dog, 2 owl", "eval: held: 2 pictures of 2 classes: 1 dog, 2 owl"])
        for options in ["--load", self.path("w.st")], ["--resume", "latest"]:
            self.ok(self.local(plan, 1, "--predict", self.path("k.npy"), *options))
            self.assertEqual(struct.unpack("<2f", self.read("k.npy")[-8:]), (1, 2))
        self.folder_of("held", {"bat/1.png": grey})
        for options in ["--overwrite"], ["--eval", "--load", self.path("w.st")]:
            self.assertFails(self.local(plan, 1, *options), 3, r"held/bat: the folder's name is none of the classes of training\n$")

    def test_jpegs_are_what_pillow_reads(self):
        with open(os.path.join(HERE, "pictures.json"), encoding="utf-8") as file:
            known = json.load(file)["jpeg"]
        names = ["baseline", "progressive", "grey", "cmyk", "ycck"]
        self.folder_of("p", {"a/%d.jpg" % i: base64.b64decode(known[name]["file"]) for i, name in enumerate(names)})
        found, _ = self.predict("3, 11, 13", 'pictures("p")')
        size = 3 * 11 * 13
        for i, name in enumerate(names):
            pixels = known[name]["pixels"]
            self.assertClose(found[size * i:size * (i + 1)], [pixels[3 * k + c] for c in range(3) for k in range(11 * 13)], absolute=2, what=name)

    def test_other_sizes_and_grey_are_pillows(self):
        with open(os.path.join(HERE, "pictures.json"), encoding="utf-8") as file:
            known = json.load(file)
        for case in known["resized"]:
            (h, w), (height, width), pixels = case["from"], case["to"], case["pixels"]
            self.folder_of("p", {"a/1.png": png(formula(h, w, h + w))})
            expected = [pixels[3 * k + c] for c in range(3) for k in range(height * width)]
            for change in "", ", resize = [%d, %d]" % (height, width):
                self.assertEqual(self.predict("3, %d, %d" % (height, width), 'pictures("p"%s)' % change, batch=1)[0], expected, case["to"])
        self.folder_of("p", {"a/1.png": png(formula(5, 6, 11))})
        for shape in "1, 5, 6", "5, 6":
            self.assertEqual(self.predict(shape, 'pictures("p")', batch=1)[0], known["grey"])
        # The shorter side is 5 already; the middle of what is larger.
        self.assertEqual(self.predict("3, 5, 3", 'pictures("p", resize = 5, crop = [5, 3])', batch=1)[0], planes(part(formula(5, 6, 11), 0, 2, 5, 3)))
        self.assertEqual(self.predict("3, 4, 4", 'pictures("p", pad = 1, crop = 4)', batch=1)[0], planes(part(formula(5, 6, 11), 1, 1, 4, 4)))

    def test_random_parts_and_flips_are_the_same_on_any_ranks_and_others_in_each_epoch(self):
        count, side = 8, 4
        pixels = [formula(side, side, r) for r in range(count)]
        self.folder_of("p", {"a/%d.png" % r: png(pixels[r]) for r in range(count)})
        weights = [((i * 7919) % 1009) / 1009 for i in range(3 * side * side)]
        variants = {}
        for r in range(count):
            for y, x, flip in itertools.product((-1, 0, 1), (-1, 0, 1), (False, True)):
                variants[r, y, x, flip] = sum(map(lambda a, b: a * b, planes(part(pixels[r], y, x, side, side, flip)), weights))
        seen = {}
        for ranks, batch in (1, 1), (1, 4), (2, 4), (4, 4), (3, 4):
            self.write("net.dsl", """net n(batch = %d) { input x : f64[batch, 3, 4, 4]; param w : f64[48] = %s; loss sum(reshape(x, shape = [batch, 48]) * w); }
                train { data = pictures(x = pictures("p", pad = 1, crop = 4, flip = true)); order = shuffle(seed = 2); optimizer = sgd(lr = 1e-300); epochs = 6; seed = 5; log "{loss:.9f}"; }"""
                       % (batch, weights))
            for start in (self.local, self.mpi) if harness.mpirun and ranks > 1 else (self.local,):
                plan = self.compile("net.dsl", "net.plan", "--ranks", ranks)
                losses = [float(word) for word in re.findall(r"^-?\d+\.\d{9}$", self.ok(start(plan, ranks)).out, re.M)]
                self.assertEqual(len(losses), 6 * count // batch)
                seen[ranks, batch, start] = losses
        single = seen.pop((1, 1, self.local))
        for key, losses in seen.items():
            self.assertClose(losses, [sum(single[4 * i:4 * i + 4]) for i in range(12)], relative=1e-9, what=key)
        found = [min(variants, key=lambda key: abs(variants[key] - loss)) for loss in single]
        for loss, key in zip(single, found):
            self.assertAlmostEqual(loss, variants[key], delta=1e-6)
        for epoch in range(6):
            self.assertEqual(sorted(key[0] for key in found[count * epoch:count * (epoch + 1)]), list(range(count)))
        # 48 draws of 18: the chance of fewer than 10 is below one in ten thousand, and the seed is fixed.
        self.assertGreaterEqual(len({key[1:] for key in found}), 10)
        self.assertGreater(len({key[1:] for key in found if key[0] == 0}), 1)

    def assertFails(self, result, code, pattern):
        """The notes that name the classes do not count."""
        result.err = "".join(line for line in result.err.splitlines(True) if not line.startswith("prun: note: "))
        super().assertFails(result, code, pattern)

    def test_a_label_out_of_range_is_said_before_training(self):
        good, net = png(formula(4, 4, 1)), """net n(batch = 2, side = 4) { input x : f32[batch, 3, side, side]; input k : i32[batch]; param w : f32[3 * side * side, 2] = zeros;
            loss cross_entropy(matmul(reshape(x, shape = [batch, 3 * side * side]), w), k); }
            train { data = %s; optimizer = sgd(lr = 1); }"""
        self.folder_of("p", {"%s/%d.png" % (name, r): good for name in "abc" for r in range(3)})
        self.write("d.bin", b"".join(bytes([label]) + bytes(3072) for label in (0, 1, 1, 0, 0, 2)))
        for data, side, words in ('pictures("p")', 4, r"p/c/0\.png: its label is 2, and it must be in 0 \.\. 1\n$"), ('cifar10("d.bin")', 32, r"d\.bin, row 5 \(from 0\): its label is 2, and it must be in 0 \.\. 1\n$"):
            self.write("net.dsl", net % data)
            for ranks in 1, 2:
                result = self.local(self.compile("net.dsl", "net.plan", "--ranks", ranks, "-D", "side=%d" % side), ranks)
                self.assertFails(result, 3, r"^prun: input k: \S*" + words)
                self.assertEqual(result.out, "")

    def test_a_picture_that_is_damaged_is_named(self):
        with open(os.path.join(HERE, "pictures.json"), encoding="utf-8") as file:
            jpeg = {name: base64.b64decode(known["file"]) for name, known in json.load(file)["jpeg"].items()}
        good = png(formula(4, 4, 1))
        self.folder_of("p", {"a/1.png": good, "a/2.png": good})
        self.predict("3, 4, 4", 'pictures("p")')
        plan = self.path("net.plan")
        for bad, words in ((b"", "neither PNG nor JPEG"), (b"GIF89a" + bytes(40), "neither PNG nor JPEG"), (good[:-20], "the PNG picture cannot be read: the file ends early"),
                           (good[:50] + bytes([good[50] ^ 1]) + good[51:], "the PNG picture cannot be read: "), (jpeg["baseline"][:400], "the JPEG picture cannot be read: "),
                           (jpeg["baseline"][:-30], "the JPEG picture cannot be read: "), (jpeg["cmyk"][:-30], "the JPEG picture cannot be read: "),
                           (good[:16] + struct.pack(">II", 60000, 4) + good[24:29] + struct.pack(">I", zlib.crc32(good[12:16] + struct.pack(">II", 60000, 4) + good[24:29])) + good[33:], "the PNG picture cannot be read: ")):
            self.write("p/a/2.png", bad)
            for options in [], ["--predict", self.path("y.npy")]:
                self.assertFails(self.local(plan, 1, *options), 3, r"input x: \S*p/a/2\.png: " + words)
        self.write("p/a/2.png", good)
        self.write("net.dsl", self.read("net.dsl").decode().replace('pictures("p")', 'pictures("p", crop = 5)'))
        self.assertFails(self.local(self.compile("net.dsl", "net.plan"), 1), 3, r"p/a/1\.png: the picture is 4 x 4, and a part of 5 x 5 is cut out: resize or pad it")
        # Of an eval, and behind the first batch, before training.
        self.folder_of("q", {"a/%d.png" % r: good for r in range(9)})
        self.write("q/a/7.png", good[:-20])
        self.write("net.dsl", self.read("net.dsl").decode().replace('pictures("p", crop = 5)', 'pictures("p")', 1).replace('pictures("p", crop = 5)', 'pictures("q")').replace("every = never", "every = end"))
        self.assertFails(self.local(self.compile("net.dsl", "net.plan"), 1), 3, r"^prun: input x: \S*q/a/7\.png: the PNG picture cannot be read: ")
        os.remove(self.path("p/a/1.png"))
        os.remove(self.path("p/a/2.png"))
        os.symlink("nowhere.png", self.path("p/a/2.png"))
        self.assertFails(self.local(plan, 1), 3, r"p/a/2\.png: No such file or directory")
        os.remove(self.path("p/a/2.png"))
        self.assertFails(self.local(plan, 1), 3, r"p/a: holds no picture: no name ends in \.png, \.jpg or \.jpeg")
        os.rmdir(self.path("p/a"))
        self.assertFails(self.local(plan, 1), 3, r"p: holds no folders: pictures lie in a folder for each class")
        os.rmdir(self.path("p"))
        self.assertFails(self.local(plan, 1), 3, r"p: No such file or directory")


if __name__ == "__main__":
    harness.main()
