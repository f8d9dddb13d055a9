"""Text to tokens.

The terminals, their order and the keywords come from the tables generated from the grammar. Guarantees that the
tokens and comments of a text, together with the white space between them, are the whole text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

END = "$END"
COMMENT = "COMMENT"
WHITE_SPACE = "WS"


@dataclass(slots=True)
class Token:
    """A word of the program: `kind` is the name of its terminal."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """What a text consists of. `stop` is where the first character lies that begins no token, if there is one."""

    tokens: list[Token]
    comments: list[Token]
    stop: int | None = None


class Lexer:
    """Cuts a text into tokens, the leftmost alternative first."""

    def __init__(self, terminals: list[tuple[str, str]], keywords: dict[str, str]) -> None:
        self._pattern = re.compile("|".join(f"(?P<{name}>{regexp})" for name, regexp in terminals))
        self._keywords = keywords

    def lex(self, text: str, start: int = 0, end: int | None = None) -> Lexed:
        """The tokens of `text[start:end]`, at their offsets in `text`."""
        tokens: list[Token] = []
        comments: list[Token] = []
        limit = len(text) if end is None else end
        keywords, position = self._keywords, start
        for match in self._pattern.finditer(text, start, limit):
            if match.start() != position:
                break
            position = match.end()
            kind = match.lastgroup
            if kind == "NAME":
                word = match.group()
                tokens.append(Token(keywords.get(word, kind), word, match.start(), position))
            elif kind == COMMENT:
                comments.append(Token(kind, match.group(), match.start(), position))
            elif kind is not None and kind != WHITE_SPACE:
                tokens.append(Token(kind, match.group(), match.start(), position))
        return Lexed(tokens, comments, position if position < limit else None)
