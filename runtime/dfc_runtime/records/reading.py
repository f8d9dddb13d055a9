"""Records of one or several files, read at random: each is compared with its frame before it is handed out.

Records are numbered through the files in their order. Assumes that files stay as they are while they are open; where
one does not, heads and checksums say so. Guarantees that whatever is handed out has the length and the checksum that
its frame states; a record that has not is a `RecordError` (E0914) or, with `on_error="skip"`, left out and counted.
Memory is that of the records of a call, which is compared with the limit before it is taken, and of the index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.framing import (
    FRAME,
    HEAD,
    Frames,
    Numbers,
    OnError,
    check_frames,
    damaged,
    damaged_head,
    damaged_record,
    numbers_at,
)
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.stored_index import open_index
from dfc_runtime.terminal import in_one_line

MOST_OPEN = 128
"""Files that are open at once."""
BATCH_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were read, with their numbers, and the errors of those that were skipped."""

    frames: Frames
    numbers: Numbers
    skipped: tuple[RecordError, ...] = ()


class RecordFiles:
    """Files of records, indexed. Use it as a context; it holds files open."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError = "fail") -> None:
        self.on_error: OnError = on_error
        self._open: dict[int, FileSource] = {}
        indices: list[RecordIndex] = []
        for path in paths:
            source = FileSource(path)
            try:
                indices.append(open_index(source, on_error))
            finally:
                source.close()
        self.indices = tuple(indices)
        counts = np.array([index.count for index in self.indices], np.int64)
        self.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        """The number of the first record of each file, and at the end how many there are."""

    @property
    def count(self) -> int:
        return int(self.first[-1])

    @property
    def damages(self) -> list[RecordError]:
        """What could not be read of the heads of all files."""
        return [damage for index in self.indices for damage in index.damages]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for source in self._open.values():
            source.close()
        self._open.clear()

    def locate(self, numbers: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """File, offset and length of each record; `IndexError` if there is none of such a number."""
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= self.count):
            raise IndexError("there is no record of such a number")
        files: Numbers = np.searchsorted(self.first, numbers, side="right") - 1
        offsets, lengths = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
        present: list[int] = np.unique(files).tolist()
        for file in present:
            rows = np.flatnonzero(files == file)
            records = numbers[rows] - self.first[file]
            index = self.indices[file]
            offsets[rows], lengths[rows] = index.starts[records], index.lengths[records]
        return files, offsets, lengths

    def read(self, numbers: Numbers) -> Batch:
        """The records of these numbers, in this order. Files are read by offset, neighbours at once."""
        files, offsets, lengths = self.locate(numbers)
        frames = self._frames(files, offsets, lengths)
        return self._checked(Batch(frames, numbers), files, offsets - HEAD)

    def _frames(self, files: Numbers, offsets: Numbers, lengths: Numbers) -> Frames:
        size = int((lengths + FRAME).sum())
        check_limit(f"reading {len(files)} records", size, memory_limit())
        data = np.zeros(-(-size // 8) * 8, np.uint8)
        ends = np.cumsum(lengths + FRAME)
        frames = Frames(data, ends - lengths - (FRAME - HEAD), lengths)
        self._fill(data.data, files, offsets - HEAD, ends)
        return frames

    def unchecked(self, numbers: Numbers) -> Frames:
        """The frames of these records as they are in the files, for those who compare them later."""
        files, offsets, lengths = self.locate(numbers)
        return self._frames(files, offsets, lengths)

    def descriptors(self, numbers: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Where each frame is: an open file, and its offset there; and the length of the record. They are of the first
        records only where all are in more than `MOST_OPEN` files. Descriptors are good until records of other files
        are asked for, or these files are closed: the number is that of another file then, or of none."""
        files, offsets, lengths = self.locate(numbers)
        first_uses = np.sort(np.unique(files, return_index=True)[1])
        if len(first_uses) > MOST_OPEN:
            count = int(first_uses[MOST_OPEN])
            files, offsets, lengths = files[:count], offsets[:count], lengths[:count]
        opened: Numbers = np.zeros(len(self.indices), np.int64)
        present: list[int] = np.unique(files).tolist()
        for file in present:
            opened[file] = self._source(file).descriptor
        return opened[files], offsets - HEAD, lengths

    def batches(self, numbers: Numbers, size: int = BATCH_BYTES) -> Iterator[Batch]:
        """The same in batches of about `size` bytes, at least one record each."""
        lengths = self.locate(numbers)[2] + FRAME
        ends = np.cumsum(lengths)
        begin = 0
        while begin < len(numbers):
            limit = size + (int(ends[begin - 1]) if begin else 0)
            end = max(int(np.searchsorted(ends, limit, side="right")), begin + 1)
            yield self.read(numbers[begin:end])
            begin = end

    def _fill(self, target: memoryview, files: Numbers, offsets: Numbers, ends: Numbers) -> None:
        """Reads frames to where they belong: those that follow each other in the file and in memory are one read."""
        if not len(files):
            return
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        follows = (files[1:] == files[:-1]) & (offsets[1:] - offsets[:-1] == begins[1:] - begins[:-1])
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        last = np.concatenate([first[1:], [len(files)]]) - 1
        order = np.lexsort((offsets[first], files[first]))
        runs = (files[first], offsets[first], begins[first], ends[last])
        for file, offset, begin, end in zip(*(each[order].tolist() for each in runs), strict=True):
            source = self._source(file)
            try:
                source.read_into(offset, target[begin:end])
            except ValueError:
                raise self._changed(file) from None

    def _source(self, file: int) -> FileSource:
        """An open file; the one that was not used for longest is closed where there are too many."""
        source = self._open.pop(file, None)
        if source is not None:
            self._open[file] = source  # behind the others
            return source
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        index = self.indices[file]
        source = FileSource(index.path)
        if (source.size, source.modified) != (index.size, index.modified):
            source.close()
            raise self._changed(file)
        self._open[file] = source
        return source

    def _changed(self, file: int) -> RecordError:
        path = self.indices[file].path
        return RecordError(f"{in_one_line(path)} has changed since it was opened", code="E0914", file=path)

    def _checked(self, batch: Batch, files: Numbers, offsets: Numbers) -> Batch:
        frames = batch.frames
        faults = check_frames(frames)
        rows = np.flatnonzero(faults.any)
        if not len(rows):
            return batch
        errors: list[RecordError] = []
        for row in rows.tolist():
            file, start, length = int(files[row]), int(frames.starts[row]), int(frames.lengths[row])
            head = frames.data[start - HEAD : start].tobytes()
            if faults.is_head_damaged[row]:
                reason = damaged_head(head)
            elif faults.has_other_length[row]:
                stated = int(numbers_at(frames.data, np.array([start - HEAD]), np.uint64)[0])
                reason = f"its length is {stated}, and the index says {length}: the file has changed"
            else:
                reason = damaged_record(frames.data, start, length)
            record = int(batch.numbers[row] - self.first[file])
            errors.append(damaged(self.indices[file].path, record, int(offsets[row]), reason))
            if self.on_error == "fail":
                raise errors[0]
        intact = np.flatnonzero(~faults.any)
        return Batch(frames.take(intact), batch.numbers[intact], tuple(errors))
