"""What passes have to know of contractions, products of matrices among them, and of factorisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.ir.dims import ONE
from dfc.ir.graph import Node
from dfc.ops.lowering.contractions import contraction_of
from dfc.ops.rules.costs import Cost, SizeOf, elements, product
from dfc.ops.rules.degrees import MaybeDegree, Sizes, more, times
from dfc.ops.rules.filling import ADDED
from dfc.ops.rules.op_rules import DEFAULTS, OpRules
from dfc.ops.rules.sharding import COMMON, SUM, Common, Partial, Partitioning, Split, State
from dfc.ops.rules.use import NeededWhole, Use, one


def _contraction(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """Rows that are cut give rows; what is cut along the axis that is summed over gives parts of the sums."""
    del cutting
    axes, summed = contraction_of(node), node.result.tensor.rank
    assert axes is not None, node
    sides = axes.left, axes.right
    if all(isinstance(state, Common) for state in states):
        return one((COMMON, COMMON), COMMON)
    for number, state in enumerate(states):
        if isinstance(state, Partial):
            return _product_of_part(node, states, number)
    split = {n: sides[n][state.axis] for n, state in enumerate(states) if isinstance(state, Split)}
    for number, axis in split.items():
        if axis == summed:
            return _inner(states, number, (axes.left.index(summed), axes.right.index(summed)))
    if any(axis in sides[1 - number] for number, axis in split.items()):
        return _batched(states, sides, split)
    if len(split) == 2:
        raise NeededWhole(1, "rows of the one matrix meet columns of the other")
    ((number, axis),) = split.items()
    state = states[number]
    assert isinstance(state, Split)
    return one([state if position == number else COMMON for position in range(2)], state.at(axis))


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


def _batched(states: Sequence[State], sides: Sequence[Sequence[int]], split: Mapping[int, int]) -> Use:
    """Cut along an axis of the batch of matrices, which both factors have."""
    number, axis = next(iter(split.items()))
    state, other = states[number], states[1 - number]
    assert isinstance(state, Split)
    if isinstance(other, Split):
        is_same = split[1 - number] == axis
        if not is_same or (None not in (state.outer, other.outer) and state.outer != other.outer):
            raise NeededWhole(1 - number, "it meets a value that is cut along another axis")
        state = state if other.outer is None else other
    outer = state.outer or ONE
    return one([Split(side.index(axis), outer) for side in sides], Split(axis, outer))


# ---------------------------------------------------------------- degrees --


def _product_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    axes = contraction_of(node)
    assert axes is not None, node
    return more(times(*degrees), sizes.power(node.operands[0].tensor.shape[axes.left.index(node.result.tensor.rank)]))


CONTRACTION = replace(
    DEFAULTS, sharding=_contraction, degree=_product_degree, cost=product, filling=ADDED, saved_for_backward=True
)
"""For every op that is lowered as `Contract`."""
PRODUCT = OpRules(cost=product, saved_for_backward=True)
"""For what `expand` makes a matrix product of."""


def factorisation(node: Node, size_of: SizeOf) -> Cost:
    """Each element of a matrix takes part about once for each column."""
    a = node.operands[0]
    return Cost(operations=2.0 * elements(a, size_of) * size_of(a.tensor.shape[-1]))
