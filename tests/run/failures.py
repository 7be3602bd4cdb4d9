#!/usr/bin/env python3
"""Whatever is wrong, outside of a net's text: one clear error on stderr, the exit code that is meant for it (1 rejected, 2 usage, 3 environment), and
nothing half-written. The mistakes in a net's text are in tests/golden/errors."""
import glob
import json
import os
import re
import resource
import shutil
import signal
import stat
import struct

import harness
from harness import LOSS, Case, edited, run

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" + bytes(range(256)) * 4


def npy(descr, shape, data, fortran=False, version=b"\x01\x00"):
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header.encode("ascii") + data


def small_files():
    """In the child: no file grows beyond 1 KiB, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def nobody():
    """In the child: root, who may read everything, becomes somebody who may not."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


class Compiler(Case):
    """pcc and what surrounds it."""

    def net(self):
        return self.sample("quickstart.dsl")

    def pcc(self, *words, **more):
        return run([harness.pcc, *words], cwd=self.folder, **more)

    def test_a_source_that_cannot_be_read_is_an_environment_error(self):
        self.write("file", "")
        for source, pattern in (("nosuch.dsl", "^pcc: .*nosuch.dsl: No such file"), (".", r"^pcc: .*\.: it is a folder"), ("file/net.dsl", "^pcc: .*Not a directory")):
            self.assertFails(self.pcc(source), 3, pattern)

    def test_an_unreadable_directory_is_an_environment_error(self):
        pcc, net = shutil.copy(harness.pcc, self.path("pcc")), shutil.copy(self.net(), self.path("net.dsl"))
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("locked"))
        self.write("locked/net.dsl", "")
        os.chmod(self.path("locked"), 0)
        self.addCleanup(os.chmod, self.path("locked"), 0o700)
        for words in (["locked/net.dsl"], [net, "--ranks", "8", "-o", "locked/net.plan"], [net, "--ranks", "8", "-o", "/dev/null", "--dump-ir=locked/dump"]):
            self.assertFails(run([pcc, *words], cwd=self.folder, preexec_fn=nobody), 3, "^pcc: .*locked.*: Permission denied")

    def test_bytes_that_are_no_text_are_rejected(self):
        for content in JPEG, b"", b"\0" * 100, b"\xef\xbb\xbf" + b"\xc3(" * 10:
            self.write("net.dsl", content)
            result = self.pcc("net.dsl")
            self.assertEqual((result.code, result.out), (1, ""), str(result))
            self.assertRegex(result.err, r"(?m)^net\.dsl:\d+:\d+: error: |^net\.dsl: error: ")
            self.assertLessEqual(result.err.count(" error: "), 20)
            self.assertEqual(os.listdir(self.folder), ["net.dsl"])

    def test_a_plan_that_cannot_be_written_is_an_environment_error(self):
        os.mkdir(self.path("folder"))
        self.write("file", "")
        for output, pattern in (("nosuch/net.plan", "No such file"), ("folder", "Is a directory"), ("file/net.plan", "Not a directory")):
            self.assertFails(self.pcc(self.net(), "--ranks", "8", "-o", output), 3, "^pcc: cannot write .*" + pattern)
        self.assertEqual(sorted(os.listdir(self.folder)), ["file", "folder"])

    def test_a_full_device_is_an_environment_error_and_stays_a_device(self):
        self.assertFails(self.pcc(self.net(), "--ranks", "8", "-o", "/dev/full"), 3, "^pcc: cannot write /dev/full: No space left on device")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_a_file_that_cannot_grow_leaves_the_old_plan_and_no_other_file(self):
        self.write("net.plan", "the old plan")
        self.assertFails(self.pcc(self.net(), "--ranks", "8", "-o", "net.plan", preexec_fn=small_files), 3, "^pcc: cannot write net.plan: File too large")
        self.assertEqual(self.read("net.plan"), b"the old plan")
        self.assertFails(self.pcc(self.net(), "--ranks", "8", "-o", "new.plan", preexec_fn=small_files), 3, "^pcc: cannot write new.plan: File too large")
        self.assertEqual(os.listdir(self.folder), ["net.plan"])
        self.assertFails(self.pcc(self.net(), "--ranks", "8", "-o", "new.plan", "--dump-ir=dump", preexec_fn=small_files), 3, "^pcc: cannot write dump/.*: File too large")
        self.assertEqual(sorted(os.listdir(self.folder)), ["dump", "net.plan"], "no plan where the dumps failed")
        for path in glob.glob(self.path("dump", "**"), recursive=True):
            self.assertFalse(path.endswith(".tmp"), path)

    def test_a_full_disk_leaves_the_old_plan_and_no_other_file(self):
        script = ("set -e; mount -t tmpfs -o size=4k none disk; cd disk; echo old > net.plan; set +e; \"$0\" \"$1\" --ranks 8 -o net.plan; code=$?;"
                  "cat net.plan; ls; exit $code")
        os.mkdir(self.path("disk"))
        if not shutil.which("unshare") or run(["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=4k", "none", "disk"], cwd=self.folder).code != 0:
            self.skipTest("a file system of 4 KiB cannot be mounted here")
        result = run(["unshare", "-m", "sh", "-c", script, harness.pcc, self.net()], cwd=self.folder)
        self.assertEqual((result.code, result.out), (3, "old\nnet.plan\n"), str(result))
        self.assertRegex(result.err, "^pcc: cannot write net.plan: No space left on device\n$")

    def test_an_update_that_cannot_be_written_leaves_the_plan(self):
        plan = self.compile(self.net(), "net.plan", "--ranks", 8)
        before = self.read("net.plan")
        self.assertFails(self.pcc("check", "--update", "net.plan", preexec_fn=small_files), 3, "^pcc check: cannot write net.plan: File too large")
        self.assertEqual((self.read("net.plan"), os.listdir(self.folder)), (before, ["net.plan"]))
        self.assertEqual(self.pcc("check", plan).code, 0)

    def test_output_that_cannot_be_printed_is_an_environment_error(self):
        self.compile(self.net(), "net.plan", "--ranks", 8)
        for words in (["--help"], ["--version"], ["--list-ops"], [self.net(), "--ranks", "8", "--stats"], ["check", "net.plan"], ["check", "--help"],
                      ["redistribute", "--help"], ["redistribute", "--mesh", "x=4", "--shape", "8", "--from", "[x]", "--to", "[-]"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                self.assertFails(self.pcc(*words, stdout=full), 3, "^pcc.*: cannot write the output")

    def test_mistakes_of_usage(self):
        net = self.net()
        for words, pattern in ((["--frobnicate"], "unknown option '--frobnicate'"), ([net, "--rank", "8"], "did you mean '--ranks'"), (["-x"], "unknown option '-x'"),
                               ([net, net], "one net at a time"), ([net, "-o"], "takes an argument"), ([net, "--ranks"], "takes an argument"),
                               ([net, "--ranks", "0"], "a number from 1"), ([net, "--ranks=8x"], "a number from 1"), ([net, "--ranks", "99999999999999999999"], "a number from 1"),
                               ([net, "-O3"], "takes 0, 1 or 2"), ([net, "-D", "batch"], "name=value"), ([net, "--stats=yes"], "takes json or nothing"),
                               ([net, "--ranks", "8", "--dump-ranks=8"], "no rank 8 of 8"), ([net, "--redistribution=none"], "auto, bound or canonical"),
                               (["check", "--frobnicate"], "unknown option '--frobnicate'"), (["check", "a", "b"], "one plan at a time"), (["check"], "usage: pcc check"),
                               (["redistribute", "--frobnicate"], "unknown argument '--frobnicate'"), (["redistribute"], "--mesh is missing"), ([], "usage: pcc")):
            with self.subTest(words=words):
                self.assertFails(self.pcc(*words), 2, pattern)
        self.assertEqual(os.listdir(self.folder), [])


class Runner(Case):
    """prun and its plan."""

    def setUp(self):
        super().setUp()
        for name in "quickstart_w.npy", "quickstart_w2.npy":
            shutil.copy(self.sample(name), self.folder)
        source = self.write("net.dsl", edited(self.sample("quickstart_files.dsl"), (" shard ((2, 4), (4, 1))", "")))
        self.ok(run([harness.pcc, "net.dsl", "--ranks", "2"], cwd=self.folder))
        self.assertTrue(os.path.exists(self.path("net.plan")), source)

    def fails(self, plan, code, pattern, *options, ranks=2, mpi=False):
        self.assertFails(self.local(plan, ranks, *options), code, pattern)
        if mpi:
            self.assertFails(self.mpi(plan, ranks, *options), code, "(?m)" + pattern)

    def test_the_plan_runs_before_it_is_spoiled(self):
        self.assertEqual(len(self.ok(self.local("net.plan", 2)).losses()), 20)

    def test_a_wrong_number_of_ranks_says_how_to_run(self):
        clear = r"^prun: this plan is for 2 ranks.*: run `mpirun -n 2 prun net.plan` or `prun --ranks 2 net.plan`$"
        self.fails("net.plan", 1, clear, ranks=3, mpi=True)
        self.assertFails(run([harness.prun, "net.plan"], cwd=self.folder), 1, clear)
        self.assertFails(self.mpi("net.plan", 1), 1, "(?m)" + clear)

    def test_a_plan_that_cannot_be_read_is_an_environment_error(self):
        self.fails("nosuch.plan", 3, "^prun: cannot open nosuch.plan: No such file", mpi=True)
        self.fails(".", 3, r"^prun: cannot read \.: it is a folder")
        os.mkfifo(self.path("pipe"))
        for path, words in ("pipe", "a pipe"), ("/dev/zero", "a device"):
            self.fails(path, 3, "^prun: cannot read %s: it is %s; name an ordinary file" % (path, words))
        self.fails("net.plan/x", 3, r"^prun: cannot open net.plan/x: Not a directory")

    def test_foreign_files_are_rejected(self):
        self.write("photo.plan", JPEG)
        self.fails("photo.plan", 1, "^prun: photo.plan:.* not a plan", mpi=True)
        self.write("empty.plan", b"")
        self.fails("empty.plan", 1, "^prun: empty.plan: not a plan: it is empty")
        self.write("other.plan", self.read("net.plan").replace(b"pcc-plan 1\n", b"pcc-plan 2\n"))
        self.fails("other.plan", 1, "^prun: other.plan:1: this plan has format 2; format 1 is read here", mpi=True)
        self.fails("net.dsl", 1, "^prun: net.dsl:.* not a plan")
        self.fails("quickstart_w.npy", 1, "^prun: quickstart_w.npy:.* not a plan")
        self.write("dos.plan", self.read("net.plan").replace(b"\n", b"\r\n"))
        self.fails("dos.plan", 1, "^prun: dos.plan:1: ")
        self.write("zeros.plan", bytes(5000))
        self.fails("zeros.plan", 1, "^prun: zeros.plan:.* not a plan")

    def test_truncated_plans_are_rejected_wherever_they_end(self):
        whole = self.read("net.plan")
        for length in sorted({1, 5, 11, *range(12, len(whole), 1 + len(whole) // 25), len(whole) - 20, len(whole) - 2, len(whole) - 1}):
            with self.subTest(length=length):
                self.write("cut.plan", whole[:length])
                self.fails("cut.plan", 1, "^prun: cut.plan(:1)?: (truncated|not a plan)", mpi=length == len(whole) - 20)

    def test_damaged_plans_are_rejected_wherever_the_damage_is(self):
        whole = self.read("net.plan")
        end = whole.index(b"certificate ")  # what was proved is said, not checked: it stands behind what the checksum is of
        for at in [*range(11, end, 1 + end // 40), len(whole) - 5]:
            for bit in 0x01, 0x80:
                with self.subTest(at=at, bit=bit):
                    self.write("damaged.plan", whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
                    self.fails("damaged.plan", 1, "^prun: damaged.plan.*: .", mpi=at == 11 and bit == 1)

    def test_nothing_is_written_over_what_is_read(self):
        os.symlink("net.plan", self.path("link"))
        shutil.copy(self.path("net.plan"), self.path("one.plan"))
        shutil.copy(self.path("net.plan"), self.path("w.safetensors"))
        before = {name: self.read(name) for name in os.listdir(self.folder)}
        for options, words in (
            (("--save", "net.plan"), "--save net.plan would overwrite the plan (net.plan): name another file"),
            (("--trace", "link"), "--trace link would overwrite the plan (net.plan): name another file"),
            (("--metrics", "./one.plan", "--verify=one.plan"), "--metrics ./one.plan would overwrite the plan of --verify (one.plan): name another file"),
            (("--save=quickstart_w2.npy",), "--save quickstart_w2.npy would overwrite the initial value of w2 (quickstart_w2.npy): name another file"),
            (("--metrics=w.safetensors", "--load=w.safetensors"), "--metrics w.safetensors would overwrite what --load reads (w.safetensors): name another file"),
            (("--metrics=new", "--trace=new"), "--metrics and --trace both write new: name another file"),
        ):
            self.fails("net.plan", 2, r"^prun: (rank \d on .*: )?%s$" % re.escape(words), *options, mpi="link" in options)
        self.assertEqual({name: self.read(name) for name in os.listdir(self.folder)}, before)
        self.ok(self.local("net.plan", 2, "--save=w.safetensors", "--metrics=/dev/null", "--trace=/dev/null"))
        self.ok(self.local("net.plan", 2, "--save=w.safetensors", "--load=w.safetensors"))

    def test_a_missing_file_of_initial_values_is_an_environment_error(self):
        os.remove(self.path("quickstart_w2.npy"))
        self.fails("net.plan", 3, "^prun: (rank . on .*: )?parameter w2: cannot open .*quickstart_w2.npy: No such file", mpi=True)

    def test_a_file_of_initial_values_that_does_not_fit_is_an_environment_error(self):
        values = struct.pack("<256f", *range(256))
        for content, pattern in ((npy("<f4", "(32, 8)", values), r"\[32, 8\].*\[16, 16\]"), (npy("<f4", "(256,)", values), r"\[256\].*\[16, 16\]"),
                                 (npy("<c8", "(16, 16)", values * 2), "quickstart_w2.npy"),
                                 (npy("<f4", "(16, 16)", values, fortran=True), "quickstart_w2.npy"),
                                 (npy("<f4", "(16, 16)", values[:1000]), "1000 bytes.*1024"), (npy("<f4", "(16, 16)", values)[:40], "quickstart_w2.npy"),
                                 (npy("<f4", "(16, 16", values), "quickstart_w2.npy"), (npy("<f4", "(-16, -16)", values), "quickstart_w2.npy"),
                                 (npy("<f4", "(99999999999999999999, 16)", values), "quickstart_w2.npy"), (npy("|O", "(16, 16)", values), "quickstart_w2.npy"),
                                 (JPEG, "quickstart_w2.npy"), (b"", "quickstart_w2.npy")):
            with self.subTest(content=content[:90]):
                self.write("quickstart_w2.npy", content)
                self.fails("net.plan", 3, "^prun: (rank . on .*: )?parameter w2: .*(%s)" % pattern, mpi=b"(32, 8)" in content)

    def test_files_of_f64_and_i32_are_converted(self):
        floats = struct.pack("<256f", *(0.001 * (i % 7 - 3) for i in range(256)))
        self.write("quickstart_w2.npy", npy("<f4", "(16, 16)", floats))
        expected = self.ok(self.local("net.plan", 2, "--print", "w2"))
        self.write("quickstart_w2.npy", npy("<f8", "(16, 16)", struct.pack("<256d", *struct.unpack("<256f", floats))))
        self.assertEqual(self.ok(self.local("net.plan", 2, "--print", "w2")).texts(), expected.texts())
        small = [i % 3 - 1 for i in range(256)]
        losses = []
        for descr, form in ("<i4", "<256i"), ("<f4", "<256f"), ("<f8", "<256d"):
            self.write("quickstart_w2.npy", npy(descr, "(16, 16)", struct.pack(form, *small)))
            losses.append(self.ok(self.local("net.plan", 2)).texts())
        self.assertEqual(losses[1:], losses[:1] * 2)
        self.assertNotEqual(losses[0], expected.texts())

    def test_pcc_reads_no_initial_values_but_says_where_prun_will(self):
        """A net compiles without its data: the plan names the file, relative to the source."""
        os.remove(self.path("quickstart_w2.npy"))
        self.ok(run([harness.pcc, "net.dsl", "--ranks", "2", "-o", "again.plan"], cwd=self.folder))
        self.assertEqual(self.read("again.plan"), self.read("net.plan"))
        self.assertIn(b'init=file("quickstart_w2.npy")', self.read("net.plan"))

    def test_values_lie_beside_the_plan_or_in_the_current_directory(self):
        expected = self.ok(self.local("net.plan", 2)).texts()
        elsewhere = run([harness.prun, "--ranks", "2", self.path("net.plan")], cwd="/")
        self.assertEqual(self.ok(elsewhere).texts(), expected)
        os.mkdir(self.path("plans"))
        os.rename(self.path("net.plan"), self.path("plans", "net.plan"))
        self.assertEqual(self.ok(self.local("plans/net.plan", 2)).texts(), expected)

    def test_output_that_cannot_be_printed_is_an_environment_error(self):
        for words in (["--help"], ["--version"], ["--ranks", "2", "net.plan"], ["--ranks", "2", "-v", "net.plan"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                self.assertFails(run([harness.prun, *words], cwd=self.folder, stdout=full), 3, "^prun: cannot write the output")

    def test_mistakes_of_usage(self):
        for words, pattern in ((["--frobnicate", "net.plan"], "'--frobnicate'"), ([], "which plan"), (["net.plan", "net.plan"], "one plan at a time"), (["-x"], "x"),
                               (["--ranks", "0", "net.plan"], "a number from 1"), (["--ranks", "2x", "net.plan"], "a number from 1"), (["--ranks"], "requires an argument"),
                               (["--ranks", "2", "--print", "w3", "net.plan"], "--print w3: the net has no such parameter$")):
            with self.subTest(words=words):
                self.assertFails(run([harness.prun, *words], cwd=self.folder), 2, "(^|/)prun: .*" + pattern)

    def test_training_that_cannot_be_printed_is_not_lost(self):
        plain = self.ok(self.local("net.plan", 2, "--metrics", "plain.json", "--save", "plain.safetensors"))
        words = [harness.prun, "--ranks", 2, "--metrics", "unheard.json", "--save", "unheard.safetensors", "net.plan"]
        for output in "full", "closed":
            with self.subTest(output=output):
                if output == "full":
                    with open("/dev/full", "wb") as full:
                        result = run(words, cwd=self.folder, stdout=full)
                else:
                    ours, theirs = os.pipe()
                    os.close(ours)
                    with os.fdopen(theirs, "wb", buffering=0) as pipe:
                        result = run(words, cwd=self.folder, stdout=pipe)
                self.assertEqual(result.code, 3, str(result))
                self.assertEqual(len(re.findall("(?m)^prun: cannot write the output: .*: the run goes on without", result.err)), 1, str(result))
                self.assertEqual(len(self.read("unheard.json").splitlines()), len(plain.texts()))
                self.assertEqual(self.read("unheard.safetensors"), self.read("plain.safetensors"))

    def test_closed_standard_files_are_not_replaced_by_others(self):
        """The first file that is opened would get their numbers, and what is printed."""
        plain = self.ok(self.local("net.plan", 2, "--metrics", "plain.json"))
        for closed in (">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                compiled = run(["sh", "-c", 'exec "$0" "$@" ' + closed, harness.pcc, "-v", "net.dsl", "--ranks", "2", "-o", "closed.plan"], cwd=self.folder)
                self.ok(compiled)
                self.assertEqual(self.read("closed.plan"), self.read("net.plan"))
                words = [harness.prun, "--ranks", 2, "--metrics", "closed.json", "--log-dir", "logs", "--save", "closed.safetensors", "-v", "closed.plan"]
                result = self.ok(run(["sh", "-c", 'exec "$0" "$@" ' + closed, *words], cwd=self.folder))
                self.assertEqual(result.texts(), plain.texts() if closed == "2>&-" else [])
                self.assertEqual([json.loads(line)["loss"] for line in self.read("closed.json").splitlines()], [json.loads(line)["loss"] for line in self.read("plain.json").splitlines()])
                self.assertEqual(LOSS.sub("", self.read("logs", "rank_0.log").decode()).strip(), "")
                self.ok(self.local("net.plan", 2, "--load", "closed.safetensors"))

    def test_a_prediction_that_fails_leaves_nothing(self):
        """In its second batch, whose rows are looked at when they are read."""
        self.write("eval.dsl", "net rows(batch = 2) {\n    input i : i32[batch];\n    param t : f32[5, 3] = ones;\n    y = embedding(t, i);\n    loss mean(square(y));\n}\n"
                               'train { data = npy(i = "good.npy"); optimizer = sgd(lr = 0.1); steps = 1; }\neval { data = npy(i = "i.npy"); predict = y; }\n')
        plan = self.compile("eval.dsl", "eval.plan", "--ranks", 1)
        for name, last in ("good.npy", 2), ("i.npy", 5):
            self.write(name, npy("<i4", "(4,)", struct.pack("<4i", 0, 4, 1, last)))
        self.assertEqual(run([harness.prun, "--predict", "y.npy", plan], cwd=self.folder).code, 3)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("y.npy")], [])

    def test_ranks_in_one_process_are_not_launched_by_mpirun(self):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        result = run([harness.mpirun, "-n", "2", harness.prun, "--ranks", "2", "net.plan"], cwd=self.folder)
        self.assertEqual((result.code, result.out), (2, ""), str(result))
        self.assertEqual(result.err.count("leave out mpirun, or --ranks"), 1, str(result))

    def test_ranks_with_different_plans_are_not_trained(self):
        """A plan of another name would have its checkpoints elsewhere. What rank 0 reads at the one path is everyone's."""
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        self.write("broken.plan", self.read("net.plan")[:-10])
        result = run([harness.mpirun, "-n", "1", harness.prun, "broken.plan", ":", "-n", "1", harness.prun, "net.plan"], cwd=self.folder)
        self.assertFails(result, 2, "(?m)^prun: the plan is not the same on all ranks: broken.plan on rank 0, net.plan on rank 1$")
        os.mkdir(self.path("other"))
        self.write("other/net.plan", self.read("net.plan")[:-10])
        result = run([harness.mpirun, "-n", "1", "-wdir", self.path("other"), harness.prun, "net.plan", ":", "-n", "1", "-wdir", self.folder, harness.prun, "net.plan"])
        self.assertFails(result, 1, "(?m)^prun: net.plan: truncated")

    def test_a_net_that_does_not_fit_into_memory_is_said_before_training(self):
        huge = self.write("huge.dsl", "net huge(n = 1000000) {\n    input x : f64[n, n];\n    param w : f64[n, n] = ones;\n    loss mean(x * w);\n}\n"
                                      "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n")
        plan = self.compile(huge, "huge.plan", "--ranks", 2)
        self.fails(plan, 3, "^prun: (rank . on .*: )?not enough memory on .*MiB are free", mpi=True)


if __name__ == "__main__":
    harness.main()
