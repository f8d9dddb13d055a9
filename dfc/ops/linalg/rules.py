"""What passes have to know of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.dims import ONE
from dfc.ir.graph import Node
from dfc.ops.rules.costs import Cost, SizeOf, elements, product
from dfc.ops.rules.degrees import MaybeDegree, Sizes, more, times
from dfc.ops.rules.filling import ADDED
from dfc.ops.rules.op_rules import DEFAULTS, OpRules
from dfc.ops.rules.sharding import COMMON, SUM, Common, Partial, Partitioning, Split, State
from dfc.ops.rules.use import NeededWhole, Use, one


def _matmul(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """Rows that are cut give rows; what is cut along the inner axis gives parts of the sums."""
    left, right = states
    if isinstance(left, Common) and isinstance(right, Common):
        return one((COMMON, COMMON), COMMON)
    for number, state in enumerate(states):
        if isinstance(state, Partial):
            return _product_of_part(node, states, number)
    del cutting
    a, b = (value.tensor.rank for value in node.operands)
    inner = (a - 1, max(b - 2, 0))
    for number, state in enumerate(states):
        if isinstance(state, Split) and state.axis == inner[number]:
            return _inner(states, number, inner)
    batch = max(a, b, 2) - 2
    if (isinstance(left, Split) and left.axis < a - 2) or (isinstance(right, Split) and right.axis < b - 2):
        return _batched(states, a > 2 and b > 2)
    if isinstance(left, Split):
        if isinstance(right, Split):
            raise NeededWhole(1, "rows of the one matrix meet columns of the other")
        return one((left, COMMON), left.at(batch))
    assert isinstance(right, Split)
    return one((COMMON, right), right.at(batch + (a > 1)))


def _product_of_part(node: Node, states: Sequence[State], number: int) -> Use:
    if not isinstance(states[1 - number], Common) or states[number] != SUM:
        raise NeededWhole(number, "it is multiplied with something else that is cut")
    del node
    return one([SUM if position == number else COMMON for position in range(2)], SUM)


def _inner(states: Sequence[State], number: int, inner: tuple[int, int]) -> Use:
    """Both factors are cut along the axis that is summed over."""
    state, other = states[number], states[1 - number]
    assert isinstance(state, Split)
    outer = state.outer
    if isinstance(other, Split):
        if other.axis != inner[1 - number]:
            raise NeededWhole(number, "it is multiplied with rows that are cut")
        if None not in (outer, other.outer) and outer != other.outer:
            raise NeededWhole(1 - number, "it meets a value whose blocks stand in another order")
        outer = outer or other.outer
    outer = outer or ONE
    return one([Split(axis, outer) for axis in inner], SUM)


def _batched(states: Sequence[State], both: bool) -> Use:
    """Cut along an axis of the batch of matrices, which both factors have unless one is a vector."""
    number = next(number for number, state in enumerate(states) if isinstance(state, Split))
    state, other = states[number], states[1 - number]
    assert isinstance(state, Split)
    if not both:
        if not isinstance(other, Common):
            raise NeededWhole(1 - number, "it meets a value that is cut along another axis")
        return one([state if position == number else COMMON for position in range(2)], state)
    if isinstance(other, Split):
        if other.axis != state.axis or (None not in (state.outer, other.outer) and state.outer != other.outer):
            raise NeededWhole(1 - number, "it meets a value that is cut along another axis")
        state = state if other.outer is None else other
    return one((Split(state.axis, state.outer or ONE),) * 2, Split(state.axis, state.outer or ONE))


# ---------------------------------------------------------------- degrees --


def _product_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    return more(times(*degrees), sizes.power(node.operands[0].tensor.shape[-1]))


MATMUL = replace(
    DEFAULTS, sharding=_matmul, degree=_product_degree, cost=product, filling=ADDED, saved_for_backward=True
)
PRODUCT = OpRules(cost=product, saved_for_backward=True)
"""For what `expand` makes a matrix product of."""


def factorisation(node: Node, size_of: SizeOf) -> Cost:
    """Each element of a matrix takes part about once for each column."""
    a = node.operands[0]
    return Cost(operations=2.0 * elements(a, size_of) * size_of(a.tensor.shape[-1]))
