"""What must work on a GPU: the build, every operator, samples on one rank and on several, two ranks under NCCL, the sanitizer."""
import concurrent.futures
import glob
import os
import re
import shutil
import sys

from report import Failed, LeftOut

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.normpath(os.path.join(HERE, "..", ".."))
SAMPLES = os.path.join(SOURCES, "samples")
sys.path.insert(0, os.path.join(SOURCES, "tests", "run"))
import reference  # noqa: E402  its numbers
import samples    # noqa: E402  how samples fit into a test

RANKS = 8
DEVICE_LINE = re.compile(r"^rank \d+: .*, device \d+, ", re.M)


class Gpu:
    """Where things are, and how prun is run on a device."""

    def __init__(self, report, build, folder, standin, nccl, wanted="", samples_wanted=""):
        self.report, self.build, self.folder, self.standin = report, os.path.abspath(build), folder, standin
        self.pcc, self.prun = os.path.join(self.build, "compiler", "pcc"), os.path.join(self.build, "runtime", "prun")
        self.mpirun = shutil.which("mpirun") or "mpirun"
        self.module = os.path.join(self.build, "tests/standin/prun_cuda.so" if standin else "runtime/cuda/prun_cuda.so")
        self.nccl = os.path.join(self.build, "tests/standin/libstandin.so") if standin else nccl
        self.wanted, self.samples_wanted = wanted, samples_wanted # nets that are measured, samples that are trained: regular expressions
        self.torch, self.steps = {}, {} # of PyTorch; of nets in f32, milliseconds
        self.env = {"PRUN_CUDA_MODULE": self.module, "PRUN_TIMEOUT": "60"}
        if self.nccl:
            self.env["PRUN_NCCL"] = self.nccl
        if standin:
            self.env["STANDIN_NCCL"] = "23000" # the first that lets ranks share a device

    def path(self, *names):
        return os.path.join(self.folder, *names)

    # ------------------------------------------------------------ prun

    def compile(self, source, plan, ranks, *options):
        self.report.run([self.pcc, source, "-o", self.path(plan), "--ranks", ranks, *options], cwd=self.folder)
        return self.path(plan)

    def train(self, plan, ranks, *options, mpi=False, env=None, timeout=120):
        """On the device: -v must say of every rank that it is there."""
        launch = [self.mpirun, "-n", ranks, self.prun] if mpi else [self.prun, "--ranks", ranks] if ranks > 1 else [self.prun]
        result = self.report.run([*launch, "--device", "cuda", "-v", *options, plan], env={**self.env, **(env or {})}, cwd=self.folder, timeout=timeout)
        here = len(DEVICE_LINE.findall(result.out))
        if here != ranks:
            raise Failed("%d of %d ranks ran on the device" % (here, ranks))
        if "runs on the CPU" in result.out or "profile of rank 0 on the CPU" in result.out:
            raise Failed("a step ran on the CPU")
        if found := re.search(r"attention of .* by tensor cores is not what it should be", result.out):
            raise Failed(found[0])
        return result

    def verified(self, plan, one, ranks, *options, **how):
        """And every loss and state equals what the plan for one rank computes on the CPU."""
        result = self.train(plan, ranks, "--verify=" + one, *options, **how)
        if not re.search(r"^verified: [1-9]\d* steps, [1-9]\d* numbers equal one rank's", result.out, re.M):
            raise Failed("nothing was verified of %s" % os.path.basename(plan))
        return result


# ---------------------------------------------------------------- build

def nccl_include(gpu):
    """A folder with nccl.h, where the compiler does not find one: beside the library (wheels have it), else the stand-in's, which declares what prun asks for."""
    found = gpu.report.run(["sh", "-c", 'echo "#include <nccl.h>" | cc -E -I"${CUDA_HOME:-/usr/local/cuda}/include" -x c - -o /dev/null'], check=False, shown=False)
    if found.code == 0:
        return None
    beside = [os.path.join(os.path.dirname(os.path.dirname(gpu.nccl)), "include/nccl.h")] if gpu.nccl else []
    header = next(file for file in [*beside, os.path.join(SOURCES, "tests/standin/include/nccl.h")] if os.path.exists(file))
    folder = os.path.join(gpu.build, "nccl") # it alone: the stand-in has headers of CUDA's beside it
    os.makedirs(folder, exist_ok=True)
    shutil.copy(header, folder)
    return folder


def check_build(gpu):
    """prun and its module, which everything needs. Tests where there is what they need."""
    if not os.path.exists(os.path.join(gpu.build, "build.ninja")):
        include = nccl_include(gpu)
        more = ["-Dc_args=-idirafter" + include] if include else []
        gpu.report.run(["meson", "setup", gpu.build, SOURCES, "-Dcuda=enabled", "-Dtests=auto", *more], timeout=120)
    gpu.report.run(["ninja", "-C", gpu.build, "-j", os.cpu_count() or 1, "compiler/pcc", "runtime/prun", "runtime/cuda/prun_cuda.so"], timeout=400)
    if not os.path.exists(gpu.module):
        raise Failed("there is no %s" % gpu.module)


def check_tests_build(gpu):
    """One that does not compile leaves the others."""
    gpu.report.run(["ninja", "-C", gpu.build, "-j", os.cpu_count() or 1, "-k", "0"], timeout=300)


def check_devices(gpu):
    out = gpu.report.run([gpu.prun, "--devices"], env=gpu.env).out
    words = [line.split(",")[0].partition(": ")[2] for line in out.splitlines() if line.startswith("device ")]
    if not words:
        raise Failed("prun --devices lists none")
    return ", ".join(words)


# ---------------------------------------------------------------- operators

OPERATOR_TESTS = ("attention", "chain", "choice", "comm_local", "cudnn", "elementwise", "kernels", "lookup", "matmul", "move", "nccl_groups", "operators", "pitch", "random", "reduce", "softmax", "update")


def operator_tests(gpu, wanted=OPERATOR_TESTS):
    """Of suite cuda, by name: the Criterion programs that open the module themselves. Those that are linked with the stand-in test host code alone, and run everywhere."""
    folder, found = os.path.join(gpu.build, "tests"), {}
    programs = glob.glob(os.path.join(folder, "runtime", "cuda", "**", "test-cuda-*"), recursive=True)
    for program in [*programs, os.path.join(folder, "ops", "test-ops-kernels")]:
        if os.path.isfile(program) and "libstandin" not in gpu.report.run(["ldd", program], check=False, shown=False).out:
            name = os.path.basename(program)
            found["operators" if name == "test-ops-kernels" else name.replace("test-cuda-", "").replace("-", "_")] = [program]
    if unknown := set(found) - set(OPERATOR_TESTS):
        raise Failed("tests of the module that are not known: %s" % " ".join(sorted(unknown)))
    if missing := set(wanted) - set(found):
        raise Failed("tests of the module are missing: %s: has this machine Criterion and a C++ compiler?" % " ".join(sorted(missing)))
    return found


def run_criterion(gpu, command, env=None, before=(), timeout=150):
    """All pass, none is skipped; how many there were."""
    result = gpu.report.run([*before, *command, "-j4"], env={**gpu.env, "PRUN_TEST_DEVICE": "cuda", **(env or {})}, timeout=timeout, check=False)
    name = os.path.basename(command[0])
    summary = re.search(r"Tested: \D*(\d+)\D*Passing: \D*(\d+)\D*Failing: \D*(\d+)\D*Crashing: \D*(\d+)", re.sub(r"\x1b\[[0-9;]*m", "", result.out))
    if not summary:
        raise Failed("%s: exit code %s: %s" % (name, result.code, result.last_words()))
    tested, passing, failing, crashing = map(int, summary.groups())
    if failing or crashing or passing != tested or result.code != 0:
        raise Failed("%s: %d of %d tests failed, %d crashed, exit code %s" % (name, failing, tested, crashing, result.code))
    if tested == 0 or re.search(r"\bSKIP", result.out):
        raise Failed("%s: a test was skipped" % name)
    return tested


def run_programs(gpu, tests, names, **how):
    """Each of them, whatever becomes of the others."""
    def one(name):
        try:
            return name, run_criterion(gpu, tests[name], **how), None
        except Failed as failed:
            return name, 0, str(failed)

    with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        done = list(pool.map(one, names))
    failures = [failure for _, _, failure in done if failure]
    passed = "%d tests: %s" % (sum(count for _, count, _ in done), " ".join(name for name, _, failure in done if not failure))
    if failures:
        raise Failed("%s; passed: %s" % ("; ".join(failures), passed))
    return passed


def check_operators(gpu):
    tests = operator_tests(gpu)
    return run_programs(gpu, tests, ["lookup"] if gpu.standin else sorted(tests), timeout=240)


def check_strategies(gpu):
    """tests/ops: operators with all their strategies, through the executor."""
    return "%d tests" % run_criterion(gpu, [os.path.join(gpu.build, "tests/ops/test-ops")], timeout=200)


def check_nets(gpu):
    count = 4 if gpu.standin else 60
    result = gpu.report.run([os.path.join(gpu.build, "tests/run/nets"), gpu.folder, "--first", "1000000", "--count", count],
                            env={**gpu.env, "PRUN_TEST_DEVICE": "cuda", "OPENBLAS_NUM_THREADS": "1"}, timeout=150)
    found = re.search(r"(\d+) nets count of .*?(\d+) failed", result.out)
    if not found or int(found[1]) < count or int(found[2]):
        raise Failed(result.last_words())
    return "%d random nets" % int(found[1])


# ---------------------------------------------------------------- samples

def sample_names(gpu):
    names = sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(SAMPLES, "*.dsl")) if samples.is_net(path) and re.search(gpu.samples_wanted, path))
    return ["oneflow_ddp", "quickstart"] if gpu.standin else names


def prepare_samples(gpu):
    """name -> (plan for 8 ranks, plan for one); characters with a text of its own, with and without its strategies."""
    plans = {}
    for name in sample_names(gpu):
        source = copy_sample(gpu, name + ".dsl", samples.MORE.get(name, []))
        options = samples.OPTIONS.get(name, [])
        alone = ["--mode", "stand_alone"] if name == "mesh" else []
        plans[name] = gpu.compile(source, name + ".8.plan", RANKS, *options), gpu.compile(source, name + ".1.plan", 1, *options, *alone)
    if gpu.standin:
        return plans
    write_text(gpu, 4000)
    source = copy_sample(gpu, "characters.dsl", [("batch = 32, places = 64", "batch = 16, places = 16"), ("steps     = 200", "steps     = 6")])
    hints = copy_sample(gpu, "characters_hints.dsl", [("dp = 2, tp = 2", "dp = 2, tp = 4")])
    one = gpu.compile(source, "characters.1.plan", 1)
    plans["characters"] = gpu.compile(source, "characters.8.plan", RANKS), one
    plans["characters, hints"] = gpu.compile(source, "characters_hints.8.plan", RANKS, "--hints", hints), one
    return plans


def copy_sample(gpu, name, edits):
    """And the files that it names."""
    with open(os.path.join(SAMPLES, name), encoding="utf-8") as file:
        text = file.read()
    for old, new in edits:
        if old not in text:
            raise Failed("%s: no '%s' to replace" % (name, old))
        text = text.replace(old, new)
    for named in set(re.findall(r'(?:file\(|import )"(.*?)"', text)):
        shutil.copy(os.path.join(SAMPLES, named), gpu.path(named))
    with open(gpu.path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return gpu.path(name)


def write_text(gpu, length):
    """Words of a language that is always the same: no file of another's is needed."""
    state, words = 3, []
    while length > 0:
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        words.append("".join("abcdefgh"[state >> 3 * i + 20 & 7] for i in range(2 + (state >> 60 & 3))))
        length -= len(words[-1]) + 1
    with open(gpu.path("text.txt"), "w", encoding="ascii") as file:
        file.write(" ".join(words))


def check_samples(gpu, plans, ranks, *options, mpi=False, env=None):
    def check(item):
        name, (plan, one) = item
        try:
            gpu.verified(plan if ranks > 1 else one, one, ranks, *options, mpi=mpi, env=env)
        except Failed as failed:
            return "%s: %s" % (name, failed)
        return None

    with concurrent.futures.ThreadPoolExecutor(1 if gpu.standin else 8) as pool: # most of a run is its start
        failures = [failure for failure in pool.map(check, plans.items()) if failure]
    if failures:
        gpu.report.log("\n".join(failures))
        raise Failed("%d of %d nets: %s" % (len(failures), len(plans), failures[0]))
    return "%d nets verified" % len(plans)


def check_comm(gpu, plans, comm):
    """8 ranks that share the device, talking in one way. A way that does not work on this machine is left out with prun's reason."""
    plan, _ = next(iter(plans.values()))
    probe = gpu.report.run([gpu.mpirun, "-n", RANKS, gpu.prun, "--device", "cuda", "--comm", comm, plan], env=gpu.env, cwd=gpu.folder, check=False)
    refused = re.search(r"prun: (?:rank \d+ .*?: )?--comm %s: (.*)" % comm, probe.out)
    if probe.code == 3 and refused:
        raise LeftOut(refused[1][:160])
    return check_samples(gpu, plans, RANKS, "--comm", comm, mpi=True)


def check_references(gpu):
    """OneFlow's and MindSpore's numbers, on the device."""
    source = copy_sample(gpu, "oneflow_ddp.dsl", [])
    result = gpu.train(gpu.compile(source, "oneflow.plan", 2), 2, "--print", "w")
    losses = [float(m) for m in re.findall(r"^\[rank 0\] .*, loss is (\S+)$", result.out, re.M)]
    expected = float(reference.ONEFLOW_MEAN[0][0])
    if len(losses) != 10 or abs(losses[0] - expected) > 2e-3 * expected or losses[9] > 1e-9 or "w = [[2.0000], [3.0000]]" not in result.out:
        raise Failed("OneFlow's example ends elsewhere: %s" % losses)
    source = copy_sample(gpu, "quickstart_files.dsl", [])
    result = gpu.train(gpu.compile(source, "quickstart_files.plan", RANKS), RANKS)
    losses = [float(m) for m in re.findall(r"^epoch: .*, loss is (\S+)$", result.out, re.M)]
    worst = max((abs(a - b) for a, b in zip(losses, reference.QUICKSTART)), default=1)
    if len(losses) != len(reference.QUICKSTART) or worst > reference.TOLERANCE:
        raise Failed("MindSpore's quick start: %d losses, off by %.2g" % (len(losses), worst))
    return "off by %.1g at most" % worst


def check_same_bits(gpu, plans):
    """--deterministic: two runs end with the same bits."""
    plan, ends = plans["quickstart"][0], []
    for name in "first", "second":
        gpu.train(plan, RANKS, "--deterministic", "--comm", "host", "--save", gpu.path(name + ".safetensors"), mpi=True)
        with open(gpu.path(name + ".safetensors"), "rb") as file:
            ends.append(file.read())
    if ends[0] != ends[1]:
        raise Failed("two runs differ")


def check_nccl(gpu):
    """Two ranks on one GPU. An NCCL before 2.30 refuses that."""
    if not gpu.nccl:
        raise LeftOut("no NCCL was given or found in python3's packages")
    env = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    source = copy_sample(gpu, "mlp_small.dsl", [])
    options = samples.OPTIONS["mlp_small"]
    two, one = gpu.compile(source, "two.plan", 2, *options), gpu.compile(source, "one.plan", 1, *options)
    probe = gpu.report.run([gpu.mpirun, "-n", 2, gpu.prun, "--device", "cuda", "--comm", "nccl", two], env={**gpu.env, **env}, cwd=gpu.folder, check=False)
    refused = re.search(r"--comm nccl: (.*)", probe.out)
    if probe.code == 3 and refused and "wants one a rank" in refused[1]:
        raise LeftOut(refused[1][:160])
    result = gpu.verified(two, one, 2, "--comm", "nccl", mpi=True, env=env)
    if not re.search(r"^rank 1: .*NCCL \d", result.out, re.M):
        raise Failed("the ranks did not talk through NCCL")
    check_compressed(gpu, options, env)
    graph = re.search(r"^steps are .*$", result.out, re.M)
    return graph[0] if graph else ""


def check_compressed(gpu, options, env):
    """Gradients of 4 ranks that the library adds up in bf16: losses agree with those of sums of our own to three digits."""
    products = ["matmul(x, w1)", "matmul(h1, w2)", "matmul(h2, w3)"] # by rows, so that each weight's gradient is a sum over all ranks
    edits = [(product, "(%s shard ((4, 1), (1, 1)))" % product) for product in products] + [("optimizer = sgd", "compress  = bf16;\n    optimizer = sgd")]
    plan = gpu.compile(copy_sample(gpu, "mlp_small.dsl", edits), "compressed.plan", 4, *options)
    losses = {}
    for comm in "nccl", "host":
        result = gpu.train(plan, 4, "--comm", comm, mpi=True, env=env)
        losses[comm] = [float(loss) for loss in re.findall(r"^epoch: .*, loss is (\S+)$", result.out, re.M)]
    worst = max((abs(a - b) / abs(b) for a, b in zip(losses["nccl"], losses["host"])), default=1)
    if len(losses["nccl"]) != len(losses["host"]) or worst > 5e-3:
        raise Failed("compressed gradients through NCCL: losses are off by %.2g: %s" % (worst, losses))


def check_communications(gpu, way, said):
    """tests/runtime/comm/commtest.c over device memory: every kind of communication, all elements looked at. Ranks share the GPU."""
    program = os.path.join(gpu.build, "tests/runtime/cuda/ranks/devtest")
    runs = [(2, "kinds")] if gpu.standin else [(2, "sweep"), (3, "kinds"), (4, "sweep"), (4, "kinds", "foreign"), (8, "kinds")]
    failures = []
    for ranks, *how in runs:
        result = gpu.report.run([gpu.mpirun, "-n", ranks, program, *how], env={**gpu.env, "COMMTEST_COMM": way}, timeout=100, check=False)
        refused = re.search(r"--comm %s: (.*)" % way, result.out)
        if refused and result.code == 3:
            raise LeftOut(refused[1][:160])
        if result.code != 0 or not re.search(r"through %s\b" % said, result.out):
            failures.append("%d ranks, %s: exit code %s: %s" % (ranks, " ".join(how), result.code, result.last_words()))
    if failures:
        raise Failed("%d of %d: %s" % (len(failures), len(runs), "; ".join(failures)))
    return "%d programs" % len(runs)


# ---------------------------------------------------------------- compute-sanitizer

def check_sanitizer(gpu, tool, names):
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")
    if not sanitizer:
        raise LeftOut("compute-sanitizer is not installed")
    probe = gpu.report.run([sanitizer, "--tool", tool, gpu.prun, "--devices"], env=gpu.env, check=False)
    if "Device not supported" in probe.out:
        raise LeftOut("compute-sanitizer: Device not supported")
    tests = operator_tests(gpu, names)
    before = [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "99"]
    if tool == "memcheck": # the library asks for what a driver may not have; what we ask for, we look at
        before += ["--report-api-errors", "no"]
    return run_programs(gpu, tests, names, before=before, timeout=150)
