"""`std.activations` and `std.losses` equal their formulas, their gradients equal differences, also at corners."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime

X = np.array([-30.0, -3.5, -1.25, -0.5, 0.0, 0.3, 0.9, 1.7, 4.0, 35.0])
TRUTH = np.array([0.0, 1.0, 0.25, 0.0, 1.0, 0.5, 0.0, 1.0, 1.0, 0.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


ACTIVATIONS = {
    "softplus(x)": softplus,
    "leaky_relu(x)": lambda x: np.where(x > 0, x, 0.01 * x),
    "leaky_relu(x, 0.2)": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu(x)": elu,
    "elu(x, alpha = 0.5)": lambda x: elu(x, 0.5),
    "selu(x)": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "relu6(x)": lambda x: np.clip(x, 0, 6),
    "hard_sigmoid(x)": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish(x)": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh(x)": lambda x: np.clip(x, -1, 1),
    "mish(x)": lambda x: x * np.tanh(softplus(x)),
    "softsign(x)": lambda x: x / (1 + np.abs(x)),
}
LOSSES = {
    "squared_error(x, truth)": lambda x: (x - TRUTH) ** 2,
    "absolute_error(x, truth)": lambda x: np.abs(x - TRUTH),
    "huber(x, truth)": lambda x: np.where(np.abs(x - TRUTH) < 1, 0.5 * (x - TRUTH) ** 2, np.abs(x - TRUTH) - 0.5),
    "huber(x, truth, limit = 2)": lambda x: np.where(
        np.abs(x - TRUTH) < 2, 0.5 * (x - TRUTH) ** 2, 2 * np.abs(x - TRUTH) - 2
    ),
    "binary_cross_entropy_with_logits(x, truth)": lambda x: softplus(x) - x * TRUTH,
    "hinge(x, 2 * truth - 1)": lambda x: np.maximum(0, 1 - (2 * TRUTH - 1) * x),
}
FUNCTIONS = ACTIVATIONS | LOSSES
functions = pytest.mark.parametrize("call", FUNCTIONS)


@cache
def model() -> dfc_runtime.Module:
    names = [{call.split("(")[0]: None for call in calls} for calls in (ACTIVATIONS, LOSSES)]
    text = f"dfg 1\nfrom std.activations import {', '.join(names[0])}\nfrom std.losses import {', '.join(names[1])}\n"
    for k, call in enumerate(FUNCTIONS):
        text += f"""
        readonly entry call{k}[N](x: f64[N], truth: f64[N]) -> (y: f64[N], slope: f64[N]) {{
          let y = {call}
          return y, grad(sum(y), x) + 0 * truth
        }}
        """
    return dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)


def results(call: str) -> tuple[np.ndarray, np.ndarray]:
    return getattr(model(), f"call{list(FUNCTIONS).index(call)}")(x=X, truth=TRUTH)


@functions
def test_a_function_equals_its_formula(call: str) -> None:
    np.testing.assert_allclose(results(call)[0], FUNCTIONS[call](X), rtol=1e-12, atol=1e-13)


@functions
def test_the_gradient_equals_differences_where_there_is_one(call: str) -> None:
    step = 1e-6
    right = (FUNCTIONS[call](X + step) - FUNCTIONS[call](X)) / step
    left = (FUNCTIONS[call](X) - FUNCTIONS[call](X - step)) / step
    smooth = np.abs(right - left) < 1e-4
    assert smooth.sum() >= 8
    np.testing.assert_allclose(results(call)[1][smooth], ((right + left) / 2)[smooth], atol=1e-5)


def test_rows_are_compared_with_distributions() -> None:
    text = """dfg 1
    from std.losses import kl_divergence, mae, mse, smoothed_labels, soft_cross_entropy
    readonly entry rows[B](scores: f64[B, 4], p: f64[B, 4]) -> (kl: f64[B], cross: f64[B]) {
      return kl_divergence(log_softmax(scores, axis = 1), p), soft_cross_entropy(scores, p)
    }
    readonly entry labels[B](labels: i32[B]) -> f32[B, 4] { return smoothed_labels(labels, 4, 0.1) }
    readonly entry means[B](x: f64[B], y: f64[B]) -> (square: f64, size: f64) { return mse(x, y), mae(x, y) }
    """
    rows = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
    rng = np.random.default_rng(2)
    scores, p = rng.normal(size=(6, 4)), rng.dirichlet(np.ones(4), 6)
    p[0] = [0, 1, 0, 0]
    log_q = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    found = rows.rows(scores=scores, p=p)
    entropy = (p * np.log(np.where(p > 0, p, 1))).sum(1)
    np.testing.assert_allclose(found.kl, entropy - (p * log_q).sum(1), rtol=1e-12)
    np.testing.assert_allclose(found.cross, -(p * log_q).sum(1), rtol=1e-12)
    labels = np.array([3, 0], np.int32)
    np.testing.assert_allclose(rows.labels(labels=labels), 0.9 * np.eye(4)[labels] + 0.025, rtol=1e-6)
    square, size = rows.means(x=X, y=TRUTH)
    np.testing.assert_allclose([square, size], [((X - TRUTH) ** 2).mean(), np.abs(X - TRUTH).mean()], rtol=1e-12)
