"""Steps of training in PyTorch, for tests/gpu.sh: the nets of samples/mlp.dsl and samples/characters.dsl, eager and compiled, in f32 and with tf32.

    torch_steps.py CONFIGS [--device cpu]    CONFIGS: JSON, a list of {"name", "net", "tf32", "how", "steps", sizes}; a line of JSON for each that was measured

A step is zero_grad, forward, backward, update. Its time is the median of steps that are each waited for, or the mean of as many that follow each other without a wait,
whichever is less. The batch lies on the device from the beginning. Attention is
PyTorch's own fused one, optimizers are the fused ones, compiled is torch.compile(mode="reduce-overhead"): the fastest that a user gets by asking.
"""
import json
import math
import statistics
import sys
import time
import traceback

import torch
from torch import nn
from torch.nn import functional


class Linear(nn.Module):
    def __init__(self, size, out, bias=True):
        super().__init__()
        self.linear = nn.Linear(size, out, bias=bias)
        nn.init.normal_(self.linear.weight, std=1 / math.sqrt(size))

    def forward(self, x):
        return self.linear(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value = (Linear(dim, dim, bias=False) for _ in range(3))
        self.output, self.up, self.down = Linear(dim, dim), Linear(dim, 4 * dim), Linear(4 * dim, dim)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        norm = self.norm1(x)
        context = functional.scaled_dot_product_attention(self.split(self.query(norm)), self.split(self.key(norm)), self.split(self.value(norm)), is_causal=True)
        x = x + self.output(context.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Characters(nn.Module):
    def __init__(self, places, dim, heads, layers, alphabet):
        super().__init__()
        self.letter = nn.Parameter(torch.randn(alphabet, dim) * 0.1)
        self.place = nn.Parameter(torch.randn(places, dim) * 0.1)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.logits = nn.LayerNorm(dim), Linear(dim, alphabet)

    def forward(self, text, target):
        x = functional.embedding(text, self.letter) + self.place
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.logits(self.norm(x)).flatten(0, 1), target.flatten())


class Perceptron(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x, label):
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return functional.mse_loss(self.layers[-1](x), label)


def make(config, device):
    torch.manual_seed(1)
    if config["net"] == "mlp":
        sizes = config["sizes"]
        net = Perceptron(sizes).to(device)
        batch = [torch.rand(config["batch"], sizes[0], device=device), torch.rand(config["batch"], sizes[-1], device=device)]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=device == "cuda")
    else:
        alphabet = 128
        net = Characters(config["places"], config["dim"], config["heads"], config["layers"], alphabet).to(device)
        batch = [torch.randint(alphabet, (config["batch"], config["places"]), device=device) for _ in range(2)]
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.003, fused=device == "cuda")
    return net, batch, optimizer


def measure(config, device):
    torch.set_float32_matmul_precision("high" if config["tf32"] else "highest")
    net, batch, optimizer = make(config, device)
    run = torch.compile(net, mode="reduce-overhead") if config["how"] == "compiled" else net
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = run(*batch)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(6):
        loss = step().item() # at once: the next replay of a captured step overwrites it, and PyTorch refuses to read it then
    times = []
    for _ in range(config["steps"]):
        wait()
        begin = time.perf_counter()
        step()
        wait()
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(config["steps"]):
        step()
    wait()
    flowing = (time.perf_counter() - begin) / config["steps"]
    waited = statistics.median(times)
    return {"name": config["name"], "how": config["how"], "step_s": min(waited, flowing), "waited_s": waited, "flowing_s": flowing, "loss": loss,
            "version": torch.__version__, "cudnn": torch.backends.cudnn.version()}


def main():
    device = "cpu" if "--device" in sys.argv and sys.argv[sys.argv.index("--device") + 1] == "cpu" else "cuda"
    for config in json.loads(sys.argv[1]):
        torch.compiler.reset()
        begin = time.perf_counter()
        try:
            result = measure(config, device)
        except Exception: # pylint: disable=broad-except # the others are measured all the same
            print("%s, %s:\n%s" % (config["name"], config["how"], traceback.format_exc()), flush=True)
            continue
        print(json.dumps({**result, "whole_s": time.perf_counter() - begin}), flush=True)


main()
