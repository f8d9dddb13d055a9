"""Records that are made of what is in a file: fields of known types, one behind the other, which code copies.

    the numbers of a field, row by row | where a string begins and its length, i64 each | ..     the bytes of strings

Fields lie in their order without gaps, little-endian; a string begins so many bytes behind the beginning of the record.
A format of this kind inherits `PackedFiles` and says what of its files becomes of each field (`pack`). Guarantees that
a record which cannot be packed is a `RecordError` (E0914) at its turn or, with `on_error="skip"`, left out and counted.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.errors import RecordError
from dfc_runtime.records.fields import RecordLayout, numpy_type
from dfc_runtime.records.files import BATCH_BYTES, Batch, IndexedFiles, Prefetched
from dfc_runtime.records.framing import Frames, Numbers, OnError
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONG = 128
"""Bytes of a string, on average, from which on it is cheaper to copy each by itself."""


class PackedFiles(IndexedFiles):
    """Files that packed records are made of."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        self.layout, self.fixed = layout, layout.size
        super().__init__(paths, on_error)

    @abstractmethod
    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        """The records of these numbers; and by row why there is none, whatever the frames have there."""

    def sizes(self, numbers: Numbers) -> Numbers:
        """At most so many bytes."""
        return self.layout.size + self.locate(numbers)[2] * self.layout.has_strings

    def read(self, numbers: Numbers) -> Batch:
        frames, reasons = self.pack(numbers)
        if not reasons:
            return Batch(frames, numbers)
        errors = [self._damaged(int(numbers[row]), reason) for row, reason in sorted(reasons.items())]
        if self.on_error == "fail":
            raise errors[0]
        intact = np.setdiff1d(np.arange(len(numbers)), np.fromiter(reasons, np.int64, len(reasons)))
        return Batch(frames.take(intact), numbers[intact], tuple(errors))

    def prefetch(self, numbers: Numbers) -> Prefetched:
        ends = np.cumsum(self.locate(numbers)[2])  # in the file, where cells may have more bytes than what is packed
        numbers = numbers[: max(1, int(np.searchsorted(ends, BATCH_BYTES, side="right")))]
        frames, reasons = self.pack(numbers)
        addresses = frames.starts + frames.data.ctypes.data
        addresses[np.fromiter(reasons, np.int64, len(reasons))] = 0
        nowhere = np.full(len(numbers), -1)
        return Prefetched(frames.lengths, addresses, nowhere, nowhere, frames.data)

    def _damaged(self, number: int, reason: str) -> RecordError:
        _, path, record = self.described(number)
        file, offset = (int(each[0]) for each in self.locate(np.array([number]))[:2])
        text = f"{in_one_line(path)}: {self.name_of(file, record)} at byte {offset}: {reason}"
        return RecordError(text, code="E0914", file=path, record=record, offset=offset)


def packed(
    layout: RecordLayout,
    rows: int,
    numbers: Mapping[str, NDArray[np.generic]],
    source: NDArray[np.uint8],
    strings: Mapping[str, tuple[Numbers, Numbers]],
) -> Frames:
    """So many records of the numbers of each field, a row each, and of strings, with where they begin and end."""
    fixed = np.zeros((rows, layout.size), np.uint8)
    begins = np.zeros((rows, len(strings)), np.int64)
    lengths = np.zeros((rows, len(strings)), np.int64)
    for column, (begin, end) in enumerate(strings.values()):
        begins[:, column], lengths[:, column] = begin, end - begin
    behind = np.cumsum(lengths, axis=1)
    column = 0
    for field, offset in zip(layout.fields, layout.offsets, strict=True):
        if field.is_string:
            ranges = np.stack([layout.size + behind[:, column] - lengths[:, column], lengths[:, column]], axis=1)
            fixed[:, offset : offset + field.size] = ranges.astype("<i8").view(np.uint8)
            column += 1
        else:
            values = np.ascontiguousarray(numbers[field.name]).reshape(rows, -1)
            fixed[:, offset : offset + field.size] = values.astype(numpy_type(field), copy=False).view(np.uint8)
    if not strings:
        starts = np.arange(rows, dtype=np.int64) * layout.size
        return Frames(fixed.reshape(-1), starts, np.full(rows, layout.size))
    total = layout.size + behind[:, -1]
    starts = np.cumsum(total) - total
    data = np.empty(int(total.sum()), np.uint8)
    data[(starts[:, None] + np.arange(layout.size)).reshape(-1)] = fixed.reshape(-1)
    first, sizes = begins.reshape(-1), lengths.reshape(-1)
    _copy_ranges(source, first, data, (starts[:, None] + layout.size + behind - lengths).reshape(-1), sizes)
    return Frames(data, starts, total)


def _copy_ranges(
    source: NDArray[np.uint8], begins: Numbers, target: NDArray[np.uint8], to: Numbers, sizes: Numbers
) -> None:
    """Short ranges all at once, byte by byte, and long ones, such as images, one after the other."""
    whole = int(sizes.sum())
    if whole >= LONG * len(sizes):
        for begin, at, size in zip(begins.tolist(), to.tolist(), sizes.tolist(), strict=True):
            target[at : at + size] = source[begin : begin + size]
        return
    within = np.arange(whole) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    target[np.repeat(to, sizes) + within] = source[np.repeat(begins, sizes) + within]
