"""What passes have to know of values that come from no operand."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Node
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.constants import is_zero
from dfc.ops.rules.op_rules import OpRules
from dfc.ops.rules.sharding import COMMON, ZEROS, Cutting, Split, State
from dfc.ops.rules.use import Use, one


def _constant(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del states, cutting
    assert isinstance(node.attributes, ConstantAttributes)
    return one((), ZEROS if is_zero(node.attributes.value) else COMMON)


def _iota(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    can_cut = cutting.can_cut(node.result.tensor.shape[0])
    return one(states, Split(0) if can_cut else COMMON)


CONSTANT = OpRules(sharding=_constant)
IOTA = OpRules(sharding=_iota)
