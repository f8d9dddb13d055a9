"""Layouts of queues as JSON data of a manifest, and back. Whatever is not exactly as `to_json` makes it is a
`ValueError`."""

from __future__ import annotations

from itertools import pairwise

from dfc_runtime.formats import fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import Record
from dfc_runtime.formats.queue_layout import QueueField, QueueLayout, Refill

MOST_AXES = 32


def to_json(layout: QueueLayout) -> dict[str, object]:
    """What `from_json` reads back."""
    return {
        "fields": [[each.name, each.dtype, *each.shape] for each in layout.fields],
        "capacity": layout.capacity,
        **({"reserve": layout.reserve} if layout.reserve is not None else {}),
        **({"reordered": True} if layout.is_reordered else {}),
        **({"bounds": list(layout.bounds), "varying": list(layout.varying)} if layout.bounds else {}),
        **({"window": layout.window} if layout.window > 1 else {}),
        **({"refill": _refill_json(layout.refill)} if layout.refill is not None else {}),
        **({"kept": layout.kept} if layout.kept else {}),
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
        window=record.integer("window", 1) if record.has("window") else 1,
        refill=record.optional("refill", _refill, None),
        kept=record.text("kept") if record.has("kept") else "",
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
    if layout.window > layout.capacity:
        raise ValueError(f"{where} has no room for its window")
    if layout.size != size:
        raise ValueError(f"{where} has another size than its queue")
    return layout


def _refill_json(refill: Refill) -> list[object]:
    return [refill.runner, refill.reader, refill.take, refill.always]


def _refill(value: object, where: str) -> Refill:
    runner, reader, take, always = (*fields.items(value, where), None, None, None, None)[:4]
    names = fields.text(runner, where), fields.text(reader, where)
    return Refill(*names, fields.integer(take, where), fields.flag(always, where))


def _field(value: object, where: str) -> QueueField:
    parts = fields.items(value, where)
    name, dtype = (fields.text(each, where) for each in (*parts, None, None)[:2])
    field = QueueField(name, dtype, tuple(fields.integer(each, where) for each in parts[2:]))
    if field.dtype not in SIZES or len(field.shape) > MOST_AXES:
        raise ValueError(f"{where} is no type of an element")
    return field
