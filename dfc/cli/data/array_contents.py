"""What is in `.npy` and `.npz` files, by the heads of their arrays."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator

import numpy as np

from dfc.cli.data.contents import Column, Contents, reader_of
from dfc.cli.data.examples import unusable
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.formats.array_heads import read_head
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.fields import NUMPY_TYPES

LARGEST_HEAD = 1 << 14
FUNCTION = "array_files"


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an array, and why its rows cannot be read where they lie, if so."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    note: str


def contents_of_arrays(source: FileSource) -> Contents:
    """Arrays with as many rows are read together, by a reader of their own."""
    try:
        heads = [*_heads(source)]
    except (ValueError, OSError, zipfile.BadZipFile, NotImplementedError, struct.error, EOFError) as problem:
        raise unusable(source.name, (str(problem).splitlines() or [type(problem).__name__])[0]) from None
    columns = {
        head.name: Column(head.name, f"{head.dtype.name}{list(head.shape)}", _field(head), head.note) for head in heads
    }
    counts = sorted({head.shape[0] for head in heads if head.shape}, reverse=True)
    groups = [[columns[head.name] for head in heads if head.shape[:1] == (count,)] for count in counts]
    readers = [reader for reader in (reader_of(FUNCTION, source.name, group) for group in groups) if reader]
    kind = "archive of arrays" if source.name.lower().endswith(".npz") else "array"
    return Contents(source.name, kind, "rows", max(counts, default=0), source.size, [*columns.values()], readers)


def _heads(source: FileSource) -> Iterator[Head]:
    if not source.name.lower().endswith(".npz"):
        name = os.path.splitext(os.path.basename(source.name))[0]
        yield _head(name, source.read(0, min(source.size, LARGEST_HEAD)), is_compressed=False)
        return
    with zipfile.ZipFile(source.name) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                yield _head(member.filename.removesuffix(".npy"), file.read(LARGEST_HEAD), member.compress_type != 0)


def _head(name: str, data: bytes, is_compressed: bool) -> Head:
    dtype, shape, is_turned, _ = read_head(io.BytesIO(data))
    note = "compressed: write it with numpy.savez" if is_compressed else ""
    if is_turned and len(shape) > 1:
        note = note or "column by column: write numpy.ascontiguousarray(x)"
    if dtype.byteorder == ">":
        note = note or "highest bytes first: write x.astype(x.dtype.newbyteorder('<'))"
    return Head(name, dtype, shape, note)


def _field(head: Head) -> str:
    """The type of a field that rows of it are read as."""
    types = {np.dtype(form): name for name, form in NUMPY_TYPES.items()}
    dtype = types.get(head.dtype)
    if dtype is None or not head.shape or head.note:
        return ""
    return f"{dtype}{list(head.shape[1:])}" if head.shape[1:] else dtype
