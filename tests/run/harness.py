"""What the end-to-end tests share: they run the built pcc and prun as a user does, and judge what these print, write and return.

Each test file is a unittest program: FILE PCC PRUN MPIRUN SOURCES [unittest's arguments]. MPIRUN may be '-' (there is none), then what needs it
is skipped. Standard library only.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TIMEOUT = 240  # seconds after which a command hangs: a hundred times what the slowest takes on an idle machine

LOSS = re.compile(r"^(?:\[(rank|replica) (\d+)\] )?epoch: (\d+) step: (\d+), loss is (\S+)$", re.M)


pcc = prun = mpirun = sources = None


class Result:
    """Of one command: exit code, both outputs as text, seconds, and the losses that were printed."""

    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds

    def __str__(self):
        return "%s\nexit code %s after %.2f s\n--- stdout\n%s--- stderr\n%s" % (" ".join(self.command), self.code, self.seconds, self.out, self.err)

    def texts(self, rank=None):
        """The losses as they were printed, of one rank or replica where several print."""
        return [m[4] for m in LOSS.findall(self.out) if rank is None and m[0] == "" or m[1] == str(rank)]

    def losses(self, rank=None):
        return [float(text) for text in self.texts(rank)]

    def labels(self):
        return sorted({(m[0], int(m[1])) for m in LOSS.findall(self.out) if m[0]})


def npy(values, shape, letter):
    """A .npy file of so many numbers, row-major; letter: struct's f, d, i or q."""
    header = "{'descr': '<%s', 'fortran_order': False, 'shape': (%s,), }" % ({"f": "f4", "d": "f8", "i": "i4", "q": "i8"}[letter], ", ".join(map(str, shape)))
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%d%s" % (len(values), letter), *values)


LETTERS = {"F32": "f", "F64": "d", "I64": "q"}


def safetensors(tensors):
    """A file of tensors: name -> (type, shape, numbers)."""
    entries, body = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        data = struct.pack("<%d%s" % (len(values), LETTERS[dtype]), *values)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + body


def tensors(data):
    """name -> numbers of such a file."""
    n, = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = (8 + n + offset for offset in entry["data_offsets"])
            letter = LETTERS[entry["dtype"]]
            found[name] = struct.unpack("<%d%s" % ((end - begin) // struct.calcsize(letter), letter), data[begin:end])
    return found


def run(command, cwd=None, env=None, **more):
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
    text = lambda output: (output or b"").decode("utf-8", "backslashreplace")
    return Result([str(word) for word in command], done.returncode, text(done.stdout), text(done.stderr), time.monotonic() - began)


def started(command, case, env=None, **more):
    """A command that goes on while the test does; it is killed when the test ends, or when it takes too long (its outputs end then)."""
    job = subprocess.Popen([str(word) for word in command], env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                           **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
    watch = threading.Timer(TIMEOUT, job.kill)
    watch.start()
    for stream in job.stdout, job.stderr:
        if stream:
            case.addCleanup(stream.close)
    for clean in job.wait, job.kill, watch.cancel:  # last first
        case.addCleanup(clean)
    return job


def until(job, word, stream=None):
    """Reads what a job that was started prints (to its stdout, or this stream of it) until a line has this word: the lines."""
    lines = []
    for line in stream or job.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError("it ends before it prints %r: %s\n%s" % (word, b"".join(lines).decode(), job.communicate()[1].decode() if job.stderr else ""))


def ranks(lines):
    """The process numbers of ranks, from what -v has printed."""
    found = [re.match(rb"rank (\d+): .* pid (\d+), ", line) for line in lines]
    return {int(rank[1]): int(rank[2]) for rank in found if rank}


def edited(path, *edits):
    """The file's text with each (old, new) replaced; old must be there, so that a changed sample does not turn a test into nothing."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for old, new in edits:
        if old not in text:
            raise AssertionError("%s: no '%s' to replace" % (path, old))
        text = text.replace(old, new)
    return text


def compiling(source, *options, cwd=""):
    """The command that compiles a net. Small nets are fastest whole on every rank, and most tests are about ranks that exchange something: where neither the net nor
    the options say how strategies are found, operators split their batch."""
    with open(os.path.join(cwd, source), encoding="utf-8", errors="replace") as file:
        text = file.read()
    mode = options[options.index("--mode") + 1] if "--mode" in options else (re.findall(r"mode\s*=\s*(\w+)", text) or ["auto"])[0]
    said = mode != "auto" or re.search(r"search\s*=", text) or "--search" in options
    return [pcc, source, *options] if said else [pcc, source, *options, "--search", "sharding_propagation"]


def write_reviews(case):
    """The files of the samples of BERT, small: a vocabulary, and 51 reviews of which one is missing. The words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"好不房间大小早餐很差"]
    draw = random.Random(4)
    case.write("bert-base-chinese-vocab.txt", "".join(word + "\n" for word in words))
    rows = ["%d,%s" % (i % 3 != 0, "".join(draw.choice(words[5:]) for _ in range(draw.randrange(3, 20)))) for i in range(51)]
    rows[7] = "1,"
    case.write("ChnSentiCorp_htl_all.csv", "label,review\n" + "\n".join(rows) + "\n")
    return words


class Case(unittest.TestCase):
    """A test in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pcc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        return self.path(name)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def saved(self, name):
        """The tensors of a file that prun saved: name -> numbers."""
        return tensors(self.read(name))

    def sample(self, name):
        return os.path.join(sources, "samples", name)

    def ok(self, result):
        self.assertEqual(result.code, 0, str(result))
        return result

    def compile(self, source, plan, *options):
        """pcc must accept the net; returns the plan's path."""
        self.ok(run(compiling(source, "-o", self.path(plan), *options, cwd=self.folder), cwd=self.folder))
        return self.path(plan)

    def local(self, plan, ranks, *options):
        """All ranks in one process."""
        return run([prun, "--ranks", ranks, *options, plan], cwd=self.folder)

    def mpi(self, plan, ranks, *options, env=None):
        if mpirun is None:
            self.skipTest("there is no mpirun")
        return run([mpirun, "-n", ranks, prun, *options, plan], cwd=self.folder, env=env)

    def assertClose(self, found, expected, relative=0.0, absolute=0.0, what=""):
        self.assertEqual(len(found), len(expected), what)
        for i, (a, b) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(a - b), absolute + relative * abs(b), "%s: number %d is %r, expected %r" % (what, i, a, b))

    def assertFails(self, result, code, pattern):
        """One clear error: the exit code, nothing on stdout, and on stderr one message of ours that says it; mpirun may add its own."""
        self.assertEqual(result.code, code, str(result))
        self.assertEqual(result.out, "", str(result))
        self.assertRegex(result.err, pattern, str(result))
        ours = [line for line in result.err.splitlines() if re.match(r"(pcc|prun|pcc check|pcc redistribute): |.*: error: |.*: not proved: ", line)]
        self.assertLessEqual(len(ours), 1, str(result))
        for sign in ("Sanitizer", "Assertion", "Segmentation fault", "Aborted"):
            self.assertNotIn(sign, result.err, str(result))


class Timed(unittest.TextTestResult):
    """Prints the seconds of each test."""

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.stream.writeln("ok, %.2f s" % (time.monotonic() - self.began))


def main():
    global pcc, prun, mpirun, sources
    if len(sys.argv) < 5:
        sys.exit("usage: %s PCC PRUN MPIRUN|- SOURCES [unittest's arguments]" % sys.argv[0])
    pcc, prun, mpirun, sources = (os.path.abspath(word) if word != "-" else None for word in sys.argv[1:5])
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[5:]], testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Timed))
