"""Steps of training in PyTorch, for tests/gpu.sh: the nets of samples/mlp.dsl, characters.dsl, gpt2.dsl, bert_base.dsl and resnet18.dsl, eager and compiled, in f32, with tf32,
and under autocast in bf16 and f16.

    torch_steps.py CONFIG [--device cpu]    CONFIG: JSON, {"name", "net", "kind", "how", "steps", sizes}; prints one line of JSON

It compiles and warms up, prints `ready`, and measures when a line comes on its standard input: so that several compile side by side, and each is measured alone.

A step is zero_grad, forward, backward, update. Its time is the median of steps that are each waited for, or the mean of as many that follow each other without a wait,
whichever is less. The batch lies on the device from the beginning. Attention is
PyTorch's own fused one, optimizers are the fused ones, compiled is torch.compile(mode="reduce-overhead"): the fastest that a user gets by asking.
"""
import json
import math
import os
import statistics
import sys
import time

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


class Attention(nn.Module):
    """GPT-2's, or BERT's with a mask of places."""
    def __init__(self, dim, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inner, self.outer = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, keep=None):
        q, k, v = (part.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2) for part in self.inner(x).split(x.shape[-1], -1))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=self.causal)
        return self.outer(context.transpose(1, 2).reshape(x.shape))


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim = c["dim"]
        self.word, self.place = nn.Embedding(c["words"], dim), nn.Embedding(c["most"], dim)
        self.blocks = nn.ModuleList(nn.ModuleDict({"norm1": nn.LayerNorm(dim), "attention": Attention(dim, c["heads"], True), "norm2": nn.LayerNorm(dim),
                                                   "up": nn.Linear(dim, 4 * dim), "down": nn.Linear(4 * dim, dim)}) for _ in range(c["layers"]))
        self.norm = nn.LayerNorm(dim)

    def forward(self, text, target):
        x = self.word(text) + self.place(torch.arange(text.shape[1], device=text.device))
        for b in self.blocks:
            x = x + b["attention"](b["norm1"](x))
            x = x + b["down"](functional.gelu(b["up"](b["norm2"](x)), approximate="tanh"))
        return functional.cross_entropy(functional.linear(self.norm(x), self.word.weight).flatten(0, 1), target.flatten())


class Bert(nn.Module):
    DROPPED = 0.1

    def __init__(self, c):
        super().__init__()
        dim = c["dim"]
        self.word, self.place, self.kind, self.norm = nn.Embedding(c["words"], dim), nn.Embedding(c["most"], dim), nn.Embedding(2, dim), nn.LayerNorm(dim, eps=1e-12)
        self.blocks = nn.ModuleList(nn.ModuleDict({"attention": Attention(dim, c["heads"], False), "norm1": nn.LayerNorm(dim, eps=1e-12), "up": nn.Linear(dim, 4 * dim),
                                                   "down": nn.Linear(4 * dim, dim), "norm2": nn.LayerNorm(dim, eps=1e-12)}) for _ in range(c["layers"]))
        self.pool, self.classes = nn.Linear(dim, dim), nn.Linear(dim, c["classes"])

    def forward(self, text, kind, seen, label):
        drop = lambda x: functional.dropout(x, self.DROPPED)
        x = drop(self.norm(self.word(text) + self.kind(kind) + self.place(torch.arange(text.shape[1], device=text.device))))
        for b in self.blocks:
            x = b["norm1"](x + drop(b["attention"](x, seen[:, None, None, :])))
            x = b["norm2"](x + drop(b["down"](functional.gelu(b["up"](x)))))
        return functional.cross_entropy(self.classes(drop(torch.tanh(self.pool(x[:, 0])))), label)


class BasicBlock(nn.Module):
    def __init__(self, size, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(size, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.beside = nn.Sequential(nn.Conv2d(size, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride > 1 or size != out else nn.Identity()

    def forward(self, x):
        return functional.relu(self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x))))) + self.beside(x))


class Resnet18(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, sizes = c["width"], [c["width"] * (1 << k) for k in range(4)]
        self.first = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(*(BasicBlock(sizes[max(k - 1, 0)] if i == 0 else size, size, 2 if k > 0 and i == 0 else 1) for k, size in enumerate(sizes) for i in range(2)))
        self.fc = nn.Linear(sizes[-1], c["classes"])

    def forward(self, image, label):
        return functional.cross_entropy(self.fc(self.layers(self.first(image)).mean((2, 3))), label)


def make(config, device):
    torch.manual_seed(1)
    fused, c = {"fused": device == "cuda"}, config
    text = lambda words: torch.randint(words, (c["batch"], c["places"]), device=device)
    if c["net"] == "mlp":
        net = Perceptron(c["sizes"]).to(device)
        batch = [torch.rand(c["batch"], c["sizes"][0], device=device), torch.rand(c["batch"], c["sizes"][-1], device=device)]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, **fused)
    elif c["net"] == "resnet18":
        net = Resnet18(c).to(device)
        batch = [torch.randn(c["batch"], 3, c["side"], c["side"], device=device), torch.randint(c["classes"], (c["batch"],), device=device)]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0001, **fused)
    elif c["net"] == "gpt2":
        net, batch = Gpt2(c).to(device), [text(c["words"]) for _ in range(2)]
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.0006, weight_decay=0.1, **fused)
    elif c["net"] == "bert":
        net = Bert(c).to(device)
        batch = [text(c["words"]), text(2), torch.ones(c["batch"], c["places"], dtype=torch.bool, device=device), torch.randint(c["classes"], (c["batch"],), device=device)]
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.00002, **fused)
    else:
        alphabet = 128
        net = Characters(c["places"], c["dim"], c["heads"], c["layers"], alphabet).to(device)
        batch = [text(alphabet) for _ in range(2)]
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.003, **fused)
    return net, batch, optimizer


def measure(config, device):
    kind = config["kind"]
    torch.set_float32_matmul_precision("highest" if kind == "f32" else "high")
    torch.backends.cudnn.allow_tf32 = kind != "f32"
    half = {"f16": torch.float16, "bf16": torch.bfloat16}.get(kind)
    scaler = torch.amp.GradScaler(device, enabled=kind == "f16")
    net, batch, optimizer = make(config, device)
    run = torch.compile(net, mode="reduce-overhead") if config["how"] == "compiled" else net
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None):
            loss = run(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    for _ in range(6):
        loss = step().item() # at once: the next replay of a captured step overwrites it, and PyTorch refuses to read it then
    print("ready", "%.1f s" % time.process_time(), flush=True)
    if not sys.stdin.readline():
        sys.exit(0)
    for _ in range(3):
        step()
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
    begin = time.perf_counter()
    result = measure(json.loads(sys.argv[1]), device)
    print(json.dumps({**result, "whole_s": time.perf_counter() - begin}), flush=True)
    os._exit(0) # at once: taking graphs apart takes seconds


main()
