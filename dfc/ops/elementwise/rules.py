"""What passes have to know of element-wise ops: which of them are linear, and in which operands."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Node
from dfc.ops.rules.op_rules import OpRules
from dfc.ops.rules.sharding import COMMON, SUM, ZEROS, Partial, State
from dfc.ops.rules.use import POINTWISE, pointwise


def _could_be_parts(states: Sequence[State]) -> list[bool]:
    return [isinstance(state, Partial) or state == ZEROS for state in states]


def _all_parts(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return [SUM for _ in states] if all(_could_be_parts(states)) else None


def _chosen_parts(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    mask, *others = states
    return (COMMON, SUM, SUM) if not isinstance(mask, Partial) and all(_could_be_parts(others)) else None


def _parts_and_common(states: Sequence[State]) -> Sequence[State]:
    return [state if isinstance(state, Partial) else COMMON for state in states]


def _scaled_part(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return _parts_and_common(states) if sum(isinstance(state, Partial) for state in states) == 1 else None


def _divided_part(node: Node, states: Sequence[State]) -> Sequence[State] | None:
    x, y = states
    is_exact = node.result.tensor.machine.is_float
    return (SUM, COMMON) if is_exact and isinstance(x, Partial) and not isinstance(y, Partial) else None


def _part_alone(_node: Node, states: Sequence[State]) -> Sequence[State] | None:
    return states


def _cast_part(node: Node, states: Sequence[State]) -> Sequence[State] | None:
    """A cast of a sum is the sum of the casts, but for rounding, if no range is lost."""
    before, after = node.operands[0].tensor.machine, node.result.tensor.machine
    return states if before.is_float and after.is_float and after.size >= before.size else None


ELEMENTWISE = OpRules(sharding=POINTWISE)
"""For an op that is linear in none of its operands."""
ADD = OpRules(sharding=pointwise(_all_parts))
SUB = OpRules(sharding=pointwise(_all_parts))
MUL = OpRules(sharding=pointwise(_scaled_part))
DIV = OpRules(sharding=pointwise(_divided_part))
NEG = OpRules(sharding=pointwise(_part_alone, keeps_zeros=True))
CAST = OpRules(sharding=pointwise(_cast_part, keeps_zeros=True))
SELECT = OpRules(sharding=pointwise(_chosen_parts))
