"""What factors are compared by: those of any system, with the signs that dfc gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def _signs(rows: Any) -> Any:
    """Of the largest element of each row."""
    largest = np.take_along_axis(rows, np.argmax(np.abs(rows), 1)[:, None], 1)[:, 0]
    return np.where(largest < 0, -1.0, 1.0)


def signed(kind: str, factors: Sequence[Any]) -> list[Any]:
    """The factors of `kind`: what else there is stays as it is."""
    values = [np.asarray(value) for value in factors]
    if kind == "qr":
        q, r = values
        signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
        return [q * signs, r * signs[:, None]]
    if kind == "eigh":
        w, v = values
        return [w, v * _signs(v.T)]
    if kind == "svd":
        u, s, vt = values
        signs = _signs(vt)
        return [u * signs, s, vt * signs[:, None]]
    return values
