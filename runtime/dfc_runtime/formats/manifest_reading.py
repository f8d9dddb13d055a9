"""JSON data to a manifest. Whatever is not exactly as `manifest_writing` makes it is a `ValueError`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dfc_runtime import formulas
from dfc_runtime.formats import fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import Record
from dfc_runtime.formats.manifest import (
    HOST_KINDS,
    RELATIONS,
    STATE_KINDS,
    TEXT,
    Entry,
    FaultSite,
    HostStep,
    ImageEntry,
    Manifest,
    NativeStep,
    Parameter,
    Place,
    Result,
    SizeCheck,
    StateEntry,
    Step,
)
from dfc_runtime.formulas import Formula

MAXIMUM_RANK = 32


def from_json(data: object) -> Manifest:
    """The manifest; the caller has seen to the format's number."""
    record = Record(data, "manifest")
    record.integer("format")
    manifest = Manifest(
        version=record.text("dfc"),
        name=record.text("name"),
        driver=record.text("driver"),
        settings=record.table("settings", _setting),
        entries=record.list("entries", _entry),
        state=record.list("state", _state),
        faults=record.list("faults", _fault),
        images=record.list("images", _image),
        constant_offsets=record.list("constant_offsets", fields.integer),
        notes=fields.mapping(record.get("notes"), "manifest.notes"),
        tensors=record.table("tensors", fields.text),
    )
    record.done()
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    _unique((e.name for e in manifest.entries), "entries")
    state = _unique((s.name for s in manifest.state), "state")
    _unique((image.isa for image in manifest.images), "images")
    for entry in manifest.entries:
        used = {*entry.reads, *entry.writes}
        used.update(name for step in entry.steps if isinstance(step, HostStep) for name in step.resources)
        if not used <= state:
            raise ValueError(f"entry {fields.shown(entry.name)} uses state {fields.shown(min(used - state))}")
    for image in manifest.images:
        for number, entry in enumerate(manifest.entries):
            for step in entry.steps:
                if isinstance(step, NativeStep) and f"entry_{number}_{step.part}" not in image.symbols:
                    raise ValueError(f"image {fields.shown(image.isa)} lacks entry {fields.shown(entry.name)}")


def _unique(names: Iterable[str], where: str) -> set[str]:
    found: set[str] = set()
    for name in names:
        if name in found:
            raise ValueError(f"{where} has {fields.shown(name)} twice")
        found.add(name)
    return found


def _setting(value: object, where: str) -> int | float | bool | str:
    if not isinstance(value, int | float | str):
        raise ValueError(f"{where} is not a plain value")
    return value


def _place(value: object, where: str) -> Place:
    parts = fields.items(value, where)
    if len(parts) != 4:
        raise ValueError(f"{where} is not a place")
    line, column = fields.integer(parts[1], where), fields.integer(parts[2], where)
    return Place(fields.text(parts[0], where), line, column, fields.text(parts[3], where))


def _dtype(record: Record, *others: str) -> str:
    name = record.text("type")
    if name not in SIZES and name not in others:
        raise ValueError(f"{record.where} has the unknown element type {fields.shown(name)}")
    return name


def _formulas(record: Record) -> tuple[Formula, ...]:
    shape = record.list("shape", formulas.from_json)
    if len(shape) > MAXIMUM_RANK:
        raise ValueError(f"{record.where} has {len(shape)} axes")
    return shape


def _entry(value: object, where: str) -> Entry:
    record = Record(value, where)
    entry = Entry(
        name=record.text("name"),
        doc=record.text("doc"),
        readonly=record.flag("readonly"),
        is_test=record.flag("test"),
        unnamed_result=record.flag("unnamed_result"),
        place=_place(record.get("place"), record.place("place")),
        parameters=record.list("parameters", _parameter),
        results=record.list("results", _result),
        dims=record.list("dims", fields.text),
        dim_feeds=record.list("dim_feeds", fields.text),
        slot_dims=record.list("slot_dims", fields.text),
        checks=record.list("checks", _check),
        reads=record.list("reads", fields.text),
        writes=record.list("writes", fields.text),
        steps=record.list("steps", _step),
        arena=formulas.from_json(record.get("arena"), record.place("arena")),
        largest_live=formulas.from_json(record.get("largest_live"), record.place("largest_live")),
        peak_names=record.list("peak_names", fields.text),
        concurrent=record.optional("concurrent", fields.flag, False),
    )
    record.done()
    _check_entry(entry, where)
    return entry


def _check_entry(entry: Entry, where: str) -> None:
    dims = _unique(entry.dims, f"{where}.dims")
    _unique([p.name for p in entry.parameters] + list(entry.dim_feeds), f"{where}.parameters")
    used = {*entry.dim_feeds, *entry.slot_dims, *entry.arena.symbols(), *entry.largest_live.symbols()}
    for formula in (d for each in (*entry.parameters, *entry.results) for d in each.shape):
        used |= formula.symbols()
    for check in entry.checks:
        used |= check.left.symbols() | check.right.symbols()
    if not used <= dims:
        raise ValueError(f"{where} uses the dim {fields.shown(min(used - dims))}, which it does not declare")
    if entry.unnamed_result and len(entry.results) != 1:
        raise ValueError(f"{where} has {len(entry.results)} results, none of them named")
    for step in entry.steps:
        if isinstance(step, HostStep) and not (
            step.path < len(entry.parameters) and entry.parameters[step.path].is_text
        ):
            raise ValueError(f"{where} has a host step without a path")


def _parameter(value: object, where: str) -> Parameter:
    record = Record(value, where)
    made = Parameter(record.text("name"), _dtype(record, TEXT), _formulas(record), record.text("doc"))
    record.done()
    if made.is_text and made.shape:
        raise ValueError(f"{where} is a text with a shape")
    return made


def _result(value: object, where: str) -> Result:
    record = Record(value, where)
    made = Result(record.text("name"), _dtype(record), _formulas(record))
    record.done()
    return made


def _check(value: object, where: str) -> SizeCheck:
    record = Record(value, where)
    made = SizeCheck(
        formulas.from_json(record.get("left"), record.place("left")),
        record.text("relation"),
        formulas.from_json(record.get("right"), record.place("right")),
        record.text("reason"),
        _place(record.get("place"), record.place("place")),
    )
    record.done()
    if made.relation not in RELATIONS:
        raise ValueError(f"{where} has the unknown relation {fields.shown(made.relation)}")
    return made


def _step(value: object, where: str) -> Step:
    record = Record(value, where)
    if "native" in fields.mapping(value, where):
        step: Step = NativeStep(record.integer("native"))
    else:
        step = HostStep(record.text("host"), record.integer("path"), record.list("resources", fields.text))
        if step.kind not in HOST_KINDS:
            raise ValueError(f"{where} has the unknown host step {fields.shown(step.kind)}")
    record.done()
    return step


def _state(value: object, where: str) -> StateEntry:
    record = Record(value, where)
    made = StateEntry(
        name=record.text("name"),
        kind=record.text("kind"),
        dtype=_dtype(record),
        shape=record.list("shape", fields.integer),
        trained=record.flag("trained"),
        container=record.text("container"),
        saved=record.flag("saved"),
        doc=record.text("doc"),
        place=_place(record.get("place"), record.place("place")),
    )
    record.done()
    if made.kind not in STATE_KINDS:
        raise ValueError(f"{where} has the unknown kind {fields.shown(made.kind)}")
    if len(made.shape) > MAXIMUM_RANK or math.prod(made.shape) * SIZES[made.dtype] > fields.LARGEST:
        raise ValueError(f"{where} is too large")
    return made


def _fault(value: object, where: str) -> FaultSite:
    record = Record(value, where)
    place = _place(record.get("place"), record.place("place"))
    made = FaultSite(record.text("kind"), record.text("message"), place)
    record.done()
    return made


def _image(value: object, where: str) -> ImageEntry:
    record = Record(value, where)
    symbols = record.table("symbols", fields.integer)
    made = ImageEntry(record.text("isa"), symbols, record.list("required_bits", fields.text))
    record.done()
    return made
