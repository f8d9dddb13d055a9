"""Special functions NumPy lacks, for the reference meanings."""

from __future__ import annotations

import math

import numpy as np

from dfc.ops.numeric import Numeric


def erf(x: Numeric) -> Numeric:
    """The error function, computed in f64 and rounded to the type of `x`."""
    flat = [math.erf(v) for v in x.astype(np.float64).ravel().tolist()]
    return np.asarray(flat, np.float64).reshape(x.shape).astype(x.dtype)
