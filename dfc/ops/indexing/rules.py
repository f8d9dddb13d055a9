"""What passes have to know of ops that take some elements of a tensor, or put them among others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.ir.dims import ONE, ZERO, Dim
from dfc.ir.graph import Node
from dfc.ops.attributes import AxisAttributes, PadAttributes, ScatterAttributes, SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.constants import uniform_of
from dfc.ops.rules.costs import free, gathered
from dfc.ops.rules.degrees import ANY, Degree, MaybeDegree, Sizes, same
from dfc.ops.rules.filling import Filling
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_sparsity import Known, Sparse, padded, scattered
from dfc.ops.rules.sharding import COMMON, SUM, ZEROS, Common, Partial, Partitioning, Split, State
from dfc.ops.rules.signs import of_some
from dfc.ops.rules.use import ALONG, NeededWhole, Use, linear_in_first, merged, one, refuse_parts


def _slice(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del cutting
    how = node.attributes
    assert isinstance(how, SliceAttributes)
    (state,) = states
    if isinstance(state, Split):
        axis, size = state.axis, node.operands[0].tensor.shape[state.axis]
        if how.starts[axis] != ZERO or how.sizes[axis] != size or how.steps[axis] != 1:
            raise NeededWhole(0, "it takes some elements along the axis that is cut")
    return one(states, state)


def _pad(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
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


def _gather(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """`ids` that are cut pick pieces of a common table; common ones pick along the other axes of a piece."""
    del cutting
    assert isinstance(node.attributes, AxisAttributes)
    axis, (x, ids) = node.attributes.axis, states
    if isinstance(ids, Partial):
        raise NeededWhole(1, "parts of indices are no indices")
    if isinstance(x, Partial):
        state = linear_in_first(node, states)
        assert state is not None
        return state
    if isinstance(x, Common):
        return one(states, ids.at(axis + ids.axis) if isinstance(ids, Split) else COMMON)
    if x.axis == axis or isinstance(ids, Split):
        raise NeededWhole(0, "it picks elements from all along the axis that is cut" if x.axis == axis else ALONG)
    return one((x, COMMON), x if x.axis < axis else x.at(x.axis + node.operands[1].tensor.rank - 1))


def _scatter_add(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """Where the rows and their indices are split, each block makes a part of the sum."""
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


# ---------------------------------------------------------------- degrees --


def _slice_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """A part of the examples is examples; but where few are not 0 it may miss these."""
    assert isinstance(node.attributes, SliceAttributes)
    (degree,) = degrees
    if degree is None or degree.is_dense:
        return degree
    pairs = zip(node.operands[0].tensor.shape, node.attributes.sizes, strict=True)
    return degree if sizes.is_fixed([before for before, after in pairs if before != after]) else None


def _pad_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Zeros beside rows of which there are as many as of these, or many more."""
    assert isinstance(node.attributes, PadAttributes)
    degree, fill = degrees
    before, after = (sizes.power(value.tensor.elements) for value in (node.operands[0], node.result))
    if before is not None and before == after:
        return same([degree, fill])
    return _into(degree, node.operands[0].tensor.elements, node.result.tensor.elements, sizes) if fill == ANY else None


def _gather_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Rows grow as the rows do that they are picked from, whatever their numbers are."""
    assert isinstance(node.attributes, AxisAttributes)
    degree = degrees[0]
    if degree is None or degree.is_dense or sizes.is_fixed([node.operands[0].tensor.shape[node.attributes.axis]]):
        return degree
    return None


def _scatter_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """The sum of all rows stays; it is distributed over the rows of the target, of which some may get nothing."""
    assert isinstance(node.attributes, ScatterAttributes)
    _, rows = degrees
    return _into(rows, node.operands[0].tensor.elements, node.attributes.shape[node.attributes.axis], sizes)


def _into(degree: MaybeDegree, rows: Dim, target: Dim, sizes: Sizes) -> MaybeDegree:
    before, after = sizes.power(rows), sizes.power(target)
    if degree == ANY:
        return ANY
    if degree is None or before is None or after is None:
        return None
    return Degree(degree.power + before - after, degree.is_dense and after == 0)


# ---------------------------------------------------------------- rows --


def _scattered_rows(b: Builder, node: Node, known: Known) -> Sparse:
    del b, known
    assert isinstance(node.attributes, ScatterAttributes)
    ids, rows = node.operands
    return scattered(ids, rows, node.attributes)


def _padded_rows(b: Builder, node: Node, known: Known) -> Sparse | None:
    del b
    assert isinstance(node.attributes, PadAttributes)
    x, fill = node.operands
    number = uniform_of(fill)
    if number is None or number.astype(np.float64) != 0:
        return None
    return padded(x, known[0], node.attributes)


SLICE = replace(
    DEFAULTS,
    sharding=_slice,
    degree=_slice_degree,
    cost=free,
    sign=of_some,
    before_combining=True,
    keeps_finite=True,
    weight=0,
)
PAD = replace(
    DEFAULTS,
    sharding=_pad,
    degree=_pad_degree,
    row_sparsity=_padded_rows,
    before_combining=True,
    keeps_finite=True,
)
GATHER = replace(
    DEFAULTS,
    sharding=_gather,
    degree=_gather_degree,
    cost=gathered,
    sign=of_some,
    keeps_finite=True,
    weight=16,
    may_fail=True,
)
SCATTER_ADD = replace(
    DEFAULTS,
    sharding=_scatter_add,
    degree=_scatter_degree,
    row_sparsity=_scattered_rows,
    before_combining=True,
    filling=Filling(0, operands=(1,)),
    may_fail=True,
)
