"""Index maps: for each axis of a tensor an affine index over other axes, of a result or a kernel; how they compose.

Assumes verified shapes. Guarantees that composing never allocates per element: a view is arithmetic on indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dfc.ir.dims import ONE, ZERO, Dim, dim
from dfc.kernels.body import Affine

Point = tuple[Affine, ...]
ORIGIN = Affine()


@cache
def along(axis: int) -> Affine:
    """The index that is a kernel axis itself."""
    return Affine(((axis, 1),))


def mirrored(axis: int, size: Dim) -> Affine:
    """The index along an axis of this size, from its end."""
    return Affine(((axis, -1),), size - 1)


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


def composed(index_map: Point, point: Point) -> Point:
    """The map over the axes of `point`: what it says of an axis is said of the index there."""
    return tuple([_at(index, point) for index in index_map])


def _at(index: Affine, point: Point) -> Affine:
    if not index.terms:
        return index
    axis, factor = index.terms[0]
    total = point[axis] if factor == 1 else scaled(point[axis], factor)
    for axis, factor in index.terms[1:]:
        total = added(total, scaled(point[axis], factor))
    return shifted(total, index.offset) if index.offset.terms else total


@cache
def identity(rank: int) -> Point:
    """Every element at its own position."""
    return tuple([along(axis) for axis in range(rank)])


def as_permutation(index_map: Point, rank: int) -> tuple[int, ...] | None:
    """The order of the operand's axes in the result, if the map over `rank` axes says no more than that."""
    order: list[int | None] = [None] * rank
    for axis, index in enumerate(index_map):
        position = plain_axis(index)
        if position is None or order[position] is not None:
            return None
        order[position] = axis
    known = tuple(axis for axis in order if axis is not None)
    return known if len(known) == rank else None


def as_slice(index_map: Point, rank: int) -> tuple[tuple[Dim, ...], tuple[int, ...]] | None:
    """First indices and steps, if every axis of the result goes along the same one of the operand."""
    if len(index_map) != rank:
        return None
    starts: list[Dim] = []
    steps: list[int] = []
    for axis, index in enumerate(index_map):
        if len(index.terms) != 1 or index.terms[0][0] != axis:
            return None
        starts.append(index.offset)
        steps.append(index.terms[0][1])
    return tuple(starts), tuple(steps)


def renamed(point: Point, axes: Sequence[int]) -> Point:
    """The point with axis i called axes[i]."""
    return tuple(Affine(tuple(sorted((axes[a], c) for a, c in i.terms)), i.offset) for i in point)


def broadcast_map(result: Sequence[Dim], operand: Sequence[Dim]) -> Point:
    """Axes aligned at the right, ones stretch."""
    return broadcast_point(identity(len(result)), result, operand)


def broadcast_point(point: Point, result: Sequence[Dim], operand: Sequence[Dim]) -> Point:
    """Where an operand is read when the result is at `point`: axes aligned at the right, ones stretch."""
    skipped = len(result) - len(operand)
    inner = point[skipped:]
    for size in operand:
        if size.constant == 1:
            return tuple([ORIGIN if d.constant == 1 else index for d, index in zip(operand, inner, strict=True)])
    assert len(inner) == len(operand)
    return inner


def only_unit_axes_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether a reshape between the two shapes adds or drops axes of length one and does nothing else."""
    return [d for d in a if d.constant != 1] == [d for d in b if d.constant != 1]


def unit_reshape_map(result: Sequence[Dim], operand: Sequence[Dim]) -> Point:
    """Where the operand of a reshape is read that only adds or drops axes of length one."""
    kept = iter([along(axis) for axis, d in enumerate(result) if d != ONE])
    return tuple(ORIGIN if d == ONE else next(kept) for d in operand)


def row_major(shape: Sequence[Dim]) -> list[Dim]:
    """The stride of each axis, in elements."""
    strides: list[Dim] = []
    stride = dim(1)
    for extent in reversed(shape):
        strides.append(stride)
        stride = stride * extent
    return strides[::-1]
