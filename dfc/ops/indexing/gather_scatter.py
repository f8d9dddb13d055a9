"""Ops whose indices are data: gather, pick (a gather along several axes) and scatter_add.

Indices are checked where they are used: one outside is a `RunError`, negative ones count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxesAttributes, AxisAttributes, ScatterAttributes
from dfc.ops.binding import integer, normalised_axis
from dfc.ops.broadcasting import same_shape
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_axis, require_class
from dfc.ops.indexing.rules import GATHER, SCATTER_ADD
from dfc.ops.layout.shape import axis_of
from dfc.ops.lowering.forms import Pick, ScatterAdd, gather_map
from dfc.ops.numeric import Numeric, accumulator, concrete, narrow, widen
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.degrees import unknown
from dfc.ops.rules.use import needs_whole
from dfc_runtime.errors import RunError, counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Cotangents = Sequence[Value | None]
INDEX_OUT_OF_RANGE = "E0904"


def checked_indices(ids: Numeric, extent: int) -> NDArray[np.int64]:
    """Row numbers with negative ones counted from the end; `RunError` for one outside."""
    whole = ids.astype(np.int64)
    unsigned_beyond = np.any(ids > np.iinfo(np.int64).max) if ids.dtype == np.uint64 else False
    if bool(unsigned_beyond) or bool(np.any((whole < -extent) | (whole >= extent))):
        bad = whole[(whole < -extent) | (whole >= extent)].ravel()
        shown = int(bad[0]) if bad.size else int(ids.max())
        raise RunError(f"the index {shown} is outside an axis of size {extent}", code=INDEX_OUT_OF_RANGE)
    return np.where(whole < 0, whole + extent, whole).astype(np.int64)


def _infer_gather(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    x, ids = types
    require_class(types, "any", only=(0,))
    require_class(types, "int", only=(1,))
    axis = axis_of(attributes)
    require_axis(axis, x)
    return (x.with_shape((*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])),)


def _evaluate_gather(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, ids = operands
    axis = axis_of(attributes)
    return (np.asarray(np.take(x, checked_indices(ids, x.shape[axis]), axis)),)


def _gather_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    x, ids = node.operands
    back = ScatterAttributes(axis_of(node.attributes), x.tensor.shape)
    return (None if dy is None else b.apply("scatter_add", ids, dy, attributes=back), None)


def _bind_axis(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    return AxisAttributes(normalised_axis(integer(arguments.get("axis", 0), "axis"), types[0].rank))


def _gather_samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...], ids: object, axis: int = 0, kind: str = "regular", dtype: DTypeLike = np.int32
    ) -> Sample:
        picked = np.asarray(ids, dtype)
        return samples.sample(samples.numbers(shape), picked, attributes=AxisAttributes(axis), kind=kind)

    return [
        case((5, 3), [0, 4, 2, 2]),
        case((5, 3), [[0, -1], [2, 1]], axis=1, dtype=np.int64),
        case((4, 2, 3), 1, axis=1),
        case((6,), [5, -6], dtype=np.int8),
        case((4,), [0, 3], dtype=np.uint8),
        case((4, 3), np.zeros((0,)), kind="edge"),
        case((1,), 0, kind="edge"),
        case((0, 3), np.zeros((0, 2)), kind="edge"),
        case((4, 3), [0.5], kind="invalid", dtype=np.float32),
        case((4, 3), [0], axis=2, kind="invalid"),
    ]


register(
    OpRecord(
        name="gather",
        family="indexing",
        summary="`x[ids]`: the rows with these numbers. The axes of `ids` replace the axis (a single number drops it).",
        signature="fn gather[T: any, I: int, ..S, ..A, ..R](x: T[..S], ids: I[..A], const axis: int = 0) -> T[..R]",
        parameters=(Parameter("x"), Parameter("ids"), Parameter("axis", "const", "int", "0")),
        infer=_infer_gather,
        evaluate=_evaluate_gather,
        lowering=Pick(
            lambda node: gather_map(
                node.operands[0].tensor.rank, [(axis_of(node.attributes), node.operands[1].tensor.rank)]
            )
        ),
        attributes=AxisAttributes,
        constraints=(
            "`ids` are whole numbers.",
            "the axis exists.",
            "when it runs: -size <= id < size.",
        ),
        gradient=_gather_gradient,
        no_gradient="row numbers are whole numbers",
        samples=_gather_samples,
        in_prelude=False,
        operator="[]",
        bind=_bind_axis,
        rules=GATHER,
    )
)


def _axes(attributes: Attributes) -> tuple[int, ...]:
    assert isinstance(attributes, AxesAttributes)
    return attributes.axes


def _infer_pick(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    x, *ids = types
    axes = _axes(attributes)
    require_class(types, "any", only=(0,))
    require_class(types, "int", only=range(1, len(types)))
    require_axes(axes, x)
    if len(axes) != len(ids) or list(axes) != sorted(axes):
        raise OpError("E0313", f"{counted(len(ids), 'operand')} of row numbers for {counted(len(axes), 'axis')}")
    rows = dict(zip(axes, ids, strict=True))
    groups = (rows[axis].shape if axis in rows else (size,) for axis, size in enumerate(x.shape))
    return (x.with_shape(tuple(chain.from_iterable(groups))),)


def _evaluate_pick(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, *ids = operands
    for axis, rows in reversed(list(zip(_axes(attributes), ids, strict=True))):
        x = np.asarray(np.take(x, checked_indices(rows, x.shape[axis]), axis))
    return (x,)


def _pick_samples() -> Sequence[Sample]:
    def case(shape: tuple[int, ...], axes: tuple[int, ...], *ids: object, kind: str = "regular") -> Sample:
        rows = [np.asarray(each, np.int32) for each in ids]
        return samples.sample(samples.numbers(shape), *rows, attributes=AxesAttributes(axes), kind=kind)

    return [
        case((5, 3), (0, 1), [0, 4, -1], [1, 1]),
        case((2, 4, 3), (0, 2), 1, [[0, -3], [2, 1]]),
        case((4, 2), (0, 1), 3, 0),
        case((4, 3), (0, 1), np.zeros((0,)), [2], kind="edge"),
        case((1,), (0,), 0, kind="edge"),
        case((4, 3), (0, 1), [0], kind="invalid"),
        case((4, 3), (0, 2), [0], [0], kind="invalid"),
        case((4, 3), (1, 0), [0], [0], kind="invalid"),
    ]


register(
    OpRecord(
        name="pick",
        family="indexing",
        summary="Rows by number along several axes at once: what gathers one behind the other are made into.",
        signature="fn pick[T: any, ..S, ..R](x: T[..S], ids: tensors, const axes: ints) -> T[..R]",
        parameters=(Parameter("x"), Parameter("ids", "tensors"), Parameter("axes", "const", "ints")),
        infer=_infer_pick,
        evaluate=_evaluate_pick,
        lowering=Pick(
            lambda node: gather_map(
                node.operands[0].tensor.rank,
                [(a, v.tensor.rank) for a, v in zip(_axes(node.attributes), node.operands[1:], strict=True)],
            )
        ),
        attributes=AxesAttributes,
        constraints=("row numbers are whole numbers.", "the axes exist and ascend, with one operand each."),
        no_gradient="it is made of gathers where these become kernels",
        samples=_pick_samples,
        in_prelude=False,
        rules=replace(GATHER, sharding=needs_whole, degree=unknown),
    )
)


def _scatter(attributes: Attributes) -> ScatterAttributes:
    assert isinstance(attributes, ScatterAttributes)
    return attributes


def _infer_scatter(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    ids, rows = types
    require_class(types, "int", only=(0,))
    require_class(types, "number", only=(1,))
    where = _scatter(attributes)
    result = rows.with_shape(where.shape)
    require_axis(where.axis, result)
    expected = (*where.shape[: where.axis], *ids.shape, *where.shape[where.axis + 1 :])
    if not same_shape(rows.shape, expected):
        raise OpError(
            "E0305", "the rows do not fit the places", blame=1, label=f"{rows}, not {rows.with_shape(expected)}"
        )
    return (result,)


def _evaluate_scatter(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    """Rows are added in their order."""
    ids, rows = operands
    where = _scatter(attributes)
    shape = concrete(where.shape, sizes)
    before = int(np.prod(shape[: where.axis]))
    after = int(np.prod(shape[where.axis + 1 :]))
    total: Numeric = np.zeros((before, shape[where.axis], after), accumulator(rows.dtype))
    index = checked_indices(ids, shape[where.axis]).ravel()
    added = widen(rows).reshape(before, index.size, after)
    for position, number in enumerate(index.tolist()):
        total[:, number] += added[:, position]
    return (narrow(total.reshape(shape), rows.dtype),)


def _scatter_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    axis = AxisAttributes(_scatter(node.attributes).axis)
    return (None, None if dy is None else b.apply("gather", dy, node.operands[0], attributes=axis))


def _scatter_samples() -> Sequence[Sample]:
    def case(
        ids: object, shape: tuple[int, ...], axis: int = 0, kind: str = "regular", dtype: DTypeLike = np.float32
    ) -> Sample:
        index = np.asarray(ids, np.int32)
        rows = samples.numbers((*shape[:axis], *index.shape, *shape[axis + 1 :]), dtype)
        return samples.sample(index, rows, attributes=ScatterAttributes(axis, tuple(map(dim, shape))), kind=kind)

    bad = ScatterAttributes(0, (dim(4), dim(2)))
    return [
        case([0, 2, 0, -1], (4, 3)),
        case([[1, 1], [0, 2]], (2, 3), axis=1),
        case(3, (4, 2)),
        case([0, 0, 0], (2,), dtype=np.int32),
        case([1, 1], (3, 2), dtype=np.float16),
        case(np.zeros((0,)), (3, 2), kind="edge"),
        case([0], (1,), kind="edge"),
        samples.sample(np.array([0, 1]), samples.numbers((3, 2)), attributes=bad, kind="invalid"),
        samples.sample(np.array([0.0, 1.0]), samples.numbers((2, 2)), attributes=bad, kind="invalid"),
    ]


register(
    OpRecord(
        name="scatter_add",
        family="indexing",
        summary="Zeros of a shape, plus the rows at the places `ids` along the axis, in their order.",
        signature=(
            "fn scatter_add[T: number, I: int, ..A, ..S, ..R]"
            "(ids: I[..A], rows: T[..S], const axis: int, const shape: dims) -> T[..R]"
        ),
        parameters=(
            Parameter("ids"),
            Parameter("rows"),
            Parameter("axis", "const", "int"),
            Parameter("shape", "const", "dims"),
        ),
        infer=_infer_scatter,
        evaluate=_evaluate_scatter,
        lowering=ScatterAdd(lambda node: _scatter(node.attributes).axis),
        attributes=ScatterAttributes,
        constraints=(
            "`ids` are whole numbers.",
            "the axis exists.",
            "`rows` has the shape, with the axis replaced by the axes of `ids`.",
            "when it runs: -size <= id < size.",
        ),
        gradient=_scatter_gradient,
        no_gradient="row numbers are whole numbers",
        samples=_scatter_samples,
        in_prelude=False,
        rules=SCATTER_ADD,
    )
)
