"""The checks that faults.py names: a program of the build that holds the faulty file, and the command that must then fail.

In a command {program} is that program, {pcc} and {prun} are the build's or, where it is one of them, the faulty one; {root}: the sources.
"""
import dataclasses
import glob
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    program: str  # a target of the build, linked with the fault
    command: list
    env: dict = dataclasses.field(default_factory=dict)
    mpi: bool = False
    status: int = 0  # with a fault the check must end so; 0: with anything but 0


def unit(folder, name, tests="*"):
    """A Criterion program, or those of its tests that a pattern suite/test names."""
    only = [] if tests == "*" else ["--filter", tests]
    return Check(f"{folder}/{name} {'' if tests == '*' else tests}".strip(), f"tests/{folder}/test-{folder}-{name}", ["{program}", "-j1", "--fail-fast", *only])


def script(name, program, *methods):
    """Methods of tests/run/NAME.py."""
    return Check(f"run/{name} {' '.join(methods)}", program, ["python3", "{root}/tests/run/" + name + ".py", "{pcc}", "{prun}", "{mpirun}", "{root}", "-f", *methods], {}, True)


def commtest(what, way, ranks=2):
    return Check(f"dist/commtest {what} {way}", "tests/runtime/comm/commtest", ["{mpirun}", "-n", str(ranks), "{program}", what], {"PRUN_COMM": way, "PRUN_TIMEOUT": "10"}, True)


def files(pattern):
    return sorted(glob.glob(os.path.join(ROOT, pattern)))


INTEGERS = Check("ops integers", "tests/ops/test-ops", ["{program}", "-j1", "--fail-fast", "--filter", "ops/integers*"])
OPS = Check("ops every_strategy", "tests/ops/test-ops", ["{program}", "-j1", "--fail-fast", "--filter", "ops/every_strategy*"])
DIFFERENCES = Check("ops finite differences", "tests/ops/test-ops", ["{program}", "-j1", "--fail-fast", "--filter", "ops/gradients*"])
FUZZ_PLAN = Check("fuzz corpus, plan", "tests/fuzz/replay-plan", ["{program}", *files("tests/fuzz/plan/*")])
ERRORS = Check("golden errors", "tests/frontend/golden", ["{program}", "{root}/tests/golden/errors"])
DUMPS = Check("golden dumps", "compiler/pcc", ["sh", "{root}/tests/golden/golden.sh", "{pcc}"])
CLI = Check("command line of pcc", "compiler/pcc", ["sh", "{root}/tests/compiler/cli.sh", "{pcc}"])
# pcc itself refuses, with 70, to write a plan that its proof does not hold for; any other end is no answer.
PROVED = Check("refused by the proof", "compiler/pcc", ["sh", "{root}/tests/faults/refused.sh", "{pcc}"], status=70)
# A check of the proof that is void lets wrong plans through.
MUTANTS = Check("mutants", "tests/proof/test-proof-mutants", ["{program}", "-j1", "--fail-fast"], {"PCC_MUTANTS": "600"})
