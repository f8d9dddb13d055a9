"""The wire format of Protocol Buffers: numbers of variable length, fields, and lists of numbers in one field.

Assumes nothing of the bytes. Guarantees that nothing outside of the given range is looked at, that nothing is allocated
because a length claims it, and a `WireError` with the offset of the first byte that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Numbers: TypeAlias = "NDArray[np.int64]"

VARINT, EIGHT, LENGTH, GROUP, END_GROUP, FOUR = range(6)
MOST_BYTES = 10
"""Of a number of 64 bits, seven to a byte."""
MOST_GROUPS = 100
LARGEST_FIELD = (1 << 29) - 1
_WIDTH = {EIGHT: 8, FOUR: 4}

Field = tuple[int, int, int, int]
"""Number of the field, kind, and the range of its value: of a text or a message without its length."""


class WireError(ValueError):
    """What does not fit, and at which offset."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


def varint(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """A number below 2^64, and where the next byte is."""
    value = 0
    for at in range(begin, min(end, begin + MOST_BYTES)):
        byte = data[at]
        value |= (byte & 0x7F) << 7 * (at - begin)
        if byte < 0x80:
            if value >> 64:
                raise WireError(begin, "a number has more than 64 bits")
            return value, at + 1
    if end - begin >= MOST_BYTES:
        raise WireError(begin, f"a number has more than {MOST_BYTES} bytes")
    raise WireError(end, "it ends within a number")


def fields(data: bytes, begin: int, end: int) -> Iterator[Field]:
    """The fields of a message in their order; groups, which nobody writes any more, are passed over."""
    at, groups = begin, list[int]()
    while at < end:
        start = at
        tag, at = varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= LARGEST_FIELD:
            raise WireError(start, f"there is no field {number}")
        if kind == GROUP:
            groups.append(number)
            if len(groups) > MOST_GROUPS:
                raise WireError(start, f"more than {MOST_GROUPS} groups inside of each other")
        elif kind == END_GROUP:
            if not groups or groups.pop() != number:
                raise WireError(start, "a group ends that has not begun")
        else:
            first, at = _value(data, start, at, end, kind)
            if not groups:
                yield number, kind, first, at
    if groups:
        raise WireError(end, "it ends within a group")


def _value(data: bytes, start: int, at: int, end: int, kind: int) -> tuple[int, int]:
    """The range of a value."""
    if kind == VARINT:
        return at, varint(data, at, end)[1]
    if kind == LENGTH:
        size, at = varint(data, at, end)
    elif kind in _WIDTH:
        size = _WIDTH[kind]
    else:
        raise WireError(start, f"a field of the unknown kind {kind}")
    if size > end - at:
        raise WireError(start, f"a field claims {counted(size, 'byte')}, with {end - at} left")
    return at, at + size


def varints(data: Bytes, offset: int = 0) -> Numbers:
    """All the numbers in some bytes, as i64; `offset` is that of the bytes, for messages."""
    if not len(data):
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(data < 0x80)
    if not len(ends) or ends[-1] != len(data) - 1:
        raise WireError(offset + len(data), "it ends within a number")
    if len(ends) == len(data):
        return data.astype(np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    sizes = ends - begins + 1
    long = np.flatnonzero((sizes > MOST_BYTES) | ((sizes == MOST_BYTES) & (data[ends] > 1)))
    if len(long):
        raise WireError(offset + int(begins[long[0]]), "a number has more than 64 bits")
    values = np.zeros(len(ends), np.uint64)
    for byte in range(int(sizes.max())):
        rows = np.flatnonzero(sizes > byte)
        values[rows] |= (data[begins[rows] + byte] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * byte)
    return values.view(np.int64)


def to_varint(value: int) -> bytes:
    """A number from 0 up, in as few bytes as it takes."""
    pieces = bytearray()
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def to_varints(values: Numbers) -> bytes:
    """Numbers, negative ones in ten bytes."""
    plain = np.ascontiguousarray(values).view(np.uint64)
    shifts = np.arange(0, 7 * MOST_BYTES, 7, dtype=np.uint64)
    pieces = ((plain[:, None] >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    is_there = (plain[:, None] >> shifts) != 0
    is_there[:, 0] = True
    pieces[:, :-1][is_there[:, 1:]] |= np.uint8(0x80)
    return pieces[is_there].tobytes()


def to_field(number: int, value: bytes) -> bytes:
    """A field with a text or a message."""
    return b"".join((to_varint(number << 3 | LENGTH), to_varint(len(value)), value))
