"""Attributes: what is fixed about a node at compile time. One small frozen dataclass per kind of op.

Fields hold only: bool, int, float, str, None, `Dim`, `DType`, `TensorType`, `Literal`, enums, other attribute classes,
and tuples of these; so attributes are hashable, comparable and printable without knowing the op.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dfc.ir.dims import Dim


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
    """`carries` carried values. `trips` is the number of rounds if it is a dimension (required if there are emits);
    if the bounds are not sizes themselves there may be fewer rounds, and the other rows have no meaning. `recompute`: a
    gradient keeps what every so many rounds started with, and runs those between again; 0 keeps all of them."""

    carries: int
    trips: Dim | None = None
    recompute: int = 0


class Literal:
    """An immutable array that compares by type, shape and bytes (so NaN equals NaN and -0.0 differs from 0.0)."""

    __slots__ = ("_key", "array")

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.array: NDArray[np.generic] = np.array(array, order="C", copy=True)
        self.array.flags.writeable = False
        self._key = (str(self.array.dtype), self.array.shape, self.array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.array!r})"
