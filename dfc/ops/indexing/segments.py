"""segment_sum: sums of rows by the number of their group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ScatterAttributes, SegmentAttributes
from dfc.ops.binding import size
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_size
from dfc.ops.indexing.gather_scatter import checked_indices
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import concrete, narrow, widen
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def _count(attributes: Attributes) -> Dim:
    assert isinstance(attributes, SegmentAttributes)
    return attributes.count


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    rows, ids = types
    require_class(types, "number", only=(0,))
    require_class(types, "int", only=(1,))
    require_rank(types, 1, (1,), "one number of a group for each row")
    require_size(_count(attributes), "count", "the number of groups")
    if not rows.rank or not same_dim(rows.shape[0], ids.shape[0]):
        label = f"{ids} for the rows of {rows}"
        raise OpError("E0305", "one number of a group is needed for each row", blame=1, label=label)
    return (rows.with_shape((_count(attributes), *rows.shape[1:])),)


def _evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    rows, ids = operands
    (count,) = concrete((_count(attributes),), sizes)
    wide = widen(rows)
    total = np.zeros((count, *rows.shape[1:]), wide.dtype)
    for position, group in enumerate(checked_indices(ids, count).tolist()):
        total[group] += wide[position]
    return (narrow(total, rows.dtype),)


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    rows, ids = node.operands
    return (b.apply("scatter_add", ids, rows, attributes=ScatterAttributes(0, node.result.tensor.shape)),)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Each row gets the gradient of its group."""
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    return (b.apply("gather", dy, node.operands[1], attributes=AxisAttributes(0)), None)


def _samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...], ids: object, count: int, kind: str = "regular", dtype: DTypeLike = np.float32
    ) -> Sample:
        numbers = np.asarray(ids, np.int32 if kind != "invalid" else None)
        attributes = SegmentAttributes(dim(count))
        return samples.sample(samples.numbers(shape, dtype), numbers, attributes=attributes, kind=kind)

    return [
        case((5,), [0, 2, 0, 1, 2], 3),
        case((4, 3), [1, 1, 1, 0], 4),
        case((3, 2, 2), [2, 0, -1], 3, dtype=np.float64),
        case((4,), [0, 0, 1, 1], 2, dtype=np.int32),
        case((0, 2), np.zeros(0), 3, kind="edge"),
        case((1,), [0], 1, kind="edge"),
        case((3,), [0, 1], 2, kind="invalid"),
        case((2,), [0.5, 1.0], 2, kind="invalid"),
        case((2,), [[0], [1]], 2, kind="invalid"),
        case((2,), [0, 1], -1, kind="invalid"),
        case((2,), [0, 1], 2, kind="invalid", dtype=np.bool_),
    ]


register(
    OpRecord(
        name="segment_sum",
        family="indexing",
        summary="For each of `count` groups the sum of the rows whose `ids` name it, in their order.",
        signature=(
            "fn segment_sum[T: number, I: int, N, ..S, ..R](rows: T[..S], ids: I[N], const count: size) -> T[..R]"
        ),
        parameters=(Parameter("rows"), Parameter("ids"), Parameter("count", "const", "dims", doc="How many groups.")),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose),
        attributes=SegmentAttributes,
        constraints=(
            "`rows` are numbers, `ids` are whole numbers.",
            "`ids` is a vector with one element for each row.",
            "`count` is not negative.",
            "when it runs: -count <= id < count.",
        ),
        gradient=_gradient,
        no_gradient="the numbers of groups are whole numbers",
        samples=_samples,
        bind=lambda arguments, _types: SegmentAttributes(size(arguments.get("count"), "count")),
    )
)
