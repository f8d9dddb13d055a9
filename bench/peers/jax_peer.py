"""JAX, jitted, on the CPU. What is updated is donated, so that it is written where it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.peers import jax_models, jax_science
from bench.peers.jax_support import arrays, constant, scores, unary
from bench.peers.prepared import Prepare, Prepared, Request, forward, training


def version(system: str) -> str:
    return jax.__version__


def _null(request: Request) -> Prepared:
    add, x = jax.jit(lambda x: x + 0), request.feeds[0]
    return forward(lambda: np.asarray(add(x)))


def _while(request: Request) -> Prepared:
    count, x = request.sizes["repeats"], request.feeds[0]

    def repeat(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, (s[1] + 0.75) * 0.5), (0, x))[1]

    jitted = jax.jit(repeat)
    return forward(lambda: np.asarray(jitted(x)))


def _mlp(request: Request) -> Prepared:
    p, images, predict = arrays(request.data.state), request.feeds[0], jax.jit(scores)
    return forward(lambda: np.asarray(predict(p, images)))


def _mlp_train(request: Request) -> Prepared:
    images, labels = (jnp.asarray(x) for x in request.feeds)

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(scores(p, x)), y[:, None], 1).mean()

    def update(p: Any, totals: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        totals = jax.tree.map(lambda t, g: t + g * g, totals, g)
        return loss, jax.tree.map(lambda w, g, t: w - 0.01 * g * lax.rsqrt(t), p, g, totals), totals

    jitted = jax.jit(update, donate_argnums=(0, 1))
    p = arrays(request.data.state)
    held = [p, {name: jnp.full_like(w, 0.1) for name, w in p.items()}]

    def step() -> float:
        loss, held[0], held[1] = jitted(held[0], held[1], images, labels)
        return float(loss)

    return training(request, step, lambda name: held[0][name])


def _embed(request: Request) -> Prepared:
    ids = request.feeds[0].astype(np.int32)
    touch = jax.jit(lambda table, ids: table.at[ids].add(-0.01 * table[ids]), donate_argnums=0)
    held = [jnp.asarray(request.data.state["table"])]

    def call() -> None:
        held[0] = touch(held[0], ids)
        held[0].block_until_ready()

    def results() -> list[Any]:
        call()
        return [np.asarray(held[0][ids])]

    return Prepared(call, results)


def _layernorm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def _heat(request: Request) -> Prepared:
    steps = request.sizes["steps"]

    def step(_: Any, u: Any) -> Any:
        flow = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(0.1 * flow)

    advance = jax.jit(lambda u: lax.fori_loop(0, steps, step, u), donate_argnums=0)
    held = [jnp.asarray(request.data.state["plate"])]

    def call() -> Any:
        held[0] = advance(held[0])
        return held[0].block_until_ready()

    return forward(call)


def _product(request: Request) -> Prepared:
    turned_a, turned_b = request.sizes["turned_a"], request.sizes["turned_b"]

    def multiply(a: Any, b: Any) -> Any:
        return (a.swapaxes(-2, -1) if turned_a else a) @ (b.swapaxes(-2, -1) if turned_b else b)

    return constant(jax.jit(multiply), *request.feeds)


KINDS: dict[str, Callable[[Request], Prepared]] = {
    "null": _null,
    "while": _while,
    "mlp": _mlp,
    "mlp_train": _mlp_train,
    "embed": _embed,
    "eltwise": unary(lambda x: jax.nn.gelu(x * 1.1 + 0.3) * jax.nn.sigmoid(x)),
    "softmax": unary(lambda x: jax.nn.softmax(x, -1)),
    "layernorm": unary(_layernorm),
    "heat": _heat,
    "product": _product,
    **jax_models.KINDS,
    **jax_science.KINDS,
}


def preparation(system: str, kind: str) -> Prepare | None:
    return KINDS.get(kind)
