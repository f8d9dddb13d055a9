"""Special functions NumPy lacks, for the reference meanings."""

from __future__ import annotations

import math

import numpy as np

from dfc.ops.numeric import Numeric


def erf(x: Numeric) -> Numeric:
    """The error function, computed in f64 and rounded to the type of `x`."""
    flat = [math.erf(v) for v in x.astype(np.float64).ravel().tolist()]
    return np.asarray(flat, np.float64).reshape(x.shape).astype(x.dtype)


def erf_inverse(y: Numeric) -> Numeric:
    """The x with erf(x) = y, computed in f64 by bisection, near -1 and 1 of erfc; infinite at -1 and 1, NaN beyond."""
    flat = [_erf_inverse(v) for v in y.astype(np.float64).ravel().tolist()]
    return np.asarray(flat, np.float64).reshape(y.shape).astype(y.dtype)


def _erf_inverse(y: float) -> float:
    if not abs(y) < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    if abs(y) < 1e-9:
        return y * math.sqrt(math.pi) / 2
    low, high, target = 0.0, 6.0, abs(y)
    rest = 1 - target  # exact from 0.5 on, where erf no longer tells numbers apart
    for _ in range(120):
        middle = (low + high) / 2
        is_below = math.erf(middle) < target if target < 0.5 else math.erfc(middle) > rest
        low, high = (middle, high) if is_below else (low, middle)
    return math.copysign((low + high) / 2, y)
