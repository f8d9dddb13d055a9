"""Scalars that callers feed: Python and NumPy numbers adapt to the type of their parameter, as literals do.

Guarantees that a number never changes its value but by rounding to a floating type: what does not fit, a fraction for
an integer, and truth values for numbers or the reverse are a `ValueError` that says why.
"""

from __future__ import annotations

import math
import struct
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import SLOT_FORMATS, kind_of, limits_of, numpy_dtype, numpy_name

Number = bool | int | float | complex
Slot = bool | int | float | bytes


def adapt(value: object, dtype: str) -> Slot:
    """What `slot_format(dtype)` packs for this value."""
    number = as_number(value, dtype)
    if isinstance(number, complex) or dtype not in SLOT_FORMATS:
        return np.array(number, numpy_dtype(dtype)).tobytes()
    return number


def slot_format(dtype: str) -> str:
    """How `struct` packs what `adapt` gives into 8 bytes."""
    return SLOT_FORMATS.get(dtype, "8s")


def as_number(value: object, dtype: str) -> Number:
    """The value as a number that fits the type."""
    number = _plain(value, dtype)
    kind = kind_of(dtype)
    if isinstance(number, bool) != (kind == "bool"):
        raise ValueError("a truth value is no number" if kind != "bool" else "a number is no truth value")
    if kind == "integer":
        return _whole(number, dtype)
    return _rounded(number, dtype) if kind == "float" else number


def _plain(value: object, dtype: str) -> Number:
    if isinstance(value, np.ndarray):
        array = cast("NDArray[np.generic]", value)
        if array.ndim or array.dtype != numpy_dtype(dtype):
            raise ValueError(f"an array is not converted: a number or an array of {numpy_name(dtype)} of rank 0 fits")
        value = cast("object", array[()])
    if isinstance(value, np.generic):
        value = cast("object", cast("np.generic", value).item())
    if not isinstance(value, bool | int | float | complex):
        raise ValueError("a number is wanted" if kind_of(dtype) != "bool" else "True or False is wanted")
    return value


def _whole(number: Number, dtype: str) -> int:
    if not isinstance(number, int):
        raise ValueError("an integer type takes whole numbers without a point")
    low, high = limits_of(dtype)
    if not low <= number <= high:
        raise ValueError(f"it does not fit: {dtype} holds {low} to {high}")
    return number


def _rounded(number: Number, dtype: str) -> float:
    if isinstance(number, complex):
        raise ValueError("a complex number is not converted")
    try:
        value = float(number)
        struct.pack("<" + SLOT_FORMATS.get(dtype, "f"), value)
    except OverflowError:
        raise ValueError(f"it does not fit: the largest {dtype} is smaller") from None
    if dtype == "bf16" and math.isfinite(value) and not math.isfinite(float(np.array(value, numpy_dtype(dtype)))):
        raise ValueError(f"it does not fit: the largest {dtype} is smaller")
    return value
