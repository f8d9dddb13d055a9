"""The space between two tokens of a formatted line."""

from __future__ import annotations

from dfc.syntax.messages.situation import VALUE_END
from dfc.syntax.reader.tokens import Token

# Behind these an opening bracket belongs to what stands before it.
ATTACHING = VALUE_END | {"QUESTION"}


def gap(before: list[Token], token: Token, in_index: bool) -> str:
    """The space in front of `token`. `before` are up to three tokens in front of it, also of lines above;
    `in_index` tells that the innermost open bracket is a `[` behind a value or a type."""
    previous = before[-1]
    if token.type in ("COMMA", "RPAR", "RSQB") or previous.type in ("LPAR", "LSQB"):
        return ""
    if previous.type == "DOTS" or (token.type == "DOTS" and previous.type in VALUE_END):
        return ""
    if "DOT" in (token.type, previous.type):
        return " " if token.type == "DOT" and previous.type in ("FROM", "IMPORT") else ""
    if previous.type == "MINUS" and is_sign(before[:-1]):
        return ""
    if token.type == "COLON":
        return " " if previous.type == "COMMA" else ""
    if previous.type == "COLON" and in_index:
        return ""
    if token.type in ("LPAR", "LSQB"):
        return "" if previous.type in ATTACHING or (token.type, previous.type) == ("LPAR", "FN") else " "
    return " "


def is_sign(before: list[Token]) -> bool:
    """A minus behind `before` negates: nothing stands there that could be subtracted from."""
    return not before or before[-1].type not in VALUE_END
