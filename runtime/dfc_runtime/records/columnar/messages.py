"""The messages that Arrow's files and streams consist of: of which kind each is, where it lies, how many rows it has.

    ff ff ff ff | i32 bytes of the head | the head, a table of FlatBuffers | the body        little-endian

Only heads are read, so columns that nobody asks for are not. Streams of before 2019 lack the first four bytes. A file
is a stream from byte 8 on with a footer behind it. Assumes nothing of the bytes; what is no message is a `ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.source import FileSource

SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages."""
CONTINUES = b"\xff\xff\xff\xff"
LARGEST_HEAD = 1 << 28
MOST_ROWS = 1 << 40
_VERSION, _KIND, _HEADER, _BODY = range(4)
"""Places of what a message has, in its table."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its kind, from where to where it goes, and the rows of one that is a batch."""

    kind: int
    begin: int
    end: int
    rows: int = 0


def messages_of(source: FileSource, begin: int) -> Iterator[Message]:
    """The messages from an offset on, up to the mark of their end or that of the file."""
    at = begin
    while at < source.size:
        mark = _read(source, at, 4)
        before = at + 4 if mark == CONTINUES else at
        (size,) = struct.unpack("<i", _read(source, before, 4))
        if not size:
            return
        if not 0 < size <= LARGEST_HEAD:
            raise ValueError(f"at byte {at}: there is no head of a message")
        try:
            message = _message(_read(source, before + 4, size), at, before + 4 + size)
        except struct.error:
            raise ValueError(f"at byte {at}: the head of a message is damaged") from None
        if message.end > source.size:
            raise ValueError(f"at byte {at}: a message goes on to byte {message.end}, and the file has {source.size}")
        yield message
        at = message.end


def _read(source: FileSource, at: int, size: int) -> bytes:
    if at + size > source.size:
        raise ValueError(f"at byte {at}: the file ends inside of the head of a message")
    return source.read(at, size)


def _message(head: bytes, begin: int, body: int) -> Message:
    """The message with this head, whose body is at an offset of the file."""
    table = _unsigned(head, 0)
    kind_at, header_at, size_at = (_part_offset(head, table, number) for number in (_KIND, _HEADER, _BODY))
    kind = head[kind_at] if 0 < kind_at < len(head) else 0
    size = _number(head, size_at) if size_at else 0
    if size < 0:
        raise struct.error("a body of less than nothing")
    rows = 0
    if kind == BATCH and header_at:
        count_at = _part_offset(head, header_at + _unsigned(head, header_at), 0)
        rows = _number(head, count_at) if count_at else 0
        if not 0 <= rows <= MOST_ROWS:
            raise struct.error("rows of less than none, or more than there can be")
    return Message(kind, begin, body + size, rows)


def _part_offset(head: bytes, table: int, number: int) -> int:
    """Where a table has a part of it; 0 if it has not."""
    (back,) = struct.unpack_from("<i", head, table)
    fields = table - back
    if fields < 0:
        raise struct.error("a table outside of the head")
    (size,) = struct.unpack_from("<H", head, fields)
    at = 4 + 2 * number
    if at + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", head, fields + at)
    return table + int(offset) if offset else 0


def _unsigned(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", head, at)[0])


def _number(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", head, at)[0])
