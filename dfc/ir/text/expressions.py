"""A block as one nested expression, if building that expression makes its nodes in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured


def expression(block: Block, known: Mapping[Value, str], text: Callable[[Node, Sequence[str]], str]) -> str | None:
    """The block's only plain output, or None: if a value is used twice, or a node has regions or several results or
    measures a size.

    Operands are made left to right, so the nodes must stand in post-order. Works like a stack machine: each node takes
    the values it uses from the top of a stack of finished texts, in order.
    """
    results = [v for v in block.outputs if not v.is_token]
    counts = walk.use_counts(block)
    stack: list[tuple[Value, str]] = []
    for node in block.nodes:
        values = [v for v in node.results if not v.is_token]
        if node.regions or len(values) != 1 or measured(node) is not None or counts.get(values[0], 0) != 1:
            return None
        operands = _take(node, stack, known)
        if operands is None:
            return None
        stack.append((values[0], text(node, operands)))
    if len(results) != 1 or len(stack) > 1:
        return None
    if stack:
        return stack[0][1] if stack[0][0] is results[0] else None
    return known.get(results[0])


def _take(node: Node, stack: list[tuple[Value, str]], known: Mapping[Value, str]) -> list[str] | None:
    """The texts of a node's operands; the inner ones are popped, and must be the topmost in order."""
    plain = [v for v in node.operands if not v.is_token]
    inner = [v for v in plain if v not in known]
    start = len(stack) - len(inner)
    if start < 0 or [v for v, _ in stack[start:]] != inner:
        return None
    texts = iter([text for _, text in stack[start:]])
    del stack[start:]
    return [known[v] if v in known else _bracketed(next(texts)) for v in plain]


def _bracketed(text: str) -> str:
    """An operand inside a larger expression; calls and names need no brackets."""
    is_call = text.endswith(")") and text.split("(", 1)[0].replace(".", "").replace("_", "").isalnum()
    return text if text.isidentifier() or (is_call and _closes_last(text)) else f"({text})"


def _closes_last(text: str) -> bool:
    """Whether the first bracket is closed by the last character (outside of strings)."""
    depth = 0
    in_string = escaped = False
    for position, c in enumerate(text):
        if in_string:
            in_string = escaped or c != '"'
            escaped = c == "\\" and not escaped
            continue
        in_string = c == '"'
        depth += (c == "(") - (c == ")")
        if c == ")" and depth == 0:
            return position == len(text) - 1
    return False
