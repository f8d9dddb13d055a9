"""What passes ask about values: constants, defining nodes, what they depend on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir import walk
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.record import Array

GRADIENT_OPS = frozenset({"grad", "jacobian"})
"""Ops without a meaning of their own: `autodiff` replaces them."""


def constant_of(value: Value) -> Array | None:
    """The array of a value that a `constant` node makes."""
    node = value.node
    if node is None or not isinstance(node.attributes, ConstantAttributes):
        return None
    return node.attributes.value.array


def uniform_of(value: Value) -> Array | None:
    """The one number that all elements of a constant (or of a broadcast or reshape of one) are, as a 0-d array."""
    while value.node is not None and value.node.op in ("broadcast", "reshape"):
        value = value.node.operands[0]
    array = constant_of(value)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[:1]
    same = array.tobytes() == first.tobytes() * array.size
    return np.asarray(first[0]) if same else None


def made_by(value: Value, op: str) -> Node | None:
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
