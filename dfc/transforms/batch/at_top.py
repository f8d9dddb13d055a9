"""What is decided at the top of an entry, outside loops and branches: what to combine early, and rows of tables.

Assumes the states of a node's operands. Guarantees nothing about what is inside regions, where nothing can be combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dfc.ir.graph import Node
from dfc.ops.attributes import AssignAttributes, OperandSelector, ScatterAttributes
from dfc.ops.lowering.views import picked_axis
from dfc.ops.rules.lookup import rules_of, use_of
from dfc.ops.rules.sharding import Common, Cutting, Partial, Split, State
from dfc.ops.rules.use import NeededWhole, Use, whole

LARGE_TABLE = 4096
"""Rows of a table from which on the rows to be added go round, with their places, and not a table of sums a block."""


def stacked(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """Rows that are picked or assigned by the numbers of each block, and what is made of them element by element."""
    axis = picked_axis(node)
    if axis is None and not isinstance(node.attributes, AssignAttributes):
        result = _on_stacks(node, states)
        if result is not None:
            return result
        whole_first(node, states)
        return use_of(node, states, cutting)
    if axis is not None:
        x, ids = states
        if isinstance(x, Common) and isinstance(ids, Split):
            return Use((x, ids), (Split(axis + ids.axis, ids.outer),), shared=True)
    match node.attributes:
        case AssignAttributes(index=index) if len(states) == 2 and index:
            axis = next(number for number, selector in enumerate(index) if isinstance(selector, OperandSelector))
            required = [
                isinstance(state, Split) and state.at(state.axis - axis_of_rows)
                for state, axis_of_rows in zip(states, (axis, 0), strict=True)
            ]
            if required[0] and required[0] == required[1]:
                return Use(tuple(states), (), shared=True)
        case _:
            pass
    return whole(node, states, "all tasks do the same with it")


def _on_stacks(node: Node, states: Sequence[State]) -> Use | None:
    """Once for all blocks of a task, if the pieces are cut alike and all else is the same along them."""
    rank = node.result.tensor.rank
    pieces = {state for state in states if isinstance(state, Split)}
    if len(pieces) != 1 or any(isinstance(state, Partial) for state in states):
        return None
    (piece,) = pieces
    for state, value in zip(states, node.operands, strict=True):
        fits = value.tensor.rank == rank if isinstance(state, Split) else value.tensor.rank < rank - piece.axis
        if not fits:
            return None
    return Use(tuple(states), (piece,), shared=True)


def whole_first(node: Node, states: Iterable[State], *, is_large: bool = False) -> None:
    """At the top: what is better made whole before a node than after it; before one that makes something large in any
    case."""
    for number, state in enumerate(states):
        if isinstance(state, Partial) and not rules_of(node).before_combining:
            raise NeededWhole(number, f"`{node.op}` takes the sum over all blocks")
        if isinstance(state, Split) and (is_large or _fills_a_table(node)):
            raise NeededWhole(number, "the rows of a large table travel alone")


def _fills_a_table(node: Node) -> bool:
    how = node.attributes
    return isinstance(how, ScatterAttributes) and (how.shape[how.axis].constant or 0) >= LARGE_TABLE
