"""Times of PyTorch's scaled_dot_product_attention and its gradient, f32, the smallest of several runs: torch_attention.py THREADS SHAPE.. (8x128x32: heads, places, width)."""
import json
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(1)


def least(call, budget_s=1.0):
    call()
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < budget_s:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


figures = {}
for text in sys.argv[2:]:
    heads, places, width = map(int, text.split("x"))
    for causal in False, True:
        q, k, v = (torch.randn(1, heads, places, width, requires_grad=True) for _ in range(3))

        def forward():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        with torch.no_grad():
            figures[f"{text} {int(causal)} forward"] = least(forward)
        y = forward()
        dy = torch.randn_like(y)
        figures[f"{text} {int(causal)} gradient"] = least(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))
print(json.dumps(figures))
