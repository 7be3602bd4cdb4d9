#!/usr/bin/env python3
"""Checks the checks: seeds a fault in one source file, rebuilds one program with it, and expects its check to fail.

run.py BUILD_ROOT MPIRUN|- [WORD...]   faults.py holds the table; with words, only the faults whose name, file or check has one of them.
A program is compiled and linked by the build's own commands (compile_commands.json, ninja -t commands), with the faulty object before the static
libraries, whose own copy of that file is then left out. Each check runs without a fault too, and must pass. A fault whose text no longer occurs
exactly once is an error: the table must follow the code.
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SOURCES = ["ir", "frontend", "strategies", "proof", "compiler", "runtime", "tests"]
TIMEOUT = 60  # seconds of one check; the slowest takes a tenth
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONDONTWRITEBYTECODE": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRUN_DEVICE": "cpu"}


class Build:
    def __init__(self, folder, mpirun):
        self.folder, self.mpirun, self.links = folder, mpirun, {}
        with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
            self.units = {os.path.realpath(os.path.join(unit["directory"], unit["file"])): unit for unit in json.load(file)}

    def link_command(self, program):
        if program not in self.links:
            done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", program], capture_output=True, text=True, check=True)
            self.links[program] = shlex.split(done.stdout.splitlines()[-1])
        return self.links[program]

    def compile(self, source, folder, changed):
        """The object of a source file with `changed` = {path: text}, headers included, read instead of the files that they replace."""
        for path, text in changed.items():
            os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        unit = self.units[os.path.join(ROOT, source)]
        given, command, skip = shlex.split(unit["command"]), [], False
        if os.path.basename(given[0]) == "ccache":
            given = given[1:]
        for word in given[1:]:  # without its output, its dependency file and its source
            if not skip and word not in ("-o", "-MF", "-MQ", "-MD", "-c", unit["file"]):
                command.append(word)
            skip = not skip and word in ("-o", "-MF", "-MQ")
        fault = os.path.join(folder, source)
        if source not in changed:
            os.makedirs(os.path.dirname(fault), exist_ok=True)
            shutil.copy(os.path.join(ROOT, source), fault)
        done = subprocess.run([given[0], "-I" + folder, "-iquote", os.path.join(ROOT, os.path.dirname(source)), *command, "-O1", "-w", "-c", fault, "-o", fault + ".o"],
                              capture_output=True, text=True, cwd=self.folder)
        return fault + ".o", done.stderr if done.returncode else None

    def link(self, program, output, source, faulty):
        words = self.link_command(program)
        at = words.index("-o")
        own = [word for word in words[at + 2:] if word != self.units[os.path.join(ROOT, source)]["output"]]
        done = subprocess.run([*words[:at], "-o", output, faulty, *own], capture_output=True, text=True, cwd=self.folder)
        return done.stderr if done.returncode else None

    def run(self, check, folder, programs, root=ROOT):
        """Exit status of a check with these programs instead of the build's."""
        place = {"mpirun": self.mpirun, "root": root, "pcc": os.path.join(self.folder, "compiler/pcc"), "prun": os.path.join(self.folder, "runtime/prun")}
        if check.program:
            place["program"] = os.path.join(self.folder, check.program)
        place.update(programs)
        with open(os.path.join(folder, "output"), "wb") as output:
            try:
                return subprocess.run([word.format(**place) for word in check.command], stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=root, timeout=TIMEOUT,
                                      env={**os.environ, **ENVIRONMENT, **check.env}).returncode
            except subprocess.TimeoutExpired:
                return "no end"


def tree(folder, changed):
    """A copy of the sources with the changed files."""
    for name in SOURCES:
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name), ignore=shutil.ignore_patterns("golden", "fuzz", "__pycache__"))
    for path, text in changed.items():
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)


def seeded(build, fault, folder):
    """None, or what is wrong with this fault or the check that must find it."""
    if not os.path.exists(os.path.join(ROOT, fault.file)):
        return "its file is gone"
    with open(os.path.join(ROOT, fault.file), encoding="utf-8") as file:
        text = file.read()
    if text.count(fault.old) != 1:
        return f"its text occurs {text.count(fault.old)} times"
    changed, programs, root = {fault.file: text.replace(fault.old, fault.new)}, {}, ROOT
    if fault.check.program is None:
        root = os.path.join(folder, "tree")
        tree(root, changed)
    else:
        faulty, wrong = build.compile(fault.unit, folder, changed)
        programs["program"] = os.path.join(folder, "program")
        programs[os.path.basename(fault.check.program)] = programs["program"]
        wrong = wrong or build.link(fault.check.program, programs["program"], fault.unit, faulty)
        if wrong:
            return "does not build:\n" + "\n".join(line for line in wrong.splitlines() if "error" in line)[:600]
    status = build.run(fault.check, folder, programs, root)
    if status in (0, "no end"):
        return "is not found" if status == 0 else "makes it run without an end"
    return f"ends with {status}, not {fault.check.status}" if fault.check.status not in (0, status) else None


def one(build, fault):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pcc-fault-") as folder:
        wrong = seeded(build, fault, folder)
        if "FAULTS_OUTPUT" in os.environ and os.path.exists(os.path.join(folder, "output")):  # for those who want to see what a check says
            with open(os.path.join(folder, "output"), encoding="utf-8", errors="replace") as file:
                print(f"--- {fault.name}\n" + file.read()[-1500:])
    return (f"{fault.name} ({fault.file}, {fault.check.name}): {wrong}" if wrong else None), time.monotonic() - begin


def without(build, check):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pcc-fault-") as folder:
        passes = build.run(check, folder, {}) == 0
    return (None if passes else f"{check.name} fails without any fault"), time.monotonic() - begin


def main():
    build, words = Build(os.path.abspath(sys.argv[1]), sys.argv[2]), sys.argv[3:]
    chosen = [f for f in faults.FAULTS if not words or any(w in f"{f.name} {f.file} {f.check.name}" for w in words)]
    assert len({f.name for f in faults.FAULTS}) == len(faults.FAULTS), "two faults of one name"
    skipped = [f for f in chosen if build.mpirun == "-" and f.check.mpi]
    chosen = [f for f in chosen if f not in skipped]
    checks = {f.check.name: f.check for f in chosen}
    begin, missed = time.monotonic(), []
    jobs = [(c.name, lambda c=c: without(build, c)) for c in checks.values()] + [(f.name, lambda f=f: one(build, f)) for f in chosen]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, _), (wrong, seconds) in zip(jobs, pool.map(lambda job: job[1](), jobs)):
            if seconds > 3:
                print(f"{seconds:5.1f} s  {name}")
            if wrong:
                missed.append(wrong)
                print("NOT CAUGHT", wrong, flush=True)
    print(f"{len(chosen)} faults, {len(checks)} checks, {len(missed)} not as they should be, {len(skipped)} skipped for want of mpirun; {time.monotonic() - begin:.0f} s")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
