"""Rules of ops that move elements: reshape, transpose, broadcast, slice, pad, concat, gather and their like."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.distribute.replicate.rules import NeededWhole, Use, linear_in_first, merged, one, refuse_parts, rule
from dfc.distribute.replicate.states import COMMON, SUM, ZEROS, Common, Cutting, Partial, Split, State, quotient
from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.ir.graph import Node
from dfc.ops.attributes import (
    AxesAttributes,
    AxisAttributes,
    PadAttributes,
    PermutationAttributes,
    ScatterAttributes,
    SliceAttributes,
    WindowAttributes,
)

ALONG = "it works along the axis that is cut"


@rule("reshape")
def _reshape(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    (state,) = states
    if not isinstance(state, Split):
        return one(states, state)
    before, after = node.operands[0].tensor.shape, node.result.tensor.shape
    found = reshaped(state, before, after, cutting)
    if found is None:
        raise NeededWhole(0, "the reshape mixes the axis that is cut with others")
    return one(states, found)


def reshaped(state: Split, before: Sequence[Dim], after: Sequence[Dim], cutting: Cutting) -> Split | None:
    """Where the cut is after a reshape: its runs of elements must be runs along one axis again."""
    size, below = before[state.axis], product(before[state.axis + 1 :])
    if state.outer is None:
        return _reshaped_freely(state, before, after, cutting)
    along = quotient(size, state.outer)
    run = None if along is None else along * below
    for axis, new in enumerate(after):
        length = None if run is None else quotient(run, product(after[axis + 1 :]))
        outer = None if length is None else quotient(new, length)
        if length is not None and outer is not None and cutting.can_cut(length):
            return Split(axis, outer)
    return None


def _reshaped_freely(state: Split, before: Sequence[Dim], after: Sequence[Dim], cutting: Cutting) -> Split | None:
    """All elements along the axis are equal, so any of the axes it becomes can be the one that is cut."""
    above, below = product(before[: state.axis]), product(before[state.axis + 1 :])
    for axis, new in enumerate(after):
        inside = [
            quotient(product(after[:axis]), above),
            quotient(product(after[axis + 1 :]), below),
        ]
        if cutting.can_cut(new) and None not in inside:
            return Split(axis, None)
    return None


@rule("transpose")
def _transpose(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, PermutationAttributes)
    (state,) = states
    if isinstance(state, Split):
        return one(states, state.at(node.attributes.permutation.index(state.axis)))
    return one(states, state)


@rule("broadcast")
def _broadcast(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """A common value that is repeated along an axis that can be cut is a piece at once."""
    (state,), before, after = states, node.operands[0].tensor.shape, node.result.tensor.shape
    if isinstance(state, Partial):
        return linear_in_first(node, states) or one(states, state)
    shift = len(after) - len(before)
    if isinstance(state, Split):
        return one(states, state.at(state.axis + shift))
    for axis, size in enumerate(after):
        is_new = axis < shift or before[axis - shift] == ONE
        if is_new and cutting.can_cut(size):
            return one(states, Split(axis, None))
    return one(states, state)


@rule("iota")
def _iota(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    can_cut = cutting.can_cut(node.result.tensor.shape[0])
    return one(states, Split(0) if can_cut else COMMON)


@rule("reverse")
def _reverse(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, AxesAttributes)
    (state,) = states
    if isinstance(state, Split) and state.axis in node.attributes.axes and state.outer is not None:
        raise NeededWhole(0, ALONG)
    return one(states, state)


@rule("slice")
def _slice(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    how = node.attributes
    assert isinstance(how, SliceAttributes)
    (state,) = states
    if isinstance(state, Split):
        axis, size = state.axis, node.operands[0].tensor.shape[state.axis]
        if how.starts[axis] != ZERO or how.sizes[axis] != size or how.steps[axis] != 1:
            raise NeededWhole(0, "it takes some elements along the axis that is cut")
    return one(states, state)


@rule("pad")
def _pad(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    how = node.attributes
    assert isinstance(how, PadAttributes)
    state, fill = states
    if isinstance(fill, Split | Partial):
        raise NeededWhole(1, "a padding is the same in all blocks")
    if isinstance(state, Partial) and fill != ZEROS:
        raise NeededWhole(0, "a sum of parts that are padded would have the padding several times")
    if isinstance(state, Split) and (how.low[state.axis], how.high[state.axis], how.interior[state.axis]) != (
        ZERO,
        ZERO,
        0,
    ):
        raise NeededWhole(0, "it adds elements along the axis that is cut")
    return one((state, COMMON), state)


@rule("windows")
def _windows(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, WindowAttributes)
    (state,) = states
    if isinstance(state, Split) and state.axis in node.attributes.axes:
        raise NeededWhole(0, ALONG)
    return one(states, state)


@rule("concat")
def _concat(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, AxisAttributes)
    if all(isinstance(state, Common) for state in states):
        return one([COMMON for _ in states], COMMON)
    if any(isinstance(state, Partial) for state in states):
        return _concat_parts(states)
    piece = merged(states, [0] * len(states))
    assert piece is not None
    if piece.axis == node.attributes.axis:
        number = next(number for number, state in enumerate(states) if isinstance(state, Split))
        raise NeededWhole(number, ALONG)
    if any(isinstance(state, Common) for state in states):
        piece = Split(piece.axis, piece.outer or ONE)
    return one([state if isinstance(state, Split) else piece for state in states], piece)


def _concat_parts(states: Sequence[State]) -> Use:
    for number, state in enumerate(states):
        if isinstance(state, Partial) and not all(other in (SUM, ZEROS) for other in states):
            raise NeededWhole(number, "it stands beside values that are no parts of sums")
    return one([SUM for _ in states], SUM)


@rule("gather")
def _gather(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """`ids` that are cut pick pieces of a common table; common ones pick along the other axes of a piece."""
    del cutting
    assert isinstance(node.attributes, AxisAttributes)
    axis, (x, ids) = node.attributes.axis, states
    if isinstance(ids, Partial):
        raise NeededWhole(1, "parts of indices are no indices")
    if isinstance(x, Partial):
        found = linear_in_first(node, states)
        assert found is not None
        return found
    if isinstance(x, Common):
        return one(states, ids.at(axis + ids.axis) if isinstance(ids, Split) else COMMON)
    if x.axis == axis or isinstance(ids, Split):
        raise NeededWhole(0, "it picks elements from all along the axis that is cut" if x.axis == axis else ALONG)
    return one((x, COMMON), x if x.axis < axis else x.at(x.axis + node.operands[1].tensor.rank - 1))


@rule("scatter_add")
def _scatter_add(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """Where the rows and their places are cut, each block makes a part of the sum."""
    assert isinstance(node.attributes, ScatterAttributes)
    axis, (ids, rows) = node.attributes.axis, states
    rank = node.operands[0].tensor.rank
    if isinstance(ids, Partial):
        raise NeededWhole(0, "parts of indices are no indices")
    if isinstance(rows, Partial):
        if not isinstance(ids, Common):
            raise NeededWhole(1, "its places are cut")
        if rows != SUM:
            refuse_parts(node, states)
        return one((COMMON, SUM), SUM)
    if isinstance(ids, Common) and isinstance(rows, Common):
        return one((COMMON, COMMON), COMMON)
    if isinstance(rows, Split) and not axis <= rows.axis < axis + rank:
        if isinstance(ids, Split):
            raise NeededWhole(0, "its rows are cut along another axis")
        return one((COMMON, rows), rows if rows.axis < axis else rows.at(rows.axis - rank + 1))
    piece = merged(states, (axis, 0))
    assert piece is not None
    if isinstance(ids, Common) or isinstance(rows, Common):
        piece = Split(piece.axis, piece.outer or ONE)
    del cutting
    return one((piece.at(piece.axis - axis), piece), SUM)
