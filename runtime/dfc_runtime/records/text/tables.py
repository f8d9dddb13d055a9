"""Rows of tables in CSV as packed records: which cells a field has follows from the head of each file, or their order.

A row ends with a line, unless that is inside of quotes; empty lines are none. A cell in quotes has its text between
them, a quote in it written twice. A field of n numbers has n cells, from the column of its name on. Assumes an encoding
in which the separator, quotes and ends of lines are those of ASCII. Guarantees that a row has as many cells as the
head, and numbers where these are wanted; whatever has not is damaged, with the column that is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.source import FileSource
from dfc_runtime.names import did_you_mean
from dfc_runtime.records.crc32c import Bytes
from dfc_runtime.records.fields import RecordLayout, numpy_type
from dfc_runtime.records.framing import Frames, Numbers, OnError
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.packing import PackedFiles, packed
from dfc_runtime.records.text.cells import numbers_of
from dfc_runtime.records.text.lines import (
    CARRIAGE_RETURN,
    LINE_FEED,
    WINDOW,
    lines_between,
    read_window,
    refuse_foreign,
)
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUOTE = ord('"')
MARK = b"\xef\xbb\xbf"
"""What some programs begin a text in UTF-8 with."""
LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of the rows of a file: how many cells each has, and the first one of each field."""

    width: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of some rows, all of which have the same number of them: ranges of `data`, and which rows these are."""

    data: Bytes
    rows: Numbers
    begins: Numbers
    ends: Numbers


class TableFiles(PackedFiles):
    """Files of rows. Those below the head count from 0 here, and from 1 in messages."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        on_error: OnError,
        layout: RecordLayout,
        *,
        head: bool = True,
        separator: str = ",",
    ) -> None:
        self._has_head, self._separator = head, ord(separator)
        self._heads: list[Head] = []
        super().__init__(paths, on_error, layout)

    def index(self, source: FileSource) -> RecordIndex:
        refuse_foreign(source, "rows of a table")
        rows = scan_rows(source)
        names: list[str] = []
        if self._has_head:
            if not rows.count:
                raise _no_table(source, "it is empty: the first line names the columns")
            names, rows = self._names(source, rows), _behind_head(rows)
        self._heads.append(self._head(source, names))
        return rows

    def name_of(self, file: int, record: int) -> str:
        del file
        return f"row {record + 1}"

    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        files, offsets, lengths = self.locate(numbers)
        order = np.argsort(files, kind="stable")
        raw = self._frames(files[order], offsets[order], lengths[order])
        reasons: dict[int, str] = {}
        values = {
            field.name: np.zeros((len(numbers), field.count), numpy_type(field))
            for field in self.layout.fields
            if not field.is_string
        }
        strings = {
            field.name: (np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64))
            for field in self.layout.fields
            if field.is_string
        }
        bounds: list[int] = [*np.flatnonzero(np.diff(files[order], prepend=-1)).tolist(), len(order)]
        for begin, end in pairwise(bounds):
            file = int(files[order[begin]])
            head = self._heads[file]
            some = raw.take(np.arange(begin, end))
            low, high = int(some.starts[0]), int(some.starts[-1] + some.lengths[-1])
            near = Frames(raw.data[low:high], some.starts - low, some.lengths)
            cells = self._cells(near, order[begin:end], head.width, reasons)
            self._convert(cells, head, values, strings, reasons)
            for first_bytes, ends in strings.values():
                first_bytes[cells.rows] += low
                ends[cells.rows] += low
        return packed(self.layout, len(numbers), values, raw.data, strings), reasons

    # ---------------------------------------------------------------- head --

    def _names(self, source: FileSource, rows: RecordIndex) -> list[str]:
        start, length = int(rows.starts[0]), int(rows.lengths[0])
        data = read_window(source, start, length)
        frames = Frames(data, np.zeros(1, np.int64), np.array([length]))
        seps = _separators(frames, self._separator)[0]
        edges = [-1, *seps.tolist(), length]
        cells = [data[a + 1 : b].tobytes().strip() for a, b in pairwise(edges)]
        plain = [cell[1:-1].replace(b'""', b'"') if cell[:1] == b'"' else cell for cell in cells]
        names = [os.fsdecode(cell).strip() for cell in plain]
        named = [name for name in names if name]  # what some programs write has a first column without a name
        if len(set(named)) < len(named):
            raise _no_table(source, "its first line is no head, which names columns, and all of them differently")
        return names

    def _head(self, source: FileSource, names: Sequence[str]) -> Head:
        """Which columns the fields have in a file with these names."""
        if not self._has_head:
            counts = [field.count for field in self.layout.fields]
            return Head(sum(counts), tuple(sum(counts[:number]) for number in range(len(counts))))
        columns: list[int] = []
        for field in self.layout.fields:
            if field.name not in names:
                longer = next((name for name in names if name.startswith(field.name)), "")  # the first of x0, x1, x2
                remedy = f"; did you mean {shown(longer)}?" if longer else did_you_mean(field.name, names)
                text = f"it has no column {shown(field.name)}{remedy}"
                raise _no_table(source, f"{text}; its columns: {', '.join(map(shown, names))}")
            columns.append(names.index(field.name))
            if columns[-1] + field.count > len(names):
                left = len(names) - columns[-1]
                there = f"{left} column{'s begin' if left > 1 else ' begins'} there"
                raise _no_table(source, f"{shown(field.name)} has {field.count} cells, and {there}")
        return Head(len(names), tuple(columns))

    # --------------------------------------------------------------- cells --

    def _cells(self, frames: Frames, rows: Numbers, width: int, reasons: dict[int, str]) -> Cells:
        """The cells of those rows that have so many, and a reason for each of the others; `rows` is what they are
        numbered by."""
        seps, first, inside = _separators(frames, self._separator)
        for row in np.flatnonzero(inside + 1 != width).tolist():
            reasons[int(rows[row])] = _other_width(int(inside[row]) + 1, width)
        fits = np.flatnonzero(inside + 1 == width)
        inner = seps[first[fits][:, None] + np.arange(width - 1)]
        starts = frames.starts[fits]
        begins = np.concatenate([starts[:, None], inner + 1], axis=1)
        ends = np.concatenate([inner, (starts + frames.lengths[fits])[:, None]], axis=1)
        return Cells(frames.data, rows[fits], begins, ends)

    def _convert(
        self,
        cells: Cells,
        head: Head,
        values: Mapping[str, NDArray[np.generic]],
        strings: Mapping[str, tuple[Numbers, Numbers]],
        reasons: dict[int, str],
    ) -> None:
        """Writes the numbers and strings of these rows to where they belong."""
        has_quotes = bool((cells.data == QUOTE).any())
        for field, column in zip(self.layout.fields, head.columns, strict=True):
            begins = cells.begins[:, column : column + field.count].reshape(-1)
            ends = cells.ends[:, column : column + field.count].reshape(-1)
            is_broken = np.zeros(len(begins), np.bool_)
            if has_quotes:
                begins, ends, is_broken = _unquoted(cells.data, begins, ends)
            if field.is_string:
                targets = strings[field.name]
                targets[0][cells.rows], targets[1][cells.rows] = begins, ends
            else:
                numbers, valid = numbers_of(cells.data, begins, ends, numpy_type(field))
                is_broken |= ~valid
                values[field.name][cells.rows] = numbers.reshape(len(cells.rows), field.count)
            for cell in np.flatnonzero(is_broken).tolist():
                row, at = divmod(cell, field.count)
                text = cells.data[begins[cell] : ends[cell]].tobytes()
                reason = f"{_cell(text)} is {'no text in quotes' if field.is_string else f'no {field.dtype}'}"
                more = f" + {at}" * bool(at)
                more += "; write the text in quotes, and a quote in it twice" * field.is_string
                reasons.setdefault(int(cells.rows[row]), f"{reason}, in the column {shown(field.name)}{more}")
                if field.is_string:
                    strings[field.name][1][cells.rows[row]] = begins[cell]


def scan_rows(source: FileSource) -> RecordIndex:
    """The rows of a file, the head among them. A file that ends within quotes has its rest as one row."""
    marked = source.size >= len(MARK) and source.read(0, len(MARK)) == MARK
    begin = len(MARK) * marked
    pieces, widths = [np.array([begin])], [np.zeros(0, np.int64)]
    before, quotes = 0, 0
    for offset in range(0, source.size, WINDOW):
        data = read_window(source, offset, WINDOW)
        ends = np.flatnonzero(data == LINE_FEED)
        is_quote = data == QUOTE
        if quotes or is_quote.any():
            counts = np.cumsum(is_quote, dtype=np.int64)
            ends = ends[(counts[ends] + quotes) % 2 == 0]
            quotes = (quotes + int(counts[-1])) % 2
        previous = np.concatenate([np.array([before], np.uint8), data])[ends]
        pieces.append(ends + (offset + 1))
        widths.append(1 + (previous == CARRIAGE_RETURN).astype(np.int64))
        before = int(data[-1])
    rows = lines_between(source, np.concatenate(pieces), np.concatenate(widths))
    kept = np.flatnonzero(rows.lengths > 0)
    return RecordIndex(rows.path, rows.size, rows.modified, rows.starts[kept], rows.lengths[kept])


def _behind_head(rows: RecordIndex) -> RecordIndex:
    return RecordIndex(rows.path, rows.size, rows.modified, rows.starts[1:], rows.lengths[1:])


def _separators(frames: Frames, separator: int) -> tuple[Numbers, Numbers, Numbers]:
    """Where the separators outside of quotes are, which of them is the first behind the beginning of each row, and how
    many are in it. Rows lie in their order."""
    data, starts, ends = frames.data, frames.starts, frames.starts + frames.lengths
    seps = np.flatnonzero(data == separator)
    is_quote = data == QUOTE
    if is_quote.any():
        quotes = np.cumsum(is_quote, dtype=np.int64)
        first = np.searchsorted(seps, starts)
        inside = np.searchsorted(seps, ends) - first
        rows = np.repeat(np.arange(len(starts)), inside)
        seps = seps[np.repeat(first, inside) + np.arange(len(rows)) - np.repeat(np.cumsum(inside) - inside, inside)]
        before = quotes[starts] - is_quote[starts]
        seps = seps[(quotes[seps] - before[rows]) % 2 == 0]
    first = np.searchsorted(seps, starts)
    return seps, first, np.searchsorted(seps, ends) - first


def _unquoted(data: Bytes, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """What is between the quotes of those cells that have some, and which of them are broken. Quotes that were written
    twice become one in the data itself."""
    is_broken = np.zeros(len(begins), np.bool_)
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(data == QUOTE, dtype=np.int64)])
    quotes = counts[ends] - counts[begins]
    is_plain = (quotes == 2) & (data[np.minimum(begins, len(data) - 1)] == QUOTE) & (data[ends - 1] == QUOTE)
    begins, ends = begins + is_plain, ends - is_plain
    for cell in np.flatnonzero((quotes > 0) & ~is_plain).tolist():
        begin, end = int(begins[cell]), int(ends[cell])
        text = data[begin:end].tobytes()
        inner = text[1:-1].replace(b'""', b"")
        if len(text) < 2 or text[:1] != b'"' or text[-1:] != b'"' or b'"' in inner:
            is_broken[cell] = True
            continue
        plain = text[1:-1].replace(b'""', b'"')
        data[begin + 1 : begin + 1 + len(plain)] = np.frombuffer(plain, np.uint8)
        begins[cell], ends[cell] = begin + 1, begin + 1 + len(plain)
    return begins, ends, is_broken


def _other_width(cells: int, width: int) -> str:
    return f"it has {cells} cell{'s' * (cells > 1)}, and {width} {'are' if width > 1 else 'is'} wanted"


def _cell(text: bytes) -> str:
    shortened = text[:LONGEST_SHOWN].decode("utf-8", "replace") + ".." * (len(text) > LONGEST_SHOWN)
    return f"the cell {shown(shortened)}" if text.strip() else "an empty cell"


def _no_table(source: FileSource, reason: str) -> RecordError:
    text = f"{in_one_line(source.name)} holds no rows of the table that is wanted: {reason}"
    return RecordError(text, code="E0916", file=source.name)
