"""Ops that a target may have a routine for, and so are kept whole until fusion."""

from __future__ import annotations

from dfc.ir.dtypes import F64
from dfc.ir.graph import Node
from dfc.ops import registry
from dfc.ops.lowering.forms import Decompose


def has_routine(node: Node) -> bool:
    """Whether a routine computes the op of this node, in f64."""
    lowering = registry.record(node.op).lowering
    return isinstance(lowering, Decompose) and lowering.routine is not None


def routine_of(node: Node) -> str | None:
    """The name of the routine that computes this node as it is: its operands are f64."""
    lowering = registry.record(node.op).lowering
    if not isinstance(lowering, Decompose) or lowering.routine is None:
        return None
    return lowering.routine(node.attributes) if all(v.tensor.dtype == F64 for v in node.operands) else None
