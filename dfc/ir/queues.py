"""The forms of queues: what an element is, and which one a take gets.

The state of a queue is one array of bytes, laid out as `dfc_runtime.formats.queue_layout` says; memory of zeros is an
empty queue. The order of the elements is kept apart from where they lie: a take by chance exchanges two numbers of the
order, one by a key moves those before the chosen one up by one; no element moves.

A field of varying size has room for the largest in each slot, and its length is a field of its own. Such an element
belongs to the first bucket whose bound is no less than its longest field.

Assumes fields whose sizes, or largest sizes, are known when the program is compiled.
Guarantees that equal queues have equal layouts.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import dim
from dfc.ir.dtypes import I64, U8
from dfc.ir.types import TensorType

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import QueueLayout, Refill


@dataclass(frozen=True, slots=True)
class QueueForm:
    """What a queue holds: `capacity` elements, each a value of every field. A take gets one of the first `window`
    elements: of 1, the first; by chance; or, where `key` names a field, the first of those with the smallest key. It
    waits until there are so many, unless the queue is closed. A mutex holds the context of the call that holds it.

    Of a queue with buckets, `bounds` says how long the elements of each may be, in ascending order; the fields that
    `varying` numbers have types with the last bound for their first size, and their lengths are the last fields. A take
    gets elements of one bucket.

    There is room for `reserve` elements more while a checkpoint is taken: for what runners have in their hands then.
    None: nobody knows how much that can be.

    `refill` says how elements can be made again, and `kept` why checkpoints have them all the same; if they are to
    `persist`, they always do."""

    fields: tuple[str, ...]
    types: tuple[TensorType, ...]
    capacity: int
    window: int = 1
    key: str = ""
    is_mutex: bool = False
    bounds: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()
    reserve: int | None = 0
    refill: Refill | None = None
    kept: str = ""
    persist: bool = False

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
    def slots(self) -> int:
        """For how many elements there is memory."""
        return self.capacity + (self.reserve or 0)

    @property
    def most_at_once(self) -> int:
        """How many elements one take can ask for: behind them, a full window has to be there for the last; and one of
        the buckets of a full queue has to have so many."""
        return (self.capacity - self.window) // max(len(self.bounds), 1) + 1


MUTEX = QueueForm(("holder",), (TensorType(I64),), 1, is_mutex=True)


def layout(form: QueueForm) -> QueueLayout:
    """Where everything lies."""
    from dfc_runtime.formats.queue_layout import QueueField, QueueLayout  # most programs have no queues

    pairs = zip(form.fields, form.types, strict=True)
    fields = tuple(QueueField(name, type_.machine.name, _extents(type_)) for name, type_ in pairs)
    return QueueLayout(
        fields,
        form.capacity,
        form.reserve,
        form.is_reordered,
        form.bounds,
        form.varying,
        form.window,
        form.refill,
        form.kept,
    )


def _extents(type_: TensorType) -> tuple[int, ...]:
    extents = [size.constant for size in type_.shape]
    known = tuple(extent for extent in extents if extent is not None)
    assert len(known) == len(extents), type_
    return known


def field_bytes(type_: TensorType) -> int:
    """What a value of a field takes."""
    return prod(_extents(type_)) * type_.machine.size


def field_offsets(form: QueueForm) -> tuple[int, ...]:
    """Where each field begins in a slot."""
    return layout(form).offsets


def slot_bytes(form: QueueForm) -> int:
    """From the beginning of a slot to that of the next one."""
    return layout(form).slot_bytes


def first_bucket(form: QueueForm) -> int:
    """Where the numbers of elements in each bucket begin."""
    return layout(form).first_bucket


def first_slot(form: QueueForm) -> int:
    """Where the slots begin."""
    return layout(form).first_slot


def queue_bytes(form: QueueForm) -> int:
    """The size of the whole array."""
    return layout(form).size


def queue_type(form: QueueForm) -> TensorType:
    """The type of the state of a queue."""
    return TensorType(U8, (dim(queue_bytes(form)),))
