"""Distinct elements: unique and count_distinct. Sorted as `sort` does; NaN is equal to NaN and comes last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import BOOL, I64, U8
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ops import samples
from dfc.ops.attributes import ArgSortAttributes, AxisAttributes, ScatterAttributes, SizedAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class
from dfc.ops.gradients import add, count_up, select, sub
from dfc.ops.indexing.nonzero import WRONG_SIZE, sized, true_indices
from dfc.ops.indexing.sorting import same
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, concrete, widen
from dfc.ops.record import Array, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc_runtime.errors import RunError

Cotangents = Sequence[Value | None]
FIRST = AxisAttributes(0)
NOTE = "NaN counts as equal to NaN."


@dataclass(frozen=True, slots=True)
class Ordered:
    """The elements of a tensor in ascending order, where they came from, and which are the first of their kind."""

    elements: Value
    order: Value
    is_first: Value


def ordered(b: Builder, x: Value) -> Ordered:
    flat = b.reshape(x, (x.tensor.elements,))
    keys = b.cast(flat, U8) if flat.tensor.dtype == BOOL else flat
    order = b.apply("argsort", keys, attributes=ArgSortAttributes(0, False, I64))
    elements = b.apply("gather", keys, order, attributes=FIRST)
    positions = count_up(b, keys.tensor.shape[0])
    zero = b.constant(0, I64)
    before = b.apply("maximum", sub(b, positions, b.constant(1, I64)), zero)
    previous = b.apply("gather", elements, before, attributes=FIRST)
    is_first = b.apply("or", b.apply("equal", positions, zero), b.apply("not", same(b, elements, previous)))
    return Ordered(elements, order, is_first)


# ---------------------------------------------------------- count_distinct --


def _infer_count(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    return (tensor(I64),)


def _decompose_count(b: Builder, node: Node) -> Sequence[Value]:
    return (b.sum(b.cast(ordered(b, node.operands[0]).is_first, I64), (0,)),)


def _arrays() -> list[tuple[Array, str]]:
    inside, _ = samples.dtypes("any")
    special = np.array([np.nan, 1.0, -np.inf, np.nan, np.inf, -0.0, 0.0, 1.0], np.float64)
    return [
        *((samples.numbers((9,), d), "regular") for d in inside),
        (np.array([[3, 1, 3], [1, 1, 7]], np.int32), "regular"),
        ((np.arange(70) * 7 % 11).astype(np.int64), "regular"),
        (np.full(6, 4, np.int32), "edge"),
        (special, "edge"),
        (np.full(3, np.nan, np.float32), "edge"),
        (np.zeros((0,), np.float32), "edge"),
        (np.zeros((2, 0), np.int8), "edge"),
        (np.array(5.0, np.float32), "edge"),
    ]


register(
    OpRecord(
        name="count_distinct",
        family="measured size",
        summary=f"The number of different elements. {NOTE}",
        signature="fn count_distinct[T: any, ..S](x: T[..S]) -> i64",
        parameters=(Parameter("x"),),
        infer=_infer_count,
        evaluate=lambda operands, _attributes, _sizes: (np.asarray(np.unique(widen(operands[0])).size, np.int64),),
        lowering=Decompose(_decompose_count),
        constraints=("the element type of `x` is any but a complex one.",),
        no_gradient="a number of elements is a whole number",
        samples=lambda: [
            *(samples.sample(x, kind=kind) for x, kind in _arrays()),
            samples.sample(np.ones(2, np.complex64), kind="invalid"),
        ],
        smooth=False,
    )
)

# ------------------------------------------------------------------ unique --


def _infer_unique(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    (x,), size = types, sized(attributes)
    return x.with_shape((size,)), x.with_dtype(I64), tensor(I64, size)


def _evaluate_unique(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    (x,) = operands
    wide: Numeric = widen(x)
    values, inverse, counts = np.unique(wide, return_inverse=True, return_counts=True)
    (size,) = concrete((sized(attributes),), sizes)
    if values.size != size:
        raise RunError(f"there are {values.size} different elements, not {size}", code=WRONG_SIZE)
    return values.astype(x.dtype), inverse.astype(np.int64).reshape(x.shape), counts.astype(np.int64)


def _decompose_unique(b: Builder, node: Node) -> Sequence[Value]:
    (x,), size = node.operands, sized(node.attributes)
    ranking = ordered(b, x)
    starts = true_indices(b, ranking.is_first, size)
    values = b.apply("gather", ranking.elements, starts, attributes=FIRST)
    values = b.apply("not_equal", values, b.constant(0, U8)) if x.tensor.dtype == BOOL else values
    return values, _inverse(b, ranking, x), _counts(b, starts, x.tensor.elements, size)


def _inverse(b: Builder, ranking: Ordered, x: Value) -> Value:
    """For each element the number of its value: how many values began up to its place in the order, but one."""
    begun = b.apply("cumsum", b.cast(ranking.is_first, I64), attributes=FIRST)
    numbers = sub(b, begun, b.constant(1, I64))
    back = ScatterAttributes(0, ranking.order.tensor.shape)
    return b.reshape(b.apply("scatter_add", ranking.order, numbers, attributes=back), x.tensor.shape)


def _counts(b: Builder, starts: Value, elements: Dim, size: Dim) -> Value:
    """How far each value is from the next one in the order; the last one from the end."""
    one, last = b.constant(1, I64), sub(b, b.size(size), b.constant(1, I64))
    positions = count_up(b, size)
    following = b.apply("gather", starts, b.apply("minimum", add(b, positions, one), last), attributes=FIRST)
    ends = select(b, b.apply("equal", positions, last), b.size(elements), following)
    return sub(b, ends, starts)


def _gradient_unique(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The gradient of a value goes to the first element that has it."""
    dy = cotangents[0]
    if dy is None:
        return (None,)
    (x,) = node.operands
    ranking = ordered(b, x)
    starts = true_indices(b, ranking.is_first, sized(node.attributes))
    firsts = b.apply("gather", ranking.order, starts, attributes=FIRST)
    back = ScatterAttributes(0, (x.tensor.elements,))
    return (b.reshape(b.apply("scatter_add", firsts, dy, attributes=back), x.tensor.shape),)


def _unique_samples() -> Sequence[Sample]:
    def case(x: Array, kind: str) -> Sample:
        return samples.sample(x, attributes=SizedAttributes(dim(np.unique(widen(x)).size)), kind=kind)

    bad = samples.sample(np.ones(2, np.complex64), attributes=SizedAttributes(dim(1)), kind="invalid")
    return [*(case(x, kind) for x, kind in _arrays()), bad]


register(
    OpRecord(
        name="unique",
        family="measured size",
        summary=(
            f"The different elements in ascending order, where each element of `x` is among them, and how often each "
            f"occurs: `let [N] values: i32[N], inverse, counts = unique(x)`. {NOTE}"
        ),
        signature=("fn unique[T: any, ..S, N](x: T[..S]) -> (values: T[N], inverse: i64[..S], counts: i64[N])"),
        parameters=(Parameter("x"),),
        infer=_infer_unique,
        evaluate=_evaluate_unique,
        lowering=Decompose(_decompose_unique),
        attributes=SizedAttributes,
        constraints=("the element type of `x` is any but a complex one.",),
        gradient=_gradient_unique,
        samples=_unique_samples,
        smooth=False,
    )
)
