"""A stream of records: which record comes at which position, on which rank. A function of numbers alone.

A stream goes through all records of some files in passes. Position p of pass e is record pi(seed, e)(p) where records
are shuffled (`permutation`); where files are, they come in the order pi(seed, e) of their numbers, each from its
beginning to its end; else it is record p. Element t of the whole stream is position t mod n of pass t // n, and rank r
of R takes the elements r, r + R, r + 2 R, ..: so for any number of ranks each element belongs to exactly one, and going
on behind element t needs nothing but t.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.records.framing import Numbers
from dfc_runtime.records.permutation import permutation

Shuffled = Literal["records", "files", ""]


@dataclass(frozen=True, slots=True)
class RecordStream:
    """The order of the records of files with so many of them each."""

    counts: tuple[int, ...]
    shuffled: Shuffled = ""
    seed: int = 0

    @property
    def count(self) -> int:
        """Records of a pass."""
        return sum(self.counts)

    def numbers(self, pass_: int, positions: Numbers) -> Numbers:
        """The records at these positions of a pass, numbered through all files. `IndexError` outside of a pass."""
        if len(positions) and (int(positions.min()) < 0 or int(positions.max()) >= self.count):
            raise IndexError("a position outside of the pass")
        if self.shuffled == "records":
            return permutation(self.count, self.seed, pass_).many(positions)
        if self.shuffled == "files":
            return self._by_files(pass_, positions)
        return positions

    def elements(self, elements: Numbers) -> Numbers:
        """The records of these elements of the whole stream. `IndexError` if there are no records."""
        if not self.count and len(elements):
            raise IndexError("a stream without records")
        numbers = np.empty(len(elements), np.int64)
        passes = elements // max(self.count, 1)
        for pass_ in np.unique(passes).tolist():
            rows = np.flatnonzero(passes == pass_)
            numbers[rows] = self.numbers(pass_, elements[rows] - pass_ * self.count)
        return numbers

    def _by_files(self, pass_: int, positions: Numbers) -> Numbers:
        order = permutation(len(self.counts), self.seed, pass_).many(np.arange(len(self.counts)))
        counts = np.array(self.counts, np.int64)
        first = np.cumsum(counts) - counts
        ends = np.cumsum(counts[order])
        at = np.searchsorted(ends, positions, side="right")
        return first[order[at]] + positions - (ends - counts[order])[at]


def share(rank: int, ranks: int, begin: int, end: int) -> Numbers:
    """The elements of a rank among those from `begin` up to below `end`. `ValueError` if there is no such rank."""
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank} of {ranks}")
    return np.arange(begin + (rank - begin) % ranks, end, ranks, dtype=np.int64)


def share_of_names(rank: int, ranks: int, names: list[str]) -> list[str]:
    """The files of a rank where whole files are shared out: every one belongs to exactly one rank."""
    return [names[number] for number in share(rank, ranks, 0, len(names)).tolist()]
