"""JSON data to a manifest. Whatever is not exactly as `manifest_writing` makes it is a `ValueError`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from dfc_runtime.calls import formulas
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import cluster_reading, fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import Record
from dfc_runtime.formats.manifest import (
    MOST_COPIES,
    OVER,
    QUEUE,
    RELATIONS,
    STATE_KINDS,
    TEXT,
    Entry,
    FaultSite,
    ImageEntry,
    Manifest,
    Parameter,
    Result,
    SizeCheck,
    StateEntry,
)
from dfc_runtime.formats.site_reading import (
    MAXIMUM_RANK,
    check_refills,
    check_sites,
    element_type,
    read_location,
    read_site,
)


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
        sites=record.list("sites", read_site) if record.has("sites") else (),
        compilers=record.table("compilers", fields.text) if record.has("compilers") else {},
    )
    if record.has("cluster"):
        signatures = {
            e.name: ([p.name for p in e.parameters], [r.name for r in e.results], e.dims) for e in manifest.entries
        }
        state = [each.name for each in manifest.state]
        section = cluster_reading.from_json(record.get("cluster"), "manifest.cluster", signatures, state)
        manifest = replace(manifest, cluster=section)
    record.done()
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    _unique((e.name for e in manifest.entries), "entries")
    state = _unique((s.name for s in manifest.state), "state")
    check_sites(manifest)
    check_refills(manifest)
    _unique(manifest.omitted_state, "omitted state")
    _unique((image.isa for image in manifest.images), "images")
    for entry in manifest.entries:
        used = {*entry.reads, *entry.writes}
        if not used <= state:
            raise ValueError(f"entry {fields.shown(entry.name)} uses state {fields.shown(min(used - state))}")
    for image in manifest.images:
        for number, entry in enumerate(manifest.entries):
            if f"entry_{number}_0" not in image.symbols:
                raise ValueError(f"image {fields.shown(image.isa)} lacks entry {fields.shown(entry.name)}")


def _unique(names: Iterable[str], where: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where} has {fields.shown(name)} twice")
        seen.add(name)
    return seen


def _setting(value: object, where: str) -> int | float | bool | str:
    if not isinstance(value, int | float | str):
        raise ValueError(f"{where} is not a plain value")
    return value


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
        location=read_location(record.get("place"), record.field_path("place")),
        parameters=record.list("parameters", _parameter),
        results=record.list("results", _result),
        dims=record.list("dims", fields.text),
        dim_feeds=record.list("dim_feeds", fields.text),
        slot_dims=record.list("slot_dims", fields.text),
        checks=record.list("checks", _check),
        reads=record.list("reads", fields.text),
        writes=record.list("writes", fields.text),
        arena=formulas.from_json(record.get("arena"), record.field_path("arena")),
        largest_live=formulas.from_json(record.get("largest_live"), record.field_path("largest_live")),
        peak_names=record.list("peak_names", fields.text),
        concurrent=record.optional("concurrent", fields.flag, False),
        measured=record.list("measured", fields.text) if record.has("measured") else (),
        copies=record.integer("copies", 1, MOST_COPIES) if record.has("copies") else 0,
    )
    if record.has("steps"):
        record.list("steps", _old_step)
    record.done()
    _check_entry(entry, where)
    return entry


def _check_entry(entry: Entry, where: str) -> None:
    dims = _unique(entry.dims, f"{where}.dims")
    _unique([p.name for p in entry.parameters] + list(entry.dim_feeds), f"{where}.parameters")
    used = {*entry.dim_feeds, *entry.slot_dims, *entry.arena.symbols(), *entry.largest_live.symbols()}
    for formula in (d for each in entry.parameters for d in each.shape):
        used |= formula.symbols()
    for result in entry.results:
        used |= _result_symbols(result, frozenset(_unique((*entry.dims, *entry.measured), f"{where}.measured")) - dims)
    for check in entry.checks:
        used |= check.left.symbols() | check.right.symbols()
    if not used <= dims:
        raise ValueError(f"{where} uses the dim {fields.shown(min(used - dims))}, which it does not declare")
    if entry.is_runner and (entry.parameters or entry.results or entry.dims or entry.is_test):
        raise ValueError(f"{where} is a runner, which nobody calls, with a signature")
    if entry.unnamed_result and len(entry.results) != 1:
        raise ValueError(f"{where} has {len(entry.results)} results, none of them named")


def _result_symbols(result: Result, measured: frozenset[str]) -> set[str]:
    """The dims that the formulas of a result use. One whose shape is found out says how large it can be."""
    symbols = {name for formula in result.shape for name in formula.symbols()}
    if measured.isdisjoint(symbols) != (result.most is None):
        raise ValueError(f"the result {fields.shown(result.name)} does not say how large it can be")
    symbols.update(name for name, _ in result.over)
    return symbols - measured | (result.most.symbols() if result.most is not None else set[str]())


def _parameter(value: object, where: str) -> Parameter:
    record = Record(value, where)
    parameter = Parameter(record.text("name"), element_type(record, TEXT), _formulas(record), record.text("doc"))
    record.done()
    if parameter.is_text and parameter.shape:
        raise ValueError(f"{where} is a text with a shape")
    return parameter


def _result(value: object, where: str) -> Result:
    record = Record(value, where)
    most = formulas.from_json(record.get("most"), record.field_path("most")) if record.has("most") else None
    over = tuple(record.table("over", _over).items()) if record.has("over") else ()
    result = Result(record.text("name"), element_type(record), _formulas(record), most, over)
    record.done()
    if result.over and result.shape:
        raise ValueError(f"{where} is no single number, but is said to be one over examples")
    return result


def _over(value: object, where: str) -> str:
    kind = fields.text(value, where)
    if kind not in OVER:
        raise ValueError(f"{where} is no way to put batches together: {fields.shown(kind)}")
    return kind


def _check(value: object, where: str) -> SizeCheck:
    record = Record(value, where)
    check = SizeCheck(
        formulas.from_json(record.get("left"), record.field_path("left")),
        record.text("relation"),
        formulas.from_json(record.get("right"), record.field_path("right")),
        record.text("reason"),
        read_location(record.get("place"), record.field_path("place")),
    )
    record.done()
    if check.relation not in RELATIONS:
        raise ValueError(f"{where} has the unknown relation {fields.shown(check.relation)}")
    return check


def _old_step(value: object, where: str) -> None:
    """Earlier versions said which functions an entry calls; only those with one can still be run."""
    record = Record(value, where)
    if not record.has("native") or record.integer("native") != 0:
        raise ValueError(f"{where} is of an earlier version, which saved and restored in another way")
    record.done()


def _state(value: object, where: str) -> StateEntry:
    record = Record(value, where)
    entry = StateEntry(
        name=record.text("name"),
        kind=record.text("kind"),
        dtype=element_type(record),
        shape=record.list("shape", fields.integer),
        trained=record.flag("trained"),
        container=record.text("container"),
        saved=record.flag("saved"),
        doc=record.text("doc"),
        location=read_location(record.get("place"), record.field_path("place")),
    )
    if entry.kind not in STATE_KINDS:
        raise ValueError(f"{where} has the unknown kind {fields.shown(entry.kind)}")
    if len(entry.shape) > MAXIMUM_RANK or math.prod(entry.shape) * SIZES[entry.dtype] > fields.LARGEST:
        raise ValueError(f"{where} is too large")
    if record.has("queue"):
        from dfc_runtime.formats import queue_json  # most programs have none

        if entry.kind != QUEUE:
            raise ValueError(f"{where} is no queue, and says how elements lie in it")
        layout = queue_json.from_json(record.get("queue"), record.field_path("queue"), math.prod(entry.shape))
        entry = replace(entry, queue=layout)
    record.done()
    return entry


def _fault(value: object, where: str) -> FaultSite:
    record = Record(value, where)
    location = read_location(record.get("place"), record.field_path("place"))
    site = FaultSite(record.text("kind"), record.text("message"), location)
    record.done()
    return site


def _image(value: object, where: str) -> ImageEntry:
    record = Record(value, where)
    symbols = record.table("symbols", fields.integer)
    image = ImageEntry(record.text("isa"), symbols, record.list("required_bits", fields.text))
    record.done()
    return image
