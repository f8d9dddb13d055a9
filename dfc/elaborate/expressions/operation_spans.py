"""Where the parts of an operation stand in the text, for messages about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.diagnostics.source import Span


class OperationSpans:
    """Where the parts of an operation stand in the text."""

    __slots__ = ("arguments", "op", "operands", "operator", "span")

    def __init__(
        self,
        op: str,
        span: Span,
        operands: Sequence[Span] = (),
        operator: Span | None = None,
        arguments: Mapping[str, Span] | None = None,
    ) -> None:
        self.op = op
        self.span = span
        self.operands = tuple(operands)
        self.operator = operator if operator is not None else span
        self.arguments = arguments or {}
