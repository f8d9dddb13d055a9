"""Reads of variables, and values in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import Pass, RewriteSite
from dfc.ops.attributes import ResourceAttributes


def variable_read_by(node: Node | None) -> str:
    """The variable that a node reads; "" if it is no read."""
    if node is None or node.op != "read":
        return ""
    assert isinstance(node.attributes, ResourceAttributes)
    return node.attributes.resource


class ReadsReplaced(Pass):
    """Replaces reads, in loops and branches, too, by values that are known before; with `until_written` only as long as
    nothing has written the variable."""

    def __init__(self, values: Mapping[str, Value], *, until_written: bool = False) -> None:
        self._values = dict(values)
        self._until_written = until_written

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op != "read":
            if self._until_written and site.node.op == "assign":
                (token,) = (value for value in site.operands if value.is_token)
                self._values.pop(token.resource, None)
            return None
        value = self._values.get(variable_read_by(site.node))
        return None if value is None else (value, site.operands[0])
