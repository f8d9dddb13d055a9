"""Nodes that save and restore state by full name: which they are, and the same for other state."""

from __future__ import annotations

from collections.abc import Iterable

from dfc.ir.graph import Node, Value
from dfc.ops.attributes import HostAttributes

CHECKPOINTS = frozenset({"checkpoint_save", "checkpoint_restore"})


def saved_state(node: Node) -> tuple[str, ...]:
    """The full names of what a node saves or restores; none if it does neither."""
    if node.op not in CHECKPOINTS:
        return ()
    assert isinstance(node.attributes, HostAttributes)
    return node.attributes.resources


def checkpoint_over(node: Node, path: Value, tokens: Iterable[Value]) -> Node:
    """A checkpoint as this one, of the state of these tokens, in the order of its names."""
    ordered = sorted(tokens, key=lambda token: token.resource)
    return Node(
        node.op,
        (path, *ordered),
        [token.type for token in ordered],
        attributes=HostAttributes(tuple(token.resource for token in ordered)),
        name=node.name,
        span=node.span,
    )
