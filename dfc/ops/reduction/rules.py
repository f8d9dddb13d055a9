"""What passes have to know of reductions and of folds along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Node
from dfc.ops.attributes import ArgAttributes, AxisAttributes, ReduceAttributes
from dfc.ops.rules.op_rules import OpRules
from dfc.ops.rules.sharding import COMMON, SUM, Common, Cutting, Partial, Split, State
from dfc.ops.rules.use import NeededWhole, ShardingRule, Use, one, refuse_parts


def reduced(how: str = "", *, is_linear: bool = False, total: str = "") -> ShardingRule:
    """Over the axis that is cut each block makes a part, and all of them together make the result in this way (`how`:
    sum, max, min, and, or; none if they do not). `total`: see `Use`."""

    def rule(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
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


def _position(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del cutting
    assert isinstance(node.attributes, ArgAttributes)
    (state,), axis = states, node.attributes.axis
    refuse_parts(node, states)
    if isinstance(state, Split) and state.axis == axis:
        raise NeededWhole(0, f"`{node.op}` gives a place along the axis that is cut")
    return one(states, state.at(state.axis - (state.axis > axis)) if isinstance(state, Split) else COMMON)


def _running(*, is_linear: bool) -> ShardingRule:
    """A fold along an axis that is cut goes through all blocks."""

    def rule(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
        del cutting
        assert isinstance(node.attributes, AxisAttributes)
        (state,) = states
        if isinstance(state, Split) and state.axis == node.attributes.axis:
            raise NeededWhole(0, f"`{node.op}` runs along the axis that is cut")
        if isinstance(state, Partial) and (state != SUM or not is_linear):
            refuse_parts(node, states)
        return one(states, COMMON if isinstance(state, Common) else state)

    return rule


SUMS = OpRules(sharding=reduced("sum", is_linear=True))
MEAN = OpRules(sharding=reduced("sum", is_linear=True, total="sum"))
MAX = OpRules(sharding=reduced("max"))
MIN = OpRules(sharding=reduced("min"))
ANY = OpRules(sharding=reduced("or"))
ALL = OpRules(sharding=reduced("and"))
PROD = OpRules(sharding=reduced())
POSITION = OpRules(sharding=_position)
CUMSUM = OpRules(sharding=_running(is_linear=True))
CUMPROD = OpRules(sharding=_running(is_linear=False))
CUMULATIVE_EXTREME = OpRules(sharding=_running(is_linear=False))
