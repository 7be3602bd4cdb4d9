#!/usr/bin/env python3
"""Registers, spills and occupancy of every kernel of runtime/cuda, as ptxas reports them: writes the table of docs/gpu-kernels.md. Needs nvcc, no GPU; takes minutes.
   tools/gpu-registers.py [--architecture 90] [--check]     --check: exit code 1 where the table is another than the one in the document"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs", "gpu-kernels.md")
HEAD = "<!-- tools/gpu-registers.py -->\n"
# CUDA C++ Programming Guide, technical specifications by compute capability: registers, threads, blocks and bytes of shared memory of a multiprocessor. A block takes 1 KiB of
# shared memory for itself; registers are given out to warps, 256 at a time.
LIMITS = {"80": (65536, 2048, 32, 164 << 10), "90": (65536, 2048, 32, 228 << 10), "100": (65536, 2048, 32, 228 << 10)}
WARP = 32


def tool(name):
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which(name) or os.path.join(home, "bin", name)


def compile_kernels(architecture, folder):
    """What ptxas says, and the PTX, which has the threads of a block."""
    made = os.path.join(folder, "kernels.o")
    command = [tool("nvcc"), "-c", "-O3", "-std=c++17", "-I", ROOT, "--threads", "0", "-Xptxas", "-v", "-gencode", "arch=compute_%s,code=sm_%s" % (architecture, architecture),
               "-diag-suppress", "177", "-keep", "-keep-dir", folder, os.path.join(ROOT, "runtime/cuda/kernels.cu"), "-o", made]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("tools/gpu-registers.py: nvcc fails:\n" + done.stderr)
    with open(glob.glob(os.path.join(folder, "*.ptx"))[0], encoding="utf-8") as file:
        return done.stderr + done.stdout, file.read()


def occupancy(architecture, threads, registers, shared):
    all_registers, all_threads, all_blocks, all_shared = LIMITS[architecture]
    warps = (threads + WARP - 1) // WARP
    each = (registers * WARP + 255) // 256 * 256 * warps
    blocks = min(all_blocks, all_threads // (warps * WARP), all_registers // max(each, 1), all_shared // (shared + 1024))
    return 100 * blocks * warps * WARP // all_threads


def kernels(architecture, said, ptx):
    threads = {name: int(bound) for name, bound in re.findall(r"\.entry (\w+)\(.*?\)\s*\.maxntid (\d+)", ptx, re.S)}
    found = []
    for name, text in re.findall(r"Compiling entry function '(\w+)' for 'sm_\d+'\n(.*?)(?=ptxas info +: Compiling|\Z)", said, re.S):
        registers, shared = int(re.search(r"Used (\d+) registers", text)[1]), re.search(r"(\d+) bytes smem", text)
        stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text).groups())
        shared = int(shared[1]) if shared else 0
        if name not in threads:
            sys.exit("tools/gpu-registers.py: %s has no __launch_bounds__" % name)
        found.append({"name": name, "threads": threads[name], "registers": registers, "stack": stack, "spilled": stores + loads, "shared": shared,
                      "occupancy": occupancy(architecture, threads[name], registers, shared)})
    readable = subprocess.run(["c++filt"], input="\n".join(k["name"] for k in found), capture_output=True, text=True, check=True).stdout.splitlines()
    for kernel, name in zip(found, readable):
        kernel["kernel"] = re.match(r"(?:void )?(\w+)", name)[1]
    return found


def span(values):
    low, high = min(values), max(values)
    return str(low) if low == high else "%d to %d" % (low, high)


def table(architecture, found):
    lines = ["For compute capability %s.%s.\n" % (architecture[:-1], architecture[-1]),
             "| kernel | variants | threads a block | registers | shared memory, bytes | stack, bytes | spilled, bytes | occupancy, % |", "|---|---|---|---|---|---|---|---|"]
    for name in sorted({k["kernel"] for k in found}):
        rows = [k for k in found if k["kernel"] == name]
        fields = [span([k[field] for k in rows]) for field in ("threads", "registers", "shared", "stack", "spilled", "occupancy")]
        lines.append("| %s | %d | %s |" % (name, len(rows), " | ".join(fields)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="tools/gpu-registers.py", description=__doc__.splitlines()[0])
    parser.add_argument("--architecture", default="90", choices=sorted(LIMITS))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = table(args.architecture, kernels(args.architecture, *compile_kernels(args.architecture, folder)))
    with open(DOCUMENT, encoding="utf-8") as file:
        before, old = file.read().split(HEAD)
    if args.check:
        if old != made:
            print("docs/gpu-kernels.md is not what tools/gpu-registers.py makes")
        sys.exit(old != made)
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(before + HEAD + made)


main()
