"""Queues in checkpoints: their elements in the order in which they lie, a tensor for each field (`positions` has those
whose elements are read again).

The queue `pool: (image: f32[784], label: i32)` with 5 elements is saved as `pool/image: f32[5, 784]` and
`pool/label: i32[5]`. Where elements lie in memory is not saved, so the capacity may change, and so may the machine.
Assumes memory laid out as `dfc_runtime.formats.queue_layout` says, that nobody else looks at. Guarantees that a queue
which is filled with what was read of another gives the same elements to the same takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.checkpoints.parts import MARK, POSITIONS, Saved
from dfc_runtime.formats.manifest import StateEntry
from dfc_runtime.formats.queue_layout import HEADER_BYTES, QueueLayout

Array = NDArray[np.generic]


def contents(name: str, layout: QueueLayout, memory: Array, put: int, taken: int) -> list[Saved]:
    """The elements of a queue, copied: those of the positions from `taken` to `put`."""
    fields = rows(layout, memory, slots_of(layout, memory, put, taken))
    for number, lengths in zip(layout.varying, layout.lengths, strict=True):
        _clear_behind(fields[number], fields[lengths])
    pairs = zip(layout.fields, fields, strict=True)
    return [Saved(f"{name}{MARK}{field.name}", field.dtype, array.shape, array) for field, array in pairs]


def slots_of(layout: QueueLayout, memory: Array, put: int, taken: int) -> NDArray[np.int64]:
    """Where the elements of the positions from `taken` to `put` lie."""
    indices = np.arange(taken, put) % layout.slots
    return _order(layout, memory)[indices] ^ indices if layout.is_reordered else indices


def set_slots(layout: QueueLayout, memory: Array, taken: int, slots: NDArray[np.int64]) -> None:
    """Has elements in these slots be those of the positions from `taken` on, if the queue is reordered: else they lie
    there already."""
    if not layout.is_reordered:
        return
    everywhere = (taken + np.arange(layout.slots)) % layout.slots
    is_free = np.ones(layout.slots, bool)
    is_free[slots] = False
    _order(layout, memory)[everywhere] = np.concatenate([slots, np.flatnonzero(is_free)]) ^ everywhere


def _order(layout: QueueLayout, memory: Array) -> NDArray[np.int64]:
    return np.ndarray((layout.slots,), np.int64, memory.data, HEADER_BYTES)


def rows(layout: QueueLayout, memory: Array, slots: NDArray[np.int64]) -> list[Array]:
    """The elements in these slots, copied: an array for each field."""
    return [view[slots] for view in _views(layout, memory)]


def _views(layout: QueueLayout, memory: Array) -> list[Array]:
    """Each field in all slots."""
    views: list[Array] = []
    for field, offset in zip(layout.fields, layout.offsets, strict=True):
        dtype = numpy_dtype(field.dtype)
        inner = np.empty(field.shape, dtype).strides if 0 not in field.shape else (0,) * len(field.shape)
        shape, strides = (layout.slots, *field.shape), (layout.slot_bytes, *inner)
        views.append(np.ndarray(shape, dtype, memory.data, layout.first_slot + offset, strides))
    return views


def _clear_behind(rows: Array, lengths: Array) -> None:
    """What lies behind the length of a row was of elements before."""
    width: int = rows.shape[1]
    is_behind = np.arange(width)[None, :] >= lengths.astype(np.int64)[:, None]
    rows[is_behind] = 0


def entries(name: str, layout: QueueLayout, saved: Mapping[str, Saved], queue: StateEntry) -> dict[str, StateEntry]:
    """What a checkpoint has to have for a queue: positions, if it has such; else as many values of each field as it has
    of the first, if there is room for them."""
    if there := saved.get(f"{name}{POSITIONS}"):
        shape = there.shape if len(there.shape) == 1 else (1,)
        return {there.name: replace(queue, name=there.name, dtype="i64", shape=shape, queue=None)}
    first = saved.get(f"{name}{MARK}{layout.fields[0].name}")
    count = first.shape[0] if first is not None and first.shape else 0
    rows = min(count, layout.slots)
    fields: dict[str, StateEntry] = {}
    for field in layout.fields:
        full = f"{name}{MARK}{field.name}"
        fields[full] = replace(queue, name=full, dtype=field.dtype, shape=(rows, *field.shape), queue=None)
    return fields


def fault_of(name: str, layout: QueueLayout, saved: Mapping[str, Saved]) -> str:
    """What is wrong with elements of the right types; empty if nothing is."""
    for lengths in layout.lengths:
        full = f"{name}{MARK}{layout.fields[lengths].name}"
        array: NDArray[Any] = saved[full].array
        if array.size and not (array.min() >= 0 and array.max() <= layout.bounds[-1]):
            return f"{full} is not from 0 to {layout.bounds[-1]}"
    return ""


def fill(name: str, layout: QueueLayout, memory: Array, saved: Mapping[str, Saved]) -> tuple[int, int]:
    """Puts these elements into the first slots; how many they are, and how many are in the fullest bucket. The header
    is left to the driver."""
    arrays = [saved[f"{name}{MARK}{field.name}"].array for field in layout.fields]
    memory[HEADER_BYTES:] = np.uint8(0)
    count = arrays[0].shape[0]
    for view, array in zip(_views(layout, memory), arrays, strict=True):
        view[:count] = array
    return count, _fill_buckets(layout, memory, [arrays[number] for number in layout.lengths], count)


def _fill_buckets(layout: QueueLayout, memory: Array, lengths: Sequence[Array], count: int) -> int:
    if not layout.bounds:
        return 0
    longest = np.max(np.stack([each.astype(np.int64) for each in lengths]), axis=0) if count else np.zeros(0, np.int64)
    buckets = np.searchsorted(np.array(layout.bounds), longest, side="left")
    words = np.ndarray((2 * len(layout.bounds) + layout.slots,), np.uint64, memory.data, layout.first_bucket)
    numbers = np.bincount(buckets, minlength=len(layout.bounds))
    words[: len(layout.bounds)] = numbers
    words[2 * len(layout.bounds) :][:count] = buckets
    return int(numbers.max())
