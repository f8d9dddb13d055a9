"""Frames: how records lie in a file, the framing that TensorFlow calls TFRecord.

    u64 length | u32 masked CRC-32C of these 8 bytes | the record | u32 masked CRC-32C of the record     little-endian

Nothing stands before the first frame, between two of them, or behind the last. Assumes nothing of the bytes that are
read. Guarantees that a record which is handed out has the length and the checksum that its frame states; whatever has
not is described by a `RecordError` (E0914) with file, number of the record, offset of its frame, and what was expected.
"""

from __future__ import annotations

import shlex
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.records.crc32c import Bytes, crc32c, crc32c_ranges, masked
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"
OnError = Literal["fail", "skip"]

LENGTH, HEAD, TAIL = 8, 12, 4
FRAME = HEAD + TAIL
"""Bytes of a frame beyond its record."""

_MAGIC = (
    (b"PK\x03\x04", "a zip or npz archive"), (b"\x93NUMPY", "a NumPy array"), (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"), (b"\x28\xb5\x2f\xfd", "compressed by zstd"), (b"SNAPPY", "compressed by snappy"),
    (b"BZh", "compressed by bzip2"), (b"\xfd7zXZ", "compressed by xz"), (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file, for parquet_files"), (b"ARROW1", "an Arrow file, for arrow_files"),
    (b"dfg 1", "a dfc program"), (b"\x7fELF", "a program"),
)  # fmt: skip
_GZIP = b"\x1f\x8b\x08"
_AT_RANDOM = "records are read at random, so write it out first:"
_INFLATE = "python -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))'"


@dataclass(frozen=True, slots=True)
class Frames:
    """Some records in one buffer, with the bytes of their frames around them: record i is
    `data[starts[i] : starts[i] + lengths[i]]`."""

    data: Bytes
    starts: Numbers
    lengths: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, index: int) -> bytes:
        """The bytes of one record."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()

    def take(self, rows: Numbers | NDArray[np.bool_]) -> Frames:
        """Some of them, in the same buffer."""
        return Frames(self.data, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with frames, one element each: the first fault in their order from head to tail counts."""

    has_other_length: NDArray[np.bool_]
    is_head_damaged: NDArray[np.bool_]
    is_record_damaged: NDArray[np.bool_]

    @property
    def any(self) -> NDArray[np.bool_]:
        return self.has_other_length | self.is_head_damaged | self.is_record_damaged


def frame(records: Sequence[bytes]) -> bytearray:
    """The frames of records, one behind the other."""
    head, tail = bytes(HEAD), bytes(TAIL)
    data = bytearray().join([piece for record in records for piece in (head, record, tail)])
    buffer = np.frombuffer(data, np.uint8)
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    starts = np.cumsum(lengths + FRAME) - lengths - TAIL
    _put(buffer, starts - HEAD, lengths.astype(np.uint64))
    _put(buffer, starts - TAIL, masked(crc32c_ranges(buffer, starts - HEAD, np.full(len(starts), LENGTH))))
    _put(buffer, starts + lengths, masked(crc32c_ranges(buffer, starts, lengths)))
    return data


def check_frames(frames: Frames) -> Faults:
    """Compares heads and checksums with the lengths that the frames are taken to have."""
    data, starts, lengths = frames.data, frames.starts, frames.lengths
    other = numbers_at(data, starts - HEAD, np.uint64) != lengths.astype(np.uint64)
    heads = masked(crc32c_ranges(data, starts - HEAD, np.full(len(starts), LENGTH)))
    tails = masked(crc32c_ranges(data, starts, lengths))
    return Faults(
        other,
        numbers_at(data, starts - TAIL, np.uint32) != heads,
        numbers_at(data, starts + lengths, np.uint32) != tails,
    )


def numbers_at(data: Bytes, offsets: Numbers, dtype: type[np.generic]) -> NDArray[np.generic]:
    """Little-endian numbers at any offsets, aligned or not."""
    size = np.dtype(dtype).itemsize
    return data[offsets[:, None] + np.arange(size)].view(dtype).reshape(len(offsets))


def _put(data: Bytes, offsets: Numbers, values: NDArray[np.generic]) -> None:
    size = values.dtype.itemsize
    data[offsets[:, None] + np.arange(size)] = values.view(np.uint8).reshape(len(values), size)


# ---------------------------------------------------------------- messages --


def damaged(file: str, record: int, offset: int, reason: str) -> RecordError:
    """The error about one record; `offset` is that of its frame."""
    text = f"{in_one_line(file)}: record {record} at byte {offset}: {reason}"
    return RecordError(text, code="E0914", file=file, record=record, offset=offset)


def damaged_head(head: bytes) -> str:
    """Why a head is none."""
    length, stated = struct.unpack("<QI", head[:HEAD])
    expected = masked_checksum(head[:LENGTH])
    return f"its head is damaged: the length {length} has the checksum {expected:#010x}, and {stated:#010x} is there"


def damaged_record(data: Bytes, start: int, length: int) -> str:
    """Why a record is none."""
    stated = int(numbers_at(data, np.array([start + length]), np.uint32)[0])
    expected = masked_checksum(data[start : start + length])
    return f"its {length} bytes are damaged: their checksum is {expected:#010x}, and {stated:#010x} is there"


def masked_checksum(data: bytes | Bytes) -> int:
    """As it stands in a file."""
    return int(masked(np.array([crc32c(data)], np.uint32))[0])


def foreign(start: bytes, name: str) -> str:
    """What a file of that name is by its first bytes, with what to do about it, if that is known and it holds no
    frames; else ''."""
    if len(start) >= HEAD and masked_checksum(start[:LENGTH]) == struct.unpack("<I", start[LENGTH:HEAD])[0]:
        return ""
    ending = ".tar" if name.endswith((".tar", ".tgz", ".tar.gz")) else ".rec"
    if start.startswith(_GZIP):
        return f"it is compressed by gzip; {_AT_RANDOM} gunzip -c {_quoted(name)} > NEW{ending}"
    if _is_deflated(start):
        return f"it is compressed by zlib; {_AT_RANDOM} {_INFLATE} < {_quoted(name)} > NEW{ending}"
    return next((f"it is {kind}" for magic, kind in _MAGIC if start.startswith(magic)), "")


def foreign_to_text(start: bytes, name: str) -> str:
    """The same for a file of text, whose first bytes may be those of some other kinds by accident; `start` is at
    least as long as a head."""
    if start.startswith(_GZIP):
        return f"it is compressed by gzip; {_AT_RANDOM} gunzip -c {_quoted(name)} > NEW"
    kinds = (kind for magic, kind in _MAGIC if start.startswith(magic) and not magic.isalnum())
    return next((f"it is {kind}" for kind in kinds if kind != "a dfc program"), "")


def _quoted(name: str) -> str:
    return in_one_line(shlex.quote(name))


def _is_deflated(start: bytes) -> bool:
    """Whether zlib takes these bytes for the beginning of something, and makes something of it."""
    if len(start) < LENGTH or start[0] & 15 != 8 or (start[0] << 8 | start[1]) % 31:
        return False
    try:
        return bool(zlib.decompressobj().decompress(start, 64)[:1])
    except zlib.error:
        return False
