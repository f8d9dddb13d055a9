"""What is in files of records, added up: sizes, features, damages. Every record is read."""

from __future__ import annotations

import numpy as np

from dfc_runtime.errors import DfcError
from dfc_runtime.records.columns import Alike, alike
from dfc_runtime.records.example import no_example
from dfc_runtime.records.files import Batch
from dfc_runtime.records.reading import RecordFiles
from dfc_runtime.terminal import in_one_line

AT_ONCE = 1 << 16


class Range:
    """The smallest and the largest of some numbers; none so far."""

    def __init__(self) -> None:
        self.least: int | float | None = None
        self.most: int | float | None = None

    def add(self, least: int | float, most: int | float) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    @property
    def pair(self) -> list[int | float] | None:
        return None if self.least is None or self.most is None else [self.least, self.most]


class FeatureSummary:
    """One feature: how many examples have it, of which kinds, how many values each has, how long its texts are, and
    between what its numbers lie."""

    def __init__(self) -> None:
        self.examples = 0
        self.kinds: set[str] = set()
        self.values, self.text_bytes, self.numbers = Range(), Range(), Range()
        self.has_nan = False

    def add(self, group: Alike, name: str) -> None:
        """Takes in examples that lie alike."""
        layout = group.features[name]
        counts = group.counts(name)
        self.examples += len(group.rows)
        self.kinds |= {layout.kind} - {""}
        self.values.add(int(counts.min()), int(counts.max()))
        if layout.kind == "bytes":
            for span in layout.spans:
                self.text_bytes.add(span.end - span.begin, span.end - span.begin)
        elif layout.kind:
            numbers = group.numbers(name)
            is_number = numbers == numbers
            self.has_nan |= not is_number.all()
            if is_number.any():
                self.numbers.add(numbers[is_number].min().item(), numbers[is_number].max().item())


class FileSummary:
    """One file. `error` is why it could not be read at all."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: DfcError | None = None
        self.size = 0
        self.records = 0
        self.lengths = Range()
        self.damages: list[DfcError] = []
        self.strangers: list[DfcError] = []
        """Records that are no examples."""


class Summary:
    """Several files."""

    def __init__(self) -> None:
        self.files: list[FileSummary] = []
        self.features: dict[str, FeatureSummary] = {}
        self.examples = 0

    def add_file(self, path: str) -> FileSummary:
        """Reads all of a file."""
        file = FileSummary(path)
        self.files.append(file)
        try:
            with RecordFiles([path], "skip") as records:
                file.size, file.records = records.indices[0].size, records.count
                file.damages += records.damages
                for begin in range(0, records.count, AT_ONCE):
                    for batch in records.batches(np.arange(begin, min(begin + AT_ONCE, records.count))):
                        self._add(file, batch)
        except DfcError as error:
            file.error = error
        reported = {(getattr(each, "offset", -1)): each for each in file.damages}
        file.damages = [reported[offset] for offset in sorted(reported)]
        return file

    def _add(self, file: FileSummary, batch: Batch) -> None:
        file.damages += batch.skipped
        lengths = batch.frames.lengths
        if len(lengths):
            file.lengths.add(int(lengths.min()), int(lengths.max()))
        for group in alike(batch.frames):
            if group.problem is not None:
                number = int(batch.numbers[group.rows[0]])
                where = f"{in_one_line(file.path)}: record {number}"
                file.strangers.append(no_example(group.problem, where, file.path, number))
                continue
            self.examples += len(group.rows)
            for name in group.features:
                self.features.setdefault(name, FeatureSummary()).add(group, name)
