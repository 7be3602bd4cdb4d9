"""What the benchmarks share: running programs, the machine, peers, tables. Python's standard library only.

Peers run under the Python that PEER_PYTHON names (default python3); what it lacks is left out of the tables.
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, "..", "..", "samples")
PEER_PYTHON = os.environ.get("PEER_PYTHON", "python3")


class Failed(Exception):
    """A program that did not do what it was started for; the text is its last words."""


def check_ended(command, code, words):
    if code != 0:  # mpirun's own words come last, prun's notes first
        said = [line for line in words.splitlines() if line.strip("- ") and ": note: " not in line]
        raise Failed(f"{os.path.basename(command[0])}: exit code {code}: {said[0] if said else 'no output'}")


def run(command, env=None, timeout=600):
    """Runs it; (standard output, seconds of the whole process)."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]}: not done after {timeout} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    seconds = time.perf_counter() - begin
    check_ended(command, done.returncode, done.stderr + done.stdout)
    return done.stdout, seconds


def run_measured(command, env=None, timeout=600):
    """Runs it: (standard output, processor time of it and all that it started and waited for, bytes that the largest of these had in memory at once)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            started = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=out, stderr=errors)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
        timer = threading.Timer(timeout, started.kill)
        timer.start()
        _, status, used = os.wait4(started.pid, 0)
        timer.cancel()
        started.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        text, words = out.read().decode(), errors.read().decode()
    check_ended(command, started.returncode, words + text)
    return text, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def run_peer(script, *args, before=(), env=None):
    """A script of peers/ under PEER_PYTHON, `before` between the two: (its figures, seconds of the whole process)."""
    out, seconds = run([PEER_PYTHON, *before, os.path.join(HERE, "peers", script), *map(str, args)], env=env)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(f"{script} printed no figures")
    return json.loads(lines[-1]), seconds


def peers():
    """Name -> version of those installed."""
    try:
        return run_peer("versions.py")[0]
    except Failed:
        return {}


def mpi_env():
    """Environment in which mpirun starts more ranks than cores, and as root; and binds none: it would hold up to two ranks to a core each, whatever
    the number of their threads."""
    env = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def cores():
    return len(os.sched_getaffinity(0))


def figure(pattern, text):
    """The number that the pattern's group finds; Failed where it finds none."""
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"no '{pattern}' in the output")
    return float(found.group(1))


class Samples:
    """Figures of several runs, by key, in the order of the keys' first appearance; a key whose run failed has the reason instead."""

    def __init__(self):
        self.values, self.failures = {}, {}

    def measure(self, key, fn):
        """Adds fn() under the key, and says its figures; not again once it has failed."""
        if key in self.failures:
            return
        try:
            figures = fn()
            self.values.setdefault(key, []).append(figures)
            said = ", ".join(f"{name} {value:.4g}" for name, value in figures.items() if isinstance(value, (int, float)))
            print(f"{key if isinstance(key, str) else ' '.join(map(str, key))}: {said}", file=sys.stderr, flush=True)
        except Failed as failed:
            self.failures[key] = str(failed)
            print(f"{key}: {failed}", file=sys.stderr)

    def of(self, key, name):
        """The figure `name` of each run that has it."""
        return [run[name] for run in self.values.get(key, []) if run.get(name) is not None and key not in self.failures]

    def add(self, path):
        """The runs in a file that --json wrote."""
        with open(path) as file:
            figures = json.load(file)["figures"]
        for figure in figures:
            self.values.setdefault(tuple(figure["key"]), []).extend(figure["runs"])

    def median(self, key, name):
        """None where there is none."""
        values = self.of(key, name)
        return statistics.median(values) if values else None


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"processor": model, "cores": cores(), "system": platform.system() + " " + platform.release(), "load": round(os.getloadavg()[0], 2)}


def versions(*programs):
    """Of ours, of the launcher, of the peers."""
    found = {}
    for program in programs:
        try:
            found[os.path.basename(program)] = run([program, "--version"])[0].splitlines()[0].split()[-1]
        except Failed as failed:
            sys.exit(f"{sys.argv[0]}: {failed}")
    return {**found, "python": platform.python_version(), **peers()}


def seconds_text(seconds):
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"


def bytes_text(count):
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024


def ratio_text(ours, theirs):
    """How many times as long we take as they do."""
    return "-" if ours is None or theirs is None else f"{ours / theirs:.3g} x"


def table(title, head, rows):
    """Columns in which nothing was measured are left out."""
    kept = [i for i in range(len(head)) if any(str(row[i]) != "-" for row in rows)]
    cells = [[str(row[i]) for i in kept] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(kept))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))


def goal(goals, what, value, limit, text=seconds_text):
    """Notes a goal and prints nothing yet: value may be None (not measured)."""
    goals.append({"what": what, "value": value, "goal": limit, "met": None if value is None else value < limit, "shown": (text(value), text(limit))})


def print_goals(goals):
    table("goals", ["", "measured", "goal", ""],
          [[g["what"], g["shown"][0], "< " + g["shown"][1], {True: "met", False: "NOT met", None: "not measured"}[g["met"]]] for g in goals])


def arguments(description, **programs):
    """The options that every benchmark has, and a path for each of the programs."""
    parser = argparse.ArgumentParser(description=description)
    for name, default in programs.items():
        parser.add_argument("--" + name, default=default, help=f"path of {name} (default: in PATH)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of which the median counts (default 3)")
    parser.add_argument("--no-peers", action="store_true", help="measure pcc and prun only")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    return parser


def begin(*programs, with_peers=True):
    """Prints where this runs, and returns that."""
    where = {"machine": machine(), "versions": versions(*programs)}
    print("{processor}, {cores} cores, {system}, load {load}".format(**where["machine"]))
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    if where["machine"]["load"] > 0.3 * cores():
        print("note: the machine is busy with something else; expect figures that differ between runs by factors")
    if "OPENBLAS_CORETYPE" in os.environ:
        print(f"note: OPENBLAS_CORETYPE={os.environ['OPENBLAS_CORETYPE']} is set: OpenBLAS has those kernels, whatever the processor has; oneDNN and peers have theirs")
    if with_peers and not {"jax", "torch"} & set(where["versions"]):
        print("no peer found, figures of ours alone: PEER_PYTHON names a Python that has jax or torch (pip install torch)")
    return where


def finish(path, where, samples, goals):
    """--json."""
    if not path:
        return
    rows = [{"key": list(key), "runs": runs} for key, runs in samples.values.items()]
    failures = [{"key": list(key), "failure": text} for key, text in samples.failures.items()]
    kept = [{name: value for name, value in g.items() if name != "shown"} for g in goals]
    with open(path, "w") as out:
        json.dump({**where, "figures": rows, "failures": failures, "goals": kept}, out, indent=1)
        out.write("\n")
