"""A manifest as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import cluster_writing
from dfc_runtime.formats.manifest import (
    FORMAT,
    Entry,
    FaultSite,
    HostSite,
    ImageEntry,
    Manifest,
    Parameter,
    Result,
    SiteOperand,
    SizeCheck,
    SourceLocation,
    StateEntry,
)

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import QueueLayout


def to_json(manifest: Manifest) -> dict[str, object]:
    """What `manifest_reading.from_json` reads back."""
    return {
        "format": FORMAT,
        "dfc": manifest.version,
        **({"compilers": dict(manifest.compilers)} if manifest.compilers else {}),
        "name": manifest.name,
        "driver": manifest.driver,
        "settings": dict(manifest.settings),
        "entries": [_entry(each) for each in manifest.entries],
        "state": [_state(each) for each in manifest.state],
        "faults": [_fault(each) for each in manifest.faults],
        **({"sites": [_site(each) for each in manifest.sites]} if manifest.sites else {}),
        "images": [_image(each) for each in manifest.images],
        "constant_offsets": list(manifest.constant_offsets),
        "notes": dict(manifest.notes),
        "tensors": dict(manifest.tensors),
        **({"cluster": cluster_writing.to_json(manifest.cluster)} if manifest.cluster is not None else {}),
    }


def _location(location: SourceLocation) -> object:
    return [location.name, location.line, location.column, location.text]


def _shape(shape: tuple[Formula, ...]) -> object:
    return [each.to_json() for each in shape]


def _entry(entry: Entry) -> object:
    return {
        "name": entry.name,
        "doc": entry.doc,
        "readonly": entry.readonly,
        "test": entry.is_test,
        "unnamed_result": entry.unnamed_result,
        "place": _location(entry.location),
        "parameters": [_parameter(each) for each in entry.parameters],
        "results": [_result(each) for each in entry.results],
        "dims": list(entry.dims),
        "dim_feeds": list(entry.dim_feeds),
        "slot_dims": list(entry.slot_dims),
        "checks": [_check(each) for each in entry.checks],
        "reads": list(entry.reads),
        "writes": list(entry.writes),
        "arena": entry.arena.to_json(),
        "largest_live": entry.largest_live.to_json(),
        "peak_names": list(entry.peak_names),
        **({"concurrent": True} if entry.concurrent else {}),
        **({"measured": list(entry.measured)} if entry.measured else {}),
        **({"copies": entry.copies} if entry.copies else {}),
    }


def _parameter(each: Parameter) -> object:
    return {"name": each.name, "type": each.dtype, "shape": _shape(each.shape), "doc": each.doc}


def _result(each: Result) -> object:
    most = {"most": each.most.to_json()} if each.most is not None else {}
    over = {"over": dict(each.over)} if each.over else {}
    return {"name": each.name, "type": each.dtype, "shape": _shape(each.shape), **most, **over}


def _check(each: SizeCheck) -> object:
    return {
        "left": each.left.to_json(),
        "relation": each.relation,
        "right": each.right.to_json(),
        "reason": each.reason,
        "place": _location(each.location),
    }


def _state(each: StateEntry) -> object:
    return {
        "name": each.name,
        "kind": each.kind,
        "type": each.dtype,
        "shape": list(each.shape),
        "trained": each.trained,
        "container": each.container,
        "saved": each.saved,
        "doc": each.doc,
        "place": _location(each.location),
        **({"queue": _queue(each.queue)} if each.queue is not None else {}),
    }


def _queue(layout: QueueLayout) -> object:
    from dfc_runtime.formats import queue_json  # most programs have none

    return queue_json.to_json(layout)


def _fault(each: FaultSite) -> object:
    return {"kind": each.kind, "message": each.message, "place": _location(each.location)}


def _site(each: HostSite) -> object:
    return {
        "kind": each.kind,
        "entry": each.entry,
        "attributes": {name: list(v) if isinstance(v, tuple) else v for name, v in each.attributes.items()},
        "inputs": [_operand(one) for one in each.inputs],
        "outputs": [_operand(one) for one in each.outputs],
        "names": list(each.names),
        "place": _location(each.location),
    }


def _operand(each: SiteOperand) -> object:
    return {"type": each.dtype, "shape": list(each.shape)}


def _image(each: ImageEntry) -> object:
    return {"isa": each.isa, "symbols": dict(each.symbols), "required_bits": list(each.required_bits)}
