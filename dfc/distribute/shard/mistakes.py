"""Messages about uses of divided state that would bring all of it to one task."""

from __future__ import annotations

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Edit, Help, editing
from dfc.distribute.shard.model import Sharded
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import AssignAttributes
from dfc.ops.rules.lookup import rules_of
from dfc_runtime.errors import counted

WHOLE = "E0832"
ELSEWHERE = "its rows lie elsewhere than those it meets"


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
        secondary=[(statement.span, f"its rows lie in {counted(sharded.division.tasks, 'task')}")],
        helps=_helps(state, sharded, node, reason),
    )


def _helps(state: str, sharded: Sharded, node: Node | None, reason: str) -> list[Help]:
    division = sharded.division
    line = f"axis {sharded.axis} over {division.job} by {division.rule}"
    if node is not None and isinstance(node.attributes, AssignAttributes):
        same = f'shard "{node.attributes.resource}" {line}'
        words = f"let what it is written to lie in the same tasks: `{same}`"
        return [editing(words, [Edit(sharded.statement.span.after(), f"\n{same}")])]
    if reason == ELSEWHERE:
        return [f"divide both in the same way: `shard .. {line}` for each of them"]
    if node is not None and rules_of(node).for_people:
        return ["tell some rows of it, by their numbers, or a sum", "return it: whoever calls gets all rows"]
    return [
        "take the rows that are needed, by their numbers, or sums over them",
        "or return it: whoever calls gets all rows, and may do this there",
    ]
