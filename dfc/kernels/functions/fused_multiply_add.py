"""Fused multiply-add of arrays: `a * b + c`, rounded once, which NumPy lacks.

Few elements are the C library's, one after the other. Of many, the product is held exactly (single precision in double,
double precision as a sum of two), and what is added to it is first rounded to odd: that keeps what decides a second
rounding, to the nearest (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd"). Where that could overflow or lose bits below the smallest number, the C library has its turn again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc.ir.dtypes import F32, DType

FEW = 48
"""Elements that are as quick one by one: as long take the forty calls of NumPy for more."""
_FACTORS = (2.0**-400, 2.0**400)
_ADDENDS = (2.0**-700, 2.0**900)
"""Within these no step overflows, and each product has all its bits."""
_HALVES = 2.0**27 + 1

Doubles = NDArray[np.float64]


def fused_multiply_add(a: Any, b: Any, c: Any, dtype: DType) -> NDArray[Any]:
    """In the type of the numbers; what is neither single nor double precision is computed in double."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if a.size <= FEW:
            return np.asarray(_one_by_one(dtype == F32)(a, b, c)).astype(dtype.numpy)
        a, b, c = (np.asarray(one, np.float64) for one in (a, b, c))
        return (_single(a, b, c) if dtype == F32 else _double(a, b, c)).astype(dtype.numpy)


@cache
def _one_by_one(single: bool) -> Callable[..., Any]:
    library = ctypes.CDLL(None)
    called, kind = (library.fmaf, ctypes.c_float) if single else (library.fma, ctypes.c_double)
    called.restype, called.argtypes = kind, [kind] * 3
    return np.frompyfunc(called, 3, 1)


def _single(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """What is the sum once it is rounded to single precision."""
    return _rounded_to_odd(a * b, c)


def _double(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    high = a * b
    near, lost = _sum(c, _lost_in_product(a, b, high))
    total, also_lost = _sum(high, near)
    fused = total + _rounded_to_odd(lost, also_lost)
    is_product_known = _within(a, _FACTORS) & _within(b, _FACTORS)
    is_sum_plain = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | (is_product_known & (c == 0))
    fused = np.where(is_sum_plain, high + c, fused)
    others = ~(is_sum_plain | (is_product_known & _within(c, _ADDENDS)))
    if others.any():
        fused[others] = _one_by_one(False)(a[others], b[others], c[others])
    return fused


def _within(x: Doubles, bounds: tuple[float, float]) -> NDArray[np.bool_]:
    magnitude = np.abs(x)
    return (bounds[0] <= magnitude) & (magnitude <= bounds[1])


def _lost_in_product(a: Doubles, b: Doubles, product: Doubles) -> Doubles:
    """What the product lost when it was rounded, exactly, by products of halves (Dekker)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(x: Doubles) -> tuple[Doubles, Doubles]:
    scaled = x * _HALVES
    high = scaled - (scaled - x)
    return high, x - high


def _sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """The sum, and what it lost when it was rounded, exactly (Knuth)."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _rounded_to_odd(x: Doubles, y: Doubles) -> Doubles:
    """Their sum if it is a number; else of the two numbers that it lies between the one whose last bit is 1."""
    total, lost = _sum(x, y)
    bits = total.view(np.int64)
    is_even = (bits & 1) == 0
    step = np.where((total > 0) == (lost > 0), 1, -1)
    moved = is_even & (lost != 0) & np.isfinite(total)
    return np.where(moved, bits + step, bits).view(np.float64)
