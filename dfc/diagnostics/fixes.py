"""Helps that can be applied as they stand: what to replace in the author's text, and by what.

Assumes spans of files that an author wrote. Guarantees that the edits of one fix lie in one file and apart from each
other, so that their order means nothing; whoever cannot say exactly what to type gives a plain text instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` in place of what `span` covers; an empty span is a place to insert at."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """The text of a help, and the edits that do what it says."""

    help: str
    edits: tuple[Edit, ...]


Help: TypeAlias = "str | Fix"


def replacing(help_: str, span: Span, text: str) -> Help:
    """A help that replaces one piece of text; only words if no author wrote that piece."""
    return editing(help_, [Edit(span, text)])


def editing(help_: str, edits: Iterable[Edit]) -> Help:
    """A help of several edits; only words if there are none, or one of them is not in the author's file.

    What is inserted at one place stands there in the order given.
    """
    ordered = _joined(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)))
    if not ordered or any(edit.span.is_nowhere or edit.span.name != ordered[0].span.name for edit in ordered):
        return help_
    if any(first.span.end > second.span.start for first, second in pairwise(ordered)):
        return help_
    return Fix(help_, tuple(ordered))


def _joined(edits: list[Edit]) -> list[Edit]:
    joined: list[Edit] = []
    for edit in edits:
        if joined and edit.span == joined[-1].span and edit.span.start == edit.span.end:
            joined[-1] = Edit(edit.span, joined[-1].text + edit.text)
        else:
            joined.append(edit)
    return joined


def alone(span: Span) -> Span:
    """The whole line if nothing else stands on it, with the blanks behind it otherwise."""
    text = span.file.text
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    end = len(text) if end < 0 else end
    if not text[start : span.start].strip() and not text[span.end : end].strip():
        return Span(span.file, start, min(end + 1, len(text)))
    rest = text[span.end : end]
    return Span(span.file, span.start, span.end + len(rest) - len(rest.lstrip()))


def text_of(help_: Help) -> str:
    return help_.help if isinstance(help_, Fix) else help_


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text of a file with these edits made."""
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end), reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
