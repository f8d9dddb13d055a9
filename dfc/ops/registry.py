"""The table of ops. Records register once, when their module is imported; `load_all` imports every module of the set.

A third party adds ops through the entry point group `dfc.ops` (each entry point is a module that calls `register`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from dfc.ops.record import OpRecord

_RECORDS: dict[str, OpRecord] = {}
_MODULES = (
    "dfc.ops.sources",
    "dfc.ops.elementwise",
    "dfc.ops.arithmetic",
    "dfc.ops.choosing",
    "dfc.ops.comparison",
    "dfc.ops.shape",
    "dfc.ops.indexing",
    "dfc.ops.picking",
    "dfc.ops.reductions",
    "dfc.ops.ordering",
    "dfc.ops.products",
    "dfc.ops.solving",
    "dfc.ops.learning",
    "dfc.ops.state",
    "dfc.ops.control",
)
_loaded = False


def register(record: OpRecord) -> OpRecord:
    """Adds a record; a second one of the same name is a mistake of the programmer."""
    if record.name in _RECORDS:
        raise ValueError(f"op {record.name!r} is registered twice")
    _RECORDS[record.name] = record
    return record


def load_all() -> None:
    """Imports every module of records, then those of installed plug-ins."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for module in _MODULES:
        import_module(module)
    for point in entry_points(group="dfc.ops"):
        point.load()


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
