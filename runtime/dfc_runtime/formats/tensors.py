"""safetensors files: a strict reader of the header, and a writer with one output for one input.

Layout: 8 bytes little-endian length N, N bytes of JSON (a description per tensor, and `__metadata__`: texts), data.

Assumes nothing of the bytes. Guarantees after `read_header`: the lengths fit the file, element types are known, the
ranges of the tensors follow each other without gap or overlap and end with the file. What is wrong is a `ValueError`.
Written files have their tensors ordered by element size (largest first), then by name, and data that starts at a
multiple of 64 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import counted
from dfc_runtime.formats import fields, strict_json
from dfc_runtime.formats.element_types import STORED_SIZES
from dfc_runtime.formats.source import Source

PREFIX = 8
MAXIMUM_HEADER = 64 << 20
MAXIMUM_RANK = 64
ALIGNMENT = 64
_METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies: `offset` counts from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about itself."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorEntry]
    data_start: int


def read_header(source: Source) -> Header:
    """The checked header of a file."""
    length = _header_length(source)
    try:
        text = source.read(PREFIX, length).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the header is not UTF-8") from None
    if not text.startswith("{"):
        raise ValueError("the header is not a JSON object")
    described = fields.mapping(strict_json.parse(text), "header")
    metadata = fields.mapping(described.pop(_METADATA, {}), _METADATA)
    start = PREFIX + length
    tensors = [_entry(name, value, start) for name, value in described.items()]
    _check_ranges(tensors, start, source.size)
    texts = {key: fields.text(value, f"{_METADATA}.{fields.shown(key)}") for key, value in metadata.items()}
    return Header(texts, {t.name: t for t in tensors}, start)


def _header_length(source: Source) -> int:
    if source.size < PREFIX + 2:
        raise ValueError(f"a file of {counted(source.size, 'byte')} is too short")
    (length,) = struct.unpack("<Q", source.read(0, PREFIX))
    if length > source.size - PREFIX:
        raise ValueError(f"the header claims {counted(length, 'byte')}, the file has {source.size}")
    if length > MAXIMUM_HEADER:
        raise ValueError(f"the header of {length} bytes is longer than {MAXIMUM_HEADER}")
    return length


def _entry(name: str, value: object, start: int) -> TensorEntry:
    record = fields.Record(value, fields.shown(name))
    dtype = record.text("dtype")
    if dtype not in STORED_SIZES:
        raise ValueError(f"{record.where} has the unknown element type {fields.shown(dtype)}")
    shape = record.list("shape", fields.integer)
    offsets = record.list("data_offsets", fields.integer)
    record.done()
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"{record.where} has no valid range of bytes")
    if len(shape) > MAXIMUM_RANK:
        raise ValueError(f"{record.where} has {len(shape)} axes")
    size = offsets[1] - offsets[0]
    if math.prod(shape) * STORED_SIZES[dtype] != size:
        raise ValueError(f"{record.where} has {counted(size, 'byte')}, which its shape contradicts")
    return TensorEntry(name, dtype, shape, start + offsets[0], size)


def _check_ranges(tensors: list[TensorEntry], start: int, end: int) -> None:
    offset = start
    for tensor in sorted(tensors, key=lambda t: (t.offset, t.size)):
        if tensor.offset != offset:
            raise ValueError(f"{fields.shown(tensor.name)} does not follow the tensor before it")
        offset += tensor.size
    if offset != end:
        raise ValueError(f"the tensors end at byte {offset}, the file at {end}")


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor to write: row-major, little-endian."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


def write(tensors: Iterable[NewTensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The file, piece by piece."""
    ordered = sorted(tensors, key=lambda t: (-STORED_SIZES[t.dtype], t.name))
    described: dict[str, object] = {_METADATA: dict(metadata)}
    offset = 0
    for tensor in ordered:
        size = math.prod(tensor.shape) * STORED_SIZES[tensor.dtype]
        assert size == len(tensor.data), tensor.name
        range_ = [offset, offset + size]
        described[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": range_}
        offset += size
    header = strict_json.dump(described).encode()
    header += b" " * (-(PREFIX + len(header)) % ALIGNMENT)
    yield struct.pack("<Q", len(header)) + header
    for tensor in ordered:
        yield tensor.data
