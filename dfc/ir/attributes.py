"""Attributes: what is fixed about a node at compile time. One small frozen dataclass per kind of op.

Fields hold only: bool, int, float, str, None, `Dim`, `DType`, `TensorType`, `Literal`, enums, other attribute classes,
and tuples of these; so attributes are hashable, comparable and printable without knowing the op.
"""

from __future__ import annotations

from math import isfinite
from struct import error as StructError
from struct import pack
from typing import TYPE_CHECKING

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 1 << 53
"""Whole numbers up to here are numbers of f64."""
PACKED = {
    "bool": ("bool", "?"),
    "f32": ("float32", "f"),
    "f64": ("float64", "d"),
    **{f"i{8 * size}": (f"int{8 * size}", form) for size, form in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{f"u{8 * size}": (f"uint{8 * size}", form) for size, form in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
}
"""The names of element types in NumPy and in `struct`."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Base of every attribute record."""


@dataclass(frozen=True, slots=True)
class NoAttributes(Attributes):
    """For ops whose meaning is in their operands alone."""


@dataclass(frozen=True, slots=True)
class MeasuredAttributes(Attributes):
    """Of a node that finds out a size while it runs: `size` is the symbol it gives a value from 0 to `most`; or a plain
    number, which the value then must be."""

    size: Dim
    most: Dim


@dataclass(frozen=True, slots=True)
class ForAttributes(Attributes):
    """`carries` carried values. `trips` is the trip count if it is a dimension (required if there are emits); if
    the bounds are not sizes themselves there may be fewer iterations, and the other rows have no meaning. `recompute`:
    a gradient keeps what every so many iterations started with, and runs those between again; 0 keeps all of them."""

    carries: int
    trips: Dim | None = None
    recompute: int = 0


class Literal:
    """An immutable array that compares by type, shape and bytes (so NaN equals NaN and -0.0 differs from 0.0)."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: NDArray[np.generic]) -> None:
        self._array: NDArray[np.generic] | None = _frozen(array)
        self._key = (str(self._array.dtype), self._array.shape, self._array.tobytes())

    @classmethod
    def scalar(cls, number: float, dtype: DType) -> Literal:
        """A number as `dtype` has it: as `np.asarray(number).astype(...)` rounds and wraps it, but without NumPy where
        Python does the same."""
        data = _packed(number, dtype)
        if data is None:
            return cls(np.asarray(number).astype(dtype.numpy))
        scalar = cls.__new__(cls)
        scalar._array, scalar._key = None, (PACKED[dtype.name][0], (), data)
        return scalar

    @property
    def shape(self) -> tuple[int, ...]:
        return self._key[1]

    @property
    def array(self) -> NDArray[np.generic]:
        if self._array is None:
            name, shape, data = self._key
            self._array = _frozen(np.frombuffer(data, name).reshape(shape))
        return self._array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.array!r})"


def _frozen(array: NDArray[np.generic]) -> NDArray[np.generic]:
    copy: NDArray[np.generic] = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


def _packed(number: object, dtype: DType) -> bytes | None:
    """The bytes of a number, None where only NumPy knows them: what it wraps, warns of, or rounds twice."""
    if dtype.name not in PACKED:
        return None
    if dtype.is_float:
        fits = isfinite(number) if type(number) is float else type(number) is int and abs(number) <= EXACT
    else:
        fits = type(number) is (bool if dtype.is_bool else int)
    try:
        return pack(f"={PACKED[dtype.name][1]}", number) if fits else None
    except (StructError, OverflowError):
        return None
