"""Prints tests/runtime/attention_table.h: what PyTorch's scaled_dot_product_attention and its gradient give in f64.

    python3 tests/runtime/attention.py > tests/runtime/attention_table.h
    python3 tests/runtime/attention.py --check    # exits with 1 where the table is another one, with 77 where there is no torch
"""
import os
import sys

try:
    import torch
except ImportError:
    sys.exit(77)

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention_table.h")
# Queries [.., m, d], keys [.., n, d] and values [.., n, e]; a mask broadcasts to [.., m, n]. share: queries' heads that have one of keys.
CASES = [
    {"q": (2, 4, 3), "k": (2, 5, 3), "e": 2},
    {"q": (2, 4, 3), "k": (2, 4, 3), "e": 3, "causal": True},
    {"q": (2, 4, 3), "k": (2, 5, 3), "e": 2, "mask": (1, 4, 5)},
    {"q": (1, 2, 2, 3, 4), "k": (1, 2, 3, 4), "e": 4, "share": True, "scale": 0.75},
    {"q": (2, 3, 2, 2), "k": (2, 3, 6, 2), "e": 3, "mask": (2, 1, 1, 6), "scale": 2.0},
]


def numbers(shape, seed):
    """Elements that the test makes, too: ((i * 37 + seed * 11) % 41 - 20) / 16, exact."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([((i * 37 + seed * 11) % 41 - 20) / 16 for i in range(count)], dtype=torch.float64).reshape(shape)


def run(case):
    q = numbers(case["q"], 1).requires_grad_()
    k = numbers(case["k"], 2).requires_grad_()
    v = numbers((*case["k"][:-1], case["e"]), 3).requires_grad_()
    mask = None
    if "mask" in case:
        count = torch.Size(case["mask"]).numel()
        mask = torch.tensor([i * 5 % 7 < 4 for i in range(count)]).reshape(case["mask"])
    keys, values, queries = k, v, q
    if case.get("share"):
        queries = q.flatten(1, 2)
    y = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=case.get("causal", False),
                                                         scale=case.get("scale"), enable_gqa=case.get("share", False))
    y = y.reshape((*case["q"][:-1], case["e"]))
    y.backward(numbers(y.shape, 4))
    return [y, q.grad, k.grad, v.grad]


def shape(sizes):
    return "{%d, {%s}}" % (len(sizes), ", ".join(map(str, sizes or (0,))))


def text():
    lines = [f"/* PyTorch {torch.__version__.split('+')[0]}'s scaled_dot_product_attention in f64, printed by attention.py: y, and the gradients of q, k and v. */",
             "/* clang-format off */", "static const TorchAttention torch_attention[] = {"]
    for case in CASES:
        lines.append("    {.q = %s, .k = %s, .e = %d, .mask = %s, .causal = %s, .scale = %r," % (
            shape(case["q"]), shape(case["k"]), case["e"], shape(case.get("mask", ())), str(case.get("causal", False)).lower(),
            case.get("scale", 0.0)))
        lines.append("     .result = {")
        for tensor in run(case):
            lines.append("         {%s}," % ", ".join(repr(float(x)) for x in tensor.detach().flatten()))
        lines.append("     }},")
    return "\n".join([*lines, "};", ""])


if sys.argv[1:] == ["--check"]:
    with open(TABLE, encoding="utf-8") as file:
        sys.exit(0 if file.read() == text() else "attention_table.h is not what PyTorch gives here")
sys.stdout.write(text())
