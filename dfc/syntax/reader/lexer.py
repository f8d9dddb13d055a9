"""Text to tokens.

The terminals, their order and the keywords come from the tables generated from the grammar. Guarantees that the
tokens, comments, white space and strange characters of a text are the whole text, and that any text is cut in
linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

END = "$END"
COMMENT = "COMMENT"
WHITE_SPACE = "WS"
STRANGE = "STRANGE"
# What begins no token: an unclosed string spoils the rest of its line, everything else itself alone.
STRANGE_PATTERN = r"""["'][^\n]*|[^\x00-\x7f]+|[\s\S]"""


@dataclass(slots=True)
class Token:
    """A word of the program: `kind` is the name of its terminal."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """What a text consists of; `strange` holds the offsets of what begins no token."""

    tokens: list[Token]
    comments: list[Token]
    strange: list[int]


class Lexer:
    """Cuts a text into tokens, the leftmost alternative first."""

    def __init__(self, terminals: list[tuple[str, str]], keywords: dict[str, str]) -> None:
        alternatives = [*terminals, (STRANGE, STRANGE_PATTERN)]
        self._pattern = re.compile("|".join(f"(?P<{name}>{regexp})" for name, regexp in alternatives))
        self._keywords = keywords

    def lex(self, text: str) -> Lexed:
        tokens: list[Token] = []
        comments: list[Token] = []
        strange: list[int] = []
        keywords = self._keywords
        for match in self._pattern.finditer(text):
            kind = match.lastgroup
            if kind == "NAME":
                word = match.group()
                tokens.append(Token(keywords.get(word, kind), word, match.start(), match.end()))
            elif kind == COMMENT:
                comments.append(Token(kind, match.group(), match.start(), match.end()))
            elif kind == STRANGE:
                strange.append(match.start())
            elif kind is not None and kind != WHITE_SPACE:
                tokens.append(Token(kind, match.group(), match.start(), match.end()))
        return Lexed(tokens, comments, strange)
