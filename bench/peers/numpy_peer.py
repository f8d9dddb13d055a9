"""NumPy by hand: products go to its OpenBLAS, all else is what one writes without a compiler.

The tests compare dfc's programs with these at small sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.peers import numpy_science
from bench.peers.prepared import Prepare, Prepared, Request, forward, training


def version(system: str) -> str:
    return np.__version__


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)))


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layernorm(x: Any, scale: Any = 1, shift: Any = 0) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = np.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift


def _hidden(p: Any, x: Any) -> Any:
    return np.maximum(x @ p["w1"] + p["b1"], 0)


def _mlp(request: Request) -> Prepared:
    p, images = request.data.state, request.feeds[0]
    return forward(lambda: _hidden(p, images) @ p["w2"] + p["b2"])


def _mlp_train(request: Request) -> Prepared:
    images, labels = request.feeds
    p: dict[str, Any] = {name: value.copy() for name, value in request.data.state.items()}
    totals = {name: np.full_like(value, 0.1) for name, value in p.items()}
    rows = np.arange(len(labels))

    def step() -> float:
        hidden = _hidden(p, images)
        logits = hidden @ p["w2"] + p["b2"]
        shifted = logits - logits.max(1, keepdims=True)
        g = np.exp(shifted)
        sums = g.sum(1, keepdims=True)
        loss = float((np.log(sums[:, 0]) - shifted[rows, labels]).mean())
        g /= sums
        g[rows, labels] -= 1
        g /= len(labels)
        back = (g @ p["w2"].T) * (hidden > 0)
        steps = {"w1": images.T @ back, "b1": back.sum(0), "w2": hidden.T @ g, "b2": g.sum(0)}
        for name, gradient in steps.items():
            totals[name] += gradient * gradient
            p[name] -= np.float32(0.01) * gradient / np.sqrt(totals[name])
        return loss

    return training(request, step, lambda name: p[name])


def _embed(request: Request) -> Prepared:
    table, ids = request.data.state["table"].copy(), request.feeds[0]

    def touch() -> Any:
        table[ids] -= np.float32(0.01) * table[ids]
        return table

    return forward(touch, lambda table: table[ids])


def _heat(request: Request) -> Prepared:
    u, steps = request.data.state["plate"].copy(), request.sizes["steps"]

    def call() -> Any:
        for _ in range(steps):
            flow = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            u[1:-1, 1:-1] += np.float32(0.1) * flow
        return u

    return forward(call)


def _unary(function: Callable[[Any], Any]) -> Callable[[Request], Prepared]:
    def prepare(request: Request) -> Prepared:
        x = request.feeds[0]
        return forward(lambda: function(x))

    return prepare


def _product(request: Request) -> Prepared:
    a, b = request.feeds
    a = a.swapaxes(-2, -1) if request.sizes["turned_a"] else a
    b = b.swapaxes(-2, -1) if request.sizes["turned_b"] else b
    return forward(lambda: a @ b)


def _cell(w: Any, b: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    value, forget, memory, output = np.split(np.concatenate([x, h], 1) @ w + b, 4, 1)
    c = _sigmoid(forget + 1) * c + _sigmoid(value) * np.tanh(memory)
    return _sigmoid(output) * np.tanh(c), c


def _lstm(request: Request) -> Prepared:
    p, x = request.data.state, request.feeds[0]

    def call() -> Any:
        h1 = c1 = h2 = c2 = np.zeros(x.shape[1:], np.float32)
        above = np.empty_like(x)
        for number, step in enumerate(x):
            h1, c1 = _cell(p["first.w"], p["first.b"], step, h1, c1)
            h2, c2 = _cell(p["second.w"], p["second.b"], h1, h2, c2)
            above[number] = h2
        return above

    return forward(call)


def _xf(request: Request) -> Prepared:
    p = {name.removeprefix("encoder."): value for name, value in request.data.state.items()}
    x, heads = request.feeds[0], request.sizes["heads"]
    batch, tokens, width = x.shape

    def call() -> Any:
        parts = np.split(x @ p["to_qkv"] + p["qkv_bias"], 3, -1)
        q, k, v = (part.reshape(batch, tokens, heads, -1).swapaxes(1, 2) for part in parts)
        weights = _softmax(q @ k.swapaxes(-2, -1) / np.float32((width // heads) ** 0.5))
        mixed = (weights @ v).swapaxes(1, 2).reshape(x.shape) @ p["to_out"] + p["out_bias"]
        y = _layernorm(x + mixed, p["norm1.scale"], p["norm1.shift"])
        wide = _gelu(y @ p["to_wide"] + p["wide_bias"])
        return _layernorm(y + wide @ p["to_narrow"] + p["narrow_bias"], p["norm2.scale"], p["norm2.shift"])

    return forward(call)


def _attention(request: Request) -> Prepared:
    q, k, v = request.feeds
    scale = np.float32(q.shape[-1] ** -0.5)
    return forward(lambda: _softmax(q @ k.swapaxes(-2, -1) * scale) @ v)


KINDS: dict[str, Callable[[Request], Prepared]] = {
    "mlp": _mlp,
    "mlp_train": _mlp_train,
    "embed": _embed,
    "eltwise": _unary(lambda x: _gelu(x * np.float32(1.1) + np.float32(0.3)) * _sigmoid(x)),
    "softmax": _unary(_softmax),
    "layernorm": _unary(_layernorm),
    "heat": _heat,
    "product": _product,
    "lstm": _lstm,
    "xf": _xf,
    "attention": _attention,
    **numpy_science.KINDS,
}


def preparation(system: str, kind: str) -> Prepare | None:
    return KINDS.get(kind)
