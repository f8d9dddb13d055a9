"""What the builders of both languages share: the file, the place of a node in it, and what is wrong with literals.

lark gives a rule's children to the method `build_RULE`. They come in the order of the grammar, None for optional parts
that are absent. Of the fixed words and signs of a rule only one that opens it is among them, so that the place of a
node is known: it begins where its first child does, and ends with the last word that was read.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.syntax.reader.tokens import Token

# Nodes, tokens, tuples of them, or None: each method knows its own rule.
Children: TypeAlias = list[Any]


class NodeBuilder:
    """`end` is where the last word of the rule ends; the parser keeps it up to date."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.problems: list[Diagnostic] = []
        self.end = 0

    def span(self, children: Children) -> Span:
        """The text of the rule that has these children."""
        first = children[0] if children else None
        if first is None:
            first = next((child for child in children if child is not None), None)
        if isinstance(first, str):  # a token
            return Span(self.file, cast(Token, first).start_pos, self.end)
        if isinstance(first, tuple):
            first = cast("tuple[Any, ...]", first)[0]
        return Span(self.file, self.end if first is None else first.span.start, self.end)

    def span_of(self, token: Token) -> Span:
        return Span(self.file, token.start_pos, token.end_pos)
