"""Rules of row sparsity: tensors that are zero but for some rows, such as gradients of gathers and slices.

A `Sparse` value is an optional dense `base` plus terms. A `Term` is `rows` at the places its index selects: a place
that is selected several times gets the sum, in the order of the index. All functions that make nodes append them to a
builder and return None where a value would have to be dense.

Assumes that zero times a number is zero: an infinite or undefined factor does not reach a row that nobody read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import (
    ArgSortAttributes,
    AxisAttributes,
    PadAttributes,
    RangeSelector,
    ReduceAttributes,
    ScatterAttributes,
    SliceAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.gradients import add, count_up, select

MANY = 1 << 15
"""Elements of a tensor from which on it pays to sort row numbers, rather than to make all of the tensor."""
FEW = 16
"""Elements of the tensor for each row number, if it is known how many there are."""

Known: TypeAlias = "Sequence[Sparse | None]"
"""What is known of operands; None for one that is dense."""
RowRule = Callable[[Builder, Node, Known], "Sparse | None"]
"""What is known of the result of a node; None if it is dense, as far as the op itself says."""
RowTotal = Callable[[Builder, Node, "Sparse"], "Value | None"]
"""The result of a node, made of the rows of its one operand alone; None if that cannot be done."""

Selector = RangeSelector | Value
"""What a term selects along one axis: a range, or the row numbers that a tensor holds."""


@dataclass(frozen=True, slots=True)
class Term:
    """`distinct`: no place is selected twice by rows that are not zero."""

    index: tuple[Selector, ...]
    rows: Value
    distinct: bool

    @property
    def ids(self) -> list[Value]:
        return [selector for selector in self.index if isinstance(selector, Value)]

    def groups(self) -> list[list[int]]:
        """For each axis of the tensor the axes of the rows that stand for it."""
        groupsof_axes: list[list[int]] = []
        start = 0
        for selector in self.index:
            groupsof_axes.append(list(range(start, start + width(selector))))
            start += width(selector)
        return groupsof_axes


@dataclass(frozen=True, slots=True)
class Sparse:
    terms: tuple[Term, ...]
    base: Value | None = None


NOTHING = Sparse(())


def width(selector: Selector) -> int:
    """How many axes of the rows stand for an axis."""
    return selector.tensor.rank if isinstance(selector, Value) else 1


def whole_axis(selector: Selector, size: Dim) -> bool:
    return (
        isinstance(selector, RangeSelector) and selector.start == ZERO and selector.step == 1 and selector.size == size
    )


def scattered(ids: Value, rows: Value, where: ScatterAttributes) -> Sparse:
    """What `scatter_add` makes."""
    index: list[Selector] = [RangeSelector(ZERO, size) for size in where.shape]
    index[where.axis] = ids
    return Sparse((Term(tuple(index), rows, distinct=not ids.tensor.rank),))


def padded(x: Value, inner: Sparse | None, where: PadAttributes) -> Sparse | None:
    """What `pad` with zeros makes of a dense or sparse value."""
    steps = [number + 1 for number in where.interior]
    if inner is None:
        ranges = zip(where.low, x.tensor.shape, steps, strict=True)
        return Sparse((Term(tuple(RangeSelector(*each) for each in ranges), x, distinct=True),))
    if inner.base is not None:
        return None
    terms: list[Term] = []
    for term in inner.terms:
        index: list[Selector] = []
        for selector, low, high, step in zip(term.index, where.low, where.high, steps, strict=True):
            if isinstance(selector, RangeSelector):
                index.append(RangeSelector(low + selector.start * step, selector.size, selector.step * step))
            elif low == ZERO and high == ZERO and step == 1:
                index.append(selector)
            else:
                return None  # row numbers would have to be checked against the size without the padding
        terms.append(replace(term, index=tuple(index)))
    return Sparse(tuple(terms))


def transposed(b: Builder, x: Sparse, permutation: Sequence[int]) -> Sparse | None:
    """The same elements with axes in another order; None if there is a base."""
    if x.base is not None:
        return None
    terms: list[Term] = []
    for term in x.terms:
        groups = term.groups()
        order = [axis for each in permutation for axis in groups[each]]
        rows = term.rows if order == sorted(order) else b.transpose(term.rows, order)
        terms.append(Term(tuple(term.index[each] for each in permutation), rows, term.distinct))
    return Sparse(tuple(terms))


def each_term(x: Sparse, change: Callable[[Term], Value | None]) -> Sparse | None:
    """The same places with other rows."""
    if x.base is not None:
        return None
    terms: list[Term] = []
    for term in x.terms:
        rows = change(term)
        if rows is None:
            return None
        terms.append(replace(term, rows=rows))
    return Sparse(tuple(terms))


def total(b: Builder, x: Sparse, y: Sparse, *, negative: bool) -> Sparse | None:
    """x + y or x - y."""
    if y.base is not None and (x.base is not None or negative):
        return None
    other = y.terms
    if negative:
        other = tuple(replace(term, rows=b.apply("neg", term.rows)) for term in other)
    return Sparse((*x.terms, *other), x.base if x.base is not None else y.base)


# ------------------------------------------------------------ no row twice --


def combined(b: Builder, x: Sparse, shape: tuple[Dim, ...]) -> Sparse | None:
    """The same value as one term that selects no place twice: what functions that are not linear need.

    Rows with the same number are added in their order. As the number of different rows is not a size, there are as
    many as before: those that are left over are zero and stand where the smallest number is.
    """
    if x.base is not None or not x.terms:
        return None if x.base is not None else x
    if len(x.terms) == 1 and x.terms[0].distinct:
        return x
    axis = _common_axis(x)
    if axis is None or not _pays(x, axis, shape):
        return None
    ids, rows = _joined(b, x, axis)
    ids = _from_the_start(b, ids, shape[axis])
    ids, rows = _merged(b, ids, rows, axis)
    index = (*x.terms[0].index[:axis], ids, *x.terms[0].index[axis + 1 :])
    return Sparse((Term(index, rows, distinct=True),))


def _pays(x: Sparse, axis: int, shape: tuple[Dim, ...]) -> bool:
    selectors = (term.index[axis] for term in x.terms)
    counts = [
        product(each.tensor.shape).constant if isinstance(each, Value) else each.size.constant for each in selectors
    ]
    elements = product(shape).constant
    if elements is None:
        return True
    known = [count for count in counts if count is not None]
    return elements >= FEW * sum(known) if len(known) == len(counts) else elements >= MANY


def _common_axis(x: Sparse) -> int | None:
    """The one axis that the terms pick different rows from, if they take the same part of all others."""
    first, *others = x.terms
    different = {
        axis
        for axis, selector in enumerate(first.index)
        if isinstance(selector, Value) or any(term.index[axis] != selector for term in others)
    }
    return different.pop() if len(different) == 1 else None


def _joined(b: Builder, x: Sparse, axis: int) -> tuple[Value, Value]:
    """All row numbers as one vector, and the rows that belong to them."""
    numbers: list[Value] = []
    rows: list[Value] = []
    for term in x.terms:
        selector = term.index[axis]
        ids = selector if isinstance(selector, Value) else _counted(b, selector)
        count = product(ids.tensor.shape)
        shape = term.rows.tensor.shape
        numbers.append(b.reshape(b.cast(ids, I64), (count,)))
        rows.append(b.reshape(term.rows, (*shape[:axis], count, *shape[axis + width(selector) :])))
    if len(rows) == 1:
        return numbers[0], rows[0]
    return b.concat(numbers, 0), b.concat(rows, axis)


def _counted(b: Builder, selector: RangeSelector) -> Value:
    steps = b.apply("mul", count_up(b, selector.size), b.constant(selector.step, I64))
    return add(b, steps, b.size(selector.start))


def _from_the_start(b: Builder, ids: Value, size: Dim) -> Value:
    """Negative numbers count from the end: the same row has one number only."""
    behind = b.apply("less", ids, b.constant(0, I64))
    return select(b, behind, add(b, ids, b.size(size)), ids)


def _merged(b: Builder, ids: Value, rows: Value, axis: int) -> tuple[Value, Value]:
    """Sorted by number, a row that differs from the one before opens a new slot; slots add up what belongs to them."""
    (count,) = ids.tensor.shape
    first = AxisAttributes(0)
    order = b.apply("argsort", ids, attributes=ArgSortAttributes(0, descending=False, dtype=I64))
    ordered = b.apply("gather", ids, order, attributes=first)
    positions, zero, one = count_up(b, count), b.constant(0, I64), b.constant(1, I64)
    before = b.apply("gather", ordered, b.apply("maximum", b.apply("sub", positions, one), zero), attributes=first)
    is_first = b.apply("equal", positions, zero)
    opens = b.apply("or", is_first, b.apply("not_equal", ordered, before))
    slots = b.apply("sub", b.apply("cumsum", b.cast(opens, I64), attributes=first), one)
    into = ScatterAttributes(axis, tuple(rows.tensor.shape))
    sums = b.apply(
        "scatter_add", slots, b.apply("gather", rows, order, attributes=AxisAttributes(axis)), attributes=into
    )
    named = b.apply("scatter_add", slots, select(b, opens, ordered, zero), attributes=ScatterAttributes(0, (count,)))
    used = b.apply("max", slots, attributes=ReduceAttributes((0,)))
    smallest = b.apply("min", ids, attributes=ReduceAttributes((0,)))
    return select(b, b.apply("less_equal", positions, used), named, smallest), sums


def whole_sum(b: Builder, x: Sparse) -> Value | None:
    """The sum of all elements."""
    total: Value | None = None
    for term in x.terms:
        each = b.sum(term.rows, tuple(range(term.rows.tensor.rank)))
        total = each if total is None else add(b, total, each)
    return total


# ---------------------------------------------------------------- a part --


def part(b: Builder, x: Value, term: Term) -> Value:
    """A dense value (or one that broadcasts) at the places of a term, ready to be combined with its rows."""
    shape = x.tensor.shape
    index = term.index[len(term.index) - len(shape) :]
    ranges = [_range_of(selector, size) for selector, size in zip(index, shape, strict=True)]
    if any(not whole_axis(each, size) for each, size in zip(ranges, shape, strict=True)):
        starts, sizes = tuple(each.start for each in ranges), tuple(each.size for each in ranges)
        x = b.apply("slice", x, attributes=SliceAttributes(starts, sizes, tuple(each.step for each in ranges)))
    return _picked(b, x, index)


def _range_of(selector: Selector, size: Dim) -> RangeSelector:
    """The range along an axis of a value; all of it if rows are picked there, or one element is repeated."""
    if isinstance(selector, RangeSelector) and size != ONE:
        return selector
    return RangeSelector(ZERO, size)


def _picked(b: Builder, x: Value, index: Sequence[Selector]) -> Value:
    """Rows by number; an axis of size one is repeated for every number."""
    axis = 0
    for selector in index:
        if isinstance(selector, Value):
            before, size, after = x.tensor.shape[:axis], x.tensor.shape[axis], x.tensor.shape[axis + 1 :]
            if size == ONE:
                x = b.reshape(x, (*before, *(ONE for _ in selector.tensor.shape), *after))
            else:
                x = b.apply("gather", x, selector, attributes=AxisAttributes(axis))
        axis += width(selector)
    return x


def is_along(x: TensorType, term: Term) -> bool:
    """Whether a value differs along an axis that a term selects only a part of."""
    index = term.index[len(term.index) - x.rank :]
    return any(size != ONE and not whole_axis(selector, size) for selector, size in zip(index, x.shape, strict=True))


# ---------------------------------------------------------------- rules that ops share --


def dense(b: Builder, node: Node, known: Known) -> Sparse | None:
    """The safe default: nothing is known of the result."""
    del b, node, known


def row_by_row(b: Builder, node: Node, known: Known) -> Sparse | None:
    """What is linear in its one operand: the same of each row."""
    (x,) = known
    return None if x is None else each_term(x, lambda t: b.apply(node.op, t.rows, attributes=node.attributes))


def without_bases(rule: RowRule) -> RowRule:
    """For a rule that does not follow dense bases: an operand with one is dense."""

    def stripped(b: Builder, node: Node, known: Known) -> Sparse | None:
        rest = [None if each is None or each.base is not None else each for each in known]
        return None if all(each is None for each in rest) else rule(b, node, rest)

    return stripped
