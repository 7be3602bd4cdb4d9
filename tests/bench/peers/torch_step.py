"""Step time of a net in PyTorch, alone or, under torchrun, as DistributedDataParallel over gloo. Prints one line of JSON (rank 0).

    torch_step.py --sizes 784,256,128,10 --batch 128 --optimizer sgd --steps 20 --warmup 5 [--threads N] [--peak]
    torch_step.py --net gpt_tiny --data FOLDER --batch 16 --optimizer adamw --lr 0.001 --steps 20 --warmup 5
    python -m torch.distributed.run --standalone --nproc-per-node 4 torch_step.py ...

With --sizes the net is that of samples/mlp*.dsl: no biases, relu between the layers, mean squared error, random numbers. With --net it is one of torch_nets.py: FOLDER has
NET.safetensors, its parameters as prun saves them, and the files of its inputs. The batch is the global one; every process takes its share.
imported_bytes, peak_bytes: what one process held in memory before the net, and at most.
step_s: time of the median step of the slowest process; cpu_s: processor time of a step, of all processes; sent_bytes: what the loopback interface carried, per process and
step; losses: of every step from the first, of the whole batch.
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

import torch_nets


def loopback_bytes():
    with open("/proc/net/dev") as table:
        for line in table:
            name, _, counts = line.partition(":")
            if name.strip() == "lo":
                return int(counts.split()[8])
    return 0


def processor_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_bytes():
    """At most, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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


class Perceptron(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [Linear(before, after, bias=False), ReLU()]
        self.layers = Sequential(*layers[:-1])

    def forward(self, x, label):
        return mse_loss(self.layers(x), label)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes")
    parser.add_argument("--net", choices=sorted(torch_nets.NETS))
    parser.add_argument("--data", metavar="FOLDER")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--optimizer", choices=["sgd", "momentum", "adam", "adamw"], required=True)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    imported = resident_bytes()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if world > 1 else 0
    torch.manual_seed(1)
    share = args.batch // world
    if args.net:
        net = torch_nets.load(args.net, args.data)
        batches = torch_nets.batches(args.net, args.data, args.batch, rank * share, (rank + 1) * share)
    else:
        sizes = [int(size) for size in args.sizes.split(",")]
        net = Perceptron(sizes)
        batches = [(torch.rand(share, sizes[0]), torch.rand(share, sizes[-1]))]
    if world > 1:
        net = DistributedDataParallel(net)
    rules = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if args.optimizer == "momentum":
        optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    else:
        optimizer = rules[args.optimizer](net.parameters(), lr=args.lr)
    losses = []

    def step():
        optimizer.zero_grad()
        loss = net(*batches[len(losses) % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    for _ in range(args.warmup):
        step()
    if world > 1:
        dist.barrier()
    before, used, times = loopback_bytes(), processor_s(), []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    seconds, used = torch.tensor(statistics.median(times)), torch.tensor(processor_s() - used)
    if world > 1:
        dist.barrier()
    sent, losses = loopback_bytes() - before, torch.tensor(losses, dtype=torch.float64)
    if world > 1:
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        dist.all_reduce(used)
        dist.all_reduce(losses)
    if rank == 0:
        result = {"version": torch.__version__, "step_s": float(seconds), "cpu_s": float(used) / args.steps,
                  "imported_bytes": imported, "peak_bytes": resident_bytes(), "sent_bytes": sent / args.steps / world if world > 1 else 0,
                  "losses": (losses / world).tolist()}
        if args.peak:
            result["peak_flops"] = peak_flops()
        print(json.dumps(result), flush=True)
    if world > 1:
        dist.barrier()  # gloo aborts when a process leaves before the others
        dist.destroy_process_group()


main()
