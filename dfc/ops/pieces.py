"""Cutting and surrounding tensors along one axis: what gradients and decompositions of many ops need."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import ONE, ZERO, Dim, DimLike, dim
from dfc.ir.graph import Value
from dfc.ops.attributes import PadAttributes, SliceAttributes
from dfc.ops.builder import Builder


def part(b: Builder, x: Value, axis: int, start: DimLike, size: DimLike, step: int = 1) -> Value:
    """`size` elements from `start` along an axis; all of the others."""
    shape = x.tensor.shape
    starts = tuple(dim(start) if a == axis else ZERO for a in range(len(shape)))
    sizes = tuple(dim(size) if a == axis else d for a, d in enumerate(shape))
    steps = tuple(step if a == axis else 1 for a in range(len(shape)))
    return b.apply("slice", x, attributes=SliceAttributes(starts, sizes, steps))


def element(b: Builder, x: Value, axis: int, index: DimLike) -> Value:
    """The slice at one index of an axis, without the axis."""
    shape = x.tensor.shape
    return b.reshape(part(b, x, axis, index, ONE), (*shape[:axis], *shape[axis + 1 :]))


def surrounded(
    b: Builder, x: Value, axis: int, low: DimLike, high: DimLike, interior: int = 0, fill: Value | None = None
) -> Value:
    """Zeros (or `fill`) before and behind an axis and between its elements."""
    rank, low, high = x.tensor.rank, dim(low), dim(high)
    if low == ZERO and high == ZERO and not interior:
        return x
    padding = PadAttributes(
        tuple(low if a == axis else ZERO for a in range(rank)),
        tuple(high if a == axis else ZERO for a in range(rank)),
        tuple(interior if a == axis else 0 for a in range(rank)),
    )
    return b.apply("pad", x, fill if fill is not None else b.scalar_like(0, x), attributes=padding)


def zeros(b: Builder, like: Value, shape: Sequence[Dim]) -> Value:
    return b.broadcast(b.scalar_like(0, like), tuple(shape))


def in_front(b: Builder, x: Value, rank: int) -> Value:
    """The value with axes of size 1 in front, so that it has `rank` axes and stretches along them."""
    return b.reshape(x, (*((ONE,) * (rank - x.tensor.rank)), *x.tensor.shape))
