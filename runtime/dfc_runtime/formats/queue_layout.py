"""How the elements of a queue lie in its memory, which is one array of bytes.

    header (128 bytes) | order: u64 for each slot | buckets, where there are some | slot 0 | slot 1 | ..
    slot: the fields one after the other, each at a multiple of 8 bytes; slots begin at multiples of 64
    buckets: how many elements each has; a place to count, for each; the bucket of the element in each slot (all u64)

Where elements are reordered, the one at position p lies in slot `order[p % slots] ^ (p % slots)`, else in slot
`p % slots`. A field of varying size has room for the largest in each slot, and its length is a field of its own.
Assumes sizes that were checked. Guarantees that equal queues have equal layouts.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import Record

HEADER_BYTES = 128
POSITION_BYTES = 8
SLOT_ALIGNMENT = 64
FIELD_ALIGNMENT = 8
MOST_AXES = 32


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
class QueueLayout:
    """What a queue holds: `capacity` elements, and in a reserve those that runners have in their hands when a
    checkpoint is taken, unless nobody knows how many these are (None). `varying` fields have lengths, which are the
    last fields; `bounds` are those of the buckets."""

    fields: tuple[QueueField, ...]
    capacity: int
    reserve: int | None = 0
    is_reordered: bool = False
    bounds: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()

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


def to_json(layout: QueueLayout) -> dict[str, object]:
    """What `from_json` reads back."""
    return {
        "fields": [[each.name, each.dtype, *each.shape] for each in layout.fields],
        "capacity": layout.capacity,
        **({"reserve": layout.reserve} if layout.reserve is not None else {}),
        **({"reordered": True} if layout.is_reordered else {}),
        **({"bounds": list(layout.bounds), "varying": list(layout.varying)} if layout.bounds else {}),
    }


def from_json(value: object, where: str, size: int) -> QueueLayout:
    """The layout of a queue of so many bytes; `ValueError` if it is none."""
    record = Record(value, where)
    layout = QueueLayout(
        fields=record.list("fields", _field),
        capacity=record.integer("capacity", 1),
        reserve=record.integer("reserve") if record.has("reserve") else None,
        is_reordered=record.optional("reordered", fields.flag, False),
        bounds=record.list("bounds", fields.integer) if record.has("bounds") else (),
        varying=record.list("varying", fields.integer) if record.has("varying") else (),
    )
    record.done()
    if not layout.fields or len(layout.varying) >= len(layout.fields) or bool(layout.bounds) != bool(layout.varying):
        raise ValueError(f"{where} has no elements")
    if any(each >= len(layout.fields) - len(layout.varying) for each in layout.varying):
        raise ValueError(f"{where} has no such field")
    if any(layout.fields[each] != QueueField(layout.fields[each].name, "i64", ()) for each in layout.lengths):
        raise ValueError(f"{where} has lengths that are no numbers")
    if any(low >= high for low, high in pairwise(layout.bounds)):
        raise ValueError(f"{where} has buckets that are in no order")
    if any(layout.fields[each].shape[:1] != layout.bounds[-1:] for each in layout.varying):
        raise ValueError(f"{where} has buckets that do not fit its elements")
    if layout.size != size:
        raise ValueError(f"{where} has another size than its queue")
    return layout


def _field(value: object, where: str) -> QueueField:
    parts = fields.items(value, where)
    name, dtype = (fields.text(each, where) for each in (*parts, None, None)[:2])
    field = QueueField(name, dtype, tuple(fields.integer(each, where) for each in parts[2:]))
    if field.dtype not in SIZES or len(field.shape) > MOST_AXES:
        raise ValueError(f"{where} is no type of an element")
    return field
