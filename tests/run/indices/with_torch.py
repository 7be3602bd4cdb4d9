#!/usr/bin/env python3
"""Makes torch.json with PyTorch: what operators along an axis give, and their gradients.

    python3 tests/run/indices/with_torch.py            # writes it
    python3 tests/run/indices/with_torch.py --check    # fails where PyTorch now says otherwise"""
import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import index_cases as cases


def tensor(seed, shape):
    return torch.tensor(cases.numbers(seed, shape), dtype=torch.float64).reshape(shape)


def along(case, shape):
    """The indices, of rows once for each of their elements."""
    index = torch.tensor(cases.indices(case)).reshape(case["index"])
    return index.reshape(case["index"] + [1] * (len(shape) - index.ndim)).expand(shape)


def result(case, x, added):
    op, attrs = case["op"], case["attrs"]
    if op == "gather":
        shape = list(x.shape)
        shape[attrs["axis"]] = case["index"][attrs["axis"] if attrs["axis"] >= 0 else attrs["axis"] + x.ndim]
        return torch.gather(x, attrs["axis"], along(case, shape)), None
    if op == "scatter_add":
        return x.scatter_add(attrs["axis"], along(case, list(added.shape)), added), None
    if op == "cumsum":
        return x.cumsum(attrs["axis"]), None
    if op == "topk":
        return torch.topk(x, attrs["k"])
    return torch.stack([x, added], attrs["axis"]), None


def operator(case):
    x = tensor(1, case["x"]).requires_grad_()
    added = tensor(2, case["added"]).requires_grad_() if "added" in case else None
    y, places = result(case, x, added)
    (y * tensor(3, list(y.shape))).sum().backward()
    made = {"shape": list(y.shape), "y": y.flatten().tolist(), "dx": x.grad.flatten().tolist()}
    if added is not None:
        made["dadded"] = added.grad.flatten().tolist()
    if places is not None:
        made["places"] = places.flatten().tolist()
    return made


def main():
    torch.set_num_threads(1)
    made = {"torch": torch.__version__.split("+")[0], "operators": [dict(case, **operator(case)) for case in cases.OPERATORS]}
    path = os.path.join(HERE, "torch.json")
    if "--check" in sys.argv:
        with open(path) as file:
            kept = json.load(file)
        for a, b in zip(kept["operators"], made["operators"]):
            for key in "y", "dx", "dadded", "places":
                if key in a and any(abs(m - n) > 1e-12 * (1 + abs(n)) for m, n in zip(a[key], b[key])):
                    sys.exit("%s %s: PyTorch %s gives another %s" % (a["op"], a["attrs"], made["torch"], key))
        return
    with open(path, "w") as file:
        file.write(json.dumps(made).replace('{"op"', '\n{"op"') + "\n")


if __name__ == "__main__":
    main()
