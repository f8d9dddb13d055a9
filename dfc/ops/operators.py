"""Operators of the language, as records spell them."""

from __future__ import annotations

from functools import cache

from dfc.ir.graph import Node
from dfc.ops.registry import all_records, record

RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
UPDATES = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div"}
"""What an assignment computes of the old value and the new one; none for `:=`."""


@cache
def op_between(operator: str) -> str:
    """The op that an operator between two operands means; KeyError if there is none."""
    by_operator = {each.operator: each.name for each in all_records() if len(each.parameters) == 2 and each.operator}
    return by_operator[operator]


def relation_of(node: Node) -> str | None:
    """The relation that a node asks for between its two operands; None if it asks for none."""
    operator = record(node.op).operator
    return operator if operator in RELATIONS else None
