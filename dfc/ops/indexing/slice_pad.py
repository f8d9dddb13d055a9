"""Ops that cut out and surround: slice and pad. Slices are proved or checked to lie inside when the entry is called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ZERO, Dim, dim, maximum
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import PadAttributes, SliceAttributes
from dfc.ops.binding import size, wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_same_dtype, require_size
from dfc.ops.gradients import reverse
from dfc.ops.indexing.rules import PAD, SLICE
from dfc.ops.lowering.forms import MaskedView, View
from dfc.ops.lowering.index_maps import Point, along, scaled, shifted
from dfc.ops.numeric import concrete
from dfc.ops.record import Arguments, Array, ConstArgument, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc_runtime.errors import RunError

Cotangents = Sequence[Value | None]
INDEX_OUT_OF_RANGE = "E0904"


def _slice(attributes: Attributes) -> SliceAttributes:
    assert isinstance(attributes, SliceAttributes)
    return attributes


def _infer_slice(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    where = _slice(attributes)
    if not len(where.starts) == len(where.sizes) == len(where.steps) == types[0].rank:
        raise OpError("E0313", f"{len(where.starts)} indices for {types[0].rank} axes", label=str(types[0]))
    for axis, (start, count, step) in enumerate(zip(where.starts, where.sizes, where.steps, strict=True)):
        require_size(count, None, "the size of the slice")
        if step == 0:
            raise OpError("E0314", "the step of a slice cannot be 0")
        _require_inside(types[0], axis, start, count, step)
    return (types[0].with_shape(where.sizes),)


def _require_inside(type_: TensorType, axis: int, start: Dim, count: Dim, step: int) -> None:
    """Refuses what is certainly outside; the rest is the front end's to prove or to check."""
    if count.constant is None or count.constant == 0:
        return
    for index in (start, start + (count - 1) * step):
        below, beyond = index.constant, (type_.shape[axis] - 1 - index).constant
        if (below is not None and below < 0) or (beyond is not None and beyond < 0):
            raise OpError("E0314", f"the index {index} is outside axis {axis}", label=f"of {type_}")


def _evaluate_slice(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    where, x = _slice(attributes), operands[0]
    picks: list[slice] = []
    for extent, start, count, step in zip(
        x.shape, concrete(where.starts, sizes), concrete(where.sizes, sizes), where.steps, strict=True
    ):
        last = start + (count - 1) * step
        if count < 0 or (count and not (0 <= start < extent and 0 <= last < extent)):
            raise RunError(f"a slice of {count} elements from {start} leaves an axis of size {extent}", code="E0904")
        stop = start + count * step
        picks.append(slice(start, None if stop < 0 else stop, step) if count else slice(0, 0))
    return (np.array(x[tuple(picks)]),)


def _slice_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Zeros around, and between the elements of a stepped slice; a backward slice is turned round first."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    where = _slice(node.attributes)
    backwards = tuple(axis for axis, step in enumerate(where.steps) if step < 0)
    dy = reverse(b, dy, backwards) if backwards else dy
    low: list[Dim] = []
    high: list[Dim] = []
    for extent, start, count, step in zip(
        node.operands[0].tensor.shape, where.starts, where.sizes, where.steps, strict=True
    ):
        first = start if step > 0 else start + (count - 1) * step
        low.append(first)
        high.append(extent - first - _dilated_size(count, abs(step) - 1))
    interior = tuple(abs(step) - 1 for step in where.steps)
    padding = PadAttributes(tuple(low), tuple(high), interior)
    return (b.apply("pad", dy, b.scalar_like(0, dy), attributes=padding),)


def _dilated_size(count: Dim, interior: int) -> Dim:
    """The size of an axis after `interior` elements went between neighbours."""
    return count + interior * maximum(count - 1, dim(0)) if interior else count


def _slice_samples() -> Sequence[Sample]:
    def case(shape: tuple[int, ...], *axes: tuple[int, int, int], kind: str = "regular") -> Sample:
        starts, counts = (tuple(dim(a[i]) for a in axes) for i in (0, 1))
        where = SliceAttributes(starts, counts, tuple(a[2] for a in axes))
        return samples.sample(samples.numbers(shape), attributes=where, kind=kind)

    return [
        case((5,), (1, 3, 1)),
        case((7,), (0, 4, 2)),
        case((7,), (6, 7, -1)),
        case((8, 3), (5, 2, -3), (1, 2, 1)),
        case((5,), (2, 0, 1), kind="edge"),
        case((), kind="edge"),
        case((1, 4), (0, 1, 1), (3, 1, 1), kind="edge"),
        case((5,), (3, 4, 1), kind="invalid"),
        case((5,), (0, 2, 0), kind="invalid"),
        case((5, 2), (0, 2, 1), kind="invalid"),
    ]


def _slice_map(node: Node) -> Point:
    where = _slice(node.attributes)
    return tuple(
        shifted(scaled(along(axis), step), start)
        for axis, (start, step) in enumerate(zip(where.starts, where.steps, strict=True))
    )


register(
    OpRecord(
        name="slice",
        family="indexing",
        summary="`x[a:b:c]`: from `start` on, `size` elements in steps of `step`, along each axis.",
        signature=(
            "fn slice[T: any, ..S, ..R](x: T[..S], const starts: dims, const sizes: dims, const steps: ints) -> T[..R]"
        ),
        parameters=(
            Parameter("x"),
            Parameter("starts", "const", "dims"),
            Parameter("sizes", "const", "dims"),
            Parameter("steps", "const", "ints"),
        ),
        infer=_infer_slice,
        evaluate=_evaluate_slice,
        lowering=View(_slice_map),
        attributes=SliceAttributes,
        constraints=("one start, size and step an axis.", "no step is 0.", "every index is inside."),
        gradient=_slice_gradient,
        identities=("whole", "slice of slice"),
        samples=_slice_samples,
        in_prelude=False,
        operator="[]",
        rules=SLICE,
    )
)


def _pad(attributes: Attributes) -> PadAttributes:
    assert isinstance(attributes, PadAttributes)
    return attributes


def _infer_pad(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    require_same_dtype(types)
    require_rank(types, 1, (0,), "a single number to fill with")
    where, x = _pad(attributes), types[0]
    if not len(where.low) == len(where.high) == len(where.interior) == x.rank:
        raise OpError("E0313", f"{len(where.low)} widths for {x.rank} axes", blame="widths", label=str(x))
    for width in (*where.low, *where.high, *map(dim, where.interior)):
        require_size(width, "widths", "a width")
    dilated = (_dilated_size(s, i) for s, i in zip(x.shape, where.interior, strict=True))
    return (x.with_shape(tuple(a + s + b for a, s, b in zip(where.low, dilated, where.high, strict=True))),)


def _evaluate_pad(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    x, fill = operands
    where = _pad(attributes)
    low, high = concrete(where.low, sizes), concrete(where.high, sizes)
    shape: list[int] = []
    target: list[slice] = []
    for extent, before, after, interior in zip(x.shape, low, high, where.interior, strict=True):
        dilated = extent + interior * max(extent - 1, 0)
        shape.append(before + dilated + after)
        target.append(slice(before, before + dilated, interior + 1) if extent else slice(0, 0))
    result = np.full(shape, fill, x.dtype)
    result[tuple(target)] = x
    return (result,)


def _pad_map(node: Node) -> Point:
    return tuple(shifted(along(axis), -low) for axis, low in enumerate(_pad(node.attributes).low))


def _pad_steps(node: Node) -> Sequence[tuple[int, int]]:
    where = _pad(node.attributes)
    widths = enumerate(zip(where.low, where.high, where.interior, strict=True))
    return [(axis, interior + 1) for axis, (low, high, interior) in widths if low != ZERO or high != ZERO or interior]


def _pad_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    where, x = _pad(node.attributes), node.operands[0].tensor
    back = SliceAttributes(where.low, x.shape, tuple(i + 1 for i in where.interior))
    dx = b.apply("slice", dy, attributes=back)
    every = tuple(range(x.rank))
    return (dx, b.apply("sub", b.sum(dy, every), b.sum(dx, every)))


def _bind_pad(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    """`widths`: one width for all sides, or per axis a width or a [before, after] pair."""
    rank, widths = types[0].rank, arguments.get("widths")
    per_axis: tuple[ConstArgument, ...] = widths if isinstance(widths, tuple) else (widths,) * rank
    if len(per_axis) != rank:
        raise OpError("E0313", f"{len(per_axis)} widths for {rank} axes", blame="widths", label=str(types[0]))
    low: list[Dim] = []
    high: list[Dim] = []
    for width in per_axis:
        sides = width if isinstance(width, tuple) else (width, width)
        if len(sides) != 2:
            raise wrong("widths", "a width, or for each axis a width or a pair [before, after]")
        low.append(size(sides[0], "widths"))
        high.append(size(sides[1], "widths"))
    return PadAttributes(tuple(low), tuple(high), (0,) * rank)


def _pad_samples() -> Sequence[Sample]:
    def case(shape: tuple[int, ...], *axes: tuple[int, int, int], kind: str = "regular") -> Sample:
        low, high = (tuple(dim(a[i]) for a in axes) for i in (0, 1))
        where = PadAttributes(low, high, tuple(a[2] for a in axes))
        return samples.sample(samples.numbers(shape), np.array(0.5, np.float32), attributes=where, kind=kind)

    mixed = PadAttributes((dim(1),), (dim(1),), (0,))
    return [
        case((3,), (1, 2, 0)),
        case((2, 3), (0, 1, 0), (2, 0, 1)),
        case((4,), (1, 0, 2)),
        case((0,), (2, 1, 0), kind="edge"),
        case((0,), (2, 1, 3), kind="edge"),
        case((), kind="edge"),
        case((3,), (-1, 0, 0), kind="invalid"),
        case((3, 2), (1, 0, 0), kind="invalid"),
        samples.sample(samples.numbers((3,)), np.array(1, np.int32), attributes=mixed, kind="invalid"),
    ]


register(
    OpRecord(
        name="pad",
        family="indexing",
        summary="The tensor with elements of value `fill` before and after it along each axis.",
        signature="fn pad[T: any, ..S, ..R](x: T[..S], const widths: widths, fill: T = 0) -> T[..R]",
        parameters=(
            Parameter("x"),
            Parameter("widths", "const", "widths", doc="A width, or per axis a width or a pair [before, after]."),
            Parameter("fill", default="0"),
        ),
        infer=_infer_pad,
        evaluate=_evaluate_pad,
        lowering=MaskedView(_pad_map, _pad_steps),
        attributes=PadAttributes,
        constraints=("`fill` is a scalar of the same type.", "one width an axis.", "none is negative."),
        gradient=_pad_gradient,
        identities=("no padding",),
        samples=_pad_samples,
        bind=_bind_pad,
        rules=PAD,
    )
)
