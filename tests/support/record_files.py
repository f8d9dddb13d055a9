"""Files of records by their definition, one byte after the other: what the readers are compared with."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def _table() -> list[int]:
    table: list[int] = []
    for state in range(256):
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
        table.append(state)
    return table


def masked_checksum(data: bytes) -> int:
    """CRC-32C, rotated and shifted as files hold it."""
    state, table = 0xFFFFFFFF, _table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    state ^= 0xFFFFFFFF
    return ((state >> 15 | state << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """A record in its frame."""
    length = struct.pack("<Q", len(record))
    head = length + struct.pack("<I", masked_checksum(length))
    return head + record + struct.pack("<I", masked_checksum(record))


def write_records(path: Path, records: Iterable[bytes]) -> Path:
    """A file of these records."""
    path.write_bytes(b"".join(map(framed, records)))
    return path


def some_records(count: int, shortest: int = 0, longest: int = 40) -> list[bytes]:
    """Records of different lengths, no two of them equal."""
    step = max(longest - shortest, 1)
    return [bytes((17 * i + j) % 251 for j in range(shortest + i * 7 % step)) + b"%d" % i for i in range(count)]
