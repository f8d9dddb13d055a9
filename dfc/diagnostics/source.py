"""Source text and spans of it.

Assumes that texts are `str` already: reading and decoding files is `dfc.syntax.reader.reading`.
Guarantees that offsets count characters, that lines and columns count from 1, and that only `\\n` ends a line
(a `\\r` before it is not part of the line).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from dfc.deferred.dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A named text. Two files with the same name and text are equal."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of the first character of every line."""
        lengths = [len(line) + 1 for line in self.text.split("\n")]
        return tuple(accumulate(lengths[:-1], initial=0))

    @property
    def line_count(self) -> int:
        return len(self.line_starts)

    def line_text(self, number: int) -> str:
        """The text of line `number` without its end; empty outside the file."""
        starts = self.line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].removesuffix("\r")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` up to, not including, `end` of a file."""

    file: SourceFile
    start: int
    end: int

    @staticmethod
    def nowhere() -> Span:
        """The span of things that no author wrote."""
        return NOWHERE

    @property
    def is_nowhere(self) -> bool:
        return self.file is NOWHERE.file

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def line(self) -> int:
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.file.position(self.start)[1]

    @property
    def end_line(self) -> int:
        return self.file.position(self.end)[0]

    @property
    def end_column(self) -> int:
        """The column just behind the last character."""
        return self.file.position(self.end)[1]

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The smallest span of this file that holds both; the other one is ignored if it lies elsewhere."""
        if other.file is not self.file and other.file != self.file:
            return self
        return Span(self.file, min(self.start, other.start), max(self.end, other.end))

    def after(self) -> Span:
        """The empty place just behind this span."""
        return Span(self.file, self.end, self.end)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"Span({self})"


NOWHERE = Span(SourceFile("<generated>", ""), 0, 0)
