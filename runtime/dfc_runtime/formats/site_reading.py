"""JSON data to sites of host calls, and what all readers of manifests share: source locations, element types.

Whatever is not exactly as `manifest_writing` makes it is a `ValueError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from dfc_runtime.formats import fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import Record
from dfc_runtime.formats.manifest import (
    HANDED,
    MUTEX_KINDS,
    NATIVE_KINDS,
    QUEUE,
    QUEUE_KINDS,
    RECORD_KINDS,
    RECORD_NEXT,
    RESTORE,
    SAVE,
    Entry,
    HostSite,
    Manifest,
    SiteOperand,
    SiteValue,
    SourceLocation,
    StateEntry,
)

MAXIMUM_RANK = 32
MOST_TURNS = 1 << 20


def read_location(value: object, where: str) -> SourceLocation:
    parts = fields.items(value, where)
    if len(parts) != 4:
        raise ValueError(f"{where} is not a place")
    line, column = fields.integer(parts[1], where), fields.integer(parts[2], where)
    return SourceLocation(fields.text(parts[0], where), line, column, fields.text(parts[3], where))


def element_type(record: Record, *others: str) -> str:
    name = record.text("type")
    if name not in SIZES and name not in others:
        raise ValueError(f"{record.where} has the unknown element type {fields.shown(name)}")
    return name


def read_site(value: object, where: str) -> HostSite:
    record = Record(value, where)
    site = HostSite(
        kind=record.text("kind"),
        entry=record.text("entry"),
        attributes=record.table("attributes", _attribute),
        inputs=record.list("inputs", _operand),
        outputs=record.list("outputs", _operand),
        names=record.list("names", fields.text),
        location=read_location(record.get("place"), record.field_path("place")),
    )
    record.done()
    return site


def check_sites(manifest: Manifest) -> None:
    """Host calls are in entries that are there; those that save and restore know a path and state, those that native
    code answers itself the queue, or the turn, and the fault, and those about records say what the handlers take."""
    entries = {entry.name: entry for entry in manifest.entries}
    state = {each.name: each for each in manifest.state}
    for site in manifest.sites:
        entry = entries.get(site.entry)
        if entry is None:
            raise ValueError(f"a host call is in the unknown entry {fields.shown(site.entry)}")
        if HANDED in site.attributes:
            _check_handed(site, state)
        if site.kind in NATIVE_KINDS:
            _check_native(site, entry, state, len(manifest.faults))
        if site.kind in RECORD_KINDS:
            from dfc_runtime.formats.record_sites import check_record_site  # most programs read no records

            check_record_site(site, state)
        if site.kind not in (SAVE, RESTORE):
            continue
        path, names = site.attributes.get("path"), site.attributes.get("resources")
        if type(path) is not int or not 0 <= path < len(entry.parameters) or not entry.parameters[path].is_text:
            raise ValueError(f"the {site.kind} in entry {fields.shown(entry.name)} has no path")
        if not isinstance(names, tuple) or not {*state}.issuperset(names):
            raise ValueError(f"the {site.kind} in entry {fields.shown(entry.name)} is of unknown state")


def check_refills(manifest: Manifest) -> None:
    """Queues are refilled by runners that read from the reader which is named, and have draws if they are shuffled."""
    state, runners = {each.name: each for each in manifest.state}, {e.name for e in manifest.entries if e.is_runner}
    readers = {(each.entry, each.attributes.get("resource")) for each in manifest.sites if each.kind == RECORD_NEXT}
    for name, entry in state.items():
        if entry.queue is None or entry.queue.refill is None or manifest.cluster is not None:
            continue
        refill, order = entry.queue.refill, state.get(f"{name}.order")
        is_read = refill.runner in runners and (refill.runner, refill.reader) in readers
        is_drawn = order is not None and (order.kind, order.dtype, order.shape) == ("rng", "u64", (4,))
        if not is_read or not (is_drawn or entry.queue.window == 1):
            raise ValueError(f"the queue {fields.shown(name)} is refilled by nobody")


def _check_handed(site: HostSite, state: Mapping[str, StateEntry]) -> None:
    """The inputs are these variables, whole."""
    names = site.attributes[HANDED]
    operands: tuple[SiteOperand, ...] | None = None
    if isinstance(names, tuple) and state.keys() >= {*names}:
        operands = tuple(SiteOperand(state[name].dtype, state[name].shape) for name in names)
    if operands != site.inputs or site.outputs:
        raise ValueError(f"the {fields.shown(site.kind)} in entry {fields.shown(site.entry)} is not given what it says")


def _check_native(site: HostSite, entry: Entry, state: Mapping[str, StateEntry], faults: int) -> None:
    """A queue that is there, and what to report if it fails; a turn of a runner, among those that it has."""
    name, numbers = site.attributes.get("resource"), [site.attributes.get(key) for key in ("fault", "turn", "turns")]
    fault, turn, turns = (each if type(each) is int else -1 for each in numbers)
    if site.kind in QUEUE_KINDS | MUTEX_KINDS:
        is_queue = isinstance(name, str) and name in state and state[name].kind == QUEUE
        if not is_queue or not 0 <= fault < faults:
            raise ValueError(f"the {site.kind} in entry {fields.shown(entry.name)} is of no queue")
    elif not entry.is_runner or not 0 <= turn < turns <= MOST_TURNS:
        raise ValueError(f"the {site.kind} in entry {fields.shown(entry.name)} is no turn of a runner")


def _attribute(value: object, where: str) -> SiteValue:
    if isinstance(value, list):
        return tuple(fields.text(each, where) for each in cast("list[object]", value))
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{where} is not a plain value")
    return value


def _operand(value: object, where: str) -> SiteOperand:
    record = Record(value, where)
    operand = SiteOperand(element_type(record), record.list("shape", _axis))
    record.done()
    known = [axis for axis in operand.shape if isinstance(axis, int)]
    if len(operand.shape) > MAXIMUM_RANK or math.prod(known) * SIZES[operand.dtype] > fields.LARGEST:
        raise ValueError(f"{where} is too large")
    return operand


def _axis(value: object, where: str) -> int | str:
    return value if isinstance(value, str) else fields.integer(value, where)
