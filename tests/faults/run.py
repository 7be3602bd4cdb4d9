#!/usr/bin/env python3
"""Checks the checks: seeds a fault in one function, rebuilds one program with it, and expects its check to fail.

run.py --sources                    only looks whether every fault of faults.py still fits the sources; takes a second and needs no build
run.py BUILD_ROOT MPIRUN [WORD...]  with words, only the faults whose rule, function, file or check has one of them; MPIRUN - if there is none
run.py BUILD_ROOT MPIRUN --every N    every N-th one, the first of them as the commit's hash says: what CI has time for
A program is compiled and linked by the build's own commands (compile_commands.json, ninja -t commands), with the faulty object before the static
libraries, whose own copy of that file is then left out. Each check runs without a fault too, and must pass. FAULTS_OUTPUT=1 prints what checks say.
"""
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import faults
import source

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SOURCES = ["ir", "report", "frontend", "strategies", "search", "proof", "compiler", "runtime"]
TIMEOUT = 120  # seconds of one check; the slowest, of plans within limits of memory, takes 20 on a quiet machine
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONDONTWRITEBYTECODE": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRUN_DEVICE": "cpu"}


def first_of(n):
    """0 to n - 1, the same for a commit wherever it is tested."""
    said = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True) if shutil.which("git") else None
    return int(said.stdout.strip(), 16) % n if said and said.returncode == 0 else 0


class Build:
    def __init__(self, folder, mpirun):
        self.folder, self.mpirun, self.links = folder, mpirun, {}
        with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
            self.units = {}  # of each source file all commands: loops are compiled for vectors of several widths, of which the processor takes one
            for unit in json.load(file):
                self.units.setdefault(os.path.realpath(os.path.join(unit["directory"], unit["file"])), []).append(unit)

    def link_command(self, program):
        if program not in self.links:
            done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", program], capture_output=True, text=True, check=True)
            self.links[program] = shlex.split(done.stdout.splitlines()[-1])
        return self.links[program]

    def ways(self, program, unit):
        """The commands whose objects of this source file the program links, alone or out of an archive: the module for GPUs compiles some of them again."""
        linked = self.link_command(program)
        return [way for way in self.units[os.path.join(ROOT, unit)] if way["output"] in linked or way["output"].split(".p/")[0] in linked]

    def compile(self, program, unit, folder, path, text):
        """The objects of a source file for a program, where `text` is read instead of the file at `path`: the source file or one that it includes."""
        for file, content in {unit: None, path: text}.items():
            os.makedirs(os.path.join(folder, os.path.dirname(file)), exist_ok=True)
            if content is None:
                with open(os.path.join(ROOT, file), encoding="utf-8") as original:
                    content = original.read()
            with open(os.path.join(folder, file), "w", encoding="utf-8") as changed:
                changed.write(content)
        objects = []
        for way in self.ways(program, unit):
            given, command, skip = shlex.split(way["command"]), [], False
            if os.path.basename(given[0]) == "ccache":
                given = given[1:]
            for word in given[1:]:  # without its output, its dependency file and its source
                if not skip and word not in ("-o", "-MF", "-MQ", "-MD", "-c", way["file"]):
                    command.append(word)
                skip = not skip and word in ("-o", "-MF", "-MQ")
            objects.append(os.path.join(folder, f"{unit}.{len(objects)}.o"))
            done = subprocess.run([given[0], "-I" + folder, "-idirafter", os.path.join(ROOT, os.path.dirname(unit)), *command, "-O1", "-w", "-c", os.path.join(folder, unit), "-o", objects[-1]],
                                  capture_output=True, text=True, cwd=self.folder)
            if done.returncode:
                return objects, done.stderr
        return objects, None

    def link(self, program, output, unit, faulty):
        words = self.link_command(program)
        at = words.index("-o")
        replaced = [way["output"] for way in self.ways(program, unit)]
        own = [word for word in words[at + 2:] if word not in replaced]
        done = subprocess.run([*words[:at], "-o", output, *faulty, *own], capture_output=True, text=True, cwd=self.folder)
        return done.stderr if done.returncode else None

    def run(self, check, folder, programs):
        """Exit status of a check with these programs instead of the build's."""
        place = {"mpirun": self.mpirun, "root": ROOT, "pcc": os.path.join(self.folder, "compiler/pcc"), "prun": os.path.join(self.folder, "runtime/prun"),
                 "program": os.path.join(self.folder, check.program), **programs}
        with open(os.path.join(folder, "output"), "wb") as output:
            try:
                return subprocess.run([word.format(**place) for word in check.command], stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=ROOT, timeout=TIMEOUT,
                                      env={**os.environ, **ENVIRONMENT, **check.env}).returncode
            except subprocess.TimeoutExpired:
                return "no end"


def place(sources, fault):
    """(path, text with the fault, source file to compile), or None and why the fault does not fit the sources."""
    changed, wrong = sources.replace(fault.function, fault.pattern, fault.wrong)
    if wrong:
        return None, wrong
    unit = fault.reader and next((path for path, _, _ in sources.items(fault.reader) if path.endswith(".c")), None) or changed[0]
    return (*changed, unit), None if unit.endswith(".c") else f"{fault.reader} is in no source file"


def seeded(build, fault, changed, folder):
    """None, or what is wrong with this fault or the check that must find it."""
    path, text, unit = changed
    faulty, wrong = build.compile(fault.check.program, unit, folder, path, text)
    program = os.path.join(folder, "program")
    wrong = wrong or build.link(fault.check.program, program, unit, faulty)
    if wrong:
        return "does not build:\n" + "\n".join(line for line in wrong.splitlines() if "error" in line or "definition" in line or "undefined" in line)[:600]
    status = build.run(fault.check, folder, {"program": program, os.path.basename(fault.check.program): program})
    if status in (0, "no end"):
        return "is not found" if status == 0 else "makes it run without an end"
    return f"ends with {status}, not {fault.check.status}" if fault.check.status not in (0, status) else None


def one(build, fault, changed):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pcc-fault-") as folder:
        wrong = seeded(build, fault, changed, folder)
        if "FAULTS_OUTPUT" in os.environ and os.path.exists(os.path.join(folder, "output")):
            with open(os.path.join(folder, "output"), encoding="utf-8", errors="replace") as file:
                print(f"--- {fault.rule}\n" + file.read()[-1500:])
    return (f"{fault.rule} ({fault.function} in {changed[0]}, {fault.check.name}): {wrong}" if wrong else None), time.monotonic() - begin


def without(build, check):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pcc-fault-") as folder:
        passes = build.run(check, folder, {}) == 0
    return (None if passes else f"{check.name} fails without any fault"), time.monotonic() - begin


def main():
    assert len({(f.function, f.pattern, f.wrong, f.check.name) for f in faults.FAULTS}) == len(faults.FAULTS), "a fault that is there twice"
    sources, begin, missed, chosen = source.Sources(ROOT, SOURCES), time.monotonic(), 0, []
    for fault in faults.FAULTS:
        changed, wrong = place(sources, fault)
        if wrong:
            missed += 1
            print(f"DOES NOT FIT: {fault.rule}: {wrong}")
        else:
            chosen.append((fault, changed))
    if sys.argv[1] == "--sources":
        print(f"{len(chosen)} of {len(faults.FAULTS)} faults fit the sources")
        return 1 if missed else 0
    build, words = Build(os.path.abspath(sys.argv[1]), sys.argv[2]), sys.argv[3:]
    if words[:1] == ["--every"]:
        n = int(words[1])
        chosen, words = chosen[first_of(n)::n], []
    chosen = [(f, c) for f, c in chosen if not words or any(w in f"{f.rule} {f.function} {c[0]} {f.check.name}" for w in words)]
    runnable = [(f, c) for f, c in chosen if build.mpirun != "-" or not f.check.mpi]
    checks = {f.check.name: f.check for f, _ in runnable}
    jobs = [(c.name, lambda c=c: without(build, c)) for c in checks.values()] + [(f.rule, lambda f=f, c=c: one(build, f, c)) for f, c in runnable]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, _), (wrong, seconds) in zip(jobs, pool.map(lambda job: job[1](), jobs)):
            if seconds > 3:
                print(f"{seconds:5.1f} s  {name}")
            if wrong:
                missed += 1
                print("NOT CAUGHT", wrong, flush=True)
    print(f"{len(runnable)} faults, {len(checks)} checks, {missed} not as they should be, {len(chosen) - len(runnable)} skipped for want of mpirun; "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if missed or not runnable else 0


if __name__ == "__main__":
    sys.exit(main())
