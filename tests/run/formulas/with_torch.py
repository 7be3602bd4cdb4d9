#!/usr/bin/env python3
"""Makes torch.json with PyTorch: what formulas give, and their gradients; losses of a net under autocast.

    python3 tests/run/formulas/with_torch.py            # writes it
    python3 tests/run/formulas/with_torch.py --check    # fails where PyTorch now says otherwise"""
import json
import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import formula_cases as cases


def rope(x, base):
    """Hugging Face's LLaMA."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)
    cos, sin = (f(torch.cat([angle, angle], -1)) for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def formula(case):
    operands = {name: torch.tensor(cases.operand(name, k, shape), dtype=torch.float64).reshape(shape).requires_grad_()
                for k, (name, shape) in enumerate(case["shapes"].items())}
    operands.update({name: torch.tensor(values, dtype=torch.float64).requires_grad_() for name, values in case.get("states", {}).items()})
    label = torch.tensor(cases.labels(case)) if "classes" in case else None
    y = eval(case["torch"], {"t": torch, "F": F, "rope": rope, "label": label, **operands})
    (y * torch.tensor(cases.numbers(30, list(y.shape) or [1]), dtype=torch.float64).reshape(y.shape)).sum().backward()
    return {"shape": list(y.shape), "value": y.flatten().tolist(), "gradients": {name: value.grad.flatten().tolist() for name, value in operands.items()}}


def losses(dtype):
    """Of a block under autocast, trained by sgd."""
    shape = [cases.BATCH, cases.PLACES, cases.WIDTH]
    x, target = (torch.tensor(cases.numbers(seed, shape)).reshape(shape) for seed in (10, 11))
    w = {name: torch.tensor(values).reshape(cases.WIDTH, cases.WIDTH).requires_grad_() for name, values in cases.weights().items()}
    g, b = torch.ones(cases.WIDTH).requires_grad_(), torch.zeros(cases.WIDTH).requires_grad_()
    optimizer = torch.optim.SGD([*w.values(), g, b], lr=cases.LR)
    found = []
    for _ in range(cases.STEPS):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            n = F.layer_norm(x, [cases.WIDTH], g, b)
            heads = [(n @ w[name]).reshape(*shape[:2], cases.HEADS, -1).transpose(1, 2) for name in ("wq", "wk", "wv")]
            y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(shape)
            loss = F.mse_loss((x + y @ w["wo"]).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main():
    torch.set_num_threads(1)
    made = {"torch": torch.__version__.split("+")[0], "formulas": [dict(case, **formula(case)) for case in cases.FORMULAS],
            "cells": [dict(case, **formula(case)) for case in cases.CELLS],
            "autocast": {name: losses(getattr(torch, name)) for name in ("float32", "bfloat16", "float16")}}
    path = os.path.join(HERE, "torch.json")
    if "--check" in sys.argv:
        with open(path) as file:
            kept = json.load(file)
        for a, b in zip(kept["formulas"] + kept["cells"], made["formulas"] + made["cells"], strict=True):
            for key, old, new in [("value", a["value"], b["value"])] + [("gradient of " + n, a["gradients"][n], b["gradients"][n]) for n in a["gradients"]]:
                if any(abs(m - n) > 1e-12 * (1 + abs(n)) for m, n in zip(old, new, strict=True)):
                    sys.exit("%s: PyTorch %s gives another %s" % (a["y"], made["torch"], key))
        for name, old in kept["autocast"].items():
            if any(abs(m - n) > 0.002 * abs(n) for m, n in zip(old, made["autocast"][name], strict=True)):
                sys.exit("%s: PyTorch %s gives other losses" % (name, made["torch"]))
        return
    with open(path, "w") as file:
        file.write(json.dumps(made).replace('{"y"', '\n{"y"') + "\n")


if __name__ == "__main__":
    main()
