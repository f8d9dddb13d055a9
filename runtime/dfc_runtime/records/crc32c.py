"""CRC-32C (Castagnoli) of many ranges of bytes at once, in NumPy.

    polynomial 0x1EDC6F41, reflected (0x82F63B78); begins with 0xFFFFFFFF, ends with a complement
    crc32c(b"123456789") == 0xE3069283

Assumes a little-endian machine. Ranges go through tables of 65,536 words, eight bytes a step, all of them side by side;
a long range is cut into pieces that are ranges of their own. What a piece adds to the whole is its remainder times
x^(8 d) for the d bytes behind it, and that is linear in the bits of the remainder (G. Castagnoli, S. Bräuer and M.
Herrmann, "Optimization of cyclic redundancy-check codes", 1993; M. Adler's `crc32_combine` of zlib).
Guarantees the same number for a range however it was cut, and memory of some 60 bytes a piece beyond the data.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Words: TypeAlias = "NDArray[np.uint32]"
Numbers: TypeAlias = "NDArray[np.int64]"

POLYNOMIAL = 0x82F63B78
MASK_DELTA = 0xA282EAD8
STEP = 8
"""Bytes that a range advances at once."""
LANES = 16_384
"""Pieces side by side: what NumPy keeps of them stays in a cache."""
FEWEST_PIECES = 4096
SHORTEST_PIECE, LONGEST_PIECE = 64, 8192
_ALL = np.uint32(0xFFFFFFFF)
_BYTE, _LOW, _HALF = np.uint32(0xFF), np.uint32(0xFFFF), np.uint32(16)


def crc32c(data: bytes | bytearray | memoryview | Bytes) -> int:
    """The checksum of one buffer."""
    buffer = np.frombuffer(data, np.uint8)
    return int(crc32c_ranges(buffer, np.zeros(1, np.int64), np.array([len(buffer)]))[0])


def crc32c_ranges(buffer: Bytes, starts: Numbers, lengths: Numbers) -> Words:
    """The checksums of `buffer[start : start + length]`, u32[len(starts)]; ranges lie in the buffer and may overlap."""
    words = _padded(buffer)
    if not len(starts):
        return np.zeros(0, np.uint32)
    piece = _piece(int(lengths.sum()))
    if int(lengths.max()) <= piece:
        return ~_remainders(words, starts, lengths, np.full(len(starts), _ALL))
    counts = np.maximum(-(-lengths // piece), 1)
    first = np.cumsum(counts) - counts
    number = np.arange(int(counts.sum())) - np.repeat(first, counts)
    begins = number * piece
    sizes = np.minimum(piece, np.repeat(lengths, counts) - begins)
    state = np.where(number == 0, _ALL, np.uint32(0))
    parts = _remainders(words, np.repeat(starts, counts) + begins, sizes, state)
    parts = _shifted(parts, np.repeat(lengths, counts) - begins - sizes)
    return ~np.bitwise_xor.reduceat(parts, first)


def masked(checksums: Words) -> Words:
    """As record files hold them: rotated right by 15 bits, plus a constant. So a checksum of data that hold checksums
    is as good as any."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + np.uint32(MASK_DELTA)


def checksums_of_eight(buffer: Bytes) -> Words:
    """The checksum of the eight bytes at every offset: u32[len(buffer) - 7]."""
    count = len(buffer) - STEP + 1
    if count <= 0:
        return np.zeros(0, np.uint32)
    pairs = buffer[:-1].astype(np.uint16) | (buffer[1:].astype(np.uint16) << np.uint16(8))
    tables, turned = _pair_tables(), ~pairs
    result = tables[3].take(turned[:count])
    for table, source, offset in zip(tables[2::-1], (turned, pairs, pairs), (2, 4, 6), strict=True):
        result ^= table.take(source[offset : offset + count])
    return ~result


# ------------------------------------------------------------------ pieces --


def _piece(total: int) -> int:
    """How long a piece is: a multiple of a step, such that many lie side by side."""
    return min(max(total // FEWEST_PIECES // STEP * STEP, SHORTEST_PIECE), LONGEST_PIECE)


def _padded(buffer: Bytes) -> NDArray[np.uint64]:
    """The bytes as words of eight, with some behind them."""
    if len(buffer) % STEP == 0 and len(buffer) and buffer.flags.c_contiguous and buffer.flags.aligned:
        return buffer.view(np.uint64)
    wide = np.zeros(len(buffer) // STEP * STEP + STEP, np.uint8)
    wide[: len(buffer)] = buffer
    return wide.view(np.uint64)


def _remainders(words: NDArray[np.uint64], starts: Numbers, lengths: Numbers, state: Words) -> Words:
    """What becomes of a state over each range."""
    order = np.argsort(-(lengths // STEP), kind="stable")
    result = np.empty(len(starts), np.uint32)
    for begin in range(0, len(order), LANES):
        lanes = order[begin : begin + LANES]
        result[lanes] = _lanes(words, starts[lanes], lengths[lanes], state[lanes])
    return result


def _lanes(words: NDArray[np.uint64], starts: Numbers, lengths: Numbers, state: Words) -> Words:
    """Some ranges, those of most steps first."""
    steps = lengths // STEP
    index, shift = starts >> 3, ((starts & 7) << 3).astype(np.uint64)
    rest = np.uint64(63) - shift
    tables = _pair_tables()
    active = np.searchsorted(-steps, -np.arange(int(steps[0])), side="left") if len(steps) else steps
    low = words.take(index, mode="clip")
    for step, count in enumerate(active.tolist()):
        high = words.take(index[:count] + (step + 1), mode="clip")
        word = (low[:count] >> shift[:count]) | ((high << np.uint64(1)) << rest[:count])
        word ^= state[:count]
        pairs = word.view(np.uint16)
        now = tables[3].take(pairs[::4])
        for table, offset in zip(tables[2::-1], (1, 2, 3), strict=True):
            now ^= table.take(pairs[offset::4])
        state[:count] = now
        low = high
    return _tails(words.view(np.uint8), starts + steps * STEP, lengths - steps * STEP, state)


def _tails(data: Bytes, starts: Numbers, lengths: Numbers, state: Words) -> Words:
    """The last bytes of each range, fewer than a step, one at a time."""
    table = _byte_table()
    for byte in range(int(lengths.max(initial=0))):
        lanes = np.flatnonzero(lengths > byte)
        now = state[lanes]
        state[lanes] = table.take((now ^ data[starts[lanes] + byte]) & _BYTE) ^ (now >> np.uint32(8))
    return state


def _shifted(parts: Words, distances: Numbers) -> Words:
    """Remainders as they are after so many bytes of zeros."""
    for bit in range(int(distances.max(initial=0)).bit_length()):
        lanes = np.flatnonzero(distances >> bit & 1)
        now = parts[lanes]
        tables = _zero_tables(bit)
        moved = tables[0].take(now & _BYTE)
        for byte in (1, 2, 3):
            moved ^= tables[byte].take((now >> np.uint32(8 * byte)) & _BYTE)
        parts[lanes] = moved
    return parts


# ------------------------------------------------------------------ tables --


@cache
def _byte_table() -> Words:
    """A state whose lowest byte is the index, after that byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ ((table & np.uint32(1)) * np.uint32(POLYNOMIAL))
    return table


@cache
def _pair_tables() -> tuple[Words, ...]:
    """A state of two bytes after these, and after 2, 4 and 6 bytes of zeros more."""
    single = _byte_table()
    table = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(2):
        table = single.take(table & _BYTE) ^ (table >> np.uint32(8))
    tables = [table]
    for _ in range(3):
        tables.append(tables[0].take(tables[-1] & _LOW) ^ (tables[-1] >> _HALF))
    return tuple(tables)


@cache
def _zero_tables(bit: int) -> tuple[Words, ...]:
    """What each byte of a state becomes over 2^bit bytes of zeros."""
    images = np.array(_zero_columns(bit), np.uint32)
    values = np.arange(256)
    tables: list[Words] = []
    for byte in range(4):
        table = np.zeros(256, np.uint32)
        for each in range(8):
            table ^= np.where(values >> each & 1, images[8 * byte + each], np.uint32(0))
        tables.append(table)
    return tuple(tables)


@cache
def _zero_columns(bit: int) -> tuple[int, ...]:
    """What each bit of a state becomes over 2^bit bytes of zeros."""
    if bit == 0:
        single = _byte_table()
        return tuple(int(single[state & 0xFF]) ^ (state >> 8) for state in (1 << each for each in range(32)))
    half = _zero_columns(bit - 1)
    return tuple(_image(half, column) for column in half)


def _image(columns: tuple[int, ...], state: int) -> int:
    image = 0
    for each, column in enumerate(columns):
        image ^= column if state >> each & 1 else 0
    return image
