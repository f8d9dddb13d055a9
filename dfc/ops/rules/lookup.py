"""What the record of a node's op says, or the safe default: where passes ask."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Node
from dfc.ops import registry
from dfc.ops.lowering.forms import Elementwise, Pick, View
from dfc.ops.lowering.views import index_map_of, whole_axis
from dfc.ops.registry import lowering_of
from dfc.ops.rules.costs import Cost, SizeOf, memory
from dfc.ops.rules.degrees import Degree, MaybeDegree, Sizes, pointwise, unknown
from dfc.ops.rules.op_rules import OpRules
from dfc.ops.rules.sharding import Partitioning, Split, State
from dfc.ops.rules.use import ALONG, POINTWISE, NeededWhole, ShardingRule, Use, needs_whole, one


def rules_of(node: Node) -> OpRules:
    return registry.record(node.op).rules


def is_elementwise(node: Node | None) -> bool:
    """Whether each element of the result is made of the operands' elements at the same point."""
    return node is not None and isinstance(registry.record(node.op).lowering, Elementwise)


def use_of(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """What a node wants of operands in these states, and gives; raises `NeededWhole`."""
    rule = rules_of(node).sharding or _sharding_of_form(node)
    return rule(node, states, cutting)


def _sharding_of_form(node: Node) -> ShardingRule:
    """What is known of an op without a rule, by how it becomes kernels."""
    match lowering_of(node):
        case Elementwise():
            return POINTWISE
        case View():
            return _view_of_piece
        case _:
            return needs_whole


def _view_of_piece(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """A view of parts of a sum is that of the sum; of a piece, where it goes along the axis that is cut as it is."""
    del cutting
    (state,) = states
    if not isinstance(state, Split):
        return one(states, state)
    index_map = index_map_of(node)
    assert index_map is not None, node
    index = index_map[state.axis]
    along = [axis for each in index_map for axis, _ in each.terms]
    result, size = node.result.tensor.shape, node.operands[0].tensor.shape[state.axis]
    if not whole_axis(index, size, result) or along.count(index.terms[0][0]) > 1:
        raise NeededWhole(0, ALONG)
    return one(states, state.at(index.terms[0][0]))


def degree_of(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """The degree of what a node without regions gives; `degrees` are those of its operands but tokens."""
    rule = rules_of(node).degree or (pointwise if is_elementwise(node) else unknown)
    degree = rule(node, degrees, sizes)
    if degree is not None and not degree.is_dense and sizes.is_fixed(node.result.tensor.shape):
        return Degree(degree.power)  # what is left has no examples: it is a sum over them
    return degree


def cost_of(node: Node, size_of: SizeOf) -> Cost:
    """What a node without regions computes and moves."""
    return (rules_of(node).cost or memory)(node, size_of)


def may_end_the_run(node: Node) -> bool:
    """Whether the run ends for some operands: by its rule, or since it reads where operands say."""
    record = registry.record(node.op)
    return record.rules.may_fail or isinstance(record.lowering, Pick)
