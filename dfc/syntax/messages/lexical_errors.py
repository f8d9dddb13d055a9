"""Explains characters that begin no token: signs of other languages, quotes, letters outside ASCII."""

from __future__ import annotations

import re

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import SourceFile

SIGNS = {
    "&&": ("E0102", "`&&` is spelled `and`", "write `and`"),
    "&": ("E0102", "`&` is spelled `and`", "write `and`"),
    "||": ("E0102", "`||` is spelled `or`", "write `or`"),
    "|": ("E0102", "`|` is spelled `or`", "write `or`"),
    "!": ("E0102", "`!` is spelled `not`", "write `not`"),
    "^": ("E0102", "`^` is not an operator", "write `**` for a power"),
    "~": ("E0102", "`~` is not an operator; what is true or false is negated with `not`", "write `not`"),
    "$": ("E0100", "`$` means nothing in .dfg", "delete it"),
    "\\": ("E0107", "a line needs no `\\` to go on", "delete the `\\`: line ends are white space"),
    "`": ("E0103", "strings are written with double quotes", 'write `"`'),
    "\u00d7": ("E0102", "this multiplication sign is spelled `*`", "write `*`"),
    "\u00b7": ("E0102", "this multiplication sign is spelled `*`", "write `*`"),
    "\u2212": ("E0102", "this minus sign is spelled `-`", "write `-`"),
    "\u2013": ("E0102", "this dash is spelled `-`", "write `-`"),
    "\u2264": ("E0102", "this sign is spelled `<=`", "write `<=`"),
    "\u2265": ("E0102", "this sign is spelled `>=`", "write `>=`"),
    "\u2260": ("E0102", "this sign is spelled `!=`", "write `!=`"),
    "\u2192": ("E0102", "this arrow is spelled `->`", "write `->`"),
}
QUOTED = re.compile(r"'([^'\n]*)'")
CURLY = re.compile("[\u201c\u201d\u201e\u2018\u2019]([^\u201c\u201d\u2018\u2019\n]*)[\u201c\u201d\u2018\u2019]?")
WORD = re.compile(r"\w+")
WRITTEN = re.compile(r"write `(\S+)`")


def explain_character(file: SourceFile, offset: int) -> Diagnostic:
    """The message for the character at `offset`, which begins no token."""
    text = file.text
    rest = text[offset : offset + 200]
    if rest.startswith(";"):
        label = "statements end where the next line begins"
        span = file.span(offset, offset + 1)
        return error("E0101", "`;` is not used in .dfg", span, label, helps=[_without_semicolon(file, offset)])
    if rest.startswith('"'):
        return _unclosed_string(file, offset)
    for quotes in (QUOTED, CURLY):
        match = quotes.match(rest)
        if match:
            return _wrong_quotes(file, offset, match)
    for sign in (rest[:2], rest[:1]):
        if sign in SIGNS:
            code, title, remedy = SIGNS[sign]
            span = file.span(offset, offset + len(sign))
            return error(code, title, span, helps=[_respelled(file, remedy, offset, len(sign))])
    return _strange_character(file, offset, rest)


def _without_semicolon(file: SourceFile, offset: int) -> Help:
    """What follows it on its line, if it is no comment, begins a line of its own then."""
    rest = file.text[offset + 1 :].partition("\n")[0]
    if not rest.strip() or rest.strip().startswith("#"):
        return replacing("delete the `;`", file.span(offset, offset + 1), "")
    start = file.text.rfind("\n", 0, offset) + 1
    line = file.text[start:offset]
    indent = line[: len(line) - len(line.lstrip())]
    blank = len(rest) - len(rest.lstrip())
    return replacing("write a new line", file.span(offset, offset + 1 + blank), f"\n{indent}")


def _respelled(file: SourceFile, remedy: str, offset: int, length: int) -> Help:
    """A word stands apart from what surrounds it."""
    quoted = WRITTEN.match(remedy)
    if quoted is None:
        return replacing(remedy, file.span(offset, offset + length), "")
    text = quoted.group(1)
    before, behind = file.text[max(0, offset - 1) : offset], file.text[offset + length : offset + length + 1]
    if text.isalpha():
        text = " " * bool(WORD.match(before)) + text + " " * (behind not in ("", " ", "\n"))
    return replacing(remedy, file.span(offset, offset + length), text)


def _unclosed_string(file: SourceFile, offset: int) -> Diagnostic:
    label = "it must end on the line it starts on"
    title = "this string is never closed"
    return error("E0104", title, file.span(offset, offset + 1), label, helps=['add the closing `"`'])


def _wrong_quotes(file: SourceFile, offset: int, match: re.Match[str]) -> Diagnostic:
    title = "strings are written with double quotes"
    remedy = f'write `"{match.group(1)}"`'
    span = file.span(offset, offset + len(match.group()))
    return error("E0103", title, span, helps=[replacing(remedy, span, f'"{match.group(1)}"')])


def _strange_character(file: SourceFile, offset: int, rest: str) -> Diagnostic:
    char = rest[:1]
    if char.isspace() or char in "\u200b\u2060\ufeff":
        title = f"U+{ord(char):04X} is no white space in .dfg"
        span = file.span(offset, offset + 1)
        return error("E0108", title, span, helps=[replacing("replace it by a plain space", span, " ")])
    word = WORD.match(rest)
    if word and char.isalnum():
        title = "names consist of the letters a to z, A to Z, digits and `_`"
        start = offset
        while start and WORD.match(file.text[start - 1]):
            start -= 1
        span = file.span(start, offset + len(word.group()))
        return error("E0105", title, span, f"U+{ord(char):04X} is none of them")
    name = f"`{char}`" if " " <= char <= "~" else f"U+{ord(char):04X}"
    return error("E0100", f"the character {name} means nothing here", file.span(offset, offset + 1))
