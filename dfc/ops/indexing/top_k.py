"""The largest elements (top_k), and positions in a sorted vector (search)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, dim
from dfc.ir.dtypes import I32, I64, DType
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ReduceAttributes, SearchAttributes, TopAttributes
from dfc.ops.binding import flag, size
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_same_dtype, require_size
from dfc.ops.control.regions import count_loop, while_loop
from dfc.ops.gradients import add, count_up, select
from dfc.ops.indexing.gather_along import pick_last, put_last
from dfc.ops.indexing.sorting import (
    INTO,
    below,
    into_argument,
    precedes,
    reference_order,
    require_integer,
    same,
    sorted_positions,
)
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, concrete, lowest, widen
from dfc.ops.pieces import in_front, part
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import MOVES_ELEMENTS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Cotangents = Sequence[Value | None]
SEARCH_LIMIT = 64  # elements that `top_k` looks for one by one


def _top(attributes: Attributes) -> TopAttributes:
    assert isinstance(attributes, TopAttributes)
    return attributes


def _infer_top(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    it, x = _top(attributes), types[0]
    require_class(types, "number")
    if not x.rank:
        raise OpError("E0313", "`{op}` needs a vector", blame=0, label=f"{x} has no axes")
    require_integer(it.dtype)
    require_size(it.count, "k", "the number of elements")
    left = (x.shape[-1] - it.count).constant
    if left is not None and left < 0:
        label = f"asks for {it.count} of {x.shape[-1]}"
        raise OpError("E0314", "there are not so many elements", blame="k", label=label, operand_labels={0: str(x)})
    shape = (*x.shape[:-1], it.count)
    return (x.with_shape(shape), TensorType(it.dtype, shape))


def _evaluate_top(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it, x = _top(attributes), operands[0]
    (count,) = concrete((it.count,), sizes)
    order = reference_order(x, x.ndim - 1, descending=True)[..., :count]
    values: Array = np.asarray(np.take_along_axis(x, order, -1))
    return (values, np.asarray(order.astype(it.dtype.numpy)))


def _decompose_top(b: Builder, node: Node) -> Sequence[Value]:
    it, x = _top(node.attributes), node.operands[0]
    count = it.count.constant
    if count is None or count <= SEARCH_LIMIT:
        values, order = _one_by_one(b, x, it)
    else:
        every = sorted_positions(b, x, descending=True)
        order = part(b, every, x.tensor.rank - 1, 0, it.count)
        values = pick_last(b, x, order, checked=True)
    return values, b.cast(order, it.dtype)


def _one_by_one(b: Builder, x: Value, it: TopAttributes) -> tuple[Value, Value]:
    """Each iteration finds the largest of the elements that come after the one found before."""
    *others, _ = x.tensor.shape
    rank = x.tensor.rank
    last = b.broadcast(b.scalar_like(0, x), (*others, ONE))
    position = b.broadcast(b.constant(0, I64), (*others, ONE))

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        positions = in_front(inner, count_up(inner, x.tensor.shape[-1]), rank)
        first = inner.apply("equal", k, inner.constant(0, I64))
        open_ = inner.apply("or", first, precedes(inner, (carries[0], carries[1]), (x, positions), True))
        bottom = inner.constant(lowest(x.tensor.machine.numpy), x.tensor.machine)
        best = inner.apply("max", select(inner, open_, x, bottom), attributes=ReduceAttributes((rank - 1,), True))
        is_best = inner.apply("and", open_, same(inner, x, best))
        beyond = inner.size(x.tensor.shape[-1])
        position = select(inner, is_best, positions, beyond)
        at = inner.apply("min", position, attributes=ReduceAttributes((rank - 1,), True))
        return best, at, inner.reshape(best, tuple(others)), inner.reshape(at, tuple(others))

    _, _, values, order = count_loop(b, it.count, (last, position), body)
    if rank == 1:
        return values, order
    behind = (*range(1, rank), 0)
    return b.transpose(values, behind), b.transpose(order, behind)


def _gradient_top(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    dy = cotangents[0]
    if dy is None:
        return (None,)
    return (put_last(b, node.results[1], dy, node.operands[0].tensor.shape[-1], checked=True),)


def _top_samples() -> Sequence[Sample]:
    def case(x: Array, count: int, kind: str = "regular", dtype: DType = I32) -> Sample:
        return samples.sample(x, attributes=TopAttributes(dim(count), dtype), kind=kind)

    inside, outside = samples.dtypes("number")
    special = np.array([np.nan, 1.0, -np.inf, np.nan, np.inf, -np.inf, 0.0], np.float32)
    return [
        *(case(samples.numbers((9,), d), 3) for d in inside),
        case(samples.numbers((3, 5)), 2, dtype=I64),
        case(samples.numbers((2, 2, 4)), 4),
        case(samples.numbers((90,)), 70),
        case(np.array([2, 1, 2, 2, 0], np.int32), 4),
        case(special, 7, "edge"),
        case(samples.numbers((3, 4)), 0, "edge"),
        case(samples.numbers((1,)), 1, "edge"),
        case(samples.numbers((0, 3)), 2, "edge"),
        case(samples.numbers((3,)), 4, "invalid"),
        case(samples.numbers((3,)), -1, "invalid"),
        case(samples.numbers(()), 1, "invalid"),
        *(case(samples.numbers((3,), d), 1, "invalid") for d in outside),
    ]


register(
    OpRecord(
        name="top_k",
        family="ordering",
        summary=(
            "The `k` largest elements along the last axis, the largest first, and their positions: "
            "`let best, places = top_k(x, 5)`. The first of equals comes first, NaN counts as the largest. Up to "
            f"{SEARCH_LIMIT} elements cost a pass over the axis each."
        ),
        signature=(
            "fn top_k[T: number, I: int, ..S, N, K]"
            "(x: T[..S, N], const k: size, const into: dtype = i32) -> (values: T[..S, K], places: I[..S, K])"
        ),
        parameters=(Parameter("x"), Parameter("k", "const", "dims", doc="How many."), INTO),
        infer=_infer_top,
        evaluate=_evaluate_top,
        lowering=Decompose(_decompose_top),
        attributes=TopAttributes,
        constraints=(
            "the element type of `x` is a number type.",
            "`x` has an axis.",
            "0 <= k <= the size of the last axis.",
            "`into` is an integer type.",
        ),
        gradient=_gradient_top,
        samples=_top_samples,
        smooth=False,
        demands=lambda types, a: [(_top(a).count, types[0].shape[-1])],
        bind=lambda arguments, _types: TopAttributes(size(arguments.get("k"), "k"), into_argument(arguments)),
        rules=MOVES_ELEMENTS,
    )
)


def _search(attributes: Attributes) -> SearchAttributes:
    assert isinstance(attributes, SearchAttributes)
    return attributes


def _infer_search(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_same_dtype(types)
    require_rank(types, 0, (1,), "a sorted vector")
    require_integer(_search(attributes).dtype)
    return (types[1].with_dtype(_search(attributes).dtype),)


def _evaluate_search(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    """By halving, as `_decompose_search` does: in a vector that is not sorted it finds the same positions, too."""
    it = _search(attributes)
    row, values = map(widen, operands)
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, row.size, np.int64)
    while np.any(low < high):
        middle = (low + high) >> 1
        seen: Numeric = row[np.minimum(middle, row.size - 1)]
        before = (~_is_below(values, seen) if it.right else _is_below(seen, values)) & (low < high)
        low, high = np.where(before, middle + 1, low), np.where(before, high, np.minimum(middle, high))
    return (np.asarray(low.astype(it.dtype.numpy)),)


def _is_below(x: Numeric, y: Numeric) -> NDArray[np.bool_]:
    """x < y, where NaN is above everything else."""
    return (x < y) | (np.not_equal(y, y) & np.equal(x, x))


def _decompose_search(b: Builder, node: Node) -> Sequence[Value]:
    """Halves the interval of each value until none is left."""
    (row, values), it = node.operands, _search(node.attributes)
    count = row.tensor.shape[0]
    if count.constant == 0:
        return (b.broadcast(b.constant(0, it.dtype), values.tensor.shape),)
    low = b.broadcast(b.constant(0, I64), values.tensor.shape)
    high = b.broadcast(b.size(count), values.tensor.shape)
    every = ReduceAttributes(tuple(range(values.tensor.rank)))

    def unfinished(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        apart = inner.apply("less", carries[0], carries[1])
        return (inner.apply("any", apart, attributes=every),)

    def halve(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        bottom, top = carries
        middle = inner.apply("shift_right", add(inner, bottom, top), inner.constant(1, I64))
        last = inner.size(count - 1)
        seen = inner.apply("gather", row, inner.apply("minimum", middle, last), attributes=AxisAttributes(0))
        before = inner.apply("not", below(inner, values, seen)) if it.right else below(inner, seen, values)
        before = inner.apply("and", before, inner.apply("less", bottom, top))
        up = select(inner, before, add(inner, middle, inner.constant(1, I64)), bottom)
        return up, select(inner, before, top, inner.apply("minimum", middle, top))

    return (b.cast(while_loop(b, (low, high), unfinished, halve)[0], it.dtype),)


def _search_samples() -> Sequence[Sample]:
    def case(
        row: object, values: object, right: bool = False, kind: str = "regular", dtype: DTypeLike = np.float32
    ) -> Sample:
        attributes = SearchAttributes(right, I32)
        return samples.sample(np.asarray(row, dtype), np.asarray(values, dtype), attributes=attributes, kind=kind)

    return [
        case([1, 3, 3, 7], [0, 1, 2, 3, 5, 7, 9]),
        case([1, 3, 3, 7], [0, 1, 2, 3, 5, 7, 9], True),
        case([-2, 0, 5], [[1, -2], [6, 5]], dtype=np.int64),
        case(np.arange(37) * 0.5, 7.2, dtype=np.float64),
        case([0, 1, 1, 2], [1, 2], True, dtype=np.float16),
        case([], [1, 2], kind="edge"),
        case([5], [4, 5, 6], kind="edge"),
        case([1, 2], np.zeros((0, 3)), kind="edge"),
        case([0, 1, np.inf, np.nan], [np.inf, np.nan, -np.inf], kind="edge"),
        case([[1, 2]], [1], kind="invalid"),
        case([True], [True], kind="invalid", dtype=np.bool_),
        samples.sample(
            np.ones(2, np.float32), np.ones(2, np.int32), attributes=SearchAttributes(False, I32), kind="invalid"
        ),
    ]


register(
    OpRecord(
        name="search",
        family="ordering",
        summary=(
            "Where each value belongs in a sorted vector: the number of its elements below the value, or with `right` "
            "of those not above it. If the vector is not sorted, what comes out is some place in it or its end."
        ),
        signature=(
            "fn search[T: number, I: int, N, ..S]"
            "(sorted: T[N], values: T[..S], const right: bool = false, const into: dtype = i32) -> I[..S]"
        ),
        parameters=(
            Parameter("sorted"),
            Parameter("values"),
            Parameter("right", "const", "bool", "false"),
            INTO,
        ),
        infer=_infer_search,
        evaluate=_evaluate_search,
        lowering=Decompose(_decompose_search),
        attributes=SearchAttributes,
        constraints=(
            "the element types are equal and a number type.",
            "`sorted` is a vector.",
            "`into` is an integer type.",
        ),
        no_gradient="search returns whole numbers",
        samples=_search_samples,
        smooth=False,
        bind=lambda arguments, _types: SearchAttributes(
            flag(arguments.get("right", False), "right"), into_argument(arguments)
        ),
    )
)
