"""An index kept beside its file, `FILE.index`, so that the next one who opens it need not look for the records.

A safetensors file: `lengths` (U64, one a record; frames lie one behind the other, so starts follow), and as texts the
format, size and time of change of the file of records, and a SHA-256 of its first and last `EDGE` bytes and of the
lengths. Assumes nothing of these bytes. Guarantees that an index which is handed out has ranges that fill the file, and
was made of a file of this size, time and edges; whatever is not is stale, and says why. A file that was changed within
all the same is noticed by whoever reads: heads and checksums of records are compared each time.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dfc_runtime.checkpoints.files import replace_file
from dfc_runtime.errors import FileError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.formats.tensors import NewTensor, read_header, write
from dfc_runtime.records.framing import FRAME, HEAD, OnError
from dfc_runtime.records.index import RecordIndex, scan
from dfc_runtime.terminal import in_one_line

FORMAT, VERSION = "dfc.record-index", "1"
SUFFIX = ".index"
EDGE = 4096
_LOW = np.uint64(0xFFFFFFFF)


class Stale(ValueError):
    """A stored index that is not one of the file as it is now."""


def index_path(path: str | os.PathLike[str]) -> str:
    """Where the index of a file is kept."""
    return os.fspath(path) + SUFFIX


def open_index(source: FileSource, on_error: OnError = "fail") -> RecordIndex:
    """The index kept beside the file if there is one and it is of this file, else that of a pass over the file. A
    stale one is a warning."""
    path = index_path(source.name)
    if os.path.lexists(path):
        try:
            return read_index(source)
        except Stale as stale:
            text = f"{in_one_line(path)} is not used: {stale}; `dfc data inspect --index` writes it anew"
            warnings.warn(text, stacklevel=2)
    return scan(source, on_error)


def write_index(source: FileSource, index: RecordIndex) -> str:
    """Keeps the index of a whole file beside it, and says where. `FileError` if that cannot be written."""
    assert not index.damages, "where records are damaged, their frames do not lie one behind the other"
    lengths = index.lengths.astype("<u8").tobytes()
    metadata = {"format": FORMAT, "version": VERSION, **_described(source, lengths)}
    path = index_path(source.name)
    try:
        replace_file(Path(path), write([NewTensor("lengths", "U64", (index.count,), lengths)], metadata))
    except OSError as problem:
        raise FileError(f"cannot write {in_one_line(path)}: {problem.strerror or problem}", code="E0909") from None
    return path


def read_index(source: FileSource) -> RecordIndex:
    """The index kept beside the file; `Stale` if there is none of this file."""
    try:
        stored = FileSource(index_path(source.name))
    except FileError as problem:
        raise Stale(problem.message) from None
    try:
        header = read_header(stored)
        entry = header.tensors.get("lengths")
        if header.metadata.get("format") != FORMAT or header.metadata.get("version") != VERSION or entry is None:
            raise Stale("it is no index of records")
        if header.metadata.get("size") != str(source.size):
            raise Stale("the file has another size")
        if entry.dtype != "U64" or len(entry.shape) != 1 or entry.shape[0] > source.size // FRAME:
            raise Stale("it has more records than the file has room for")
        data = stored.read(entry.offset, entry.size)
    except Stale:
        raise
    except ValueError as damage:
        raise Stale(f"it is damaged: {damage}") from None
    finally:
        stored.close()
    return _index(source, header.metadata, data)


def _index(source: FileSource, metadata: Mapping[str, str], data: bytes) -> RecordIndex:
    described = _described(source, data)
    for key, what in (("lengths", "it is damaged"), ("edges", _CHANGED), ("modified", _CHANGED)):
        if metadata.get(key) != described[key]:
            raise Stale(what)
    lengths = np.frombuffer(data, np.uint64)
    total = (int((lengths >> np.uint64(32)).sum()) << 32) + int((lengths & _LOW).sum())
    if total + FRAME * len(lengths) != source.size:
        raise Stale("its records do not fill the file")
    sizes = lengths.astype(np.int64)
    starts = np.cumsum(sizes + FRAME) - sizes - (FRAME - HEAD)
    return RecordIndex(source.name, source.size, source.modified, starts, sizes)


_CHANGED = "the file has changed since"


def _described(source: FileSource, lengths: bytes) -> dict[str, str]:
    """What is compared, as texts."""
    edge = min(source.size, EDGE)
    edges = source.read(0, edge) + source.read(source.size - edge, edge)
    return {
        "size": str(source.size),
        "modified": str(source.modified),
        "edges": hashlib.sha256(edges).hexdigest(),
        "lengths": hashlib.sha256(lengths).hexdigest(),
    }
