"""What planes.py runs with pcc and prun, and with_torch.py with PyTorch: calls, numbers, a net."""

OPERATORS = [
    {"op": "conv2d", "attrs": {}, "x": [2, 3, 5, 4], "w": [4, 3, 3, 2]},
    {"op": "conv2d", "attrs": {"stride": 2, "padding": 1}, "x": [4, 2, 6, 5], "w": [2, 2, 3, 3]},
    {"op": "conv2d", "attrs": {"stride": [2, 1], "padding": [0, 2], "dilation": [1, 2]}, "x": [2, 2, 5, 4], "w": [3, 2, 2, 3]},
    {"op": "conv2d", "attrs": {"padding": 1, "groups": 2}, "x": [2, 4, 3, 4], "w": [6, 2, 3, 3]},
    {"op": "conv2d", "attrs": {"groups": 4, "stride": 2}, "x": [3, 4, 5, 5], "w": [8, 1, 2, 2]},
    {"op": "max_pool", "attrs": {"kernel_size": 2}, "x": [2, 3, 5, 4]},
    {"op": "max_pool", "attrs": {"kernel_size": 3, "stride": 2, "padding": 1}, "x": [2, 2, 7, 6]},
    {"op": "max_pool", "attrs": {"kernel_size": [3, 2], "stride": [1, 2], "padding": [1, 0], "dilation": [1, 2], "ceil_mode": True}, "x": [2, 2, 5, 6]},
    {"op": "avg_pool", "attrs": {"kernel_size": 2}, "x": [2, 3, 5, 4]},
    {"op": "avg_pool", "attrs": {"kernel_size": 3, "stride": 2, "padding": 1}, "x": [2, 2, 7, 6]},
    {"op": "avg_pool", "attrs": {"kernel_size": [3, 2], "stride": 1, "padding": 1, "count_include_pad": False}, "x": [2, 2, 4, 5]},
    {"op": "avg_pool", "attrs": {"kernel_size": [2, 3], "stride": 1, "padding": 1, "divisor_override": 4}, "x": [2, 2, 4, 5]},
    {"op": "upsample", "attrs": {"scale_factor": [3, 2]}, "x": [2, 3, 3, 2]},
    {"op": "upsample", "attrs": {"scale_factor": 2}, "x": [2, 2, 2, 3]},
    {"op": "pad", "attrs": {"before": [0, 0, 1, 2], "after": [0, 1, 0, 1]}, "x": [2, 2, 2, 3]},
]

# batch_norm(x, weight, bias, eps), whose mean and variance have gradients too. x: [n, c, ..].
NORMS = [
    {"x": [6, 4], "eps": 1e-5},
    {"x": [4, 3, 5], "eps": 0.1},
    {"x": [3, 2, 5, 4], "eps": 1e-5},
    {"x": [2, 3, 2, 3, 2], "eps": 1e-3},
]

# The same in 16 bits: x is rounded to the type; weights have few digits. Mean and variance are f32.
HALF_NORMS = [
    {"x": [6, 4], "eps": 1e-5, "dtype": "bf16"},
    {"x": [6, 2, 5, 4], "eps": 1e-3, "dtype": "bf16"},
    {"x": [6, 2, 5, 4], "eps": 1e-3, "dtype": "f16"},
]

# Steps are small: where one ends at a bend of the net, single precision, or a sum in another order, is on the other side of it now and then. PyTorch computes in double
# precision.
WIDTH, CLASSES, SIDE, BATCH, STEPS, LR, SEED = 8, 10, 32, 32, 10, 0.0002, 300


def numbers(seed, shape):
    """Doubles in [-1, 1) with 24 bits each, by a linear congruential generator."""
    n = 1
    for size in shape:
        n *= size
    state, made = (seed * 0x9E3779B97F4A7C15 + 0x1234567) % 2 ** 64, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        made.append((state >> 40) / 2 ** 23 - 1)
    return made


def few_digits(seed, shape):
    return [round(64 * x) / 64 for x in numbers(seed, shape)]


def starting_values(shapes):
    """By name: weights of products small, norms as they begin in PyTorch."""
    starts = {}
    for seed, (name, shape) in enumerate(sorted(shapes.items())):
        n = 1
        for size in shape:
            n *= size
        if len(shape) == 1:
            starts[name] = [1.0 if name.endswith(("weight", "running_var")) else 0.0] * n
        else:
            scale = 2.0 ** -round(0.5 + 0.5 * (n // shape[0]).bit_length() - 1)
            starts[name] = [scale * x for x in numbers(seed + SEED, shape)]
    return starts


def images(step):
    return numbers(SEED + 900 + step, [BATCH, 3, SIDE, SIDE])


def labels(step):
    return [(7 * (step * BATCH + row) + step) % CLASSES for row in range(BATCH)]
