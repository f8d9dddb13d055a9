"""What passes have to know of ops that order, repeat or join elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.ir.dims import ONE, Dim, product
from dfc.ir.graph import Node
from dfc.ops.attributes import AxesAttributes, AxisAttributes, PermutationAttributes
from dfc.ops.builder import Builder
from dfc.ops.constants import uniform_of
from dfc.ops.rules.costs import free
from dfc.ops.rules.degrees import as_all, as_first
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_sparsity import NOTHING, Known, Sparse, transposed
from dfc.ops.rules.sharding import COMMON, SUM, ZEROS, Common, Partial, Partitioning, Split, State, quotient
from dfc.ops.rules.signs import of_all
from dfc.ops.rules.statistics import kept
from dfc.ops.rules.use import ALONG, NeededWhole, Use, linear_in_first, merged, one


def _reshape(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    (state,) = states
    if not isinstance(state, Split):
        return one(states, state)
    before, after = node.operands[0].tensor.shape, node.result.tensor.shape
    split = _reshaped(state, before, after, cutting)
    if split is None:
        raise NeededWhole(0, "the reshape mixes the axis that is cut with others")
    return one(states, split)


def _reshaped(state: Split, before: Sequence[Dim], after: Sequence[Dim], cutting: Partitioning) -> Split | None:
    """Where the cut is after a reshape: its runs of elements must be runs along one axis again."""
    size, below = before[state.axis], product(before[state.axis + 1 :])
    if state.outer is None:
        return _reshaped_freely(state, before, after, cutting)
    along = quotient(size, state.outer)
    run = None if along is None else along * below
    for axis, new in enumerate(after):
        length = None if run is None else quotient(run, product(after[axis + 1 :]))
        outer = None if length is None else quotient(new, length)
        if length is not None and outer is not None and cutting.can_split(length):
            return Split(axis, outer)
    return None


def _reshaped_freely(state: Split, before: Sequence[Dim], after: Sequence[Dim], cutting: Partitioning) -> Split | None:
    """All elements along the axis are equal, so any of the axes it becomes can be the one that is cut."""
    above, below = product(before[: state.axis]), product(before[state.axis + 1 :])
    for axis, new in enumerate(after):
        inside = [
            quotient(product(after[:axis]), above),
            quotient(product(after[axis + 1 :]), below),
        ]
        if cutting.can_split(new) and None not in inside:
            return Split(axis, None)
    return None


def _transpose(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del cutting
    assert isinstance(node.attributes, PermutationAttributes)
    (state,) = states
    if isinstance(state, Split):
        return one(states, state.at(node.attributes.permutation.index(state.axis)))
    return one(states, state)


def _broadcast(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """A common value that is repeated along an axis that can be cut is a piece at once."""
    (state,), before, after = states, node.operands[0].tensor.shape, node.result.tensor.shape
    if isinstance(state, Partial):
        return linear_in_first(node, states) or one(states, state)
    shift = len(after) - len(before)
    if isinstance(state, Split):
        return one(states, state.at(state.axis + shift))
    for axis, size in enumerate(after):
        is_new = axis < shift or before[axis - shift] == ONE
        if is_new and cutting.can_start(node, size):
            return one(states, Split(axis, None))
    return one(states, state)


def _reverse(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del cutting
    assert isinstance(node.attributes, AxesAttributes)
    (state,) = states
    if isinstance(state, Split) and state.axis in node.attributes.axes and state.outer is not None:
        raise NeededWhole(0, ALONG)
    return one(states, state)


def _concat(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
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


# ---------------------------------------------------------------- rows --


def _transposed_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    (x,) = known
    assert isinstance(node.attributes, PermutationAttributes)
    return None if x is None else transposed(b, x, node.attributes.permutation)


def _no_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    """A broadcast zero has no rows at all."""
    del b, known
    number = uniform_of(node.operands[0])
    is_zero = number is not None and number.dtype.kind in "fV" and number.astype(np.float64) == 0
    return NOTHING if is_zero else None


RESHAPE = replace(
    DEFAULTS,
    sharding=_reshape,
    degree=as_first,
    cost=free,
    sign=of_all,
    before_combining=True,
    statistic=kept,
    keeps_finite=True,
    weight=0,
)
TRANSPOSE = replace(
    DEFAULTS,
    sharding=_transpose,
    degree=as_first,
    cost=free,
    row_sparsity=_transposed_rows,
    before_combining=True,
    keeps_finite=True,
    weight=0,
)
BROADCAST = replace(
    DEFAULTS,
    sharding=_broadcast,
    degree=as_first,
    cost=free,
    row_sparsity=_no_rows,
    sign=of_all,
    statistic=kept,
    keeps_finite=True,
    weight=0,
)
REVERSE = replace(DEFAULTS, sharding=_reverse, degree=as_first, cost=free, keeps_finite=True, weight=0)
CONCAT = replace(DEFAULTS, sharding=_concat, degree=as_all, before_combining=True, keeps_finite=True)
