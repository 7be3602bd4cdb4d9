#!/usr/bin/env python3
"""Parameters after some steps of an optimizer, computed by PyTorch: the committed table optimizers.json, which run-optimizers compares prun with.

torch_optimizers.py          writes the table anew
torch_optimizers.py --check  exits 1 where PyTorch now computes other bits than the table has

The loss is the sum of the products of parameters and inputs, so gradients are the inputs, exactly, and only the optimizer rounds. torch.optim has SGD, Adam, AdamW, Adafactor
and the averages of swa_utils; Lion and LAMB are their papers' algorithms over PyTorch's tensors (Chen et al. 2023, algorithm 2; You et al. 2020, algorithm 2, with phi(z) = z and
a ratio of 1 where a norm is 0)."""
import json
import os
import random
import sys

TABLE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "optimizers.json")
STEPS = (1, 2, 5) # that the table has
SHAPES = {"w": (6, 8), "v": (8,), "t": (2, 4, 6), "s": ()} # matrix, vector, three dimensions, one number

# name: (train's settings, the optimizer's class, its arguments, by parameter (lr factor, decay factor), decay of the average)
CASES = {
    "sgd": ("optimizer = sgd(lr = 0.1, weight_decay = 0.02);", "SGD", dict(lr=0.1, weight_decay=0.02), {}, None),
    "momentum": ("optimizer = momentum(lr = 0.1, momentum = 0.9, weight_decay = 0.02);", "SGD", dict(lr=0.1, momentum=0.9, weight_decay=0.02), {}, None),
    "nesterov": ("optimizer = sgd(lr = 0.1, momentum = 0.9, weight_decay = 0.02, nesterov = true);", "SGD",
                 dict(lr=0.1, momentum=0.9, weight_decay=0.02, nesterov=True), {}, None),
    "adam": ("optimizer = adam(lr = 0.01, weight_decay = 0.02);", "Adam", dict(lr=0.01, weight_decay=0.02), {}, None),
    "adamw": ("optimizer = adamw(lr = 0.01, weight_decay = 0.1);", "AdamW", dict(lr=0.01, weight_decay=0.1), {}, None),
    "by_parameter": ("optimizer = adamw(lr = 0.01, weight_decay = 0.1); decay 0.25 for *; decay except v, s; decay 0.5 for t; decay 1 for w; lr 0.25 for w, *t;", "AdamW", dict(lr=0.01, weight_decay=0.1),
                     {"w": (0.25, 1), "v": (1, 0), "t": (0.25, 0.5), "s": (1, 0)}, None),
    "lamb": ("optimizer = lamb(lr = 0.01, weight_decay = 0.1); decay except v; lr 0.5 for t;", "Lamb", dict(lr=0.01, weight_decay=0.1),
             {"v": (1, 0), "t": (0.5, 1)}, None),
    "adafactor": ("optimizer = adafactor(lr = 0.02, weight_decay = 0.1); decay except v; lr 0.5 for t;", "Adafactor", dict(lr=0.02, weight_decay=0.1),
                  {"v": (1, 0), "t": (0.5, 1)}, None),
    "adafactor_numbers": ("optimizer = adafactor(lr = 0.1, beta2_decay = -0.5, eps1 = 0.25, eps2 = 0.5, d = 2);", "Adafactor",
                          dict(lr=0.1, beta2_decay=-0.5, eps=(0.25, 0.5), d=2.0), {}, None),
    "average": ("optimizer = adam(lr = 0.01); ema = 0.75;", "Adam", dict(lr=0.01), {}, 0.75),
    "lion": ("optimizer = lion(lr = 0.01, weight_decay = 0.1);", "Lion", dict(lr=0.01, weight_decay=0.1), {}, None),
}

# The same of a table of which rows are looked up: PyTorch's optimizers of sparse gradients. SparseAdam has no momentum for rows that do not occur.
TABLES = {
    "sgd": ("optimizer = sgd(lr = 0.1);", "SGD", dict(lr=0.1)),
    "lazy_adam": ("optimizer = lazy_adam(lr = 0.01);", "SparseAdam", dict(lr=0.01)),
}
ROWS, WIDTH, LOOKED_UP = 9, 4, 6


def numbers(shape, pick):
    """Multiples of 1/256, exact in f32, row-major."""
    n = 1
    for size in shape:
        n *= size
    return [pick.randrange(-384, 385) / 256 for _ in range(n)]


def starts():
    pick = random.Random(11)
    return {name: numbers(shape, pick) for name, shape in SHAPES.items()}


def gradients():
    """Of each step."""
    pick = random.Random(12)
    return [{name: numbers(shape, pick) for name, shape in SHAPES.items()} for _ in range(STEPS[-1])]


def table_start():
    return numbers((ROWS, WIDTH), random.Random(13))


def lookups():
    """Of each step: indices, some twice, and the gradients of the rows that they look up."""
    pick = random.Random(14)
    return [([pick.randrange(ROWS) for _ in range(LOOKED_UP)], numbers((LOOKED_UP, WIDTH), pick)) for _ in range(STEPS[-1])]


def compute_table(case, dtype):
    """The table after each of STEPS."""
    torch = import_torch()
    _, kind, arguments = TABLES[case]
    real = getattr(torch, dtype)
    table = torch.nn.Embedding(ROWS, WIDTH, sparse=True, _weight=torch.tensor(table_start(), dtype=real).reshape(ROWS, WIDTH))
    optimizer = getattr(torch.optim, kind)(table.parameters(), **arguments)
    found = []
    for step, (index, gradient) in enumerate(lookups(), 1):
        optimizer.zero_grad()
        (table(torch.tensor(index)) * torch.tensor(gradient, dtype=real).reshape(LOOKED_UP, WIDTH)).sum().backward()
        optimizer.step()
        if step in STEPS:
            found.append(table.weight.detach().flatten().tolist())
    return found


def compute(case, dtype):
    """{parameter: its elements after each of STEPS}; with an average of it, {"w.ema": ..} too."""
    torch = import_torch()

    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
            super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                beta1, beta2 = group["betas"]
                for p in group["params"]:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    way = m * beta1 + p.grad * (1 - beta1)
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(torch.sign(way), alpha=group["lr"])
                    m.mul_(beta2).add_(p.grad, alpha=1 - beta2)

    class Lamb(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
            super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                beta1, beta2 = group["betas"]
                for p in group["params"]:
                    state = self.state[p]
                    m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
                    t = state["t"] = state.get("t", 0) + 1
                    m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                    v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                    u = (m / (1 - beta1 ** t)) / ((v / (1 - beta2 ** t)).sqrt() + group["eps"]) + p * group["weight_decay"]
                    of_w, of_u = p.norm().item(), u.norm().item()
                    p.sub_(u, alpha=group["lr"] * (of_w / of_u if of_w > 0 and of_u > 0 else 1))

    _, kind, arguments, factors, average = CASES[case]
    kind = {"Lion": Lion, "Lamb": Lamb}.get(kind) or getattr(torch.optim, kind)
    real = getattr(torch, dtype)
    parameters = {name: torch.nn.Parameter(torch.tensor(values, dtype=real).reshape(SHAPES[name])) for name, values in starts().items()}
    groups = []
    for name, parameter in parameters.items():
        lr, decay = factors.get(name, (1, 1))
        group = dict(params=[parameter])
        if name in factors:
            group.update(lr=arguments["lr"] * lr, weight_decay=arguments["weight_decay"] * decay)
        groups.append(group)
    optimizer = kind(groups, **arguments)
    module = torch.nn.ParameterDict(parameters)
    averaged = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average)) if average else None
    found = {}
    for step, of_step in enumerate(gradients(), 1):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(of_step[name], dtype=real).reshape(SHAPES[name])
        optimizer.step()
        if averaged:
            averaged.update_parameters(module)
        if step not in STEPS:
            continue
        for name, parameter in parameters.items():
            found.setdefault(name, []).append(parameter.detach().flatten().tolist())
        for name, parameter in averaged.module.items() if averaged else ():
            found.setdefault(name + ".ema", []).append(parameter.detach().flatten().tolist())
    return found


def import_torch():
    """Not with this folder before Python's own: it has a profile.py."""
    here = os.path.dirname(TABLE)
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder or ".") != here]
    import torch
    return torch


def main():
    torch = import_torch()
    table = {case: {dtype: compute(case, dtype) for dtype in ("float32", "float64")} for case in CASES}
    tables = {case: {dtype: compute_table(case, dtype) for dtype in ("float32", "float64")} for case in TABLES}
    if "--check" in sys.argv[1:]:
        with open(TABLE, encoding="utf-8") as file:
            kept = json.load(file)
        same = kept["cases"] == table and kept["tables"] == tables
        print("PyTorch %s computes %s" % (torch.__version__, "what the table has" if same else "other numbers than the table has"))
        sys.exit(not same)
    with open(TABLE, "w", encoding="utf-8") as file:
        lines = ["%s: %s" % (json.dumps(case), json.dumps(entry)) for case, entry in table.items()]
        of_tables = ["%s: %s" % (json.dumps(case), json.dumps(entry)) for case, entry in tables.items()]
        file.write('{"pytorch": %s, "cases": {\n%s\n}, "tables": {\n%s\n}}\n' % (json.dumps(torch.__version__), ",\n".join(lines), ",\n".join(of_tables)))


if __name__ == "__main__":
    main()
