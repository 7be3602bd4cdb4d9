"""Step time of a perceptron in PyTorch, alone or, under torchrun, as DistributedDataParallel over gloo. Prints one line of JSON (rank 0).

    torch_step.py --sizes 784,256,128,10 --batch 128 --optimizer sgd --steps 20 --warmup 5 [--threads N] [--peak]
    python -m torch.distributed.run --standalone --nproc-per-node 4 torch_step.py ...

The net is that of samples/mlp*.dsl: no biases, relu between the layers, mean squared error. The batch is the global one; every process takes
its share. step_s: time of the median step of the slowest process; sent_bytes: what the loopback interface carried, per process and step.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def loopback_bytes():
    with open("/proc/net/dev") as table:
        for line in table:
            name, _, counts = line.partition(":")
            if name.strip() == "lo":
                return int(counts.split()[8])
    return 0


def peak_flops():
    """FLOP/s of a large product with this process's threads: what a step could reach at most."""
    n = 2048
    a, b = torch.rand(n, n), torch.rand(n, n)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - start)
    return 2 * n**3 / min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--optimizer", choices=["sgd", "momentum"], required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if world > 1 else 0
    torch.manual_seed(1)
    sizes = [int(size) for size in args.sizes.split(",")]
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [Linear(before, after, bias=False), ReLU()]
    net = Sequential(*layers[:-1])
    if world > 1:
        net = DistributedDataParallel(net)
    batch = args.batch // world
    x, label = torch.rand(batch, sizes[0]), torch.rand(batch, sizes[-1])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9 if args.optimizer == "momentum" else 0.0)

    def step():
        optimizer.zero_grad()
        loss = mse_loss(net(x), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(args.warmup):
        step()
    if world > 1:
        dist.barrier()
    before = loopback_bytes()
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    seconds = torch.tensor(statistics.median(times))
    if world > 1:
        dist.barrier()
    sent = loopback_bytes() - before
    if world > 1:
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        result = {"version": torch.__version__, "step_s": float(seconds), "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                  "sent_bytes": sent / args.steps / world if world > 1 else 0}
        if args.peak:
            result["peak_flops"] = peak_flops()
        print(json.dumps(result), flush=True)
    if world > 1:
        dist.barrier()  # gloo aborts when a process leaves before the others
        dist.destroy_process_group()


main()
