"""Element types of the language as NumPy types and as formats of 8-byte slots."""

from __future__ import annotations

from functools import cache

import numpy as np

_NAMES = {"bool": "?", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16"}

SLOT_FORMATS: dict[str, str] = {
    "bool": "?7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q",
    "u8": "B7x", "u16": "H6x", "u32": "I4x", "u64": "Q", "f16": "e6x", "f32": "f4x", "f64": "d",
}  # fmt: skip
"""How `struct` packs a scalar into its slot. Types that are not listed are packed as bytes."""


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy type with the layout of an element type."""
    if name == "bf16":
        import ml_dtypes  # most programs have no use for it, and it takes longer to load than a bundle

        return np.dtype(ml_dtypes.bfloat16)
    if name in _NAMES:
        return np.dtype(_NAMES[name])
    return np.dtype(f"<{name[0]}{int(name[1:]) // 8}")


def numpy_name(name: str) -> str:
    """How NumPy calls an element type, for messages."""
    return "bfloat16" if name == "bf16" else numpy_dtype(name).name


def kind_of(name: str) -> str:
    """bool, integer, float or complex."""
    if name == "bool":
        return "bool"
    return {"i": "integer", "u": "integer", "c": "complex"}.get(name[0], "float")


def limits_of(name: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    bits = int(name[1:])
    return (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
