"""What indices.py runs with pcc and prun, and with_torch.py with PyTorch: operators along an axis. Numbers are those of planes/cases.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "planes"))
from cases import numbers

OPERATORS = [
    {"op": "gather", "attrs": {"axis": 1}, "x": [4, 6], "index": [4, 5]},
    {"op": "gather", "attrs": {"axis": 0}, "x": [4, 6], "index": [8, 6]},
    {"op": "gather", "attrs": {"axis": -2}, "x": [4, 6, 3], "index": [4, 2, 3]},
    {"op": "gather", "attrs": {"axis": 1}, "x": [4, 6, 3], "index": [4, 8]},
    {"op": "scatter_add", "attrs": {"axis": 1}, "x": [4, 6], "index": [4, 9], "added": [4, 9]},
    {"op": "scatter_add", "attrs": {"axis": 0}, "x": [4, 6], "index": [7], "added": [7, 6]},
    {"op": "cumsum", "attrs": {"axis": 1}, "x": [4, 7]},
    {"op": "cumsum", "attrs": {"axis": 0}, "x": [5, 4, 2]},
    {"op": "topk", "attrs": {"k": 3}, "x": [4, 8]},
    {"op": "topk", "attrs": {"k": 2}, "x": [2, 4, 5]},
    {"op": "stack", "attrs": {"axis": 0}, "x": [4, 3], "added": [4, 3]},
    {"op": "stack", "attrs": {"axis": -1}, "x": [4, 3], "added": [4, 3]},
]


def indices(case):
    """Of the axis of x, some of them more than once."""
    n, size = 1, case["x"][case["attrs"]["axis"]]
    for s in case["index"]:
        n *= s
    return [(5 * i + i // 3 + 1) % size for i in range(n)]
