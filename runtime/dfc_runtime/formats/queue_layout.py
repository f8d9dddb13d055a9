"""How the elements of a queue lie in its memory, which is one array of bytes.

    header (128 bytes) | order: u64 for each slot | buckets, where there are some | slot 0 | slot 1 | ..
    slot: the fields one after the other, each at a multiple of 8 bytes; slots begin at multiples of 64
    buckets: how many elements each has; a place to count, for each; the bucket of the element in each slot (all u64)

Where elements are reordered, the one at position p lies in slot `order[p % slots] ^ (p % slots)`, else in slot
`p % slots`. A field of varying size has room for the largest in each slot, and its length is a field of its own.
Assumes sizes that were checked. Guarantees that equal queues have equal layouts.
"""

from __future__ import annotations

from math import prod

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES

HEADER_BYTES = 128
POSITION_BYTES = 8
SLOT_ALIGNMENT = 64
FIELD_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class QueueField:
    """A value of each element."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return prod(self.shape) * SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Refill:
    """How elements of a queue are made again: `runner` puts in one for each record that it reads from `reader`, which
    follows from the record alone; or one at most, if that is not `always` so. Each take of a
    shuffled queue gets `take` elements; 0 if that differs, or nobody knows in which order takes come."""

    runner: str
    reader: str
    take: int
    always: bool = True


@dataclass(frozen=True, slots=True)
class QueueLayout:
    """What a queue holds: `capacity` elements, and in a reserve those that runners have in their hands when a
    checkpoint is taken, unless nobody knows how many these are (None). `varying` fields have lengths, which are the
    last fields; `bounds` are those of the buckets. A take gets one of the first `window` elements. `kept` says why a
    checkpoint has the elements themselves, where one with their positions alone was thought of."""

    fields: tuple[QueueField, ...]
    capacity: int
    reserve: int | None = 0
    is_reordered: bool = False
    bounds: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()
    window: int = 1
    refill: Refill | None = None
    kept: str = ""

    @property
    def has_positions(self) -> bool:
        """Whether checkpoints have positions in place of elements."""
        return self.refill is not None and not self.kept

    @property
    def slots(self) -> int:
        """For how many elements there is memory."""
        return self.capacity + (self.reserve or 0)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each field begins in a slot."""
        offsets: list[int] = []
        end = 0
        for each in self.fields:
            offsets.append(end)
            end += rounded_up(each.size, FIELD_ALIGNMENT)
        return tuple(offsets)

    @property
    def slot_bytes(self) -> int:
        """From the beginning of a slot to that of the next one."""
        return rounded_up(self.offsets[-1] + self.fields[-1].size, SLOT_ALIGNMENT)

    @property
    def first_bucket(self) -> int:
        """Where the numbers of elements in each bucket begin."""
        return HEADER_BYTES + POSITION_BYTES * self.slots

    @property
    def first_slot(self) -> int:
        """Where the slots begin."""
        buckets = 2 * len(self.bounds) + self.slots if self.bounds else 0
        return rounded_up(self.first_bucket + POSITION_BYTES * buckets, SLOT_ALIGNMENT)

    @property
    def size(self) -> int:
        """Of the whole array."""
        return self.first_slot + self.slot_bytes * self.slots

    @property
    def lengths(self) -> tuple[int, ...]:
        """The numbers of the fields that say how long those that vary are."""
        return tuple(range(len(self.fields) - len(self.varying), len(self.fields)))


def rounded_up(size: int, alignment: int) -> int:
    """To a multiple."""
    return -(-size // alignment) * alignment
