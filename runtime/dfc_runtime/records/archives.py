"""Samples in tar archives as packed records: files of one name that follow each other, a field each by its ending.

`train/0001.jpg` and `train/0001.cls` are the sample `train/0001`, with the fields `jpg` and `cls`; a field is the bytes
of a file, or the one number that is written in it. An ending begins at the first point of a file's own name; a file
without one (`README`), or with nothing before it (`._0001.jpg`), is no part of a sample. Assumes nothing of the bytes.
Guarantees that a file is one of an archive whose heads have their checksums up to there; a damaged head, or an end that
comes too early, is a `RecordError` (E0914), and so is a sample that lacks a field.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.fields import RecordLayout, numpy_type
from dfc_runtime.records.framing import Frames, Numbers, OnError, foreign
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.packing import PackedFiles, packed
from dfc_runtime.records.text.cells import numbers_of
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 512
MISSING, TWICE = -1, -2
"""In place of the offset of a file."""
_HEAD_ERRORS = (tarfile.TarError, ValueError, OSError, OverflowError, MemoryError, RecursionError)
"""What a head may lead to: one that announces a name of more bytes than there are, or is behind many others."""
_ENDS = np.array([ord(each) for each in " \t\r\n"], np.uint8)


@dataclass(frozen=True, slots=True)
class Samples:
    """Of each sample and field: where its file begins, and how many bytes that has."""

    offsets: Numbers
    sizes: Numbers


class SampleFiles(PackedFiles):
    """Archives of samples."""

    widest_gap: ClassVar[int] = 4 * BLOCK

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        self._samples: list[Samples] = []
        super().__init__(paths, on_error, layout)

    def index(self, source: FileSource) -> RecordIndex:
        names = {field.name: number for number, field in enumerate(self.layout.fields)}
        offsets: list[list[int]] = []
        sizes: list[list[int]] = []
        last, damages = "", list[RecordError]()
        for member in filter(is_of_a_sample, members_of(source, damages)):
            key, ending = split_name(member.name)
            if not offsets or key != last:
                offsets.append([MISSING] * len(names))
                sizes.append([0] * len(names))
                last = key
            field = names.get(ending)
            if field is not None:
                is_first = offsets[-1][field] == MISSING
                offsets[-1][field] = member.offset_data if is_first else TWICE
                sizes[-1][field] = member.size if is_first else 0
        if damages and self.on_error == "fail":
            raise damages[0]
        if damages and offsets and min(offsets[-1]) < 0:  # what it lacks is lost with the end
            del offsets[-1], sizes[-1]
        shape = (len(offsets), len(names))
        samples = Samples(np.array(offsets, np.int64).reshape(shape), np.array(sizes, np.int64).reshape(shape))
        self._samples.append(samples)
        is_string = np.array([field.is_string for field in self.layout.fields])
        lengths = (samples.sizes * is_string).sum(axis=1)
        starts = np.where(samples.offsets >= 0, samples.offsets, source.size).min(axis=1)
        return RecordIndex(source.name, source.size, source.modified, starts, lengths, tuple(damages), bool(damages))

    def name_of(self, file: int, record: int) -> str:
        del file
        return f"sample {record}"

    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        files = self.locate(numbers)[0]
        offsets, sizes = (np.zeros((len(numbers), len(self.layout.fields)), np.int64) for _ in range(2))
        present: list[int] = np.unique(files).tolist()
        for file in present:
            rows = np.flatnonzero(files == file)
            samples, records = self._samples[file], numbers[rows] - self.first[file]
            offsets[rows], sizes[rows] = samples.offsets[records], samples.sizes[records]
        raw = self._frames(np.repeat(files, offsets.shape[1]), np.maximum(offsets, 0).reshape(-1), sizes.reshape(-1))
        begins = raw.starts.reshape(offsets.shape)
        reasons: dict[int, str] = {}
        values: dict[str, NDArray[np.generic]] = {}
        strings: dict[str, tuple[Numbers, Numbers]] = {}
        for number, field in enumerate(self.layout.fields):
            begin, end = begins[:, number], begins[:, number] + sizes[:, number]
            for row in np.flatnonzero(offsets[:, number] < 0).tolist():
                has = "no file that ends" if offsets[row, number] == MISSING else "several files that end"
                reasons.setdefault(row, f"it has {has} in .{shown(field.name)}")
            if field.is_string:
                strings[field.name] = begin, end
                continue
            end = _without_ends(raw.data, begin, end)
            values[field.name], valid = numbers_of(raw.data, begin, end, numpy_type(field))
            for row in np.flatnonzero(~valid).tolist():
                text = shown(raw.data[begin[row] : end[row]][:40].tobytes().decode("utf-8", "replace"))
                reasons.setdefault(row, f"its file .{shown(field.name)} holds {text!r}, which is no {field.dtype}")
        return packed(self.layout, len(numbers), values, raw.data, strings), reasons


def members_of(source: FileSource, damages: list[RecordError]) -> Iterator[tarfile.TarInfo]:
    """The files of an archive; what ends it too early is a damage."""
    with open(source.name, "rb") as file:
        try:
            archive = tarfile.TarFile(fileobj=file, mode="r")
        except _HEAD_ERRORS as problem:
            kind = foreign(source.read(0, min(source.size, BLOCK)), source.name) or f"it is no tar archive: {problem}"
            text = f"{in_one_line(source.name)} holds no samples: {kind}"
            raise RecordError(text, code="E0916", file=source.name) from None
        reason, begin = "", 0
        while not reason:
            begin = archive.offset
            try:
                member = archive.next()
            except _HEAD_ERRORS as problem:
                reason = str(problem) or type(problem).__name__
                break
            cast("Any", archive).members.clear()  # else it keeps all of them
            if member is None:
                rest = source.read(archive.offset, max(min(BLOCK, source.size - archive.offset), 0))
                reason = "the head of a file is damaged" if rest.strip(b"\0") else ""
                begin = archive.offset
                break
            if member.offset_data + member.size > source.size:
                reason = f"its file {shown(member.name)} has {member.size} bytes, and the archive ends before"
            elif member.isreg() and not member.issparse():
                yield member
        if reason:
            text = f"{in_one_line(source.name)}: at byte {begin}: {reason}"
            damages.append(RecordError(text, code="E0914", file=source.name, offset=begin))


def split_name(name: str) -> tuple[str, str]:
    """The name of a sample, with its folders, and the ending of a file of it."""
    folder, slash, own = name.rpartition("/")
    stem, _, ending = own.partition(".")
    return f"{folder}{slash}{stem}", ending


def is_of_a_sample(member: tarfile.TarInfo) -> bool:
    """Whether a file has a name and an ending: a text about the others has none, what some systems add begins with a
    point."""
    key, ending = split_name(member.name)
    return bool(ending) and bool(key.rpartition("/")[2])


def _without_ends(data: NDArray[np.uint8], begins: Numbers, ends: Numbers) -> Numbers:
    """Behind the last byte that is neither blank nor the end of a line."""
    ends = ends.copy()
    while True:
        blank = (ends > begins) & np.isin(data[np.maximum(ends - 1, 0)], _ENDS) if len(data) else np.zeros(0, np.bool_)
        if not blank.any():
            return ends
        ends -= blank
