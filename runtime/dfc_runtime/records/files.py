"""Files of any format whose records were found before: ranges of bytes, numbered through the files in their order.

A format is a class that inherits `IndexedFiles`: it says how its records are found (`index`), and whether they are
handed out as they lie in the file or are made of it (`read`, `prefetch`). Assumes that files stay as they are while
they are open; one that has another size or time when it is opened again is a `RecordError` (E0914). Guarantees that
memory is that of the records of a call, which is compared with the limit before it is taken, and of the index.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.crc32c import Bytes
from dfc_runtime.records.framing import Frames, Numbers, OnError
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.terminal import in_one_line

MOST_OPEN = 128
"""Files that are open at once."""
BATCH_BYTES = 1 << 23
LOST = -1
"""In place of the number of a record."""
FEWEST_NEIGHBOURS = 4
"""Records that follow each other in a file, on average, where they are read at once."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were read, with their numbers, and the errors of those that were skipped."""

    frames: Frames
    numbers: Numbers
    skipped: tuple[RecordError, ...] = ()


@dataclass(frozen=True, slots=True)
class Prefetched:
    """Where native code finds records that were read ahead, one element each: at `addresses`, which are in `data`, or
    at `offsets` of files that are open. One with neither (0 and -1) is left to `read`, which says what is wrong."""

    lengths: Numbers
    addresses: Numbers
    descriptors: Numbers
    offsets: Numbers
    data: Bytes | None = None


class IndexedFiles(ABC):
    """Files with an index each. Use it as a context; it holds files open."""

    fixed = 0
    """Bytes of each record that are there however long its strings are."""
    has_estimates: ClassVar[bool] = False
    """Whether `sizes` may be other than those of the records: then only who has read one knows its size."""
    before: ClassVar[int] = 0
    after: ClassVar[int] = 0
    """Bytes of a frame around each record, which are read with it."""

    widest_gap: ClassVar[int] = 64
    """Bytes between two records that are read with them, such as the ends of lines."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError = "fail") -> None:
        self.on_error: OnError = on_error
        self._open: dict[int, FileSource] = {}
        indices: list[RecordIndex] = []
        for path in paths:
            source = FileSource(path)
            try:
                indices.append(self.index(source))
            finally:
                source.close()
        self.indices = tuple(indices)
        counts = np.array([index.count for index in self.indices], np.int64)
        self.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        """The number of the first record of each file, and at the end how many there are."""

    @abstractmethod
    def index(self, source: FileSource) -> RecordIndex:
        """Where the records of a file lie."""

    def name_of(self, file: int, record: int) -> str:
        """A record in words, such as `record 3`."""
        del file
        return f"record {record}"

    @property
    def count(self) -> int:
        return int(self.first[-1])

    @property
    def counts(self) -> tuple[int, ...]:
        """Records of each file."""
        return tuple(index.count for index in self.indices)

    @property
    def turns(self) -> tuple[int, ...]:
        """What each file has a turn for in a stream: one for its end where that is lost, and then its records. So it is
        behind nothing that a reader which comes to the end of the data has not read."""
        return tuple(index.count + index.is_truncated for index in self.indices)

    def records_of(self, turns: Numbers) -> Numbers:
        """The records at these turns, which are numbered through all files; `LOST` where it is that of an end."""
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.turns, dtype=np.int64)])
        if int(begins[-1]) == self.count:
            return turns
        files = np.searchsorted(begins, turns, side="right") - 1
        numbers = self.first[files + 1] - (begins[files + 1] - turns)
        return np.where(numbers < self.first[files], LOST, numbers)

    @property
    def damages(self) -> list[RecordError]:
        """What could not be read when the records of all files were found."""
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

    def sizes(self, numbers: Numbers) -> Numbers:
        """How many bytes of each record are handed out."""
        return self.locate(numbers)[2]

    def described(self, number: int) -> tuple[str, str, int]:
        """A record in words, its file and its number in that."""
        file = int(self.locate(np.array([number]))[0][0])
        record, path = number - int(self.first[file]), self.indices[file].path
        return f"{self.name_of(file, record)} of {in_one_line(path)}", path, record

    def located(self, number: int) -> str:
        """A record in words, and where in its file that is."""
        return f"{self.described(number)[0]}, at byte {self.offset(number)}"

    def offset(self, number: int) -> int:
        """Where in its file a record begins, with its frame."""
        return int(self.locate(np.array([number]))[1][0]) - self.before

    # ------------------------------------------------------------- reading --

    def read(self, numbers: Numbers) -> Batch:
        """The records of these numbers, in this order. Files are read by offset, neighbours at once."""
        return Batch(self.unchecked(numbers), numbers)

    def unchecked(self, numbers: Numbers) -> Frames:
        """These records with their frames as they are in the files, for those who compare them later."""
        return self._frames(*self.locate(numbers))

    def prefetch(self, numbers: Numbers) -> Prefetched:
        """Reads neighbours at once; what lies apart is left in the files, where code finds it as fast. May be of the
        first records only."""
        if np.count_nonzero(np.diff(numbers) != 1) * FEWEST_NEIGHBOURS > len(numbers):
            descriptors, offsets, lengths = self.descriptors(numbers)
            return Prefetched(lengths, np.zeros(len(lengths), np.int64), descriptors, offsets)
        frames = self.unchecked(numbers)
        nowhere = np.full(len(numbers), -1)
        return Prefetched(frames.lengths, frames.starts + frames.data.ctypes.data, nowhere, nowhere, frames.data)

    def batches(self, numbers: Numbers, size: int = BATCH_BYTES) -> Iterator[Batch]:
        """The same as `read` in batches of about `size` bytes, at least one record each."""
        ends = np.cumsum(self.sizes(numbers) + (self.before + self.after))
        begin = 0
        while begin < len(numbers):
            limit = size + (int(ends[begin - 1]) if begin else 0)
            end = max(int(np.searchsorted(ends, limit, side="right")), begin + 1)
            yield self.read(numbers[begin:end])
            begin = end

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
        return opened[files], offsets - self.before, lengths

    def _frames(self, files: Numbers, offsets: Numbers, lengths: Numbers) -> Frames:
        """What follows each other in the file, but for a few bytes between, is one read and lies in memory so."""
        sizes, offsets = lengths + (self.before + self.after), offsets - self.before
        gaps = np.zeros(len(files), np.int64)
        gaps[1:] = offsets[1:] - offsets[:-1] - sizes[:-1]
        follows = (np.diff(files, prepend=-1) == 0) & (gaps >= 0) & (gaps <= self.widest_gap)
        ends = np.cumsum(sizes + gaps * follows)
        begins, size = ends - sizes, int(ends[-1]) if len(ends) else 0
        check_limit(f"reading {len(files)} records", size, memory_limit())
        data = np.zeros(-(-size // 8) * 8, np.uint8)
        first = np.flatnonzero(~follows)
        last = np.append(first[1:], len(files))[: len(first)] - 1
        order = np.lexsort((offsets[first], files[first]))
        runs = (files[first], offsets[first], begins[first], ends[last])
        for file, offset, begin, end in zip(*(each[order].tolist() for each in runs), strict=True):
            try:
                self._source(file).read_into(offset, data.data[begin:end])
            except ValueError:
                raise self._changed(file) from None
        return Frames(data, begins + self.before, lengths)

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
