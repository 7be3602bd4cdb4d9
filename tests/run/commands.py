#!/usr/bin/env python3
"""--help, --version, what prun reports; and every command that README.md and docs/ show runs."""
import ctypes
import glob
import gzip
import os
import re
import shutil
import struct

import harness
from harness import Case, run

COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:pcc|prun|mpirun)\s.*")
# Words in a command that stand for something else: where it is clear for what, that is put there, else it is a form and no command.
FILLED = [(r"--ranks N\b", "--ranks 8"), (r"=DIR\b", "=dumps")]
FORM = re.compile(r"(?:^|[\s=])(?:FILE|FILE\.plan|NET\.dsl|ONE\.plan|N|RANKS|NAME|LIST|MODE|OPTIONS?|name=value)(?=$|[\s=.])|\.\.|\[|<")


def documents(sources):
    """All but the pages whose programs and commands frompytorch.py and frommindspore.py run, on the data that they need."""
    pages = glob.glob(os.path.join(sources, "docs", "*.md"))
    return [os.path.join(sources, "README.md"), *sorted(page for page in pages if not os.path.basename(page).startswith("from-"))]


def commands(path):
    """(line number, command, whether it stands in a block) for indented and fenced blocks, and for `inline code`; a comment is cut off."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            block = re.match(r"(?: {4,}|\$ )(?:\$ )?(.*)$", line)
            if block and COMMAND.fullmatch(block[1].rstrip()):
                yield number, re.split(r"\s+# ", block[1])[0].strip(), True
            else:
                yield from ((number, code, False) for code in re.findall(r"`([^`]+)`", line) if COMMAND.fullmatch(code))


def named_nets(path):
    """(name, text) of nets that a page gives a file name: ```net first.dsl."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r"(?ms)^```net (\S+\.dsl)[^\n]*$\n(.*?)^```$", file.read())


def shown_files(path):
    """(file, lines) of what a page shows of files that its commands wrote: a block behind <!-- from dumps/00_parse.spmd -->."""
    with open(path, encoding="utf-8") as file:
        for name, text in re.findall(r"(?ms)^<!-- from (\S+) -->\n```\n(.*?)^```$", file.read()):
            yield name, text.splitlines()


def shown_output(path, number):
    """The lines of a block from the one behind this line up to its end, or the next command."""
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines()[number:]:
            if not line.startswith("    ") or COMMAND.fullmatch(line.strip()):
                return
            yield line.strip()


def without_numbers(text):
    return re.sub(r"\d[\d.]*(e-?\d+)?", "0", text)


class Commands(Case):
    def test_help(self):
        for words in (["pcc", "--help"], ["prun", "--help"], ["prun", "-h"], ["pcc", "redistribute", "--help"], ["pcc", "check", "--help"],
                      ["pcc", "fmt", "--help"], ["pcc", "fuzz-net", "--help"], ["pcc", "--diff", "--help"]):
            result = self.ok(run([getattr(harness, words[0]), *words[1:]]))
            self.assertRegex(result.out, "^usage: " + words[0])
            self.assertEqual(result.err, "")
            self.assertRegex(result.out, r"(?m)^Exit codes: 0 .*, 2 usage, 3 ")
            self.assertTrue(all(len(line) <= 140 for line in result.out.splitlines()))

    def test_version(self):
        versions = [self.ok(run([getattr(harness, name), "--version"])).out for name in ("pcc", "prun")]
        self.assertRegex(versions[0], r"^pcc \d+\.\d+\.\d+\n$")
        self.assertEqual(versions[1], versions[0].replace("pcc", "prun"))
        with open(os.path.join(harness.sources, "meson.build"), encoding="utf-8") as file:
            self.assertIn("version: '%s'" % versions[0].split()[1], file.read())

    def test_that_a_machine_has_no_gpus_is_said_to_who_asks(self):
        try:
            ctypes.CDLL("libcuda.so.1")
            self.skipTest("this machine has a CUDA driver")
        except OSError:
            pass
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 1)
        prun = shutil.copy(harness.prun, self.folder)
        self.write("prun_cuda.so", "")
        asked = {"PRUN_DEVICE": "", "PRUN_CUDA_MODULE": ""}
        self.assertEqual(self.ok(run([prun, plan], cwd=self.folder, env=asked)).err, "")
        self.assertIn("prun: note: runs on the CPU: there is no CUDA driver", self.ok(run([prun, "-v", plan], cwd=self.folder, env=asked)).err)

    def test_every_option_in_a_help_text_is_known(self):
        for words in (["pcc"], ["prun"], ["pcc", "redistribute"], ["pcc", "check"]):
            program = [getattr(harness, words[0]), *words[1:]]
            text = self.ok(run([*program, "--help"])).out
            options = set(re.findall(r"(?m)(?:^ +|, )(--?[A-Za-z][a-z-]*)", text))
            self.assertGreater(len(options), 0 if words[-1] == "check" else 4, text)
            for option in sorted(options):
                result = run([*program, option, "--frobnicate"], cwd=self.folder)
                self.assertNotRegex(result.err, r"(unknown|unrecognized|invalid) (option|argument).*%s'" % re.escape(option.lstrip("-")), str(result))

    def test_prun_names_every_option_in_its_help_text_and_no_other(self):
        with open(os.path.join(harness.sources, "runtime", "main.c"), encoding="utf-8") as file:
            taken = set(re.findall(r'\{"([a-z0-9-]+)", (?:no|required|optional)_argument', file.read()))
        text = self.ok(run([harness.prun, "--help"])).out
        self.assertGreater(len(taken), 40)
        self.assertEqual(set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", re.sub("pcc --[a-z]+", "", text))), taken)

    def test_scripts_run_nothing_where_they_are_asked_what_they_do(self):
        for name in "quickstart test build setup gpu-prefix".split():
            result = run(["sh", os.path.join(harness.sources, "tools", name + ".sh"), "--help"], cwd=self.folder)
            self.assertFails(result, 2, "^usage: tools/%s.sh" % name)
        self.assertRegex(self.ok(run(["sh", os.path.join(harness.sources, "tests", "gpu.sh"), "--help"], cwd=self.folder)).out, "^usage: tests/gpu.sh")

    def test_variables_that_are_read_are_documented_and_others_are_not(self):
        said = set()
        for path in glob.glob(os.path.join(harness.sources, "runtime", "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                said.update(re.findall(r'getenv\("(PRUN_\w+)"\)', file.read()))
        with open(os.path.join(harness.sources, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        self.assertEqual(set(re.findall(r"PRUN_[A-Z_]+", readme)), said)
        self.assertEqual(set(re.findall(r"PRUN_[A-Z_]+", self.ok(run([harness.prun, "--help"])).out)), said)

    def test_options_that_say_opposite_things_are_refused_with_one_line(self):
        train = ("--verify=one.plan", "--check-replicas", "--log-dir=logs", "--all-ranks", "--overwrite")
        pairs = [("--calibrate", other) for other in ("--eval", "--load=w", "--resume=latest", "--checkpoint-dir=d", "--metrics=m", "--predict=p", "--device=cpu", *train)]
        pairs += [(mode, other) for mode in ("--eval", "--predict=p") for other in train]
        pairs += [("--devices", other) for other in ("--ranks=2", "--eval", "--calibrate", "--verify=one.plan")]
        pairs += [("--device=cpu", other) for other in ("--comm=host", "--tf32", "--no-graph", "--sync")]
        pairs += [("--load=w", "--resume=latest"), ("--eval", "--checkpoint-dir=d")]
        for pair in pairs:
            for words in (pair, pair[::-1]):
                result = run([harness.prun, *words, *([] if "--calibrate" in words or "--devices" in words else ["net.plan"])], cwd=self.folder)
                self.assertFails(result, 2, "^prun: --[a-z]+( cpu)? .*: leave out --[a-z0-9-]+(, or add --resume latest)?\n$")
        if harness.mpirun is not None:
            result = run([harness.mpirun, "-n", 3, harness.prun, "--eval", "--all-ranks", "net.plan"], cwd=self.folder)
            self.assertEqual((result.code, result.err.count("prun: --eval trains nothing: leave out --all-ranks")), (2, 1), str(result))

    def test_list_ops_shows_every_operator_with_its_operands(self):
        text = self.ok(run([harness.pcc, "--list-ops"])).out
        for name in "matmul add sub mul div neg relu tanh exp log sqrt sum mean transpose reshape mse".split():
            self.assertRegex(text, r"(?m)^%s\(" % name)


class Reports(Case):
    """What prun says beside the losses."""

    def test_verbose_says_where_each_rank_runs_and_what_was_proved(self):
        plan = self.compile(self.sample("mlp_small.dsl"), "net.plan", "--ranks", 4, "-D", "in_dim=32", "-D", "batch=16")
        for result, processes in (self.local(plan, 4, "-v"), 1), (self.mpi(plan, 4, "-v"), 4):
            lines = self.ok(result).out.splitlines()
            ranks = [re.fullmatch(r"rank (\d+): local rank (\d+) of (\d+), node \S+, pid (\d+), (\d+) threads?, .+", line) for line in lines[:4]]
            self.assertTrue(all(ranks), str(result))
            self.assertEqual([int(rank[1]) for rank in ranks], [0, 1, 2, 3])
            self.assertEqual([int(rank[2]) for rank in ranks], [0, 1, 2, 3])
            self.assertEqual({int(rank[3]) for rank in ranks}, {4})
            self.assertEqual(len({rank[4] for rank in ranks}), processes)
            cores = max(1, os.cpu_count() // processes)
            self.assertTrue(all(1 <= int(rank[5]) <= cores for rank in ranks), "cores / processes threads: %s" % result)
            self.assertRegex(lines[4], "^certificate: compositional: ")
            time = re.search(r"\ntime per step: (\d+\.\d{3}) ms \(median of 19, quartiles (\d+\.\d{3}) and (\d+\.\d{3})\)\n", result.out)
            self.assertTrue(time, str(result))
            median, lower, upper = map(float, time.groups())
            self.assertLessEqual(lower, median)
            self.assertLess(lower, upper)
            self.assertLessEqual(median, upper)

    def test_a_plan_without_a_proof_is_said_to_be_one(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8, "--no-proof")
        for result in self.local(plan, 8, "-v"), self.mpi(plan, 8, "-v"):
            self.assertIn("\ncertificate: none: nothing was proved of this plan\n", self.ok(result).out)
            self.assertEqual(result.err.count("prun: note: %s has no certificate, nothing was proved of it: pcc check %s proves it\n" % (plan, plan)), 1, str(result))

    def test_a_certificate_of_another_text_ends_the_run_and_one_of_no_text_is_said(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        text = self.read("net.plan")
        self.assertNotIn("certificate", self.ok(self.local(plan, 8)).err)
        of = re.search(rb" of=([0-9a-f]{16})\nchecksum \1\n\Z", text)
        self.assertTrue(of, "the certificate says of which text it is")
        self.write("net.plan", text.replace(b" of=" + of[1], b" of=" + of[1][::-1]))
        self.assertFails(self.local(plan, 8), 1, r"^prun: .*net.plan:\d+: the certificate is of a text with checksum [0-9a-f]{16}, this one has [0-9a-f]{16}: .*pcc check --update")
        self.assertFails(self.mpi(plan, 8), 1, "the certificate is of a text with checksum")
        self.write("net.plan", text.replace(b" of=" + of[1], b""))
        self.assertEqual(self.ok(self.local(plan, 8)).err.count("prun: note: the certificate of %s does not say of which text it is" % plan), 1)

    def test_print_gathers_a_split_parameter(self):
        plan = self.compile(self.sample("quickstart.dsl"), "net.plan", "--ranks", 8)
        one = self.compile(self.sample("quickstart.dsl"), "one.plan", "--ranks", 1)
        printed = [self.ok(result).out.partition("\nw2 = ")[2] for result in (self.local(plan, 8, "--print", "w2"), self.mpi(plan, 8, "--print=w2"), self.local(one, 1, "--print", "w2"))]
        numbers = [[float(number) for number in re.findall(r"-?\d+\.\d+", text)] for text in printed]
        self.assertEqual(len(numbers[2]), 16 * 16, printed[2])
        for found in numbers[:2]:
            self.assertClose(found, numbers[2], absolute=2e-4)


class Documented(Case):
    """One test per document is added below."""

    def prepare(self):
        """What the documents' commands find: the programs by name, the samples, a net, its plan and one for one rank."""
        os.mkdir(self.path("bin"))
        for name in "pcc", "prun", "mpirun":
            if getattr(harness, name):
                os.symlink(getattr(harness, name), self.path("bin", name))
        shutil.copytree(os.path.join(harness.sources, "samples"), self.path("samples"))
        for path in glob.glob(self.path("samples", "*")):
            shutil.copy(path, self.folder)
        shutil.copy(self.sample("quickstart.dsl"), self.path("net.dsl"))
        self.compile("net.dsl", "net.plan", "--ranks", 8)
        self.compile("net.dsl", "one.plan", "--ranks", 1)
        shutil.copy(self.path("net.plan"), self.path("a.plan"))
        shutil.copy(self.path("net.plan"), self.path("b.plan"))
        self.write("hints.dsl", "hints { y = ((8, 1), (1, 1)); }\n")
        self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 10000)
        self.write("t10k-images-idx3-ubyte.gz", gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 8100, 28, 28) + bytes(8100 * 784)))
        self.write("t10k-labels-idx1-ubyte.gz", gzip.compress(struct.pack(">HBBI", 0, 8, 1, 8100) + bytes(8100)))
        return {"PATH": self.path("bin") + ":" + os.environ["PATH"]}

    def check(self, path, outputs=False):
        """outputs: what stands below a command is what it prints, but for the numbers."""
        env, ran = self.prepare(), 0
        for name, text in named_nets(path):
            self.write(name, text)
        for number, command, block in commands(path):
            for pattern, word in FILLED:
                command = re.sub(pattern, word, command)
            with self.subTest(line=number, command=command):
                if "mpirun" in command and harness.mpirun is None or FORM.search(re.sub(r"'[^']*'", "", command)):
                    continue
                if re.search(r"--devices?( cuda)?\b", command) and "--device cpu" not in command and "PRUN_CUDA_MODULE" not in os.environ:
                    continue
                if not block and not re.search(r"\.dsl|\.plan|--mesh|--list-ops", command):
                    self.check_mentioned(command)
                    continue
                if "--nnodes" in command or command.startswith("srun "):  # several machines
                    continue
                if not block and command.startswith("prun ") and not re.search("--ranks|--nproc", command):  # how it is launched is said elsewhere
                    command = command.replace("prun ", "prun --ranks 8 ", 1)
                result = self.ok(run(["sh", "-c", command], cwd=self.folder, env=env))
                ran += 1
                printed = [without_numbers(line).strip() for line in result.out.splitlines()]
                for line in shown_output(path, number) if outputs else ():
                    self.assertIn(without_numbers(line), printed, str(result))
        return ran

    def check_mentioned(self, command):
        """`pcc --stats`: the program knows this option; `pcc check --update`: and this command."""
        words = command.split()
        program = [getattr(harness, words[0])] + [word for word in words[1:2] if word in ("check", "redistribute", "fmt")]
        text = self.ok(run([*program, "--help"])).out
        for option in [word.split("=")[0] for word in words[1:] if word.startswith("-") and word != "-"]:
            self.assertRegex(text, r"(^|[ ,])%s\b" % re.escape(option), "%s is not in its help text" % option)


def add_documents(sources):
    for path in documents(sources):
        name = os.path.relpath(path, sources)

        def test(self, path=path, name=name):
            ran = self.check(path, outputs=name == "docs/tutorial.md")
            for shown, lines in shown_files(path) if name == "docs/architecture.md" else ():  # those of docs/ir.md are golden files
                with self.subTest(file=shown):
                    written = self.read(shown).decode().splitlines()
                    self.assertEqual([line for line in lines if line not in written], [])
            if name in ("README.md", "docs/tutorial.md", "docs/architecture.md"):
                self.assertGreaterEqual(ran, 2 if "architecture" in name else 6, "%s shows commands" % name)

        setattr(Documented, "test_commands_of_%s_run" % re.sub(r"\W", "_", name), test)


if __name__ == "__main__":
    import sys
    if len(sys.argv) > 4:
        add_documents(sys.argv[4])
    harness.main()
