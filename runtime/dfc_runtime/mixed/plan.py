"""What the image of a program on several devices holds: a bundle for each device, and which slots its entries get.

Assumes nothing of the notes it is read from. Guarantees numbers that point inside, so that what is wrong is a
`ValueError` when a program is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import fields
from dfc_runtime.formats.fields import Record
from dfc_runtime.formats.manifest import MIXED

NOT_OUTSIDE = -1
"""In place of the number of a site: a message between two devices."""
KINDS = ("cpu", "gpu")


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """A device, counted among those of its kind that the task has, and its bundle: bytes `offset` to `offset + size` of
    the image. Its faults are numbered from `faults` on; `sites` are the numbers of its host calls as the whole program
    counts them."""

    kind: str
    number: int
    offset: int
    size: int
    faults: int
    sites: tuple[int, ...]

    @property
    def name(self) -> str:
        """As messages between devices call it."""
        return f"@{self.kind}{self.number}:0"


@dataclass(frozen=True, slots=True)
class PartPlan:
    """The entry of a device that is part of an entry. Arguments, results and measured sizes are those of the whole
    entry by number, in the order of the part."""

    device: int
    entry: int
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    measured: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """How many arguments, results, dims and measured sizes an entry has, and its parts, at most one a device."""

    arguments: int
    results: int
    dims: int
    measured: int
    parts: tuple[PartPlan, ...]


@dataclass(frozen=True, slots=True)
class MixedPlan:
    """Devices in the order in which faults count, and the entries."""

    devices: tuple[DevicePlan, ...]
    entries: tuple[EntryPlan, ...]


def read_plan(value: object, image_size: int) -> MixedPlan:
    """The plan in the notes of a bundle."""
    record = Record(value, MIXED)
    devices = record.list("devices", lambda each, where: _device(each, where, image_size))
    entries = record.list("entries", lambda each, where: _entry(each, where, len(devices)))
    record.done()
    if len({device.name for device in devices}) < len(devices):
        raise ValueError("a device is there twice")
    return MixedPlan(devices, entries)


def _device(value: object, where: str, image_size: int) -> DevicePlan:
    record = Record(value, where)
    kind = record.text("kind")
    if kind not in KINDS:
        raise ValueError(f"{where} is of the unknown kind {fields.shown(kind)}")
    offset = record.integer("offset", high=image_size)
    device = DevicePlan(
        kind,
        record.integer("number", high=1 << 16),
        offset,
        record.integer("size", high=image_size - offset),
        record.integer("faults"),
        record.list("sites", lambda each, path: fields.integer(each, path, NOT_OUTSIDE)),
    )
    record.done()
    return device


def _entry(value: object, where: str, devices: int) -> EntryPlan:
    record = Record(value, where)
    counts = [record.integer(name, high=1 << 20) for name in ("arguments", "results", "dims", "measured")]
    parts = record.list("parts", lambda each, path: _part(each, path, devices, counts))
    record.done()
    if len({part.device for part in parts}) < len(parts):
        raise ValueError(f"{where} has two parts on one device")
    return EntryPlan(counts[0], counts[1], counts[2], counts[3], parts)


def _part(value: object, where: str, devices: int, counts: Sequence[int]) -> PartPlan:
    record = Record(value, where)

    def numbers(key: str, count: int) -> tuple[int, ...]:
        return record.list(key, lambda each, path: fields.integer(each, path, 0, count - 1))

    part = PartPlan(
        record.integer("device", high=devices - 1),
        record.integer("entry"),
        numbers("arguments", counts[0]),
        numbers("results", counts[1]),
        numbers("measured", counts[3]),
    )
    record.done()
    return part
