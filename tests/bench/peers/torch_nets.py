"""The nets of step.py in PyTorch, as its users write them, with the parameter names of the .dsl files: `gain` and `shift` of a norm are its weight and bias."""
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run", "planes"))
from with_torch import ResNet18


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        """mask: which places are seen; None: those before a place, and itself."""
        batch, places, dim = x.shape
        q, k, v = (layer(x).view(batch, places, self.heads, dim // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.output(context.transpose(1, 2).reshape(batch, places, dim))


class Feed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class GptBlock(nn.Module):
    """Norms first."""

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2, self.attended, self.feed = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention(dim, heads), Feed(dim)

    def forward(self, x):
        x = x + self.attended(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    """nets/gpt_tiny.dsl"""

    def __init__(self, places=128, dim=256, heads=8, layers=4, alphabet=256):
        super().__init__()
        self.letter = nn.Parameter(0.02 * torch.randn(alphabet, dim))
        self.place = nn.Parameter(0.02 * torch.randn(places, dim))
        self.layer = nn.ModuleList(GptBlock(dim, heads) for _ in range(layers))
        self.norm, self.logits = nn.LayerNorm(dim), nn.Linear(dim, alphabet, bias=False)

    def forward(self, text, next):
        x = functional.embedding(text, self.letter) + self.place
        for block in self.layer:
            x = block(x)
        return functional.cross_entropy(self.logits(self.norm(x)).flatten(0, 1), next.flatten())


class BertBlock(nn.Module):
    """Norms behind the sums."""

    def __init__(self, dim, heads):
        super().__init__()
        self.attended, self.middle = Attention(dim, heads), nn.LayerNorm(dim, eps=1e-12)
        self.feed, self.out = Feed(dim), nn.LayerNorm(dim, eps=1e-12)

    def forward(self, x, mask):
        x = self.middle(x + self.attended(x, mask))
        return self.out(x + self.feed(x))


class Bert(nn.Module):
    """nets/bert_tiny.dsl"""

    def __init__(self, places=128, dim=256, heads=4, layers=4, words=21128, classes=2):
        super().__init__()
        self.word = nn.Parameter(0.02 * torch.randn(words, dim))
        self.position = nn.Parameter(0.02 * torch.randn(places, dim))
        self.segment = nn.Parameter(0.02 * torch.randn(2, dim))
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.layer = nn.ModuleList(BertBlock(dim, heads) for _ in range(layers))
        self.pooled, self.logits = nn.Linear(dim, dim), nn.Linear(dim, classes)

    def forward(self, token, kind, seen, label):
        x = self.norm(functional.embedding(token, self.word) + functional.embedding(kind, self.segment) + self.position)
        mask = (seen > 0)[:, None, None, :]
        for block in self.layer:
            x = block(x, mask)
        return functional.cross_entropy(self.logits(torch.tanh(self.pooled(x[:, 0]))), label)


class Classified(ResNet18):
    """samples/resnet18.dsl"""

    def __init__(self, width=64, classes=1000):
        super().__init__(width, classes)

    def forward(self, image, label):
        return functional.cross_entropy(super().forward(image), label)


NETS = {"gpt_tiny": Gpt, "bert_tiny": Bert, "resnet18": Classified}
PLACES, SIDE = 128, 32


def load(name, folder):
    """The net with the parameters of FOLDER/NAME.safetensors; each must find its own."""
    with open(os.path.join(folder, name + ".safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    net, values = NETS[name](), {}
    for path, tensor in header.items():
        if path != "__metadata__":
            begin, end = tensor["data_offsets"]
            renamed = ".".join({"gain": "weight", "shift": "bias"}.get(part, part) for part in path.split("."))
            values[renamed] = torch.frombuffer(data[begin:end], dtype=torch.float32).reshape(tensor["shape"])
    for path, value in net.state_dict().items():
        if path.endswith("num_batches_tracked"):
            values[path] = value
    net.load_state_dict(values)
    return net


def batches(name, folder, batch, begin, end):
    """The operands of forward for each batch of FOLDER's files, in order: rows [begin, end) of it."""

    def rows(file, dtype, width, offset=0):
        with open(os.path.join(folder, file), "rb") as whole:
            values = torch.frombuffer(bytearray(whole.read()), dtype=dtype)[offset:]
        values = values[:len(values) // width * width].reshape(-1, width)
        return values if dtype == torch.float32 else values.long()

    if name == "gpt_tiny":
        operands = rows("text.bin", torch.uint8, PLACES), rows("text.bin", torch.uint8, PLACES, 1)
    elif name == "resnet18":
        operands = rows("image.bin", torch.float32, 3 * SIDE * SIDE).view(-1, 3, SIDE, SIDE), rows("class.bin", torch.int32, 1).flatten()
    else:
        operands = (rows("token.bin", torch.int32, PLACES), rows("kind.bin", torch.int32, PLACES), rows("seen.bin", torch.float32, PLACES),
                    rows("label.bin", torch.int32, 1).flatten())
    return [tuple(whole[first + begin:first + end] for whole in operands) for first in range(0, len(operands[0]) // batch * batch, batch)]
