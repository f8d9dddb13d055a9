"""Element types as the files name them, without NumPy: sizes, and the names safetensors has for them.

A `c128` has no name in safetensors: it is stored as `F64` with one more axis of size 2.
"""

from __future__ import annotations

SIZES: dict[str, int] = {
    **{f"{kind}{8 * size}": size for kind in "iu" for size in (1, 2, 4, 8)},
    "bool": 1,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "c64": 8,
    "c128": 16,
}
"""Element type of the language -> bytes of an element."""

STORED_AS: dict[str, str] = {name: "F64" if name == "c128" else name.upper() for name in SIZES}
"""Element type of the language -> element type of safetensors."""

STORED_SIZES: dict[str, int] = {STORED_AS[name]: size for name, size in SIZES.items() if name != "c128"}
"""Element type of safetensors -> bytes of an element."""


def stored_shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape an array of this type has in a file."""
    return (*shape, 2) if dtype == "c128" else shape
