"""Time that JAX takes to trace, lower and compile a training step on forced host devices. Prints one line of JSON.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 jax_compile.py quickstart
    XLA_FLAGS=--xla_force_host_platform_device_count=8 jax_compile.py chain LAYERS

quickstart is samples/quickstart.dsl; chain is what ../chain.sh prints. Both: one hint, the first product split 2 by 4 and 4, loss,
gradients, momentum. The first compile in a process initialises XLA and is not timed (it compiles another function).
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import numpy as np


def main():
    what = sys.argv[1]
    layers = int(sys.argv[2]) if what == "chain" else 2
    batch, sizes = (16, [32, 16, 16]) if what == "quickstart" else (512, [512] * (layers + 1))
    last = jax.nn.relu if what == "chain" else lambda y: y
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))

    def hinted(value, spec):
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))

    def loss(weights, x, label):
        h = hinted(x, P("a", "b")) @ hinted(weights[0], P("b", None))
        for w in weights[1:]:
            h = jax.nn.relu(h) @ w
        return jnp.mean((last(h) - label) ** 2)

    def step(weights, velocities, x, label):
        value, gradients = jax.value_and_grad(loss)(weights, x, label)
        velocities = [0.1 * v + g for v, g in zip(velocities, gradients)]
        return [w - 0.4 * v for w, v in zip(weights, velocities)], velocities, value

    shapes = [jax.ShapeDtypeStruct(pair, jnp.float32) for pair in zip(sizes, sizes[1:])]
    x = jax.ShapeDtypeStruct((batch, sizes[0]), jnp.float32)
    label = jax.ShapeDtypeStruct((batch, sizes[-1]), jnp.float32)
    jax.jit(lambda v: hinted(v, P("a")) + 1).lower(x).compile()

    begin = time.perf_counter()
    traced = jax.jit(step).trace(shapes, shapes, x, label)
    middle = time.perf_counter()
    lowered = traced.lower()
    late = time.perf_counter()
    lowered.compile()
    end = time.perf_counter()
    print(json.dumps({"version": jax.__version__, "trace_s": middle - begin, "lower_s": late - middle, "compile_s": end - late, "total_s": end - begin}))


main()
