"""What passes have to know of element-wise ops: which of them are linear, and in which operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.graph import Node
from dfc.ops.builder import Builder
from dfc.ops.rules import statistics
from dfc.ops.rules.degrees import (
    ANY,
    FLAT,
    Degree,
    MaybeDegree,
    Sizes,
    as_all,
    as_all_evenly,
    as_first,
    evenly,
    power_of_first,
    same,
    times,
    to_the,
)
from dfc.ops.rules.degrees import pointwise as pointwise_degree
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_factors import scaled
from dfc.ops.rules.row_sparsity import Known, RowRule, Sparse, row_by_row, total, without_bases
from dfc.ops.rules.sharding import COMMON, SUM, ZEROS, Partial, State
from dfc.ops.rules.signs import not_negative, of_largest, of_product, of_sum
from dfc.ops.rules.statistics import Kind, added, divided, kept_total
from dfc.ops.rules.use import POINTWISE, pointwise


def _could_be_parts(states: Sequence[State]) -> list[bool]:
    return [isinstance(state, Partial) or state == ZEROS for state in states]


def _all_parts(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return [SUM for _ in states] if all(_could_be_parts(states)) else None


def _chosen_parts(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    mask, *others = states
    return (COMMON, SUM, SUM) if not isinstance(mask, Partial) and all(_could_be_parts(others)) else None


def _parts_and_common(states: Sequence[State]) -> Sequence[State]:
    return [state if isinstance(state, Partial) else COMMON for state in states]


def _scaled_part(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return _parts_and_common(states) if sum(isinstance(state, Partial) for state in states) == 1 else None


def _divided_part(node: Node, states: Sequence[State]) -> Sequence[State] | None:
    x, y = states
    is_exact = node.result.tensor.machine.is_float
    return (SUM, COMMON) if is_exact and isinstance(x, Partial) and not isinstance(y, Partial) else None


def _part_alone(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return states


def _cast_part(node: Node, states: Sequence[State]) -> Sequence[State] | None:
    """A cast of a sum is the sum of the casts, but for rounding, if no range is lost."""
    before, after = node.operands[0].tensor.machine, node.result.tensor.machine
    return states if before.is_float and after.is_float and after.size >= before.size else None


# ---------------------------------------------------------------- degrees --


def _cast_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """What is rounded to whole numbers must not be small."""
    del sizes
    (degree,) = degrees
    is_rounding = node.operands[0].tensor.machine.is_float and not node.result.tensor.machine.is_float
    if is_rounding and degree != ANY:
        return degree if degree is not None and degree.is_dense and degree.power >= 0 else None
    return degree


def _times_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    del node, sizes
    return times(*degrees)


def _quotient_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    del node, sizes
    return times(degrees[0], to_the(degrees[1], -1))


def _select_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Where a mask holds at few positions, what it lets through counts as a product with it."""
    del node, sizes
    mask, a, b = degrees
    if mask is None:
        return None
    if mask.is_dense:
        return same([a, b])
    return times(mask, a) if b == ANY else None


def _equal_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Numbers that grow with the batch, such as those of examples, are equal at few positions."""
    del node, sizes
    known = evenly(same([degree for degree in degrees if degree != FLAT]))
    if known is None:
        return None
    return FLAT if known.power <= 0 else Degree(-known.power, is_dense=False)


# ---------------------------------------------------------------- rows --


def _cast_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    """To a wider type row by row; to a narrower one only once for each position."""
    source, target = node.operands[0].tensor.machine, node.result.tensor.machine
    is_wider = source.is_float and target.is_float and target.size > source.size
    return row_by_row(b, node, known) if is_wider else None


def _total_rows(*, negative: bool) -> RowRule:
    def rule(b: Builder, node: Node, known: Known) -> Sparse | None:
        x, y = known
        shapes = {v.tensor.shape for v in (*node.operands, node.result)}
        return None if x is None or y is None or len(shapes) > 1 else total(b, x, y, negative=negative)

    return rule


def _product_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    """A sparse value times one that is not."""
    x, y = known
    if x is not None and y is None:
        return scaled(b, node, x, node.operands[1], 0)
    if x is None and y is not None:
        return scaled(b, node, y, node.operands[0], 1)
    return None


def _quotient_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    x, y = known
    return None if x is None or y is not None else scaled(b, node, x, node.operands[1], 0, divides=True)


def _cast_statistic(node: Node, kinds: Sequence[Kind]) -> Kind:
    """What is rounded to whole numbers is no mean of them."""
    is_rounding = node.operands[0].tensor.machine.is_float and not node.result.tensor.machine.is_float
    return Kind.UNCLEAR if is_rounding else kinds[0]


ELEMENTWISE = replace(DEFAULTS, sharding=POINTWISE, degree=pointwise_degree)
"""For an op that is linear in none of its operands."""
ADD = replace(
    ELEMENTWISE,
    sharding=pointwise(_all_parts),
    degree=as_all,
    row_sparsity=_total_rows(negative=False),
    sign=of_sum,
    before_combining=True,
    coefficients=(1, 1),
    statistic=added,
)
SUB = replace(
    ELEMENTWISE,
    sharding=pointwise(_all_parts),
    degree=as_all,
    row_sparsity=_total_rows(negative=True),
    before_combining=True,
    coefficients=(1, -1),
    statistic=added,
)
MUL = replace(
    ELEMENTWISE,
    sharding=pointwise(_scaled_part),
    degree=_times_degree,
    row_sparsity=without_bases(_product_rows),
    sign=of_product,
    statistic=statistics.scaled,
)
DIV = replace(
    ELEMENTWISE,
    sharding=pointwise(_divided_part),
    degree=_quotient_degree,
    row_sparsity=without_bases(_quotient_rows),
    statistic=divided,
    weight=4,
)
NEG = replace(
    ELEMENTWISE,
    sharding=pointwise(_part_alone, keeps_zeros=True),
    degree=as_first,
    row_sparsity=without_bases(row_by_row),
    before_combining=True,
    statistic=kept_total,
    keeps_finite=True,
)
CAST = replace(
    ELEMENTWISE,
    sharding=pointwise(_cast_part, keeps_zeros=True),
    degree=_cast_degree,
    row_sparsity=without_bases(_cast_rows),
    before_combining=True,
    coefficients=(1,),
    statistic=_cast_statistic,
)
SELECT = replace(ELEMENTWISE, sharding=pointwise(_chosen_parts), degree=_select_degree, chooses=True)
EQUAL = replace(ELEMENTWISE, degree=_equal_degree)
MINIMUM = replace(ELEMENTWISE, degree=as_all_evenly, keeps_finite=True)
ABS = replace(ELEMENTWISE, degree=power_of_first(1.0), sign=not_negative, keeps_finite=True)
RELU = replace(ELEMENTWISE, degree=power_of_first(1.0), sign=not_negative, keeps_finite=True)
SQUARE = replace(ELEMENTWISE, degree=power_of_first(2.0), sign=not_negative)
SQRT = replace(ELEMENTWISE, degree=power_of_first(0.5), sign=not_negative, weight=4)
RSQRT = replace(ELEMENTWISE, degree=power_of_first(-0.5), weight=4)
SIGN = replace(ELEMENTWISE, degree=power_of_first(0.0), keeps_finite=True)
FUNCTION = replace(ELEMENTWISE, weight=8)
"""For what is computed by a polynomial or more than one."""
POSITIVE_FUNCTION = replace(FUNCTION, sign=not_negative)
QUOTIENT = replace(ELEMENTWISE, weight=4)
COPY = replace(ELEMENTWISE, row_sparsity=without_bases(row_by_row), keeps_finite=True)
ROUNDED = replace(ELEMENTWISE, keeps_finite=True)
"""For whole numbers near the operand, and its limits."""
MAXIMUM = replace(MINIMUM, sign=of_largest)
