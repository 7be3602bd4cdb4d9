#!/usr/bin/env python3
"""Checks the checks: seeds a fault in one source file, rebuilds one test with it, and expects that test to fail.

run.py CC BUILD_ROOT [NAME...]   faults.py holds the table. The faulty object is linked before the static libraries, whose own copy of that file is
then left out. A fault whose text no longer occurs exactly once is an error: the table must follow the code.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import faults

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", '-DPCC_VERSION="fault"', "-O1", "-w"]


def library(build, name):
    folder = {"local": "runtime", "frontend_syntax": "frontend"}.get(name, name)
    return [p for p in [os.path.join(build, folder, f"lib{name}.a")] if os.path.exists(p)]


def build_and_run(cc, build, folder, test, objects):
    """Exit status of the test linked with these objects before the libraries."""
    program = os.path.join(folder, "test")
    libraries = [path for name in faults.LIBRARIES[test] for path in library(build, name)]
    command = [cc, *FLAGS, "-I" + ROOT, "-I" + os.path.join(build), os.path.join(ROOT, test),
               *[os.path.join(ROOT, s) for s in faults.SOURCES.get(test, [])], *objects, *libraries, "-o", program, *faults.LINK]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cannot build {test}:\n{done.stderr}")
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    try:
        return subprocess.run([program, "-j1"], capture_output=True, timeout=120, env=env, cwd=ROOT).returncode
    except subprocess.TimeoutExpired:
        return "no end"


def one(cc, build, fault):
    path = os.path.join(ROOT, fault["file"])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(fault["old"]) != 1:
        return f"{fault['name']}: its text occurs {text.count(fault['old'])} times in {fault['file']}"
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "fault.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text.replace(fault["old"], fault["new"]))
        compiled = source[:-2] + ".o"
        done = subprocess.run([cc, *FLAGS, "-I" + ROOT, "-iquote", os.path.dirname(path), "-c", source, "-o", compiled], capture_output=True, text=True)
        if done.returncode:
            return f"{fault['name']}: does not compile:\n{done.stderr}"
        status = build_and_run(cc, build, folder, fault["test"], [compiled])
    return None if status != 0 else f"{fault['name']}: {fault['test']} passes with the fault in {fault['file']}"


def main():
    cc, build, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    chosen = [f for f in faults.FAULTS if not names or f["name"] in names]
    missed = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for test in sorted({f["test"] for f in chosen}):
            with tempfile.TemporaryDirectory() as folder:
                if build_and_run(cc, build, folder, test, []) != 0:
                    missed.append(f"{test} fails without any fault")
        missed += [m for m in pool.map(lambda f: one(cc, build, f), chosen) if m]
    for m in missed:
        print("NOT CAUGHT", m)
    print(f"{len(chosen) - len(missed)} passed, {len(missed)} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
