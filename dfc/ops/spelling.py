"""How nodes are written where the language has a shorter form than `graph.OP(..)` that makes the same node."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.attributes import NoAttributes
from dfc.ir.graph import Graph, Node
from dfc.ir.names import KEYWORDS
from dfc.ir.text.printer import Notes, print_graph
from dfc.ops import registry
from dfc.ops.attributes import CastAttributes
from dfc.ops.record import Effect, Parameter


def show(graph: Graph, notes: Notes | None = None) -> str:
    """The graph as `.dfg` text."""
    return print_graph(graph, spell, notes)


def spell(node: Node, operands: Sequence[str]) -> str | None:
    """Operators and prelude functions without arguments besides their operands; None for everything else."""
    record = registry.find(node.op)
    if record is None or record.effect is not Effect.PURE or any(v.is_token for v in node.operands):
        return None
    if isinstance(node.attributes, CastAttributes) and node.operands[0].tensor.dtype != node.attributes.dtype:
        return f"{operands[0]} as {node.attributes.dtype}"
    if not isinstance(node.attributes, NoAttributes) or not operands:
        return None
    if record.operator:
        return _with_operator(record.operator, operands)
    plain_call = record.in_prelude and record.build is None and node.op not in KEYWORDS
    return f"{node.op}({', '.join(operands)})" if plain_call and _takes(record.parameters, operands) else None


def _with_operator(operator: str, operands: Sequence[str]) -> str | None:
    if len(operands) == 2:
        return f"{operands[0]} {operator} {operands[1]}"
    return f"{operator} {operands[0]}" if operator.isalpha() else f"{operator}{operands[0]}"


def _takes(parameters: Sequence[Parameter], operands: Sequence[str]) -> bool:
    """Whether the prelude function has exactly these operands as its parameters."""
    return len(parameters) == len(operands) and all(p.kind == "tensor" for p in parameters)
