"""tests/gpu.sh: the steps, in order. Python's standard library only."""
import argparse
import datetime
import glob
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import benchmarks  # noqa: E402
import checks      # noqa: E402
from report import Failed, Report, die  # noqa: E402

STEPS = ("build", "operators", "samples", "host", "ipc", "communications", "nccl", "sanitizer", "product", "nets", "profile")
CALLS = ("operators,samples", "host,ipc,communications,nccl,sanitizer", "nets,profile")
MEASURED = {"product", "nets", "profile"}
SHARE = 0.5 # of the time, for what is measured, where there are checks before it

SANITIZED = {"memcheck": ["attention", "pitch", "reduce", "softmax", "update", "chain", "lookup", "move", "kernels", "random"], "racecheck": ["attention", "softmax", "reduce", "lookup", "update"]}
for names in SANITIZED.values():
    assert set(names) <= set(checks.OPERATOR_TESTS), names


def arguments():
    parser = argparse.ArgumentParser(prog="tests/gpu.sh", description="Everything that needs a GPU.",
                                     epilog="On a GPU that is lent for 15 minutes in all, three calls on one machine, each with --prefix FILE, which holds the programs too, and --seconds 240: --only %s. "
                                            "docs/gpu.md says what to look at first." % ", then --only ".join(CALLS))
    parser.add_argument("--prefix", metavar="FOLDER|FILE", help="what tools/gpu-prefix.sh made")
    parser.add_argument("--build", metavar="FOLDER", default="build-gpu", help="where to build (default: build-gpu)")
    parser.add_argument("--built", action="store_true", help="the programs are there already: tools/gpu-prefix.sh packed them")
    parser.add_argument("--output", metavar="FILE", help="raw output (default: docs/benchmarks/gpu-DATE.txt)")
    parser.add_argument("--nccl", metavar="LIBRARY", default=os.environ.get("NCCL_LIBRARY"), help="a libnccl.so.2 of 2.30 or later")
    parser.add_argument("--only", metavar="STEP,..", default=",".join(STEPS), help="some of " + ", ".join(STEPS))
    parser.add_argument("--nets", metavar="REGEX", default="", help="measure those alone whose name and kind of numbers match")
    parser.add_argument("--samples", metavar="REGEX", default="", help="train those samples alone whose name matches")
    parser.add_argument("--seconds", type=float, default=570, help="for everything (default: 570)")
    parser.add_argument("--standin", metavar="FOLDER", help="test this script over the stand-in of a build folder")
    args = parser.parse_args()
    args.only = args.only.split(",")
    if unknown := set(args.only) - set(STEPS):
        die("there is no step %s: they are %s" % (sorted(unknown)[0], ", ".join(STEPS)), 2)
    if args.standin:
        args.build = args.standin
    if args.nccl and os.path.isdir(args.nccl):
        args.nccl = os.path.join(args.nccl, "libnccl.so.2")
    return args


def output_path(args):
    if args.output:
        return args.output
    if args.standin:
        return os.path.join(tempfile.gettempdir(), "gpu-standin-%d.txt" % os.getpid())
    return os.path.join(checks.SOURCES, "docs", "benchmarks", "gpu-%s.txt" % datetime.date.today().isoformat())


def find_nccl(args):
    """The one that was named, else that of python3's packages."""
    if args.nccl:
        if not os.path.exists(args.nccl):
            die("there is no %s" % args.nccl)
        return os.path.abspath(args.nccl)
    code = "import site, sysconfig; print('\\n'.join([sysconfig.get_paths()['purelib'], *site.getsitepackages(), site.getusersitepackages()]))"
    listed = subprocess.run([os.environ.get("PEER_PYTHON", "python3"), "-c", code], capture_output=True, text=True, check=False).stdout
    for folder in listed.splitlines():
        for found in glob.glob(os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")):
            return found
    return None


def say_machine(gpu):
    """Machine and versions, at the head of the raw output."""
    report = gpu.report
    report.say("tests/gpu.sh, %s" % datetime.datetime.now().astimezone().isoformat(timespec="seconds"))
    commands = [["uname", "-srm"], ["git", "-C", checks.SOURCES, "log", "-1", "--format=commit %h of %cd"], ["cc", "--version"], ["meson", "--version"]]
    if not gpu.standin:
        commands += [["nvidia-smi"], ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current", "--format=csv"],
                     ["nvcc", "--version"], ["grep", "-m1", "model name", "/proc/cpuinfo"],
                     [os.environ.get("PEER_PYTHON", "python3"), "-c", "import torch; print('PyTorch', torch.__version__, 'CUDA', torch.version.cuda, 'NCCL', torch.cuda.nccl.version())"]]
    for command in commands:
        env = {"LD_LIBRARY_PATH": os.environ.get("PCC_OUTER_LIBRARY_PATH", "")}
        try:
            report.run(command, env=env, check=False, timeout=60)
        except Failed as failed:
            report.log(str(failed))
    report.log("NCCL: %s" % gpu.nccl)


def operators(gpu):
    steps = [("operators against the CPU's", lambda: checks.check_operators(gpu)), ("random nets", lambda: checks.check_nets(gpu))]
    if not gpu.standin: # takes minutes there, and is a test of its own
        steps.append(("every strategy, gradients", lambda: checks.check_strategies(gpu)))
    return [lambda step=step: gpu.report.step(*step) for step in steps]


def run_samples(gpu, only):
    report, plans = gpu.report, {}
    if "samples" in only:
        report.step("reference examples", lambda: checks.check_references(gpu))
    if not report.step("samples compiled", lambda: plans.update(checks.prepare_samples(gpu)) or "%d" % len(plans)):
        return
    if "samples" in only:
        report.step("samples, 1 rank", lambda: checks.check_samples(gpu, plans, 1))
        report.step("samples, 8 ranks in one process", lambda: checks.check_samples(gpu, plans, checks.RANKS))
    for comm in "host", "ipc":
        if comm in only:
            report.step("samples, 8 ranks share the GPU, %s" % comm, lambda comm=comm: checks.check_comm(gpu, plans, comm))
    if "host" in only:
        report.step("--deterministic, two runs", lambda: checks.check_same_bits(gpu, plans))


def run_communications(gpu, only):
    if "communications" in only:
        for way, said in ("host", "host memory"), ("ipc", "CUDA IPC"):
            gpu.report.step("communications, " + way, lambda way=way, said=said: checks.check_communications(gpu, way, said))
    if "nccl" in only:
        gpu.report.step("2 ranks share the GPU, NCCL", lambda: checks.check_nccl(gpu))


def run_checks(gpu, only):
    """Side by side: none is timed. A check that fails, hangs or runs out of time takes nothing from the others, and from what is measured."""
    report = gpu.report
    sides = operators(gpu) if "operators" in only else []
    if {"communications", "nccl"} & set(only):
        sides.append(lambda: run_communications(gpu, only))
    if {"samples", "host", "ipc"} & set(only):
        sides.append(lambda: run_samples(gpu, only))
    if "sanitizer" in only and not gpu.standin:
        for tool, names in SANITIZED.items():
            sides.append(lambda tool=tool, names=names: report.step("compute-sanitizer " + tool, lambda: checks.check_sanitizer(gpu, tool, names)))
    later = SHARE * report.left() if MEASURED & set(only) else 0
    report.deadline -= later
    report.side_by_side(sides)
    report.deadline += later


def run_benchmarks(gpu, only, torch):
    report = gpu.report
    if "product" in only:
        for kind in benchmarks.KINDS:
            report.step("product 8192, %s" % kind, lambda kind=kind: benchmarks.bench_product(gpu, kind))
    if not {"nets", "profile"} & set(only):
        return
    plans = {}
    if not report.step("nets compiled", lambda: plans.update(benchmarks.prepare_nets(gpu)) or "%d" % len(plans)):
        return
    if "nets" in only:
        report.step("PyTorch", lambda: torch.measure(60))
        for (name, kind), (plan, _) in plans.items():
            report.step("%s, %s" % (name, kind), lambda name=name, kind=kind, plan=plan: benchmarks.bench_net(gpu, name, plan, kind))
    if "profile" in only:
        for (name, kind), (plan, planned) in plans.items():
            report.step("profile of %s, %s" % (name, kind), lambda name=name, kind=kind, plan=plan, planned=planned: benchmarks.bench_profile(gpu, name, kind, plan, planned))


def main():
    args = arguments()
    report = Report(output_path(args), args.seconds)
    with tempfile.TemporaryDirectory(prefix="pcc-gpu-") as folder:
        gpu = checks.Gpu(report, args.build, folder, bool(args.standin), None if args.standin else find_nccl(args), args.nets, args.samples)
        say_machine(gpu)
        if "build" in args.only and not args.standin and not args.built:
            if not report.step("build", lambda: checks.check_build(gpu)):
                return report.finish()
            report.step("build of the tests", lambda: checks.check_tests_build(gpu))
        if not report.step("device", lambda: checks.check_devices(gpu)):
            return report.finish()
        torch = benchmarks.Torch(gpu)
        try:
            if "nets" in args.only and not args.standin:
                torch.start() # it compiles meanwhile
            run_checks(gpu, args.only)
            run_benchmarks(gpu, args.only, torch)
        finally:
            torch.close()
    return report.finish()


sys.exit(main())
