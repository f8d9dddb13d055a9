"""Where the records of a file lie: one pass over the heads of its frames.

Assumes a file of frames (`framing`). Its bytes are read, not mapped: a mapped file that somebody cuts short kills the
process that looks at it. Guarantees that every range lies in the file and that every length has its checksum, with
16 bytes of memory a record and a window of the file. The records themselves are compared when they are read.

A damaged head says nothing of where the next frame begins. With `on_error="skip"` that is found out: it is the first
head, or the end of the file, such that the bytes before it are a record with its own checksum; so a file of records
inside of a record cannot be taken for more of them. The damaged record keeps its number, and those behind it theirs.
Where no such frame begins within `SEARCHED` bytes, what is left of the file is lost; a file whose first head is no head
and that has no such frame holds no records at all.
"""

from __future__ import annotations

import struct

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.crc32c import Bytes, checksums_of_eight, crc32c_ranges, masked
from dfc_runtime.records.framing import (
    FRAME,
    HEAD,
    LENGTH,
    TAIL,
    Numbers,
    OnError,
    damaged,
    damaged_head,
    foreign,
    masked_checksum,
    numbers_at,
)
from dfc_runtime.terminal import in_one_line

WINDOW = 1 << 20
SHORT_WINDOW = 4096
"""Bytes that are read where the last record was longer than a window."""
SEARCHED = 1 << 26
MOST_CANDIDATES = 64
"""Heads behind a damaged one that are looked at: in a record that is full of heads each would cost a checksum."""
EQUAL_RUN = 16
"""So many records of one length, and the next ones are compared all at once."""


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The records of one file: record i is the `lengths[i]` bytes at `starts[i]`. `damages` has what the pass could
    not read, in order; none if it was to fail."""

    path: str
    size: int
    modified: int
    starts: Numbers
    lengths: Numbers
    damages: tuple[RecordError, ...] = ()
    is_truncated: bool = False
    """Whether what was behind the last record is lost."""

    @property
    def count(self) -> int:
        return len(self.starts)


def scan(source: FileSource, on_error: OnError = "fail") -> RecordIndex:
    """Finds the records of a file. `RecordError`: E0916 if it is none of records, E0914 for the first damaged head,
    unless it is to be skipped."""
    try:
        if kind := foreign(source.read(0, min(source.size, SHORT_WINDOW)), source.name):
            raise _no_records(source, kind)
        return _Scan(source, on_error).run()
    except ValueError:  # the source's: it has become shorter
        raise RecordError(
            f"{in_one_line(source.name)} changes while it is read", code="E0914", file=source.name
        ) from None


class _Scan:
    """One pass over a file."""

    def __init__(self, source: FileSource, on_error: OnError) -> None:
        self.source = source
        self.on_error = on_error
        self.starts: list[Numbers] = [np.zeros(0, np.int64)]
        self.lengths: list[Numbers] = [np.zeros(0, np.int64)]
        self.count = 0
        self.damages: list[RecordError] = []
        self.is_truncated = False

    def run(self) -> RecordIndex:
        size, offset, window = self.source.size, 0, WINDOW
        while offset < size:
            data = _read(self.source, offset, min(window, size - offset))
            heads, behind = heads_in(data)
            intact = intact_heads(data, heads)
            if intact < len(heads):
                self._add(data, offset, heads[:intact])
                offset = self._behind_damage(offset + int(heads[intact]))
            elif offset + behind > size or not len(heads):
                self._add(data, offset, heads[:-1])
                offset = self._truncated(offset + int(heads[-1]) if len(heads) else offset)
            else:
                self._add(data, offset, heads)
                offset += behind
                window = WINDOW if behind < 2 * WINDOW else SHORT_WINDOW
        starts, lengths = np.concatenate(self.starts), np.concatenate(self.lengths)
        damages = tuple(self.damages)
        return RecordIndex(self.source.name, size, self.source.modified, starts, lengths, damages, self.is_truncated)

    def _add(self, data: Bytes, offset: int, heads: Numbers) -> None:
        self.starts.append(heads + (offset + HEAD))
        self.lengths.append(numbers_at(data, heads, np.uint64).astype(np.int64))
        self.count += len(heads)

    def _behind_damage(self, offset: int) -> int:
        """Where to go on behind a frame whose head is damaged."""
        reason = damaged_head(self.source.read(offset, HEAD))
        behind = next_frame(self.source, offset) if self.on_error == "skip" or not offset else -1
        if behind < 0 and not offset:
            raise _no_records(self.source, f"its first {HEAD} bytes are no head of one: {reason.partition(': ')[2]}")
        if behind < 0:
            self._report(offset, f"{reason}; the {self.source.size - offset} bytes from there on cannot be read")
            self.is_truncated = True
            return self.source.size
        self.starts.append(np.array([offset + HEAD]))
        self.lengths.append(np.array([behind - offset - FRAME]))
        self.count += 1
        self._report(offset, reason, record=self.count - 1)
        return behind

    def _truncated(self, offset: int) -> int:
        """The frame at this offset goes beyond the end of the file."""
        rest = self.source.size - offset
        if rest < HEAD:
            self._report(offset, f"the file ends {rest} bytes into its head of {HEAD}")
        else:
            (length,) = struct.unpack("<Q", self.source.read(offset, LENGTH))
            self._report(
                offset, f"it has {length} bytes and a checksum, and the file ends after {rest - HEAD} of these"
            )
        self.is_truncated = True
        return self.source.size

    def _report(self, offset: int, reason: str, record: int | None = None) -> None:
        error = damaged(self.source.name, self.count if record is None else record, offset, reason)
        if self.on_error == "fail":
            raise error
        self.damages.append(error)


def _no_records(source: FileSource, reason: str) -> RecordError:
    text = f"{in_one_line(source.name)} holds no records: {reason}"
    return RecordError(text, code="E0916", file=source.name)


def heads_in(data: Bytes) -> tuple[Numbers, int]:
    """The offsets of the heads that lie in a part of a file which begins with one, by their lengths alone, and the
    offset behind the last frame, which may be anywhere."""
    offsets: list[int] = []
    at, limit, before, run = 0, len(data) - HEAD, -1, 0
    unpack, view = struct.Struct("<Q").unpack_from, data.data
    while at <= limit:
        (length,) = unpack(view, at)
        run = run + 1 if length == before else 0
        before = length
        count = 1
        if run >= EQUAL_RUN:
            count, run = _equal_lengths(data, at, length), 0
        offsets.extend(range(at, at + count * (length + FRAME), length + FRAME))
        at += count * (length + FRAME)
    return np.array(offsets, np.int64), at


def _equal_lengths(data: Bytes, at: int, length: int) -> int:
    """How many frames from there on have this length, the first one included."""
    stride = length + FRAME
    count = (len(data) - HEAD - at) // stride + 1
    lengths = numbers_at(data, at + stride * np.arange(count), np.uint64)
    differs = lengths != np.uint64(length)
    return int(differs.argmax()) if differs.any() else count


def intact_heads(data: Bytes, heads: Numbers) -> int:
    """How many heads there are before the first one whose length has another checksum."""
    checksums = masked(crc32c_ranges(data, heads, np.full(len(heads), LENGTH)))
    differs = numbers_at(data, heads + LENGTH, np.uint32) != checksums
    return int(differs.argmax()) if differs.any() else len(heads)


def next_frame(source: FileSource, offset: int) -> int:
    """Where the frame with a damaged head at this offset ends; -1 if that cannot be found out."""
    begin, end = offset + FRAME, min(source.size, offset + SEARCHED)
    candidates = 0
    for window in range(begin, end, WINDOW):
        data = _read(source, window, min(WINDOW + HEAD - 1, source.size - window))
        for head in _checked_heads(data).tolist():
            candidates += 1
            if candidates > MOST_CANDIDATES:
                return -1
            if _is_record(source, offset, window + head):
                return window + head
    return source.size if end == source.size and end >= begin and _is_record(source, offset, end) else -1


def _checked_heads(data: Bytes) -> Numbers:
    """The offsets of all that could be heads: eight bytes with their checksum behind them."""
    checksums = masked(checksums_of_eight(data))[: -TAIL or None]
    stated = np.zeros(len(checksums), np.uint32)
    for byte in range(TAIL):
        first = LENGTH + byte
        stated |= data[first : first + len(checksums)].astype(np.uint32) << np.uint32(8 * byte)
    return np.flatnonzero(stated == checksums)


def _is_record(source: FileSource, offset: int, end: int) -> bool:
    """Whether the bytes between a head and there are a record and its checksum."""
    data = source.read(offset + HEAD, end - offset - HEAD)
    return struct.unpack("<I", data[-TAIL:])[0] == masked_checksum(data[:-TAIL])


def _read(source: FileSource, offset: int, count: int) -> Bytes:
    data = np.empty(count, np.uint8)
    source.read_into(offset, data.data)
    return data
