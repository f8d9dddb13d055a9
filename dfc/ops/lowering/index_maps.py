"""Index maps: for each axis of a buffer an affine index over other axes, those of a kernel say; and how they compose.

Assumes verified shapes. Guarantees that composing never allocates per element: a view is arithmetic on indices.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import ONE, ZERO, Dim, dim
from dfc.kernels.body import Affine

Point = tuple[Affine, ...]
ORIGIN = Affine()


def along(axis: int) -> Affine:
    """The index that is a kernel axis itself."""
    return Affine(((axis, 1),))


def shifted(index: Affine, offset: Dim) -> Affine:
    return Affine(index.terms, index.offset + offset)


def scaled(index: Affine, factor: int) -> Affine:
    if factor == 1:
        return index
    return Affine(tuple((axis, c * factor) for axis, c in index.terms), index.offset * factor)


def added(a: Affine, b: Affine) -> Affine:
    """The sum of two indices."""
    factors = dict(a.terms)
    for axis, factor in b.terms:
        factors[axis] = factors.get(axis, 0) + factor
    terms = tuple(sorted((axis, factor) for axis, factor in factors.items() if factor))
    return Affine(terms, a.offset + b.offset)


def plain_axis(index: Affine) -> int | None:
    """The axis if the index is exactly one axis, else None."""
    if len(index.terms) == 1 and index.terms[0][1] == 1 and index.offset == ZERO:
        return index.terms[0][0]
    return None


def renamed(point: Point, axes: Sequence[int]) -> Point:
    """The point with axis i called axes[i]."""
    return tuple(Affine(tuple(sorted((axes[a], c) for a, c in i.terms)), i.offset) for i in point)


def broadcast_point(point: Point, result: Sequence[Dim], operand: Sequence[Dim]) -> Point:
    """Where an operand is read when the result is at `point`: axes aligned at the right, ones stretch."""
    skipped = len(result) - len(operand)
    return tuple([ORIGIN if d.constant == 1 else index for d, index in zip(operand, point[skipped:], strict=True)])


def only_unit_axes_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether a reshape between the two shapes adds or drops axes of length one and does nothing else."""
    return [d for d in a if d != ONE] == [d for d in b if d != ONE]


def unit_reshape_point(point: Point, result: Sequence[Dim], operand: Sequence[Dim]) -> Point:
    """Where the operand of a reshape is read that only adds or drops axes of length one."""
    kept = iter([index for index, d in zip(point, result, strict=True) if d != ONE])
    return tuple(ORIGIN if d == ONE else next(kept) for d in operand)


def row_major(shape: Sequence[Dim]) -> list[Dim]:
    """The stride of each axis, in elements."""
    strides: list[Dim] = []
    stride = dim(1)
    for extent in reversed(shape):
        strides.append(stride)
        stride = stride * extent
    return strides[::-1]
