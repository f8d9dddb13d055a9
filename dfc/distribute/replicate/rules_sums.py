"""Rules of reductions, folds along an axis, and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.distribute.replicate.rules import NeededWhole, Use, one, refuse_parts, rule
from dfc.distribute.replicate.states import COMMON, SUM, Common, Cutting, Partial, Split, State
from dfc.ir.dims import ONE
from dfc.ir.graph import Node
from dfc.ops.attributes import ArgAttributes, AxisAttributes, ReduceAttributes

HOW = {"sum": "sum", "mean": "sum", "max": "max", "min": "min", "any": "or", "all": "and"}
"""What makes one of the blocks' results: means are divided by the number of blocks first."""


@rule("sum", "mean", "max", "min", "any", "all", "prod")
def _reduce(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    how = node.attributes
    assert isinstance(how, ReduceAttributes)
    (state,) = states
    if isinstance(state, Common):
        return one((COMMON,), COMMON)
    if isinstance(state, Partial):
        if state != SUM or node.op not in ("sum", "mean"):
            raise NeededWhole(0, f"`{node.op}` of parts is no part of the result")
        return one(states, SUM)
    if state.axis not in how.axes:
        gone = 0 if how.keep_dims else sum(1 for axis in how.axes if axis < state.axis)
        return one(states, state.at(state.axis - gone))
    if node.op not in HOW:
        raise NeededWhole(0, f"blocks' results of `{node.op}` are not combined")
    return one(states, Partial(HOW[node.op]))


@rule("argmax", "argmin")
def _place(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, ArgAttributes)
    (state,), axis = states, node.attributes.axis
    refuse_parts(node, states)
    if isinstance(state, Split) and state.axis == axis:
        raise NeededWhole(0, f"`{node.op}` gives a place along the axis that is cut")
    return one(states, state.at(state.axis - (state.axis > axis)) if isinstance(state, Split) else COMMON)


@rule("cumsum", "cumprod", "cummax", "cummin")
def _running(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, AxisAttributes)
    (state,) = states
    if isinstance(state, Split) and state.axis == node.attributes.axis:
        raise NeededWhole(0, f"`{node.op}` runs along the axis that is cut")
    if isinstance(state, Partial) and (state != SUM or node.op != "cumsum"):
        refuse_parts(node, states)
    return one(states, COMMON if isinstance(state, Common) else state)


@rule("matmul")
def _matmul(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
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
    return one([SUM if place == number else COMMON for place in range(2)], SUM)


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
        return one([state if place == number else COMMON for place in range(2)], state)
    if isinstance(other, Split):
        if other.axis != state.axis or (None not in (state.outer, other.outer) and state.outer != other.outer):
            raise NeededWhole(1 - number, "it meets a value that is cut along another axis")
        state = state if other.outer is None else other
    return one((Split(state.axis, state.outer or ONE),) * 2, Split(state.axis, state.outer or ONE))
