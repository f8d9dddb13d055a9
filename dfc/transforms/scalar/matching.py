"""What passes ask about values: defining nodes, and what they depend on."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.graph import Node, Value

GRADIENT_OPS = frozenset({"grad", "jacobian"})
"""Ops without a meaning of their own: `autodiff` replaces them."""


def producer(value: Value, op: str) -> Node | None:
    """The node of this op that makes a value."""
    return value.node if value.node is not None and value.node.op == op else None


def ancestors(values: Sequence[Value]) -> list[Node]:
    """The nodes that values depend on, operands first. Iterative: a value may hang on a long chain."""
    order: list[Node] = []
    entered: set[Node] = set()
    pending = [(v.node, False) for v in values if v.node is not None]
    while pending:
        node, done = pending.pop()
        if done:
            order.append(node)
        elif node not in entered:
            entered.add(node)
            pending.append((node, True))
            pending.extend((v.node, False) for v in walk.inputs(node) if v.node is not None and v.node not in entered)
    return order
