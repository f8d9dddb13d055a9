"""Attention by its definition, in f64, with the gradients of a sum of y * g: what row blocks are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def probabilities(q: Array, k: Array, mask: Array | None = None) -> Array:
    """The softmax of scaled scores, over the last axis, where `mask` allows."""
    scores = q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(-1, keepdims=True)


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """What each row of q looks up in v."""
    return probabilities(q, k, mask) @ v.astype(np.float64)


def gradients(q: Array, k: Array, v: Array, g: Array, mask: Array | None = None) -> tuple[Array, Array, Array]:
    """Those of sum(attention * g), by q, k and v."""
    p, q, k, v, g = probabilities(q, k, mask), *(each.astype(np.float64) for each in (q, k, v, g))
    to_p = g @ np.swapaxes(v, -1, -2)
    to_scores = p * (to_p - (to_p * p).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return to_scores @ k, np.swapaxes(to_scores, -1, -2) @ q, np.swapaxes(p, -1, -2) @ g
