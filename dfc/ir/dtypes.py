"""Element types.

A `DType` is one of the fixed machine types below. A `DTypeVariable` stands for an element type a generic function
is checked with before it is called; it never reaches a compiled graph.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dfc.deferred.dataclasses import dataclass

KINDS = ("bool", "signed", "unsigned", "float", "complex")
CLASSES: dict[str, frozenset[str]] = {
    "float": frozenset({"float"}),
    "int": frozenset({"signed", "unsigned"}),
    "number": frozenset({"float", "signed", "unsigned", "complex"}),
    "any": frozenset(KINDS),
}


@dataclass(frozen=True, slots=True)
class DType:
    """A machine element type: its name in the language, its kind and its size in bytes."""

    name: str
    kind: str
    size: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same layout (`ml_dtypes.bfloat16` for bf16)."""
        return _numpy_types()[self.name]

    @property
    def accumulator(self) -> DType:
        """The type reductions and products of this type accumulate in (f32 for f16 and bf16)."""
        return F32 if self.name in ("f16", "bf16") else self

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DTypeVariable:
    """An element type that is generic in a declaration: `[T: float]`."""

    name: str
    bound: str

    @property
    def is_float(self) -> bool:
        return self.bound == "float"

    @property
    def is_integer(self) -> bool:
        return self.bound == "int"

    @property
    def is_bool(self) -> bool:
        return False

    @property
    def is_complex(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.name


BOOL = DType("bool", "bool", 1)
I8, I16, I32, I64 = (DType(f"i{8 * n}", "signed", n) for n in (1, 2, 4, 8))
U8, U16, U32, U64 = (DType(f"u{8 * n}", "unsigned", n) for n in (1, 2, 4, 8))
F16, BF16 = DType("f16", "float", 2), DType("bf16", "float", 2)
F32, F64 = DType("f32", "float", 4), DType("f64", "float", 8)
C64, C128 = DType("c64", "complex", 8), DType("c128", "complex", 16)

ALL: dict[str, DType] = {
    d.name: d for d in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128)
}


@cache
def _numpy_types() -> dict[str, np.dtype[np.generic]]:
    """By name; not before one is asked for, because NumPy takes long to import."""
    import ml_dtypes

    return {
        "bool": np.dtype(np.bool_),
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "c64": np.dtype(np.complex64),
        "c128": np.dtype(np.complex128),
        **{f"i{b}": np.dtype(f"int{b}") for b in (8, 16, 32, 64)},
        **{f"u{b}": np.dtype(f"uint{b}") for b in (8, 16, 32, 64)},
    }


def from_numpy(dtype: np.dtype[np.generic]) -> DType | None:
    """The element type with the layout of a NumPy dtype, or None if the language has none."""
    return next((ALL[name] for name, candidate in _numpy_types().items() if candidate == dtype), None)


def in_class(dtype: DType | DTypeVariable, bound: str) -> bool:
    """Whether an element type belongs to the class `float`, `int`, `number` or `any`."""
    if isinstance(dtype, DTypeVariable):
        return CLASSES[dtype.bound] <= CLASSES[bound]
    return dtype.kind in CLASSES[bound]
