"""Queues in checkpoints without their elements: which elements of a reader's stream are inside, so that they can be
read again.

The queue `pool` is saved as `pool/@positions: i64[13 + n]`: a version (1), how many elements were put in and taken out,
how many a take gets, among how many it chooses, its first draw and the key of its draws (both words combined), the
position of the reader, how many records a pass has, the SHA-256 of the elements in four numbers, and the n elements of
the stream that the reader has left out.

Assumes nothing of what is read. Guarantees that the elements which are read again are compared with those that were
saved, and that finding out which these are takes memory for a multiple of what the queue has room for.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.checkpoints.parts import POSITIONS, Saved
from dfc_runtime.checkpoints.queues import rows
from dfc_runtime.checkpoints.shuffled import Numbers, Taken
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.queue_layout import QueueLayout

VERSION = 1
HEAD = 13
_AT_ONCE = 1 << 22
"""Bytes of elements that are copied to be hashed."""
_LARGEST = 1 << 62
"""More than anything that is counted: sums of a few such numbers have room in 64 bits."""
_FEW = 1 << 20
"""Elements that takes may have chosen among, however small the queue is now."""


@dataclass(frozen=True, slots=True)
class Positions:
    """What a checkpoint has of a queue. `position` is that of its reader, `records` are those of a pass, `left_out`
    elements of its stream, in ascending order."""

    taken: Taken
    position: int
    records: int
    digest: bytes
    left_out: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many elements were inside."""
        return self.taken.put - self.taken.taken

    def saved(self, queue: str) -> Saved:
        """As a tensor of a checkpoint."""
        t = self.taken
        head = [VERSION, t.put, t.taken, t.take, t.window, t.base, 0, self.position, self.records]
        array = np.array([*head, *np.frombuffer(self.digest, "<i8").tolist(), *self.left_out], np.int64)
        array.view(np.uint64)[6] = t.key
        return Saved(f"{queue}{POSITIONS}", "i64", array.shape, array)


def read(array: NDArray[Any]) -> Positions:
    """What `saved` has written; `ValueError` if that cannot be."""
    if array.ndim != 1 or len(array) < HEAD or int(array[0]) != VERSION:
        raise ValueError("has positions of another version of dfc")
    _, put, taken, take, window, base, _, position, records = (int(each) for each in array[:9])
    left_out = tuple(int(each) for each in array[HEAD:])
    if min(taken, base, position) < 0 or min(take, window, records) < 1 or not 0 < put - taken <= put:
        raise ValueError("has positions that cannot be")
    if max(put, base, position, records) > _LARGEST or taken % take:
        raise ValueError("has positions that cannot be")
    if list(left_out) != sorted({*left_out}) or any(not 0 <= each < position for each in left_out):
        raise ValueError("has positions that cannot be")
    key = int(array.view(np.uint64)[6])
    digest = np.ascontiguousarray(array[9:HEAD], "<i8").tobytes()
    return Positions(Taken(key, base, take, window, put, taken), position, records, digest, left_out)


def fault_of(name: str, layout: QueueLayout, saved: Saved) -> str:
    """Why elements at these positions cannot be read again; empty if they can."""
    try:
        positions = read(saved.array)
    except ValueError as problem:
        return f"{name} {problem}"
    if positions.count > layout.slots:
        return f"{name} has {positions.count} elements, and room for {layout.slots}: a larger capacity has room"
    waited_for = max(positions.taken.take, positions.taken.window)
    if waited_for > max(layout.slots, _FEW):
        return f"{name} had {waited_for} elements ready, and has room for {layout.slots}: a larger capacity has room"
    return ""


def digest(layout: QueueLayout, memory: NDArray[np.generic], slots: Numbers) -> bytes:
    """The SHA-256 of the elements in these slots, one after the other, each field by field."""
    own, step = hashlib.sha256(), max(_AT_ONCE // layout.slot_bytes, 1)
    for begin in range(0, len(slots), step):
        some = slots[begin : begin + step]
        fields = [array.reshape(len(some), -1) for array in rows(layout, memory, some) if array.size]
        own.update(np.concatenate([np.ascontiguousarray(each).view(np.uint8) for each in fields], axis=1).data)
    return own.digest()
