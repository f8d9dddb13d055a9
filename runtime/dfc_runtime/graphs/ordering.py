"""Which nodes of a graph must come after which: from the bytes that each reads and writes.

Two accesses are ordered if they share a byte and one of them writes; everything else may run at the same time. Memory
is one range of numbers, so what overlaps in an arena needs no care. Assumes accesses in the order of the program.
Guarantees that no edge is given that others imply.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import field

from dfc_runtime.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes `start` to below `end`."""

    start: int
    end: int
    writes: bool


@dataclass(slots=True)
class _Segment:
    """Bytes with one history: who wrote them last, and who has read them since."""

    writer: int = -1
    readers: list[int] = field(default_factory=list[int])

    def copy(self) -> _Segment:
        return _Segment(self.writer, list(self.readers))


class Ordering:
    """The history of all memory of one graph. Segment i spans from border i to border i + 1; what lies outside has
    none."""

    def __init__(self) -> None:
        self._borders: list[int] = [0]
        self._segments: list[_Segment] = [_Segment()]
        self._before: list[int] = []  # for each node a bit for each node that surely comes before it

    def add(self, accesses: Iterable[Access]) -> list[int]:
        """The numbers of the nodes that the next node comes after, in ascending order."""
        number = len(self._before)
        needed: set[int] = set()
        reads = [each for each in accesses if each.end > each.start]
        writes = [each for each in reads if each.writes]
        for each in reads:
            if not each.writes:
                self._read(each, number, needed)
        for each in writes:
            self._write(each, number, needed)
        needed.discard(number)
        needed.discard(-1)
        return self._reduced(needed)

    def _read(self, access: Access, number: int, needed: set[int]) -> None:
        for segment in self._within(access):
            needed.add(segment.writer)
            if not segment.readers or segment.readers[-1] != number:
                segment.readers.append(number)

    def _write(self, access: Access, number: int, needed: set[int]) -> None:
        for segment in self._within(access):
            needed.add(segment.writer)
            needed.update(segment.readers)
        first, last = self._split(access.start), self._split(access.end)
        self._borders[first:last] = [access.start]
        self._segments[first:last] = [_Segment(number)]

    def _within(self, access: Access) -> list[_Segment]:
        return self._segments[self._split(access.start) : self._split(access.end)]

    def _split(self, address: int) -> int:
        """The number of the segment that begins at this place; one that contains it is cut in two."""
        index = bisect_left(self._borders, address)
        if index == len(self._borders) or self._borders[index] != address:
            self._borders.insert(index, address)
            self._segments.insert(index, self._segments[index - 1].copy())
        return index

    def _reduced(self, needed: set[int]) -> list[int]:
        """Without the nodes that come before others of them."""
        kept: list[int] = []
        covered = 0
        for node in sorted(needed, reverse=True):
            if not covered >> node & 1:
                kept.append(node)
                covered |= self._before[node] | 1 << node
        self._before.append(covered)
        return kept[::-1]


def merged(accesses: Iterable[Access]) -> list[Access]:
    """The same bytes in as few accesses as tell reading from writing; a byte that is written may count as read, too."""
    pending, merged_accesses = list(accesses), list[Access]()
    for writes in (False, True):
        chosen = sorted((each for each in pending if each.writes == writes), key=lambda each: each.start)
        last: Access | None = None
        for each in chosen:
            if last is not None and each.start <= last.end:
                last = Access(last.start, max(last.end, each.end), writes)
                continue
            if last is not None:
                merged_accesses.append(last)
            last = each
        if last is not None:
            merged_accesses.append(last)
    return merged_accesses
