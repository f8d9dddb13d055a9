"""Picking along one axis with an index for each result: gather_along, and its gradient.

The position of an element is its row (all other axes) and its place in the row, so both become one index into the
elements laid out in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, product
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ScatterAttributes
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.gradients import add, count_up, mul
from dfc.ops.indexing.gather_scatter import checked_indices
from dfc.ops.layout.shape import axis_of, inverse
from dfc.ops.lowering.forms import Decompose
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.reduction.ordering import bind_last_axis
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import MOVES_ELEMENTS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def axis_to_end(b: Builder, x: Value, axis: int) -> Value:
    """The axis behind all others."""
    rank = x.tensor.rank
    return x if axis == rank - 1 else b.transpose(x, (*(a for a in range(rank) if a != axis), axis))


def axis_from_end(b: Builder, x: Value, axis: int) -> Value:
    """Undoes `axis_to_end`."""
    rank = x.tensor.rank
    order = (*(a for a in range(rank) if a != axis), axis)
    return x if axis == rank - 1 else b.transpose(x, inverse(order))


def _line(b: Builder, ids: Value, size: Dim, checked: bool) -> Value:
    """[rows * places]: where the elements `ids` of each row are, if all rows of `size` elements stand in one line."""
    *others, count = ids.tensor.shape
    rows = product(others)
    indices = b.reshape(b.cast(ids, I64), (rows, count))
    if not checked:  # looked up in 0, 1, ..: one outside is noticed, a negative one counts from the end
        indices = b.apply("gather", count_up(b, size), indices, attributes=AxisAttributes(0))
    starts = b.reshape(mul(b, count_up(b, rows), b.size(size)), (rows, ONE))
    return b.reshape(add(b, indices, starts), (rows * count,))


def pick_last(b: Builder, x: Value, ids: Value, *, checked: bool = False) -> Value:
    """For each row along the last axis its elements `ids`; `checked`: these are known to be inside."""
    size = x.tensor.shape[-1]
    line = b.reshape(x, (x.tensor.elements,))
    picked = b.apply("gather", line, _line(b, ids, size, checked), attributes=AxisAttributes(0))
    return b.reshape(picked, ids.tensor.shape)


def put_last(b: Builder, ids: Value, y: Value, size: Dim, *, checked: bool = False) -> Value:
    """Zeros with `size` elements in each row, plus the elements of `y` at `ids`."""
    shape = (*ids.tensor.shape[:-1], size)
    index = _line(b, ids, size, checked)
    where = ScatterAttributes(0, (product(shape),))
    line = b.apply("scatter_add", index, b.reshape(y, index.tensor.shape), attributes=where)
    return b.reshape(line, shape)


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    x, ids = types
    require_class(types, "any", only=(0,))
    require_class(types, "int", only=(1,))
    axis = axis_of(attributes)
    require_axis(axis, x)
    others = [a for a in range(x.rank) if a != axis]
    if ids.rank != x.rank or not all(same_dim(x.shape[a], ids.shape[a]) for a in others):
        raise OpError(
            "E0305",
            "`{op}` needs an index for each result: the same axes but one",
            blame=1,
            label=f"{ids} against {x} along axis {axis}",
        )
    return (x.with_shape(ids.shape),)


def _evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, ids = operands
    axis = axis_of(attributes)
    return (np.asarray(np.take_along_axis(x, checked_indices(ids, x.shape[axis]), axis)),)


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    (x, ids), axis = node.operands, axis_of(node.attributes)
    picked = pick_last(b, axis_to_end(b, x, axis), axis_to_end(b, ids, axis))
    return (axis_from_end(b, picked, axis),)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    (x, ids), axis = node.operands, axis_of(node.attributes)
    back = put_last(b, axis_to_end(b, ids, axis), axis_to_end(b, dy, axis), x.tensor.shape[axis])
    return (axis_from_end(b, back, axis), None)


def _samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...], ids: object, axis: int, kind: str = "regular", dtype: DTypeLike = np.int32
    ) -> Sample:
        index = np.asarray(ids, dtype)
        return samples.sample(samples.numbers(shape), index, attributes=AxisAttributes(axis), kind=kind)

    return [
        case((2, 3), [[0, 2], [1, 1]], 1),
        case((3, 2), [[0, 2], [-1, 1]], 0),
        case((4,), [3, 0, -4], 0, dtype=np.int64),
        case((2, 3, 2), [[[0, 1]], [[2, 2]]], 1),
        case((2, 3), [[0], [2]], 1, dtype=np.uint8),
        case((1,), [0], 0, kind="edge"),
        case((2, 3), np.zeros((2, 0)), 1, kind="edge"),
        case((0, 3), np.zeros((0, 2)), 1, kind="edge"),
        case((2, 3), [0, 1], 1, kind="invalid"),
        case((2, 3), [[0, 1]], 1, kind="invalid"),
        case((2, 3), [[0.0], [1.0]], 1, kind="invalid", dtype=np.float32),
        case((2, 3), [[0], [1]], 2, kind="invalid"),
    ]


register(
    OpRecord(
        name="gather_along",
        family="indexing",
        summary="y[.., i, ..] = x[.., ids[.., i, ..], ..]: along one axis, with an index for each result.",
        signature="fn gather_along[T: any, I: int, ..S, ..R](x: T[..S], ids: I[..R], const axis: int = -1) -> T[..R]",
        parameters=(Parameter("x"), Parameter("ids"), Parameter("axis", "const", "int", "-1")),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose),
        attributes=AxisAttributes,
        constraints=(
            "`ids` are whole numbers.",
            "the axis exists.",
            "`ids` has the shape of `x`, but for the axis.",
            "when it runs: -size <= id < size.",
        ),
        gradient=_gradient,
        no_gradient="positions are whole numbers",
        samples=_samples,
        bind=bind_last_axis,
        rules=MOVES_ELEMENTS,
    )
)
