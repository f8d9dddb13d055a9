"""The space between two tokens of a formatted line."""

from __future__ import annotations

from dfc.syntax.messages.situation import VALUE_END
from dfc.syntax.reader.lexer import Token

# Behind these an opening bracket belongs to what stands before it.
ATTACHING = VALUE_END | {"QUESTION"}


def gap(before: list[Token], token: Token, in_index: bool) -> str:
    """The space in front of `token`. `before` are up to three tokens in front of it, also of lines above;
    `in_index` tells that the innermost open bracket is a `[` behind a value or a type."""
    previous = before[-1]
    if token.kind in ("COMMA", "RPAR", "RSQB") or previous.kind in ("LPAR", "LSQB"):
        return ""
    if previous.kind == "DOTS" or (token.kind == "DOTS" and previous.kind in VALUE_END):
        return ""
    if "DOT" in (token.kind, previous.kind):
        return " " if token.kind == "DOT" and previous.kind in ("FROM", "IMPORT") else ""
    if previous.kind == "MINUS" and is_sign(before[:-1]):
        return ""
    if token.kind == "COLON":
        return " " if previous.kind == "COMMA" else ""
    if previous.kind == "COLON" and in_index:
        return ""
    if token.kind in ("LPAR", "LSQB"):
        return "" if previous.kind in ATTACHING or (token.kind, previous.kind) == ("LPAR", "FN") else " "
    return " "


def is_sign(before: list[Token]) -> bool:
    """A minus behind `before` negates: nothing stands there that could be subtracted from."""
    return not before or before[-1].kind not in VALUE_END
