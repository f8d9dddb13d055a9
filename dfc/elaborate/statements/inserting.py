"""Where a fix puts what is missing: an import, a conversion, or a name in the brackets of a declaration."""

from __future__ import annotations

import re

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import SourceFile, Span
from dfc.diagnostics.suggestions import converted, grouped

_IMPORT = re.compile(r"^(import|from)\b")
_EDITION = re.compile(r"^dfg\b")


_TIGHT_BEFORE = re.compile(r"(?:\*\*|-)\s*$")  # a sign, or the operator that binds most tightly
_TIGHT_BEHIND = re.compile(r"[ ]*(?:\*\*|[\[(]|\.(?!\.))")
_NUMBER = re.compile(r"-?[0-9][0-9_]*(?:\.[0-9]+)?")
_CONVERSION = re.compile(r".* as \w+$", re.DOTALL)


def conversion(span: Span, dtype: object) -> str:
    """The expression at `span` converted, as it can be typed there."""
    return operand(converted(span.text, dtype), span)


def operand(text: str, span: Span) -> str:
    """An expression to type at `span`: a conversion is put in parentheses where it would not be taken as a whole,
    since a sign, a power, an index, a call or a member beside it binds more tightly than `as`."""
    if span.is_nowhere or not _CONVERSION.match(text):
        return text
    file = span.file.text
    line = file[file.rfind("\n", 0, span.start) + 1 : span.start]
    is_tight = _TIGHT_BEFORE.search(line) or _TIGHT_BEHIND.match(file, span.end)
    return grouped(text) if is_tight else text


def started_as(name: str, value: Span, type_: str) -> Help | None:
    """For a loop variable that begins with a number at `value`: one that begins as a value of another type."""
    if value.is_nowhere or not _NUMBER.fullmatch(value.text):
        return None
    if type_ == "f32" and "." not in value.text:
        return replacing(f"begin with `{name} = {value.text}.0`", value, f"{value.text}.0")
    text = value.file.text
    before = text[: text.rindex("=", 0, value.start)].rstrip()
    if not before.endswith(name):
        return None
    edit = Span(value.file, len(before), value.end)
    return replacing(f"begin with `{name}: {type_} = {value.text}`", edit, f": {type_} = {value.text}")


def importing(help_: str, statement: str, span: Span) -> Help:
    """A help that adds an import to the file of `span`."""
    if span.is_nowhere:
        return help_
    insertion = _top(span.file)
    before_import = _IMPORT.match(span.file.text[insertion.start :]) is not None
    return replacing(help_, insertion, f"{statement}\n" if before_import else f"{statement}\n\n")


def _top(file: SourceFile) -> Span:
    """The first line of the imports, or that of the first declaration, with what documents it."""
    lines = file.text.split("\n")
    at = next((number for number, line in enumerate(lines) if _IMPORT.match(line)), None)
    if at is None:
        at = _first_item(lines)
    start = file.line_starts[at]
    return Span(file, start, start)


def _first_item(lines: list[str]) -> int:
    """Behind the edition and the documentation of the file, which ends with an empty line."""
    at = 0
    while at < len(lines) and (_EDITION.match(lines[at]) or not lines[at].strip()):
        at += 1
    end = at
    while end < len(lines) and lines[end].startswith("#"):
        end += 1
    while end < len(lines) and end > at and not lines[end].strip():
        end, at = end + 1, end + 1
    return min(at, len(lines) - 1)


def generic(help_: str, name: str, declared: str, frame: Span) -> Help:
    """A help that adds `name` to the generic names of `declared`, whose declaration begins at `frame` or before it."""
    if frame.is_nowhere:
        return help_
    text = frame.file.text
    match = re.compile(rf"\b{re.escape(declared)}\b[ ]*(\[[^\]]*\])?").search(text, frame.start)
    if match is None:
        return help_
    brackets = match.group(1)
    if brackets is None:
        at, added = match.start() + len(declared), f"[{name}]"
    else:
        at, added = match.end() - 1, name if not brackets[1:-1].strip() else f", {name}"
    return replacing(help_, Span(frame.file, at, at), added)
