"""Sorting along an axis: argsort and sort. Equal elements keep their order; NaN counts as the largest.

Short axes are ranked by comparing all pairs. Longer ones, and those whose size is a symbol, go through Batcher's merge
exchange (Knuth 5.2.2 M), which works for every length: about n log2(n)^2 / 2 comparisons, all of one step at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim
from dfc.ir.dtypes import I32, I64, DType
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgSortAttributes, AxisAttributes, SortAttributes
from dfc.ops.binding import element_type, flag, integer, normalised_axis, wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.control.regions import while_loop
from dfc.ops.gradients import add, count_up, select, sub
from dfc.ops.indexing.gather_along import axis_from_end, axis_to_end, pick_last, put_last
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, widen
from dfc.ops.pieces import in_front
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import MOVES_ELEMENTS

Cotangents = Sequence[Value | None]
PAIRS_LIMIT = 48  # elements of an axis that is sorted by comparing all pairs
INTO = Parameter("into", "const", "dtype", "i32", "The element type of the positions.")
AXIS = Parameter("axis", "const", "int", "-1")
DESCENDING = Parameter("descending", "const", "bool", "false", "Whether the largest comes first.")


# ------------------------------------------------------------------ order --


def below(b: Builder, x: Value, y: Value) -> Value:
    """x < y, where NaN is above everything else."""
    less = b.apply("less", x, y)
    if not x.tensor.dtype.is_float:
        return less
    rises = b.apply("and", b.apply("is_nan", y), b.apply("not", b.apply("is_nan", x)))
    return b.apply("or", less, rises)


def same(b: Builder, x: Value, y: Value) -> Value:
    same = b.apply("equal", x, y)
    if not x.tensor.dtype.is_float:
        return same
    return b.apply("or", same, b.apply("and", b.apply("is_nan", x), b.apply("is_nan", y)))


def precedes(b: Builder, first: tuple[Value, Value], second: tuple[Value, Value], descending: bool) -> Value:
    """Whether one element (its value and its position) stands before another one when sorted."""
    x, y = (second[0], first[0]) if descending else (first[0], second[0])
    earlier = b.apply("less", first[1], second[1])
    return b.apply("or", below(b, x, y), b.apply("and", same(b, x, y), earlier))


def sorted_positions(b: Builder, x: Value, descending: bool) -> Value:
    """The positions of the elements along the last axis, in order, as i64."""
    count = x.tensor.shape[-1].constant
    return _by_pairs(b, x, descending) if count is not None and count <= PAIRS_LIMIT else _by_exchange(b, x, descending)


def _by_pairs(b: Builder, x: Value, descending: bool) -> Value:
    """The rank of an element is the number of those before it; the position with rank r is found by comparing."""
    *others, count = x.tensor.shape
    rank = x.tensor.rank
    positions = count_up(b, count)
    down = in_front(b, b.reshape(positions, (count, ONE)), rank + 1)
    along = in_front(b, b.reshape(positions, (ONE, count)), rank + 1)
    self_, other = b.reshape(x, (*others, count, ONE)), b.reshape(x, (*others, ONE, count))
    before = precedes(b, (other, along), (self_, down), descending)
    ranks = b.sum(b.cast(before, I64), (rank,))
    is_selected = b.apply("equal", b.reshape(ranks, (*others, ONE, count)), down)
    return b.sum(select(b, is_selected, along, b.constant(0, I64)), (rank,))


def _by_exchange(b: Builder, x: Value, descending: bool) -> Value:
    """Merge exchange: p, q, r, d are Knuth's; each step compares element i with i + d wherever i & p == r."""
    count = x.tensor.shape[-1]
    elements = in_front(b, count_up(b, count), x.tensor.rank)
    order = b.broadcast(elements, x.tensor.shape)
    top = _highest_step(b, count)
    zero = b.constant(0, I64)

    def running(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        return (inner.apply("greater", carries[0], inner.constant(0, I64)),)

    def step(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        p, q, r, d, keys, positions = carries
        keys, positions = _exchange(inner, keys, positions, (p, r, d), descending)
        return (*_next_step(inner, p, q, top), keys, positions)

    return while_loop(b, (top, top, zero, top, x, order), running, step)[-1]


def _highest_step(b: Builder, count: Dim) -> Value:
    """The largest power of two below the count; 0 for less than two elements."""
    if count.constant is not None:
        return b.constant(1 << (count.constant - 1).bit_length() >> 1 if count.constant > 1 else 0, I64)
    half = b.size((count + 1) // 2)

    def smaller(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        return (inner.apply("less", carries[0], half),)

    def doubled(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        return (add(inner, carries[0], carries[0]),)

    (power,) = while_loop(b, (b.constant(1, I64),), smaller, doubled)
    return select(b, b.apply("less", b.size(count), b.constant(2, I64)), b.constant(0, I64), power)


def _next_step(b: Builder, p: Value, q: Value, top: Value) -> tuple[Value, Value, Value, Value]:
    """Within a pass the distance becomes q - p; after it p is halved and q starts at the top again."""
    zero, one = b.constant(0, I64), b.constant(1, I64)
    last = b.apply("equal", q, p)
    smaller = b.apply("shift_right", p, one)
    return (
        select(b, last, smaller, p),
        select(b, last, top, b.apply("shift_right", q, one)),
        select(b, last, zero, p),
        select(b, last, smaller, sub(b, q, p)),
    )


def _exchange(
    b: Builder, keys: Value, positions: Value, numbers: tuple[Value, Value, Value], descending: bool
) -> tuple[Value, Value]:
    """One step: every element looks at its partner, and takes its place if the two stand in the wrong order."""
    p, r, d = numbers
    count = keys.tensor.shape[-1]
    elements = count_up(b, count)
    above, below = add(b, elements, d), sub(b, elements, d)
    is_low = b.apply("equal", b.apply("bit_and", elements, p), r)
    is_low = b.apply("and", is_low, b.apply("less", above, b.size(count)))
    is_high = b.apply("equal", b.apply("bit_and", below, p), r)
    is_high = b.apply("and", is_high, b.apply("greater_equal", below, b.constant(0, I64)))
    partner = select(b, is_low, above, select(b, is_high, below, elements))
    axis = AxisAttributes(keys.tensor.rank - 1)
    others = tuple(b.apply("gather", v, partner, attributes=axis) for v in (keys, positions))
    mine, theirs = (keys, positions), (others[0], others[1])
    rank = keys.tensor.rank
    lower = b.apply("and", in_front(b, is_low, rank), precedes(b, theirs, mine, descending))
    higher = b.apply("and", in_front(b, is_high, rank), precedes(b, mine, theirs, descending))
    swap = b.apply("or", lower, higher)
    return select(b, swap, others[0], keys), select(b, swap, others[1], positions)


def reference_order(x: Array, axis: int, descending: bool) -> Numeric:
    """The order in NumPy: sorted from behind and turned round, equal elements of a descending order stay in order."""
    wide = widen(x)
    if not descending:
        return np.argsort(wide, axis, kind="stable")
    turned: Numeric = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(turned, axis)


# ---------------------------------------------------------------- records --


def _infer_positions(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, ArgSortAttributes)
    require_class(types, "number")
    require_axis(attributes.axis, types[0])
    require_integer(attributes.dtype)
    return (types[0].with_dtype(attributes.dtype),)


def require_integer(dtype: DType) -> None:
    if not dtype.is_integer:
        raise OpError("E0302", "`{op}` returns whole numbers", blame="into", label=str(dtype))


def _evaluate_positions(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    assert isinstance(attributes, ArgSortAttributes)
    order = reference_order(operands[0], attributes.axis, attributes.descending)
    return (np.asarray(order.astype(attributes.dtype.numpy)),)


def _decompose_positions(b: Builder, node: Node) -> Sequence[Value]:
    it = node.attributes
    assert isinstance(it, ArgSortAttributes)
    order = sorted_positions(b, axis_to_end(b, node.operands[0], it.axis), it.descending)
    return (b.cast(axis_from_end(b, order, it.axis), it.dtype),)


def into_argument(arguments: Arguments) -> DType:
    into = element_type(arguments.get("into", I32), "into")
    if not isinstance(into, DType):
        raise wrong("into", "a fixed element type such as `i64`")
    return into


def _axis_and_order(arguments: Arguments, types: Sequence[TensorType]) -> tuple[int, bool]:
    axis = normalised_axis(integer(arguments.get("axis", -1), "axis"), types[0].rank)
    return axis, flag(arguments.get("descending", False), "descending")


def _orders(make: Callable[[int, bool], Attributes]) -> Callable[[], Sequence[Sample]]:
    def case(x: Array, axis: int = 0, descending: bool = False, kind: str = "regular") -> Sample:
        return samples.sample(x, attributes=make(axis, descending), kind=kind)

    def make_samples() -> Sequence[Sample]:
        inside, outside = samples.dtypes("number")
        ties = np.array([[3, 1, 3, 0, 1], [2, 2, 2, 2, 2]], np.int32)
        special = np.array([np.nan, 1.0, -np.inf, np.nan, np.inf, -0.0, 0.0], np.float64)
        return [
            *(case(samples.numbers((7,), d)) for d in inside),
            case(samples.numbers((2, 5)), 1, True),
            case(samples.numbers((5, 2)), 0),
            case(samples.numbers((2, 3, 2)), 1, True),
            case(samples.numbers((53,)), 0),
            case(samples.numbers((2, 50), np.int32), 1, True),
            case(ties, 1, kind="edge"),
            case(ties, 1, True, kind="edge"),
            case(special, 0, kind="edge"),
            case(special, 0, True, kind="edge"),
            *(case(samples.numbers(shape), 0, kind="edge") for shape in ((0,), (1,), (0, 2), (2, 0), (2,))),
            case(samples.numbers(()), 0, kind="invalid"),
            case(samples.numbers((3,)), 1, kind="invalid"),
            *(case(samples.numbers((3,), d), 0, kind="invalid") for d in outside),
        ]

    return make_samples


register(
    OpRecord(
        name="argsort",
        family="ordering",
        summary=(
            "The positions of the elements along the axis in ascending order: `gather_along(x, argsort(x))` is sorted. "
            "Equal elements keep their order, NaN counts as the largest. n log(n)^2 steps for n elements."
        ),
        signature=(
            "fn argsort[T: number, I: int, ..S]"
            "(x: T[..S], const axis: int = -1, const descending: bool = false, const into: dtype = i32) -> I[..S]"
        ),
        parameters=(Parameter("x"), AXIS, DESCENDING, INTO),
        infer=_infer_positions,
        evaluate=_evaluate_positions,
        lowering=Decompose(_decompose_positions),
        attributes=ArgSortAttributes,
        constraints=("the element type of `x` is a number type.", "the axis exists.", "`into` is an integer type."),
        no_gradient="argsort returns whole numbers",
        samples=_orders(lambda axis, descending: ArgSortAttributes(axis, descending, I32)),
        smooth=False,
        bind=lambda arguments, types: ArgSortAttributes(*_axis_and_order(arguments, types), into_argument(arguments)),
    )
)


def _sort(attributes: Attributes) -> SortAttributes:
    assert isinstance(attributes, SortAttributes)
    return attributes


def _infer_sort(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_axis(_sort(attributes).axis, types[0])
    return (types[0],)


def _evaluate_sort(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    it, x = _sort(attributes), operands[0]
    return (np.asarray(np.take_along_axis(x, reference_order(x, it.axis, it.descending), it.axis)),)


def _decompose_sort(b: Builder, node: Node) -> Sequence[Value]:
    it = _sort(node.attributes)
    x = axis_to_end(b, node.operands[0], it.axis)
    return (axis_from_end(b, pick_last(b, x, sorted_positions(b, x, it.descending), checked=True), it.axis),)


def _gradient_sort(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Each gradient goes back to where its element came from."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    it, x = _sort(node.attributes), node.operands[0]
    order = b.apply("argsort", x, attributes=ArgSortAttributes(it.axis, it.descending, I64))
    size_ = x.tensor.shape[it.axis]
    back = put_last(b, axis_to_end(b, order, it.axis), axis_to_end(b, dy, it.axis), size_, checked=True)
    return (axis_from_end(b, back, it.axis),)


register(
    OpRecord(
        name="sort",
        family="ordering",
        summary=(
            "The elements along the axis in ascending order; NaN counts as the largest. n log(n)^2 steps for n of them."
        ),
        signature=(
            "fn sort[T: number, ..S](x: T[..S], const axis: int = -1, const descending: bool = false) -> T[..S]"
        ),
        parameters=(Parameter("x"), AXIS, DESCENDING),
        infer=_infer_sort,
        evaluate=_evaluate_sort,
        lowering=Decompose(_decompose_sort),
        attributes=SortAttributes,
        constraints=("the element type of `x` is a number type.", "the axis exists."),
        gradient=_gradient_sort,
        samples=_orders(SortAttributes),
        smooth=False,
        bind=lambda arguments, types: SortAttributes(*_axis_and_order(arguments, types)),
        rules=MOVES_ELEMENTS,
    )
)
