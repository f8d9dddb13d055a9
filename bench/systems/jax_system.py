"""JAX, jitted, on the CPU. Updates in place through donated arguments."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench import inputs

Call = Callable[[], object]


def _logits(p, x):
    return jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]


def null() -> Call:
    add = jax.jit(lambda a, b: a + b)
    one, two = np.float32(1), np.float32(2)
    return lambda: np.asarray(add(one, two))


def _predict(batch: int) -> Call:
    p = [jnp.asarray(w) for w in inputs.weights()]
    x = inputs.normal(batch, inputs.PIXELS)
    forward = jax.jit(_logits)
    return lambda: np.asarray(forward(p, x))


def mlp_b1() -> Call:
    return _predict(1)


def mlp_b32() -> Call:
    return _predict(32)


def mlp_train() -> Call:
    x, labels = inputs.digits()
    state = [[jnp.asarray(w) for w in inputs.weights()]]
    state.append([jnp.full_like(w, 0.1) for w in state[0]])

    def loss(p, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(_logits(p, x)), y[:, None], 1).mean()

    def step(p, totals, x, y):
        value, gradients = jax.value_and_grad(loss)(p, x, y)
        totals = [t + g * g for t, g in zip(totals, gradients, strict=True)]
        return value, [w - 0.01 * g * lax.rsqrt(t) for w, g, t in zip(p, gradients, totals, strict=True)], totals

    jitted = jax.jit(step, donate_argnums=(0, 1))

    def call() -> float:
        value, state[0], state[1] = jitted(state[0], state[1], x, labels)
        return float(value)

    return call


def loop() -> Call:
    def iterations(x):
        return lax.while_loop(lambda s: s[0] < inputs.REPEATS, lambda s: (s[0] + 1, s[1] * 0.999999 + 1e-7), (0, x))[1]

    jitted, one = jax.jit(iterations), np.float32(1)
    return lambda: np.asarray(jitted(one))


def _unary(function, x) -> Call:
    jitted, on_device = jax.jit(function), jnp.asarray(x)
    return lambda: jitted(on_device).block_until_ready()


def eltwise() -> Call:
    return _unary(
        lambda x: jax.nn.gelu(x * 1.1 + 0.3, approximate=False) * jax.nn.sigmoid(x), inputs.normal(inputs.ELEMENTS)
    )


def softmax() -> Call:
    return _unary(lambda x: jax.nn.softmax(x, -1), inputs.normal(inputs.ROWS, inputs.COLUMNS))


def layernorm() -> Call:
    def normalise(x):
        center = x.mean(-1, keepdims=True)
        variance = ((x - center) ** 2).mean(-1, keepdims=True)
        return (x - center) * lax.rsqrt(variance + 1e-5)

    return _unary(normalise, inputs.normal(inputs.ROWS, inputs.COLUMNS))


def matmul() -> Call:
    a = jnp.asarray(inputs.normal(inputs.PRODUCT, inputs.PRODUCT))
    b = jnp.asarray(inputs.normal(inputs.PRODUCT, inputs.PRODUCT, seed=1))
    product = jax.jit(jnp.matmul)
    return lambda: product(a, b).block_until_ready()


def heat() -> Call:
    def step(_, u):
        flow = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(0.1 * flow)

    return _unary(lambda u: lax.fori_loop(0, inputs.PLATE_STEPS, step, u), inputs.normal(inputs.PLATE, inputs.PLATE))
