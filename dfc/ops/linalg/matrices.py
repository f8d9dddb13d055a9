"""What ops on square and tall matrices share: conditions, exchange of rows and columns, elimination in loops.

These ops compute in f64 whatever the element type, and take single matrices (two axes). Sizes may be symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim
from dfc.ir.dtypes import F64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank
from dfc.ops.gradients import count_up, mul
from dfc.ops.numeric import narrow
from dfc.ops.record import Array, OpError, Sample

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Matrix: TypeAlias = "NDArray[Any]"
FIRST, SECOND = AxisAttributes(0), AxisAttributes(1)


def require_square(types: Sequence[TensorType]) -> TensorType:
    """One floating-point square matrix."""
    require_class(types, "float")
    require_rank(types, 0, (2,), "a square matrix")
    a = types[0]
    if not same_dim(a.shape[0], a.shape[1]):
        raise OpError("E0301", "`{op}` needs a square matrix", blame=0, label=str(a))
    return a


def require_matrix(types: Sequence[TensorType]) -> TensorType:
    """One floating-point matrix."""
    require_class(types, "float")
    require_rank(types, 0, (2,), "a matrix")
    return types[0]


def is_wide(a: TensorType) -> bool:
    """Whether a matrix is known to have more columns than rows."""
    more = (a.shape[1] - a.shape[0]).constant
    return more is not None and more > 0


def tall_unless_wide(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[tuple[Dim, Dim]]:
    """Which of the two it is must be known: what is not known to be wide has at least as many rows as columns."""
    rows, columns = types[0].shape
    return [] if is_wide(types[0]) else [(columns, rows)]


def wide(x: Array) -> Matrix:
    return x.astype(np.float64)


def failing(compute: Callable[[Matrix], Sequence[Matrix]], x: Array) -> list[Array]:
    """Results of a NumPy routine in the element type of `x`; all NaN where it gives up."""
    with np.errstate(all="ignore"):
        try:
            results = compute(wide(x))
        except np.linalg.LinAlgError:
            results = [np.full_like(v, np.nan) for v in compute(np.eye(*x.shape))]
    return [narrow(v, x.dtype) for v in results]


def in_f64(b: Builder, x: Value) -> Value:
    return b.cast(x, F64)


def row(b: Builder, x: Value, k: Value) -> Value:
    return b.apply("gather", x, k, attributes=FIRST)


def column(b: Builder, x: Value, k: Value) -> Value:
    return b.apply("gather", x, k, attributes=SECOND)


def upright(b: Builder, x: Value) -> Value:
    """A vector as a matrix of one column."""
    return b.reshape(x, (x.tensor.shape[0], ONE))


def lying(b: Builder, x: Value) -> Value:
    """A vector as a matrix of one row."""
    return b.reshape(x, (ONE, x.tensor.shape[0]))


def outer(b: Builder, x: Value, y: Value) -> Value:
    return mul(b, upright(b, x), lying(b, y))


def turned(b: Builder, x: Value) -> Value:
    return b.transpose(x, (1, 0))


def identity(b: Builder, size: Dim) -> Value:
    positions = count_up(b, size)
    return b.cast(b.apply("equal", upright(b, positions), lying(b, positions)), F64)


def matmul(b: Builder, x: Value, y: Value) -> Value:
    return b.apply("matmul", x, y)


def symmetric_part(b: Builder, x: Value) -> Value:
    """The mean of a matrix and its transpose."""
    return mul(b, b.apply("add", x, turned(b, x)), b.scalar_like(0.5, x))


def filled_cotangents(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> list[Value]:
    """The gradient of each result; zeros where nothing depends on it."""
    return [
        dy if dy is not None else b.broadcast(b.scalar_like(0, y), y.tensor.shape)
        for y, dy in zip(node.results, cotangents, strict=True)
    ]


def some_matrix(rows: int, columns: int, dtype: DTypeLike = "float64") -> Array:
    """Well conditioned: the diagonal is large and its elements are far apart."""
    x: Matrix = samples.numbers((rows, columns), np.float64)
    return (x * 0.4 + np.eye(rows, columns) * (1.5 + np.arange(columns))).astype(np.dtype(dtype))


def symmetric_matrix(size: int, dtype: DTypeLike = "float64") -> Array:
    x: Matrix = some_matrix(size, size)
    return ((x + x.T) / 2).astype(np.dtype(dtype))


def square_samples(make: Callable[[int, DTypeLike], Array]) -> Sequence[Sample]:
    """Matrices of an op that takes one square matrix."""
    sizes: list[tuple[int, DTypeLike]] = [(2, np.float64), (3, np.float64), (5, np.float64), (3, np.float32)]
    return [
        *(samples.sample(make(size, dtype)) for size, dtype in sizes),
        samples.sample(make(1, np.float64), kind="edge"),
        samples.sample(np.zeros((0, 0)), kind="edge"),
        samples.sample(samples.numbers((2, 3), np.float64), kind="invalid"),
        samples.sample(samples.numbers((3,), np.float64), kind="invalid"),
        samples.sample(samples.numbers((2, 2), np.int32), kind="invalid"),
    ]
