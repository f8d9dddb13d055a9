"""Globs over full names.

The parts of a name stand between `/` (an entry and what is in it) and `.` (a block and its members). `*` is one part or
a piece of one, `**` any number of parts, none included: `net.**` is `net.conv1.kernel`, `**/loss` is `train/loss`.

Guarantees that of two globs that match a name the one with more literal parts is the more specific, then the one with
more literal characters, then one without any `*`.
"""

from __future__ import annotations

import re
from functools import cached_property

from dfc.deferred.dataclasses import dataclass

SEPARATORS = "/."
PIECE = re.compile(r"\*\*[/.]|[/.]\*\*\Z|\*+|[^*/.]+|[/.]")


@dataclass(frozen=True)
class Glob:
    """A pattern; two with the same text are equal."""

    text: str

    @property
    def is_literal(self) -> bool:
        return "*" not in self.text

    @cached_property
    def specificity(self) -> tuple[int, int, bool]:
        """Literal parts, literal characters, and whether all is literal."""
        parts = re.split(r"[/.]", self.text)
        literal = sum(bool(part) and "*" not in part for part in parts)
        characters = sum(sign not in SEPARATORS + "*" for sign in self.text)
        return literal, characters, self.is_literal

    def matches(self, name: str) -> bool:
        if self.is_literal:
            return name == self.text
        return self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("".join(map(_regexp, PIECE.findall(self.text))))


def _regexp(piece: str) -> str:
    """The regular expression for one piece of a glob."""
    if piece[:2] == "**" and piece[-1] in SEPARATORS:
        return rf"(?:.*{re.escape(piece[-1])})?"
    if piece[-2:] == "**" and piece[0] in SEPARATORS:
        return rf"(?:{re.escape(piece[0])}.*)?"
    if piece == "*":
        return rf"[^{SEPARATORS}]*"
    if piece.startswith("*"):
        return ".*"
    return re.escape(piece)
