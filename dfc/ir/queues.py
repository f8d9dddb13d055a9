"""How the elements of a queue lie in memory: one array of bytes, which is the state of the queue.

    header (128 bytes) | order: u64 for each slot | buckets, where there are some | slot 0 | slot 1 | ..
    slot: the fields one after the other, each at a multiple of 8 bytes; slots begin at multiples of 64
    buckets: how many elements each has; a place to count, for each; the bucket of the element in each slot (all u64)

The order of the elements is kept apart from where they lie: the element at position p lies in slot `order[p % capacity]
^ (p % capacity)`, so that memory of zeros is an empty queue whose positions are its slots. A take by chance exchanges
two numbers of the order, one by a key moves those before the chosen one up by one; no element moves.

A field of varying size has room for the largest in each slot, and its length is a field of its own. Such an element
belongs to the first bucket whose bound is no less than its longest field.

Assumes fields whose sizes, or largest sizes, are known when the program is compiled.
Guarantees that equal queues have equal layouts.
"""

from __future__ import annotations

from math import prod

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import dim
from dfc.ir.dtypes import I64, U8
from dfc.ir.types import TensorType

HEADER_BYTES = 128
POSITION_BYTES = 8
BUCKET_BYTES = 8
SLOT_ALIGNMENT = 64
FIELD_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class QueueForm:
    """What a queue holds: `capacity` elements, each a value of every field. A take gets one of the first `window`
    elements: of 1, the first; by chance; or, where `key` names a field, the first of those with the smallest key. It
    waits until there are so many, unless the queue is closed. A mutex holds the context of the call that holds it.

    Of a queue with buckets, `bounds` says how long the elements of each may be, in ascending order; the fields that
    `varying` numbers have types with the last bound for their first size, and their lengths are the last fields. A take
    gets elements of one bucket."""

    fields: tuple[str, ...]
    types: tuple[TensorType, ...]
    capacity: int
    window: int = 1
    key: str = ""
    is_mutex: bool = False
    bounds: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()

    @property
    def is_shuffled(self) -> bool:
        return self.window > 1 and not self.key

    @property
    def is_reordered(self) -> bool:
        """Whether an element can leave before one that came earlier."""
        return self.window > 1 or bool(self.bounds)

    @property
    def declared(self) -> int:
        """How many fields were declared: the lengths of those that vary are behind them."""
        return len(self.fields) - len(self.varying)

    @property
    def most_at_once(self) -> int:
        """How many elements one take can ask for: behind them, a full window has to be there for the last; and one of
        the buckets of a full queue has to have so many."""
        return (self.capacity - self.window) // max(len(self.bounds), 1) + 1


MUTEX = QueueForm(("holder",), (TensorType(I64),), 1, is_mutex=True)


def field_bytes(type_: TensorType) -> int:
    """What a value of a field takes."""
    extents = [size.constant for size in type_.shape]
    known = [extent for extent in extents if extent is not None]
    assert len(known) == len(extents), type_
    return prod(known) * type_.machine.size


def field_offsets(form: QueueForm) -> tuple[int, ...]:
    """Where each field begins in a slot."""
    offsets: list[int] = []
    end = 0
    for type_ in form.types:
        offsets.append(end)
        end += _up(field_bytes(type_), FIELD_ALIGNMENT)
    return tuple(offsets)


def slot_bytes(form: QueueForm) -> int:
    """From the beginning of a slot to that of the next one."""
    return _up(field_offsets(form)[-1] + field_bytes(form.types[-1]), SLOT_ALIGNMENT)


def first_bucket(form: QueueForm) -> int:
    """Where the numbers of elements in each bucket begin."""
    return HEADER_BYTES + POSITION_BYTES * form.capacity


def first_slot(form: QueueForm) -> int:
    """Where the slots begin."""
    buckets = 2 * len(form.bounds) + form.capacity if form.bounds else 0
    return _up(first_bucket(form) + BUCKET_BYTES * buckets, SLOT_ALIGNMENT)


def queue_bytes(form: QueueForm) -> int:
    """The size of the whole array."""
    return first_slot(form) + slot_bytes(form) * form.capacity


def queue_type(form: QueueForm) -> TensorType:
    """The type of the state of a queue."""
    return TensorType(U8, (dim(queue_bytes(form)),))


def _up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
