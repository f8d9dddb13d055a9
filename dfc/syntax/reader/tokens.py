"""The words of a text.

Guarantees that the tokens, comments, white space and strange characters of a text are the whole text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfc.deferred.dataclasses import dataclass

if TYPE_CHECKING:

    class Token(str):
        """lark's token, of a text: `type` is the name of its terminal; it stands from `start_pos` up to, not
        including, `end_pos`. lark's own type allows for tokens that stand nowhere, and no token here does."""

        type: str
        value: str
        start_pos: int
        end_pos: int

        def __new__(cls, type: str, value: str, start_pos: int, *, end_pos: int) -> Token: ...

else:
    from lark import Token

END = "$END"
COMMENT = "COMMENT"
STRANGE = "STRANGE"


@dataclass(frozen=True, slots=True)
class Lexed:
    """What a text consists of; `strange` holds the offsets of what begins no token."""

    tokens: list[Token]
    comments: list[Token]
    strange: list[int]
