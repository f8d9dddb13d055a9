"""The table of ops. Records register once, when their module is imported; `load_all` imports every module of the set.

A third party adds ops through the entry point group `dfc.ops` (each entry point is a module that calls `register`).
"""

from __future__ import annotations

import threading
import warnings
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from dfc.ops.record import OpRecord

PLUG_INS = "dfc.ops"
_RECORDS: dict[str, OpRecord] = {}
_MODULES = (
    "dfc.ops.creation.sources",
    "dfc.ops.creation.numbered",
    "dfc.ops.elementwise.unary",
    "dfc.ops.elementwise.arithmetic",
    "dfc.ops.elementwise.transcendental",
    "dfc.ops.elementwise.composite",
    "dfc.ops.elementwise.bits",
    "dfc.ops.elementwise.select",
    "dfc.ops.elementwise.comparison",
    "dfc.ops.layout.shape",
    "dfc.ops.indexing.slice_pad",
    "dfc.ops.indexing.gather_scatter",
    "dfc.ops.nn.windows",
    "dfc.ops.reduction.reductions",
    "dfc.ops.reduction.ordering",
    "dfc.ops.indexing.gather_along",
    "dfc.ops.indexing.sorting",
    "dfc.ops.indexing.top_k",
    "dfc.ops.indexing.nonzero",
    "dfc.ops.indexing.unique",
    "dfc.ops.layout.rearrange",
    "dfc.ops.reduction.scans",
    "dfc.ops.nn.resizing",
    "dfc.ops.indexing.segments",
    "dfc.ops.reduction.statistics",
    "dfc.ops.linalg.products",
    "dfc.ops.layout.diagonals",
    "dfc.ops.linalg.einsum",
    "dfc.ops.nn.convolution",
    "dfc.ops.nn.pooling",
    "dfc.ops.linalg.solving",
    "dfc.ops.linalg.determinants",
    "dfc.ops.linalg.factoring",
    "dfc.ops.linalg.jacobi",
    "dfc.ops.nn.losses",
    "dfc.ops.effects.state",
    "dfc.ops.control.control",
    "dfc.ops.control.custom",
    "dfc.ops.effects.communication",
    "dfc.ops.effects.routing",
    "dfc.ops.effects.host_io",
)
_loading = threading.RLock()
_begun = _loaded = False


def register(record: OpRecord) -> OpRecord:
    """Adds a record; a second one of the same name is a mistake of the programmer."""
    if record.name in _RECORDS:
        raise ValueError(f"op {record.name!r} is registered twice")
    _RECORDS[record.name] = record
    return record


def load_all() -> None:
    """Imports every module of records, then those of installed plug-ins; other threads wait until all are there."""
    global _begun, _loaded
    if _loaded:
        return
    with _loading:
        if _begun:
            return  # a module that is being imported asks
        _begun = True
        for module in _MODULES:
            import_module(module)
        for point in entry_points(group=PLUG_INS):
            _load_plug_in(point)
        _loaded = True


def _load_plug_in(point: EntryPoint) -> None:
    """A plug-in that cannot be loaded costs its own ops only; the warning names it."""
    try:
        point.load()
    except Exception as problem:
        package = point.dist.name if point.dist is not None else point.value
        warnings.warn(f"the ops of {package} ({point.value}) are missing: {problem}", RuntimeWarning, stacklevel=2)


def record(name: str) -> OpRecord:
    """The record of an op; KeyError if there is none."""
    load_all()
    return _RECORDS[name]


def find(name: str) -> OpRecord | None:
    load_all()
    return _RECORDS.get(name)


def all_records() -> tuple[OpRecord, ...]:
    """Every record, by name."""
    load_all()
    return tuple(_RECORDS[name] for name in sorted(_RECORDS))
