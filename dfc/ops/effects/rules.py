"""What passes have to know of state and of effects. Most of it follows from tokens, which passes see by themselves."""

from __future__ import annotations

from dataclasses import replace

from dfc.ir.graph import Node
from dfc.ops.builder import Builder
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_sparsity import Known, Sparse


def _present_value(b: Builder, node: Node, known: Known) -> Sparse:
    """What a variable holds is the base that rows are added to."""
    del b, known
    return Sparse((), node.result)


READ = replace(DEFAULTS, row_sparsity=_present_value)
CHECKPOINT = replace(DEFAULTS, alone="saves or restores state")
CLOCK = replace(DEFAULTS, alone="reads the clock")
FOR_PEOPLE = replace(DEFAULTS, for_people=True)
DRAW = replace(DEFAULTS, weight=16)
