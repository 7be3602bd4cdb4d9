"""What is measured on a GPU, with a verdict against each goal: products against cuBLAS, steps against PyTorch, idle time, memory."""
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

from checks import SOURCES, copy_sample, write_text
from report import Failed, LeftOut

MATMUL_GOAL, MEMORY_GOAL, IDLE_GOAL, IDLE_FROM_MS = 0.95, 0.02, 3.0, 1.0

PRODUCT = """net product(n = %d) {
    param a : f32[n, n] = normal(1);
    param b : f32[n, n] = normal(1);
    y = matmul(a, b);
    loss mean(square(y));
}
train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 1e-9);
    steps     = %d;
    log_every = 1000;
    %s
}
"""

# What factors of products are: an option of prun's, a setting of the net's, for PyTorch.
KINDS = ("f32", "tf32", "bf16", "f16")


def options_of(kind):
    return ["--tf32"] if kind == "tf32" else []


def setting_of(kind):
    return "precision = %s;" % kind if kind in ("f16", "bf16") else ""


LARGE = {"batch": 64, "places": 256, "dim": 512, "heads": 8, "layers": 6}
SMALL = {"batch": 32, "places": 64, "dim": 64, "heads": 4, "layers": 2}
TINY_MLP, TINY_TEXT = {"batch": 32, "sizes": [48, 64, 64, 10]}, {"batch": 4, "places": 12, "dim": 16, "heads": 4, "layers": 1}


def nets(gpu):
    """name -> what torch_steps.py takes, of the kinds that are wanted; steps in time for medians."""
    found = {}
    for name, net in all_nets(gpu.standin).items():
        if kinds := [kind for kind in net["kinds"] if re.search(gpu.wanted, "%s, %s" % (name, kind))]:
            found[name] = {**net, "kinds": kinds}
    return found


def all_nets(standin):
    if standin:
        gpt2 = {"batch": 1, "places": 6, "dim": 8, "heads": 2, "layers": 1, "words": 20, "most": 8}
        return {"MLP, tiny": {"net": "mlp", "steps": 3, "kinds": ("f32", "tf32", "bf16"), **TINY_MLP}, "characters, tiny": {"net": "characters", "steps": 3, "kinds": ("f32",), **TINY_TEXT},
                "gpt2, tiny": {"net": "gpt2", "steps": 2, "kinds": ("bf16",), **gpt2}, "bert, tiny": {"net": "bert", "steps": 2, "kinds": ("bf16",), **gpt2, "classes": 2},
                "resnet18, tiny": {"net": "resnet18", "steps": 2, "kinds": ("f32",), "batch": 2, "side": 32, "width": 2, "classes": 4}}
    sizes, all_kinds, quick = [784, 4096, 4096, 10], ("f32", "tf32", "bf16"), ("tf32", "bf16")
    base = {"dim": 768, "heads": 12, "layers": 12}
    return {"MLP, batch 512": {"net": "mlp", "batch": 512, "sizes": sizes, "steps": 100, "kinds": all_kinds}, "MLP, batch 8192": {"net": "mlp", "batch": 8192, "sizes": sizes, "steps": 40, "kinds": all_kinds},
            "gpt2": {"net": "gpt2", "batch": 8, "places": 1024, "words": 50257, "most": 1024, "steps": 10, "kinds": quick, **base},
            "bert": {"net": "bert", "batch": 16, "places": 128, "words": 21128, "most": 512, "classes": 2, "steps": 20, "kinds": quick, **base},
            "resnet18": {"net": "resnet18", "batch": 64, "side": 224, "width": 64, "classes": 1000, "steps": 10, "kinds": quick},
            "characters": {"net": "characters", "steps": 200, "kinds": ("f32", "tf32"), **SMALL}, "characters, large": {"net": "characters", "steps": 40, "kinds": ("f32", "tf32"), **LARGE}}


# ---------------------------------------------------------------- what prun prints

class Profile:
    """Of prun's output with --profile."""

    def __init__(self, text):
        head = re.search(r"^profile of rank 0 on device \d+, (.*): (\d+) steps after the first, ([\d.]+) ms each", text, re.M)
        if not head:
            raise Failed("prun --profile printed no table of a device")
        self.device, self.step_ms, self.kinds = head[1], float(head[3]), []
        unit = 1e-3 if "GFLOP/s" in text[head.end():].splitlines()[1] else 1.0
        for line in text[head.end():].splitlines():
            row = re.match(r"  (\S+) +([\d.]+) +([\d.]+) +([\d.]+) % +([\d.]+) +(\d+) % +([\d.]+)$", line)
            if row:
                self.kinds.append({"name": row[1], "calls": float(row[2]), "ms": float(row[3]), "tflops": unit * float(row[5])})
        shares = [re.search(r"^  %s +([\d.]+) +([\d.]+) %%" % what, text, re.M) for what in ("between operators", "before and after them")]
        memory = re.search(r"^  device memory: ([\d.]+) MiB taken", text, re.M)
        if not all(shares) or not memory:
            raise Failed("prun --profile says nothing of gaps or memory")
        self.between, self.outside = (float(share[2]) for share in shares)
        self.memory = float(memory[1]) * (1 << 20)

    def products(self, count):
        """TFLOP/s of all products together, so many of which are in a step; those of gradients are called einsum."""
        rows = [kind for kind in self.kinds if kind["name"].split("+")[0] in ("matmul", "einsum")]
        found, seconds = sum(kind["calls"] for kind in rows), sum(kind["ms"] for kind in rows)
        if found != count or not seconds:
            raise Failed("%g products in the profile, not %d" % (found, count))
        return sum(kind["tflops"] * kind["ms"] for kind in rows) / seconds


# ---------------------------------------------------------------- products

def build_cublas(gpu):
    if gpu.standin:
        return os.path.join(gpu.build, "tests/gpu/cublas")
    cuda = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")))
    libs = os.path.join(cuda, "lib64")
    gpu.report.run(["cc", "-O2", "-std=c11", "-Wall", "-Wextra", "-I", SOURCES, "-isystem", os.path.join(cuda, "include"), os.path.join(SOURCES, "tests/bench/cublas.c"), "-o", gpu.path("cublas"),
                    "-L" + libs, "-L" + os.path.join(cuda, "targets/x86_64-linux/lib"), "-lcublasLt", "-lcudart_static", "-lpthread", "-ldl", "-lrt", "-lm", "-Wl,-rpath," + libs])
    return gpu.path("cublas")


def bench_product(gpu, kind):
    """Rounds of prun and cuBLAS alone, one after the other."""
    n, steps, rounds, seconds = (64, 3, 1, 0.001) if gpu.standin else (8192, 12, 1, 0.05)
    program = build_cublas(gpu)
    with open(gpu.path("product.dsl"), "w", encoding="ascii") as file:
        file.write(PRODUCT % (n, steps, setting_of(kind)))
    plan = gpu.compile(gpu.path("product.dsl"), "product.plan", 1)
    ours, theirs, best = [], [], []
    for _ in range(rounds):
        ours.append(Profile(gpu.train(plan, 1, "--profile", *options_of(kind)).out).products(3)) # what tests/bench/cublas.c measures too
        alone = json.loads(gpu.report.run([program, n, kind, seconds]).out.splitlines()[-1])
        theirs.append(alone["tflops"])
        best.append(alone["best_tflops"])
    found = {"prun": statistics.median(ours), "cublas": statistics.median(theirs), "best": statistics.median(best)}
    share = found["prun"] / found["cublas"]
    text = "%.1f TFLOP/s, cuBLAS alone %.1f (the best of 8 algorithms %.1f)" % (found["prun"], found["cublas"], found["best"])
    if not gpu.standin:
        gpu.report.goal("%s product at least 95 %% of cuBLAS" % kind, share >= MATMUL_GOAL, "%.1f %%" % (100 * share))
    return text


# ---------------------------------------------------------------- steps

# Sample, its number of steps, what else it is told.
TEXT = ("batch", "places", "dim", "heads", "layers")
SAMPLES_OF = {"mlp": ("mlp.dsl", "steps     = 10;", ()), "characters": ("characters.dsl", "steps     = 200;", TEXT), "gpt2": ("gpt2.dsl", "steps     = 4;", (*TEXT, "words", "most")),
              "bert": ("bert_base.dsl", "steps     = 4;", (*TEXT, "words", "most", "classes")), "resnet18": ("resnet18.dsl", "steps     = 10;", ("batch", "side", "width", "classes"))}


def numbers_of(net):
    if net["net"] == "mlp":
        sizes = net["sizes"]
        return {"batch": net["batch"], "in_dim": sizes[0], "hidden": sizes[1], "classes": sizes[-1]}
    return {key: net[key] for key in SAMPLES_OF[net["net"]][2]}


def prepare_nets(gpu):
    """(name, kind) -> (plan for one rank, bytes that pcc prints for it)."""
    found = {}
    write_text(gpu, 4000 if gpu.standin else 800000)
    for name, net in nets(gpu).items():
        sample, steps, _ = SAMPLES_OF[net["net"]]
        for kind in net["kinds"]:
            edits = [(steps, "steps     = %d;\n    %s" % (net["steps"], setting_of(kind)))]
            edits.append(("log_every = 20", "log_every = 1000") if net["net"] == "characters" else ("train {", "train {\n    log_every = 1000;"))
            source = copy_sample(gpu, sample, edits)
            defines = [word for key, value in numbers_of(net).items() for word in ("-D", "%s=%d" % (key, value))]
            plan = gpu.path(re.sub(r"\W+", "_", "%s_%s" % (name, kind)) + ".plan")
            stats = gpu.report.run([gpu.pcc, source, "-o", plan, "--ranks", "1", "--machine", "gpu8", "--stats=json", *defines], cwd=gpu.folder, shown=False).out
            found[name, kind] = plan, json.loads(stats[stats.index("{"):])["memory"]["rank"]
    return found


def time_prun(gpu, plan, kind):
    """Seconds of the median step."""
    found = re.search(r"^time per step: ([\d.]+) ms", gpu.train(plan, 1, *options_of(kind)).out, re.M)
    if not found:
        raise Failed("prun printed no time per step")
    return float(found[1]) * 1e-3


class Torch:
    """PyTorch's steps. Each configuration compiles in a process of its own, beside checks that are not timed, and is measured alone."""

    def __init__(self, gpu):
        self.gpu, self.waiting = gpu, []
        self.python = os.environ.get("PEER_PYTHON", "python3")
        # It has the machine's own libraries, and compiles by itself: there is a process for each core anyway.
        self.env = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("PCC_OUTER_LIBRARY_PATH", ""), "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.configs = []
        for name, net in nets(gpu).items():
            how = "eager" if gpu.standin else "compiled"
            self.configs += [{**net, "name": "%s, %s" % (name, kind), "kind": kind, "how": how} for kind in net["kinds"]]

    def start(self):
        """Those that take longest first."""
        self.waiting = [(config, self.launch(config)) for config in sorted(self.configs, key=lambda config: config["net"] in ("mlp", "characters"))]

    def launch(self, config):
        device = ["--device", "cpu"] if self.gpu.standin else []
        command = [self.python, os.path.join(SOURCES, "tests/gpu/torch_steps.py"), json.dumps(config), *device]
        return subprocess.Popen(command, env=self.env, cwd=self.gpu.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def close(self):
        for _, process in self.waiting:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.waiting = []

    def measure(self, seconds):
        """name -> seconds; what there was no time for is left away."""
        probe = self.gpu.report.run([self.python, "-c", "import torch; print(torch.__version__)"], env=self.env, check=False)
        if probe.code != 0:
            raise LeftOut("%s has no PyTorch" % self.python)
        deadline, found = time.monotonic() + min(seconds, self.gpu.report.left()), {}
        for config, process in self.waiting or ((config, None) for config in self.configs):
            process = process or self.launch(config)
            try:
                out, _ = process.communicate("measure\n", timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, _ = process.communicate()
            self.gpu.report.log("\nPyTorch, %s, %s:\n%s" % (config["name"], config["how"], out))
            for line in out.splitlines():
                if line.startswith('{"name"'):
                    found[config["name"]] = json.loads(line)["step_s"]
        self.waiting = []
        if not found:
            raise Failed("PyTorch measured nothing")
        self.gpu.torch = found
        return "%d of %d configurations" % (len(found), len(self.configs))


def bench_net(gpu, name, plan, kind):
    key = "%s, %s" % (name, kind)
    ours = time_prun(gpu, plan, kind)
    gpu.steps[name, kind] = 1e3 * ours
    theirs = gpu.torch.get(key)
    show = lambda seconds: "-" if seconds is None else "%.3f ms" % (1e3 * seconds)
    if not gpu.standin:
        ratio = None if theirs is None else ours / theirs
        gpu.report.goal(key + ": as fast as torch.compile", None if ratio is None else ratio <= 1, "" if ratio is None else "%.2f x its time" % ratio)
    return "%s; PyTorch %s" % (show(ours), show(theirs))


def bench_profile(gpu, name, kind, plan, planned):
    """Gaps and memory of a net. A profile waits for each step, which training need not: what is around a step is taken from steps that are not profiled."""
    profile = Profile(gpu.train(plan, 1, "--profile", *options_of(kind)).out)
    step = gpu.steps.get((name, kind)) or 1e3 * time_prun(gpu, plan, kind)
    between, inside = (share * profile.step_ms / 100 for share in (profile.between, 100 - profile.outside))
    around = max(0, step - inside)
    idle, off = 100 * (between + around) / step, profile.memory / planned - 1
    if not gpu.standin:
        gpu.report.goal("%s, %s: idle under 3 %%" % (name, kind), None if step <= IDLE_FROM_MS else idle < IDLE_GOAL,
                        "%.1f %%: %.3f ms between operators and %.3f around them, of %.3f (profiled: %.3f)" % (idle, between, around, step, profile.step_ms))
        gpu.report.goal("%s, %s: memory within 2 %% of pcc's" % (name, kind), abs(off) <= MEMORY_GOAL, "%.1f MiB, pcc says %.1f" % (profile.memory / (1 << 20), planned / (1 << 20)))
    return "%.3f ms a step, %.1f %% idle, %.1f MiB (pcc: %.1f)" % (step, idle, profile.memory / (1 << 20), planned / (1 << 20))
