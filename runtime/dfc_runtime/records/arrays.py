"""Rows of arrays in `.npy` and `.npz` files as packed records: a field an array, a record a row of each.

A `.npy` file holds the one field of a reader, whatever its name; those of an archive have the names of fields. Rows are
read where they lie, so an archive is one that is not compressed. Files are read and not mapped: one that is cut short
while it is mapped ends the process. Assumes nothing of the bytes. Guarantees that an array has the element type that is
wanted, with as many elements a row, and that every row is in the file; checksums of archives, which are of whole
arrays, are not compared.
"""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.array_heads import MARK, read_head
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.source import FileSource
from dfc_runtime.names import did_you_mean
from dfc_runtime.records.crc32c import Bytes
from dfc_runtime.records.fields import Field, RecordLayout, numpy_type
from dfc_runtime.records.framing import Frames, Numbers, OnError, foreign
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.packing import PackedFiles, packed
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from zipfile import ZipFile

ARCHIVE = b"PK\x03\x04"
LARGEST_HEAD = 1 << 14
LOCAL_HEAD = 30
"""Bytes before the name of a member of an archive."""
READ_THROUGH = 1 << 12
"""Bytes between two rows that are read with them, since that takes less time than another call of the system."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one array: so many, of so many bytes, from an offset of the file on."""

    offset: int
    count: int
    size: int


class ArrayFiles(PackedFiles):
    """Files of arrays."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        self._rows: list[list[Rows]] = []
        super().__init__(paths, on_error, layout)

    def index(self, source: FileSource) -> RecordIndex:
        try:
            start = source.read(0, min(source.size, len(MARK)))
            if start == MARK:
                rows = [self._alone(source)]
            elif start.startswith(ARCHIVE):
                rows = self._archived(source)
            else:
                kind = foreign(source.read(0, min(source.size, LARGEST_HEAD)), source.name)
                raise _no_arrays(source, kind or "it begins as neither a .npy nor a .npz file")
        except ValueError as problem:
            raise _no_arrays(source, str(problem)) from None
        counts = [each.count for each in rows]
        if len(set(counts)) > 1:
            names = ", ".join(f"{shown(f.name)} {n:,}" for f, n in zip(self.layout.fields, counts, strict=True))
            raise _no_arrays(source, f"its arrays have other numbers of rows: {names}")
        return self._counted(source, rows)

    def name_of(self, file: int, record: int) -> str:
        del file
        return f"row {record}"

    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        files = self.locate(numbers)[0]
        sizes = {field.name: (len(numbers), max(field.size, 1)) for field in self.layout.fields}
        check_limit(f"reading {len(numbers)} rows", sum(math.prod(each) for each in sizes.values()), memory_limit())
        values = {name: np.empty(size, np.uint8) for name, size in sizes.items()}
        present: list[int] = np.unique(files).tolist()
        for file in present:
            some = np.flatnonzero(files == file)
            rows = numbers[some] - self.first[file]
            for field, array in zip(self.layout.fields, self._rows[file], strict=True):
                if field.size:
                    values[field.name][some] = self._read(file, array, rows)
        arrays = {field.name: _numbers(field, values[field.name]) for field in self.layout.fields}
        return packed(self.layout, len(numbers), arrays, np.zeros(0, np.uint8), {}), {}

    def _read(self, file: int, array: Rows, rows: Numbers) -> Bytes:
        """These rows of an array as bytes. What lies near to each other is one read."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        breaks = np.flatnonzero((np.diff(ascending) - 1) * array.size > READ_THROUGH) + 1
        first, last = np.append(0, breaks), np.append(breaks, len(rows)) - 1
        begins, counts = ascending[first], ascending[last] - ascending[first] + 1
        before = np.cumsum(counts) - counts
        check_limit(f"reading {len(rows)} rows", int(counts.sum()) * array.size, memory_limit())
        data = np.empty((int(counts.sum()), array.size), np.uint8)
        source = self._source(file)
        for begin, count, target in zip(begins.tolist(), counts.tolist(), before.tolist(), strict=True):
            try:
                source.read_into(array.offset + begin * array.size, data[target : target + count].reshape(-1).data)
            except ValueError:
                raise self._changed(file) from None
        run = np.searchsorted(begins, rows, side="right") - 1
        return data[before[run] + rows - begins[run]]

    def _counted(self, source: FileSource, rows: Sequence[Rows]) -> RecordIndex:
        """The index of a file, of which the end may be missing."""
        count = rows[0].count
        there = min(
            (max(source.size - each.offset, 0) // max(each.size, 1) for each in rows if each.size), default=count
        )
        damages: tuple[RecordError, ...] = ()
        if there < count:
            stated = f"{count:,} row{'s' * (count > 1)}"
            text = f"{in_one_line(source.name)}: its array has {stated}, and the file ends after {there:,} of these"
            damages = (RecordError(text, code="E0914", file=source.name, record=there, offset=source.size),)
            if self.on_error == "fail":
                raise damages[0]
        self._rows.append(list(rows))
        starts = rows[0].offset + np.arange(min(count, there), dtype=np.int64) * rows[0].size
        lengths = np.broadcast_to(np.int64(0), starts.shape)
        return RecordIndex(source.name, source.size, source.modified, starts, lengths, damages, bool(damages))

    # --------------------------------------------------------------- heads --

    def _alone(self, source: FileSource) -> Rows:
        """The array of a `.npy` file."""
        fields: Sequence[Field] = self.layout.fields
        if len(self.layout.fields) > 1:
            names = ", ".join(shown(field.name) for field in self.layout.fields)
            raise ValueError(f"it is one array, and the fields {names} are wanted: write them with numpy.savez")
        return _array(source, 0, source.size, fields[0])

    def _archived(self, source: FileSource) -> list[Rows]:
        """The arrays of an archive, in the order of fields."""
        import zipfile  # costs start-up time only where an archive is read

        try:
            with open(source.name, "rb") as file, zipfile.ZipFile(file) as archive:
                return [_member(source, archive, field) for field in self.layout.fields]
        except (zipfile.BadZipFile, NotImplementedError, struct.error, OverflowError, EOFError, OSError) as damage:
            raise ValueError((str(damage).splitlines() or [type(damage).__name__])[0]) from None


def _member(source: FileSource, archive: ZipFile, field: Field) -> Rows:
    """Where the rows of one array of an archive are."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    if field.name not in names:
        text = f"it has no array {shown(field.name)}{did_you_mean(field.name, names)}"
        raise ValueError(f"{text}; its arrays: {', '.join(map(shown, names)) or 'none'}")
    member = archive.infolist()[names.index(field.name)]
    if member.compress_type or member.flag_bits & 1:
        text = f"its array {shown(field.name)} is compressed, and rows are read at random: write it with numpy.savez"
        raise ValueError(text)
    head = source.read(member.header_offset, LOCAL_HEAD)
    if not head.startswith(ARCHIVE):
        raise ValueError("its members are not where its directory says")
    name, extra = struct.unpack("<HH", head[26:30])
    begin = member.header_offset + LOCAL_HEAD + name + extra
    rows = _array(source, begin, begin + member.file_size, field)
    if rows.offset + rows.count * rows.size > begin + member.file_size:
        raise ValueError(f"its array {shown(field.name)} announces more rows than it has")
    return rows


def _array(source: FileSource, begin: int, end: int, field: Field) -> Rows:
    """An array between these offsets; `ValueError` if it is not what the field has."""
    data = source.read(begin, max(min(source.size, end, begin + LARGEST_HEAD) - begin, 0))
    dtype, shape, is_turned, head = read_head(io.BytesIO(data))
    request = f"rows of {field.dtype}{list(field.shape) if field.shape else ''} are wanted"
    if dtype.newbyteorder("=") != numpy_type(field).newbyteorder("=") or not shape:
        raise ValueError(f"{shown(field.name)} is {dtype.name}{list(shape)}, and {request}")
    count, *row = shape
    if math.prod(row) != field.count:
        raise ValueError(f"{shown(field.name)} has rows of {row}, and {request}")
    if dtype != numpy_type(field):
        raise ValueError(f"{shown(field.name)} has its highest bytes first: write x.astype(x.dtype.newbyteorder('<'))")
    if is_turned and len(shape) > 1:
        raise ValueError(f"{shown(field.name)} lies column by column: write numpy.ascontiguousarray(x)")
    return Rows(begin + head, count, field.size)


def _numbers(field: Field, values: Bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    if not field.size:
        return np.zeros((len(values), 0), numpy_type(field))
    return values != 0 if field.dtype == "bool" else values.view(numpy_type(field))


def _no_arrays(source: FileSource, reason: str) -> RecordError:
    text = f"{in_one_line(source.name)} holds no arrays that are wanted: {reason}"
    return RecordError(text, code="E0916", file=source.name)
