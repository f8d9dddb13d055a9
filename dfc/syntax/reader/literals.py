"""The values of literals, and what can be wrong with them."""

from __future__ import annotations

import math
import re

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span

DIGIT_LIMIT = 400
LARGEST_CODE_POINT = 0x10FFFF
SIMPLE_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t"}
ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|(.))", re.DOTALL)


def integer_value(text: str, span: Span, problems: list[Diagnostic]) -> int:
    digits = text.replace("_", "")
    if len(digits) > DIGIT_LIMIT:
        problems.append(error("E0145", f"a number has at most {DIGIT_LIMIT} digits", span, "too long"))
        return 0
    if digits == "0x":
        problems.append(
            error("E0145", "a hexadecimal number needs digits", span, helps=[replacing("write `0x0`", span, "0x0")])
        )
        return 0
    return int(digits, 16) if digits.startswith("0x") else int(digits)


def float_value(text: str, span: Span, problems: list[Diagnostic]) -> float:
    value = float(text.replace("_", ""))
    if math.isinf(value):
        label = "larger than 1.8e308, the largest f64"
        problems.append(error("E0145", "this number is too large", span, label))
    return value


def string_value(text: str, span: Span, problems: list[Diagnostic]) -> str:
    """The text between the quotes, with its escapes resolved."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner

    def resolve(match: re.Match[str]) -> str:
        code, char = match.groups()
        if code is not None and _is_character(int(code, 16)):
            return chr(int(code, 16))
        if char in SIMPLE_ESCAPES:
            return SIMPLE_ESCAPES[char]
        start = span.start + 1 + match.start()
        escape_span = span.file.span(start, start + len(match.group()))
        problems.append(_bad_escape(match.group(), escape_span))
        return ""

    return ESCAPE.sub(resolve, inner)


def _is_character(code: int) -> bool:
    return code <= LARGEST_CODE_POINT and not 0xD800 <= code <= 0xDFFF


def _bad_escape(escape: str, span: Span) -> Diagnostic:
    if escape.startswith("\\u{"):
        return error("E0146", f"`{escape}` is no character", span, "surrogate or too large")
    return error(
        "E0146",
        f"the escape `{escape}` means nothing",
        span,
        notes=['the escapes are \\" \\\\ \\n \\t and \\u{...}'],
        helps=[replacing("for a backslash, write `\\\\`", span, "\\" + escape)],
    )


def string_text(value: str) -> str:
    """A literal with this value; the inverse of `string_value`."""
    return '"' + "".join(_escaped(char) for char in value) + '"'


def _escaped(char: str) -> str:
    simple = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    if char in simple:
        return simple[char]
    return char if char.isprintable() else f"\\u{{{ord(char):X}}}"
