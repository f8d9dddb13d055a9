"""A node in the place of one that is rewritten: it has its name and its place in the text."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.attributes import Attributes
from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import RewriteSite
from dfc.ir.types import Type


def append_node(
    site: RewriteSite, op: str, operands: Sequence[Value], types: Sequence[Type], attributes: Attributes | None = None
) -> Node:
    origin = site.node
    node = Node(op, operands, types, attributes=attributes, name=origin.name, span=origin.span)
    site.output.append(node)
    return node
