"""Records in frames, of one or several files, read at random: each is compared with its frame before it is handed out.

Guarantees that whatever is handed out has the length and the checksum that its frame states; a record that has not is a
`RecordError` (E0914) or, with `on_error="skip"`, left out and counted.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.files import Batch, IndexedFiles
from dfc_runtime.records.framing import (
    HEAD,
    TAIL,
    Numbers,
    check_frames,
    damaged,
    damaged_head,
    damaged_record,
    numbers_at,
)
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.stored_index import open_index


class RecordFiles(IndexedFiles):
    """Files of records in frames, indexed."""

    before: ClassVar[int] = HEAD
    after: ClassVar[int] = TAIL

    def index(self, source: FileSource) -> RecordIndex:
        return open_index(source, self.on_error)

    def read(self, numbers: Numbers) -> Batch:
        """The records of these numbers that are intact, in this order."""
        files, offsets, lengths = self.locate(numbers)
        frames = self._frames(files, offsets, lengths)
        return self._checked(Batch(frames, numbers), files, offsets - HEAD)

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
