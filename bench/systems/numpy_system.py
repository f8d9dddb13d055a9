"""NumPy, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench import inputs

Call = Callable[[], object]


def _forward(x: inputs.F32, p: tuple[inputs.F32, ...]) -> tuple[inputs.F32, inputs.F32]:
    hidden = np.maximum(x @ p[0] + p[1], 0)
    return hidden, hidden @ p[2] + p[3]


def mlp_b1() -> Call:
    p, x = inputs.weights(), inputs.normal(1, inputs.PIXELS)
    return lambda: _forward(x, p)[1]


def mlp_b32() -> Call:
    p, x = inputs.weights(), inputs.normal(32, inputs.PIXELS)
    return lambda: _forward(x, p)[1]


def mlp_train() -> Call:
    x, labels = inputs.digits()
    p = inputs.weights()
    totals = [np.full_like(w, 0.1) for w in p]
    rows = np.arange(len(labels))

    def step() -> float:
        hidden, logits = _forward(x, p)
        shifted = logits - logits.max(1, keepdims=True)
        gradient = np.exp(shifted)
        sums = gradient.sum(1, keepdims=True)
        loss = float((np.log(sums[:, 0]) - shifted[rows, labels]).mean())
        gradient /= sums
        gradient[rows, labels] -= 1
        gradient /= len(labels)
        back = (gradient @ p[2].T) * (hidden > 0)
        for w, g, total in zip(p, (x.T @ back, back.sum(0), hidden.T @ gradient, gradient.sum(0)), totals, strict=True):
            total += g * g
            w -= 0.01 * g / np.sqrt(total)
        return loss

    return step


def softmax() -> Call:
    x = inputs.normal(inputs.ROWS, inputs.COLUMNS)

    def rows() -> inputs.F32:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return rows


def matmul() -> Call:
    a, b = inputs.normal(inputs.PRODUCT, inputs.PRODUCT), inputs.normal(inputs.PRODUCT, inputs.PRODUCT, seed=1)
    return lambda: a @ b
