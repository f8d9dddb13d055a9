"""The words of a text.

Guarantees that the tokens, comments, white space and strange characters of a text are the whole text.
"""

from __future__ import annotations

from typing import Protocol

from dfc.deferred.dataclasses import dataclass

END = "$END"
COMMENT = "COMMENT"


class Token(Protocol):
    """What is used of lark's tokens, whose places are known here: `type` is the name of the terminal, `value` the text
    from `start_pos` up to, not including, `end_pos`."""

    type: str
    value: str
    start_pos: int
    end_pos: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """What a text consists of; `strange` holds the offsets of what begins no token."""

    tokens: list[Token]
    comments: list[Token]
    strange: list[int]
