"""What passes have to know of reductions and of scans along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dfc.ir.dims import Dim, product
from dfc.ir.dtypes import F32
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import ArgAttributes, AxisAttributes, ReduceAttributes
from dfc.ops.builder import Builder
from dfc.ops.rules.degrees import ANY, FLAT, MaybeDegree, Sizes, as_all_evenly, as_first, more
from dfc.ops.rules.filling import ADDED, COPIES, MULTIPLIED, Filling
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_sparsity import Sparse, whole_sum
from dfc.ops.rules.sharding import COMMON, SUM, Common, Partial, Partitioning, Split, State
from dfc.ops.rules.statistics import summed
from dfc.ops.rules.use import NeededWhole, ShardingRule, Use, one, refuse_parts


def reduced(how: str = "", *, is_linear: bool = False, total: str = "") -> ShardingRule:
    """Over the axis that is cut each block makes a part, and all of them together make the result in this way (`how`:
    sum, max, min, and, or; none if they do not). `total`: see `Use`."""

    def rule(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
        del cutting
        where = node.attributes
        assert isinstance(where, ReduceAttributes)
        (state,) = states
        if isinstance(state, Common):
            return one((COMMON,), COMMON)
        if isinstance(state, Partial):
            if state != SUM or not is_linear:
                raise NeededWhole(0, f"`{node.op}` of parts is no part of the result")
            return one(states, SUM)
        if state.axis not in where.axes:
            gone = 0 if where.keep_dims else sum(1 for axis in where.axes if axis < state.axis)
            return one(states, state.at(state.axis - gone))
        if not how:
            raise NeededWhole(0, f"blocks' results of `{node.op}` are not combined")
        return Use((state,), (Partial(how),), total=total)

    return rule


def _position(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del cutting
    assert isinstance(node.attributes, ArgAttributes)
    (state,), axis = states, node.attributes.axis
    refuse_parts(node, states)
    if isinstance(state, Split) and state.axis == axis:
        raise NeededWhole(0, f"`{node.op}` gives a place along the axis that is cut")
    return one(states, state.at(state.axis - (state.axis > axis)) if isinstance(state, Split) else COMMON)


def _running(*, is_linear: bool) -> ShardingRule:
    """A scan along an axis that is split goes through all blocks."""

    def rule(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
        del cutting
        assert isinstance(node.attributes, AxisAttributes)
        (state,) = states
        if isinstance(state, Split) and state.axis == node.attributes.axis:
            raise NeededWhole(0, f"`{node.op}` runs along the axis that is cut")
        if isinstance(state, Partial) and (state != SUM or not is_linear):
            refuse_parts(node, states)
        return one(states, COMMON if isinstance(state, Common) else state)

    return rule


# ---------------------------------------------------------------- degrees --


def sum_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    assert isinstance(node.attributes, ReduceAttributes)
    count = product(node.operands[0].tensor.shape[axis] for axis in node.attributes.axes)
    return more(degrees[0], sizes.power(count))


def _prod_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    assert isinstance(node.attributes, ReduceAttributes)
    counts = [node.operands[0].tensor.shape[axis] for axis in node.attributes.axes]
    if degrees[0] == ANY:
        return ANY
    return degrees[0] if degrees[0] == FLAT and sizes.is_fixed(counts) else None


def _cumsum_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    assert isinstance(node.attributes, AxisAttributes)
    return more(degrees[0], sizes.power(node.operands[0].tensor.shape[node.attributes.axis]))


def _cumprod_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    assert isinstance(node.attributes, AxisAttributes)
    if degrees[0] == ANY:
        return ANY
    count = node.operands[0].tensor.shape[node.attributes.axis]
    return degrees[0] if degrees[0] == FLAT and sizes.is_fixed([count]) else None


# ---------------------------------------------------------------- rows --


def _sum_of_rows(b: Builder, node: Node, x: Sparse) -> Value | None:
    """The sum of all elements, as for the norm of a gradient."""
    return None if x.base is not None or node.result.tensor.shape else whole_sum(b, x)


# ---------------------------------------------------------------- short batches --


def _mean_of_counted(b: Builder, node: Node, x: Value, short: Callable[[Dim], Value]) -> Value:
    """What is short of bits is summed in a longer type, as a mean of it is."""
    where, dtype = node.attributes, x.tensor.dtype
    assert isinstance(where, ReduceAttributes)
    if x.tensor.machine.size < F32.size:
        x = b.cast(x, F32)
    count = short(product(x.tensor.shape[axis] for axis in where.axes))
    total = b.sum(x, where.axes, where.keep_dims)
    return b.cast(b.apply("div", total, b.cast(count, x.tensor.dtype)), dtype)


SUMS = replace(
    DEFAULTS,
    sharding=reduced("sum", is_linear=True),
    degree=sum_degree,
    row_total=_sum_of_rows,
    before_combining=True,
    statistic=summed,
    filling=ADDED,
)
MEAN = replace(
    DEFAULTS,
    sharding=reduced("sum", is_linear=True, total="sum"),
    degree=as_first,
    before_combining=True,
    filling=Filling(0, divided=_mean_of_counted),
)
MAX = replace(DEFAULTS, sharding=reduced("max"), degree=as_all_evenly, filling=COPIES, keeps_finite=True)
MIN = replace(DEFAULTS, sharding=reduced("min"), degree=as_all_evenly, filling=COPIES, keeps_finite=True)
ANY_OF = replace(DEFAULTS, sharding=reduced("or"), filling=COPIES)
ALL_OF = replace(DEFAULTS, sharding=reduced("and"), filling=COPIES)
PROD = replace(DEFAULTS, sharding=reduced(), degree=_prod_degree, filling=MULTIPLIED, owners_combine="prod")
POSITION = replace(DEFAULTS, sharding=_position)
CUMSUM = replace(DEFAULTS, sharding=_running(is_linear=True), degree=_cumsum_degree)
CUMPROD = replace(DEFAULTS, sharding=_running(is_linear=False), degree=_cumprod_degree)
CUMULATIVE_EXTREME = replace(DEFAULTS, sharding=_running(is_linear=False), degree=as_all_evenly)
