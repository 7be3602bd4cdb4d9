"""What formulas.py runs with pcc and prun, and with_torch.py with PyTorch: formulas of operands a, b, d, .. of f64, and a net in 16 bits. Numbers are those of planes/cases.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "planes"))
from cases import numbers

# y in the language, the same in Python with torch as t and torch.nn.functional as F, the operands' shapes. Operands that begin with p are above 0.1; `label` is of integers
# below `classes`, of which one in four is -100.
X, ROWS = {"a": [4, 6]}, {"a": [4, 6], "b": [4, 6]}


def formula(y, torch, shapes, **more):
    return dict(y=y, torch=torch, shapes=shapes, **more)


FORMULAS = [
    formula("pow(p, b)", "t.pow(p, b)", {"p": [4, 6], "b": [4, 6]}),
    formula("a ** 3", "a ** 3", X),
    formula("p ** 0.75", "p ** 0.75", {"p": [4, 6]}),
    formula("sin(a) * cos(b)", "t.sin(a) * t.cos(b)", ROWS),
    formula("exp(a) + expm1(b)", "t.exp(a) + t.expm1(b)", ROWS),
    formula("log(p) * rsqrt(q) + sqrt(q)", "t.log(p) * t.rsqrt(q) + t.sqrt(q)", {"p": [4, 6], "q": [4, 6]}),
    formula("hardswish(6 * a)", "F.hardswish(6 * a)", X),
    formula("elu(a) + elu(b, 0.5)", "F.elu(a) + F.elu(b, 0.5)", ROWS),
    formula("leaky_relu(a) + leaky_relu(b, 0.25)", "F.leaky_relu(a) + F.leaky_relu(b, 0.25)", ROWS),
    formula("a * floor(4 * b) + sign(b)", "a * t.floor(4 * b) + t.sign(b)", ROWS),
    formula("where(isnan(a), b, a * b)", "t.where(t.isnan(a), b, a * b)", ROWS),
    formula("relu(a) + tanh(b)", "F.relu(a) + t.tanh(b)", ROWS),
    formula("sigmoid(a) + silu(b)", "t.sigmoid(a) + F.silu(b)", ROWS),
    formula("gelu(3 * a) + gelu(3 * b, tanh = true)", "F.gelu(3 * a) + F.gelu(3 * b, approximate='tanh')", ROWS),
    formula("softplus(3 * a) - abs(b)", "F.softplus(3 * a) - t.abs(b)", ROWS),
    formula("clamp(a, low = -0.5, high = 0.25)", "t.clamp(a, -0.5, 0.25)", X),
    formula("maximum(a, b) * minimum(a, 0.25)", "t.maximum(a, b) * t.clamp(a, max=0.25)", ROWS),
    formula("a / p - square(a)", "a / p - t.square(a)", {"a": [4, 6], "p": [6]}),
    formula("softmax(3 * a) * log_softmax(2 * b, axis = 0)", "F.softmax(3 * a, 1) * F.log_softmax(2 * b, 0)", ROWS),
    formula("max(a, axes = 1) + min(b, axes = 1) + mean(a, axes = 1)", "a.amax(1) + b.amin(1) + a.mean(1)", ROWS),
    formula("layer_norm(a, b, d, eps = 0.001)", "F.layer_norm(a, [6], b, d, 0.001)", {"a": [4, 6], "b": [6], "d": [6]}),
    formula("layer_norm(a, b, d, eps = 0.001)", "F.layer_norm(a, [2, 3], b, d, 0.001)", {"a": [4, 2, 3], "b": [2, 3], "d": [2, 3]}),
    formula("rms_norm(a, b, eps = 0.001)", "F.rms_norm(a, [6], b, 0.001)", {"a": [4, 6], "b": [6]}),
    formula("einsum(\"bij,bjk,k->bi\", a, b, d)", "t.einsum('bij,bjk,k->bi', a, b, d)", {"a": [4, 2, 3], "b": [4, 3, 5], "d": [5]}),
    formula("matmul(a, b, transpose_b = true)", "a @ b.transpose(-1, -2)", {"a": [4, 3, 5], "b": [4, 2, 5]}),
    formula("a @ b", "a @ b", {"a": [4, 3, 5], "b": [5, 2]}),
    formula("rope(a, base = 100)", "rope(a, 100)", {"a": [4, 3, 8]}),
    formula("dot_product_attention(a, b, d, scale = 0.75)", "F.scaled_dot_product_attention(a, b, d, scale=0.75)", {"a": [4, 3, 5], "b": [4, 6, 5], "d": [4, 6, 2]}),
    formula("dot_product_attention(a, b, d, causal = true)", "F.scaled_dot_product_attention(a, b, d, is_causal=True)", {"a": [4, 5, 3], "b": [4, 5, 3], "d": [4, 5, 2]}),
    formula("global_avg_pool(a)", "F.adaptive_avg_pool2d(a, 1).flatten(1)", {"a": [4, 2, 3, 5]}),
    formula("concat(a, b, axis = 1)[:, 2:7]", "t.cat([a, b], 1)[:, 2:7]", ROWS),
    formula("cross_entropy(4 * a, label)", "F.cross_entropy(4 * a, label)", {"a": [8, 5]}, classes=5, ignored=False),
    formula("cross_entropy(4 * a, label, reduction = none)", "F.cross_entropy(4 * a, label, reduction='none')", {"a": [8, 5]}, classes=5, ignored=False),
    formula("cross_entropy(4 * a, label, ignore_index = -100)", "F.cross_entropy(4 * a, label)", {"a": [8, 5]}, classes=5, ignored=True),
    formula("cross_entropy(4 * a, label, reduction = sum, ignore_index = -100, label_smoothing = 0.125)",
            "F.cross_entropy(4 * a, label, reduction='sum', label_smoothing=0.125)", {"a": [8, 5]}, classes=5, ignored=True),
    formula("mse(a, b)", "F.mse_loss(a, b)", ROWS),
    formula("l1(a, b)", "F.l1_loss(a, b)", ROWS),
    formula("huber(a, b)", "F.huber_loss(a, b)", ROWS),
    formula("huber(a, b, delta = 0.25)", "F.huber_loss(a, b, delta=0.25)", ROWS),
    formula("bce_with_logits(4 * a, p)", "F.binary_cross_entropy_with_logits(4 * a, p)", {"a": [4, 6], "p": [4, 6]}),
    formula("kl_div(log_softmax(a), softmax(2 * b))", "F.kl_div(F.log_softmax(a, 1), F.softmax(2 * b, 1))", ROWS),
    formula("kl_div(log_softmax(a), log_softmax(b), true, true)", "F.kl_div(F.log_softmax(a, 1), F.log_softmax(b, 1), log_target=True, reduction='batchmean')", ROWS),
]

# In cells whose parameters are of f32, and so is all here: their values at first, what they are in Python.
CELLS = [
    formula("group_norm(a, 3, eps = 0.25)", "F.group_norm(a, 3, weight, bias, 0.25)", {"a": [4, 6, 2, 2]}, states={"weight": [1.0] * 6, "bias": [0.0] * 6}),
    formula("layer_norm(a)", "F.layer_norm(a, [6], weight, bias)", {"a": [4, 6]}, states={"weight": [1.0] * 6, "bias": [0.0] * 6}),
    formula("rms_norm(a)", "F.rms_norm(a, [6], weight, 1e-5)", {"a": [4, 6]}, states={"weight": [1.0] * 6}),
]

# A block of a transformer in 16 bits. Scores are large, so that what is rounded of the largest of a row shows.
BATCH, PLACES, HEADS, WIDTH, STEPS, LR = 4, 12, 2, 16, 8, 0.05
WEIGHTS = {"wq": 1.5, "wk": 1.5, "wv": 0.5, "wo": 0.5}


def weights():
    return {name: [size * v for v in numbers(20 + k, [WIDTH, WIDTH])] for k, (name, size) in enumerate(sorted(WEIGHTS.items()))}


def operand(name, k, shape):
    values = numbers(k + 1, shape)
    return [abs(v) + 0.1 for v in values] if name in "pq" else values


def labels(case):
    n = case["shapes"]["a"][0]
    return [-100 if case["ignored"] and i % 4 == 1 else (3 * i + 1) % case["classes"] for i in range(n)]
