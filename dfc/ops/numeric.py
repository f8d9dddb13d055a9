"""What the reference meanings share: computing narrow floats in f32, casts that saturate, the neutral elements.

Guarantees results with exactly the element type asked for, as arrays (never NumPy scalars), without NumPy warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim
from dfc.ir.dtypes import BF16, F16, DType
from dfc.ops.record import Array, Sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numeric: TypeAlias = "NDArray[Any]"


def is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype == BF16.numpy


def widen(array: Array) -> Numeric:
    """f16 and bf16 as f32; anything else as it is."""
    return array.astype(np.float32) if array.dtype in (F16.numpy, BF16.numpy) else array


def narrow(result: object, dtype: np.dtype[np.generic]) -> Array:
    """The result of a computation in the element type it must have."""
    with np.errstate(all="ignore"):
        return np.asarray(result).astype(dtype, copy=False)


def pointwise(
    function: Callable[..., object], result_type: DType | None = None
) -> Callable[[Sequence[Array], Attributes, Sizes], Sequence[Array]]:
    """`evaluate` of an element-wise op whose result has the element type of its first operand, or the given one."""

    def evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            result = function(*[widen(x) for x in operands])
        return (narrow(result, operands[0].dtype if result_type is None else result_type.numpy),)

    return evaluate


def convert(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """`x as T`: float to integer truncates and saturates (NaN is 0), to bool is `!= 0`, integers wrap."""
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype == np.bool_:
            return np.asarray(np.not_equal(widen(array), 0))
        if dtype.kind in "iu" and is_float(array):
            return _saturate(array, dtype)
        if dtype in (F16.numpy, BF16.numpy):
            return array.astype(np.float32).astype(dtype)
        return array.astype(dtype)


def _saturate(array: Array, dtype: np.dtype[np.generic]) -> Array:
    limits = np.iinfo(dtype.name)
    whole: Numeric = np.trunc(array.astype(np.float64))
    low, high = whole <= float(limits.min), whole >= float(limits.max)
    inside = np.where(np.isnan(whole) | low | high, 0.0, whole).astype(dtype)
    result = np.where(low, np.array(limits.min, dtype), inside)
    return np.asarray(np.where(high, np.array(limits.max, dtype), result)).astype(dtype, copy=False)


def accumulator(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type sums are taken in."""
    return np.dtype(np.float32) if dtype in (F16.numpy, BF16.numpy) else dtype


def lowest(dtype: np.dtype[np.generic]) -> float | int | bool:
    """The neutral element of `max`."""
    if dtype == np.bool_:
        return False
    return int(np.iinfo(dtype.name).min) if dtype.kind in "iu" else -float("inf")


def highest(dtype: np.dtype[np.generic]) -> float | int | bool:
    """The neutral element of `min`."""
    if dtype == np.bool_:
        return True
    return int(np.iinfo(dtype.name).max) if dtype.kind in "iu" else float("inf")


def concrete(shape: Sequence[Dim], sizes: Sizes) -> tuple[int, ...]:
    """A shape as plain numbers."""
    return tuple(d.evaluate(sizes) for d in shape)


def numpy_of(dtype: object) -> np.dtype[np.generic]:
    """The NumPy type of an element type that must be a machine type by now."""
    assert isinstance(dtype, DType), dtype
    return dtype.numpy
