"""Draws a message: the author's lines with `^` under what is wrong and `-` under what explains it.

Assumes spans inside their files. Guarantees lines of moderate width whatever the input: tabs and wide
characters keep the marks in place, control characters are shown as `?`, long lines are cut around the marks.

    error[E0305]: `N` and `M` are not known to be equal
     --> join.dfg:1:49
      |
    1 | fn join[N, M](a: f32[N], b: f32[M]) -> f32[N] = a + b
      |         -  -                                    ^^^^^ f32[N] plus f32[M]
      |            introduced here
      |         introduced here
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import SourceFile, Span
from dfc_runtime.terminal import visible

TAB_WIDTH = 4
WINDOW = 180
CONTEXT = 60

BOLD, RED, YELLOW, BLUE, RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Mark:
    span: Span
    text: str
    primary: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that is to be drawn: remarks are (`note` or `help`, text)."""

    kind: str
    code: str
    title: str
    marks: tuple[Mark, ...]
    remarks: tuple[tuple[str, str], ...]


class Paint:
    """Wraps text in terminal colours, or leaves it alone."""

    def __init__(self, kind: str, colour: bool) -> None:
        self.colour = colour
        self.strong = YELLOW if kind == "warning" else RED

    def __call__(self, code: str, text: str) -> str:
        return f"{code}{text}{RESET}" if self.colour and text else text


def draw(drawing: Drawing, colour: bool = False) -> str:
    paint = Paint(drawing.kind, colour)
    marks = [mark for mark in drawing.marks if not mark.span.is_nowhere]
    pad = " " * len(str(max((mark.span.line for mark in marks), default=0)))
    head = f"{drawing.kind}[{drawing.code}]" if drawing.code else drawing.kind
    lines = [f"{paint(paint.strong, head)}{paint(BOLD, ': ' + ascii_only(drawing.title))}"]
    for number, (file, group) in enumerate(_by_file(marks)):
        lines.extend(_draw_file(file, group, number, pad, paint))
    for kind, text in drawing.remarks:
        lines.append(f"{pad} {paint(BLUE, '=')} {paint(BOLD, kind)}: {ascii_only(text)}")
    return "\n".join(lines)


def ascii_only(text: str) -> str:
    """`text` on one line, with anything but printable ASCII written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if " " <= char <= "~" else _escape(char) for char in text)


def _escape(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or f"U+{ord(char):04X}"


def _by_file(marks: Iterable[Mark]) -> list[tuple[SourceFile, list[Mark]]]:
    """Marks grouped by file, the file of the primary mark first."""
    groups: dict[SourceFile, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: not mark.primary):
        groups.setdefault(mark.span.file, []).append(mark)
    return list(groups.items())


def _draw_file(file: SourceFile, marks: list[Mark], number: int, pad: str, paint: Paint) -> Iterator[str]:
    arrow = "-->" if number == 0 else ":::"
    yield f"{pad}{paint(BLUE, arrow)} {_location(marks[0].span)}"
    yield f"{pad} {paint(BLUE, '|')}"
    by_line: defaultdict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        by_line[mark.span.line].append(mark)
    previous = None
    for line in sorted(by_line):
        if previous is not None and line > previous + 1:
            yield "..."
        yield from _draw_line(file, line, by_line[line], pad, paint)
        previous = line


def _location(span: Span) -> str:
    """File, line and column. Names of files keep their letters, whatever these are."""
    return visible(str(span)).replace("\n", "\\n")


@dataclass(frozen=True, slots=True)
class _DrawnLabel:
    """A mark in columns of the terminal."""

    start: int
    end: int
    text: str
    primary: bool


def _draw_line(file: SourceFile, line: int, marks: list[Mark], pad: str, paint: Paint) -> Iterator[str]:
    text, drawn = _layout(file, line, marks)
    yield f"{paint(BLUE, f'{line:>{len(pad)}} |')} {text}".rstrip()
    gutter = f"{pad} {paint(BLUE, '|')} "
    last = max(drawn, key=lambda mark: (mark.end, mark.start))
    words = f" {paint(paint.strong if last.primary else BLUE, last.text)}" if last.text else ""
    yield (gutter + _underline(drawn, paint) + words).rstrip()
    for mark in sorted(drawn, key=lambda mark: -mark.start):
        if mark is not last and mark.text:
            yield f"{gutter}{' ' * mark.start}{paint(paint.strong if mark.primary else BLUE, mark.text)}"


def _underline(drawn: list[_DrawnLabel], paint: Paint) -> str:
    row = [" "] * max(mark.end for mark in drawn)
    for mark in sorted(drawn, key=lambda mark: mark.primary):
        row[mark.start : mark.end] = ("^" if mark.primary else "-") * (mark.end - mark.start)
    if not paint.colour:
        return "".join(row)
    colours = {"^": paint.strong, "-": BLUE}
    return "".join(paint(colours[char], char) if char in colours else char for char in row)


def _layout(file: SourceFile, line: int, marks: list[Mark]) -> tuple[str, list[_DrawnLabel]]:
    """The visible part of a line and its marks in terminal columns, at least one column each."""
    source = file.line_text(line)
    offset = file.line_starts[line - 1]
    ranges = [
        (mark.span.start - offset, min(mark.span.end - offset, max(len(source), mark.span.start - offset)))
        for mark in marks
    ]
    low, high = _window(len(source), min(start for start, _ in ranges))
    cells = [_cell(char) for char in source[low:high]]
    before = "..." if low > 0 else ""
    columns = [len(before)]
    for _, width in cells:
        columns.append(columns[-1] + width)

    def column(position: int) -> int:
        return columns[min(max(position - low, 0), len(columns) - 1)]

    drawn: list[_DrawnLabel] = []
    for mark, (start, end) in zip(marks, ranges, strict=True):
        left = column(start)
        drawn.append(_DrawnLabel(left, max(left + 1, column(end)), ascii_only(mark.text), mark.primary))
    text = before + "".join(shown for shown, _ in cells) + ("..." if high < len(source) else "")
    return text, drawn


def _window(length: int, start: int) -> tuple[int, int]:
    if length <= WINDOW:
        return 0, length
    low = max(0, min(start - CONTEXT, length - WINDOW))
    return low, low + WINDOW


def _cell(char: str) -> tuple[str, int]:
    """How a character is shown, and how many columns it takes."""
    if " " <= char <= "~":
        return char, 1
    if char == "\t":
        return " " * TAB_WIDTH, TAB_WIDTH
    if unicodedata.category(char) in ("Cc", "Cs", "Cf", "Zl", "Zp"):
        return "?", 1
    if unicodedata.combining(char):
        return char, 0
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1
