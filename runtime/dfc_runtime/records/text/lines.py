"""Lines of text as records: where they lie in a file is found in one pass, and any of them is read at random.

A line ends with a line feed, or a carriage return and a line feed, or the file; neither belongs to it. An empty line is
one, too, but for nothing behind the last line feed. Assumes nothing of the encoding. Guarantees that a file which is
compressed or holds frames, an array or an image is refused (`RecordError`, E0916) with what it is.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.crc32c import Bytes
from dfc_runtime.records.files import IndexedFiles
from dfc_runtime.records.framing import HEAD, LENGTH, Numbers, foreign_to_text, masked_checksum
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.terminal import in_one_line

WINDOW = 1 << 22
LINE_FEED, CARRIAGE_RETURN = 10, 13


class LineFiles(IndexedFiles):
    """Files of lines. Numbers of lines count from 0 here, and from 1 in messages, as editors do."""

    def index(self, source: FileSource) -> RecordIndex:
        return scan_lines(source)

    def name_of(self, file: int, record: int) -> str:
        del file
        return f"line {record + 1}"


def scan_lines(source: FileSource) -> RecordIndex:
    """Finds the lines of a file; `RecordError` if it is of another kind (E0916) or changes meanwhile (E0914)."""
    refuse_foreign(source, "lines of text")
    pieces, widths = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    before = 0
    for offset in range(0, source.size, WINDOW):
        data = read_window(source, offset, WINDOW)
        ends = np.flatnonzero(data == LINE_FEED)
        previous = np.concatenate([np.array([before], np.uint8), data])[ends]
        pieces.append(ends + (offset + 1))
        widths.append(1 + (previous == CARRIAGE_RETURN).astype(np.int64))
        before = int(data[-1])
    return lines_between(source, np.concatenate(pieces), np.concatenate(widths))


def lines_between(source: FileSource, starts: Numbers, widths: Numbers) -> RecordIndex:
    """The index of lines that begin at `starts`, each but the last with an end of so many bytes."""
    if starts[-1] < source.size:
        ends = np.append(starts[1:] - widths, source.size)
    else:
        ends, starts = starts[1:] - widths, starts[:-1]
    return RecordIndex(source.name, source.size, source.modified, starts, ends - starts)


def read_window(source: FileSource, offset: int, size: int) -> Bytes:
    """So many bytes of a file, or those up to its end."""
    data = np.empty(min(size, source.size - offset), np.uint8)
    try:
        source.read_into(offset, data.data)
    except ValueError:  # it has become shorter
        text = f"{in_one_line(source.name)} changes while it is read"
        raise RecordError(text, code="E0914", file=source.name) from None
    return data


def refuse_foreign(source: FileSource, what: str) -> None:
    """A file that is known to hold something else by its first bytes is a `RecordError`."""
    start = read_window(source, 0, HEAD).tobytes() if source.size else b""
    kind = foreign_to_text(start, source.name)
    if not kind and len(start) == HEAD and start[LENGTH:] == masked_checksum(start[:LENGTH]).to_bytes(4, "little"):
        kind = "it is a file of records: read it with record_files"
    if kind:
        text = f"{in_one_line(source.name)} holds no {what}: {kind}"
        raise RecordError(text, code="E0916", file=source.name)
