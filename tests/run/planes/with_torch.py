#!/usr/bin/env python3
"""Makes torch.json with PyTorch: what convolutions and pools give, their gradients, and the losses of a small ResNet-18 from the same starting values.

    python3 tests/run/planes/with_torch.py            # writes it
    python3 tests/run/planes/with_torch.py --check    # fails where PyTorch now says otherwise

Numbers are made by the formula of cases.py, so that no numbers of the operands need to be kept."""
import json
import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cases


def tensor(seed, shape, dtype=torch.float64):
    return torch.tensor(cases.numbers(seed, shape), dtype=dtype).reshape(shape)


def both(value):
    return tuple(value) if isinstance(value, list) else value


def result(case, x, w):
    a = {key: both(value) for key, value in case["attrs"].items()}
    op = case["op"]
    if op == "conv2d":
        return F.conv2d(x, w, **a)
    if op == "max_pool":
        return F.max_pool2d(x, **a)
    if op == "avg_pool":
        return F.avg_pool2d(x, **a)
    if op == "upsample":
        return F.interpolate(x, scale_factor=a["scale_factor"], mode="nearest")
    return F.pad(x, [n for pair in zip(reversed(a["before"]), reversed(a["after"])) for n in pair])


def operator(case):
    x = tensor(1, case["x"]).requires_grad_()
    w = tensor(2, case["w"]).requires_grad_() if "w" in case else None
    y = result(case, x, w)
    (y * tensor(3, list(y.shape))).sum().backward()
    made = {"shape": list(y.shape), "y": y.flatten().tolist(), "dx": x.grad.flatten().tolist()}
    if w is not None:
        made["dw"] = w.grad.flatten().tolist()
    return made


def norm(case):
    x, c = tensor(1, case["x"]).requires_grad_(), [case["x"][1]]
    weight, bias = (tensor(seed, c).requires_grad_() for seed in (2, 4))
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=case["eps"])
    others = [d for d in range(x.ndim) if d != 1]
    mean, variance = x.mean(others), x.var(others, unbiased=False)
    ((y * tensor(3, case["x"])).sum() + (mean * tensor(5, c)).sum() + (variance * tensor(6, c)).sum()).backward()
    made = {"y": y, "mean": mean, "variance": variance, "dx": x.grad, "dweight": weight.grad, "dbias": bias.grad}
    return {name: value.flatten().tolist() for name, value in made.items()}


def half_norm(case):
    """PyTorch gives the statistics as running ones, in f32; those of the gradient are of x as it was rounded."""
    dtype, shape, c = {"bf16": torch.bfloat16, "f16": torch.float16}[case["dtype"]], case["x"], [case["x"][1]]
    x = tensor(1, shape, torch.float32).requires_grad_()
    weight, bias = (torch.tensor(cases.few_digits(seed, c)).requires_grad_() for seed in (2, 4))
    half, mean, unbiased = x.to(dtype), torch.zeros(c), torch.ones(c)
    y = F.batch_norm(half, mean, unbiased, weight, bias, training=True, momentum=1, eps=case["eps"])
    others, n = [d for d in range(x.ndim) if d != 1], x.numel() / c[0]
    of_mean, of_variance = half.float().mean(others), half.float().var(others, unbiased=False)
    ((y.float() * tensor(3, shape, torch.float32)).sum() + (of_mean * tensor(5, c, torch.float32)).sum() + (of_variance * tensor(6, c, torch.float32)).sum()).backward()
    made = {"y": y, "mean": mean, "variance": unbiased * (n - 1) / n, "dx": x.grad, "dweight": weight.grad, "dbias": bias.grad}
    return {name: value.flatten().tolist() for name, value in made.items()}


class Block(torch.nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(out)
        self.conv2 = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = torch.nn.Sequential(torch.nn.Conv2d(channels, out, 1, stride, bias=False), torch.nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(torch.nn.Module):
    """torchvision's, with its names."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        for k in range(4):
            out, channels = width << k, width << max(k - 1, 0)
            setattr(self, "layer%d" % (k + 1), torch.nn.Sequential(Block(channels, out, 1 if k == 0 else 2), Block(out, out, 1)))
        self.fc = torch.nn.Linear(width * 8, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


def resnet():
    net = ResNet18(cases.WIDTH, cases.CLASSES).train()
    values = {**dict(net.named_parameters()), **{n: b for n, b in net.named_buffers() if not n.endswith("num_batches_tracked")}}
    shapes = {n: list(v.shape) for n, v in values.items()}
    starts = cases.starting_values(shapes)
    with torch.no_grad():
        for name, value in values.items():
            value.copy_(torch.tensor(starts[name], dtype=torch.float32).reshape(value.shape))
    net = net.double()
    optimizer = torch.optim.SGD(net.parameters(), lr=cases.LR, momentum=0.9, weight_decay=0.0001)
    losses = []
    for step in range(cases.STEPS):
        rows = cases.BATCH
        x = torch.tensor(cases.images(step), dtype=torch.float64).reshape(rows, 3, cases.SIDE, cases.SIDE)
        loss = F.cross_entropy(net(x), torch.tensor(cases.labels(step)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "shapes": shapes,
            "running_mean": net.bn1.running_mean.tolist(), "running_var": net.bn1.running_var.tolist()}


def main():
    torch.set_num_threads(1)
    made = {"torch": torch.__version__.split("+")[0], "operators": [dict(case, **operator(case)) for case in cases.OPERATORS],
            "norms": [dict(case, **norm(case)) for case in cases.NORMS],
            "half_norms": [dict(case, **half_norm(case)) for case in cases.HALF_NORMS], "resnet18": resnet()}
    path = os.path.join(HERE, "torch.json")
    if "--check" in sys.argv:
        with open(path) as file:
            kept = json.load(file)
        for a, b in zip(kept["operators"], made["operators"]):
            for key in "y", "dx", "dw":
                if key in a and any(abs(m - n) > 1e-12 * (1 + abs(n)) for m, n in zip(a[key], b[key])):
                    sys.exit("%s %s: PyTorch %s gives another %s" % (a["op"], a["attrs"], made["torch"], key))
        for a, b in zip(kept["norms"] + kept["half_norms"], made["norms"] + made["half_norms"]):
            for key in "y", "mean", "variance", "dx", "dweight", "dbias":
                if any(abs(m - n) > (0.02 if "dtype" in a else 1e-12) * (1 + abs(n)) for m, n in zip(a[key], b[key])):
                    sys.exit("batch_norm of %s: PyTorch %s gives another %s" % (a["x"], made["torch"], key))
        if any(abs(m - n) > 1e-4 * abs(n) for m, n in zip(kept["resnet18"]["losses"], made["resnet18"]["losses"])):
            sys.exit("resnet18: PyTorch %s gives %s" % (made["torch"], made["resnet18"]["losses"]))
        return
    with open(path, "w") as file:
        file.write(json.dumps(made).replace('{"op"', '\n{"op"').replace('"norms"', '\n"norms"').replace('"half_norms"', '\n"half_norms"').replace('"resnet18"', '\n"resnet18"') + "\n")


if __name__ == "__main__":
    main()
