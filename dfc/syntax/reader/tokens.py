"""The words of a text.

Guarantees that the tokens, comments, white space and strange characters of a text are the whole text.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass

END = "$END"
COMMENT = "COMMENT"
NAME = "NAME"
STRANGE = "STRANGE"
WHITE_SPACE = "WS"


class Token(str):
    """A word: `type` is the name of its terminal; it stands from `start_pos` up to, not including, `end_pos`."""

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int

    @property
    def value(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Lexed:
    """What a text consists of; `strange` holds the offsets of what begins no token."""

    tokens: list[Token]
    comments: list[Token]
    strange: list[int]
