"""Messages about uses of divided state that would bring all of it to one task."""

from __future__ import annotations

from dfc.diagnostics import Diagnostic, error
from dfc.ir.graph import Node, Value
from dfc.passes.shard.model import Sharded

WHOLE = "E0832"


def whole(value: Value, state: str, sharded: Sharded, node: Node | None, reason: str) -> Diagnostic:
    """Something of the size of a table is needed in one place."""
    statement = sharded.statement
    title = f"all rows of `{state}` would have to be brought to one task"
    span = node.span if node is not None else (value.node.span if value.node is not None else statement.span)
    return error(
        WHOLE,
        title,
        span,
        reason,
        secondary=[(statement.span, f"its rows lie in {sharded.division.tasks} tasks")],
        helps=[
            "take the rows that are needed, by their numbers, or sums along the other axes",
            f'from outside, `.state["{state}"]` puts it together',
        ],
    )
