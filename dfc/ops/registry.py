"""Records of ops by their names. They register once, when their module is imported (`table` says which are)."""

from __future__ import annotations

from typing import cast

from dfc.ops import table
from dfc.ops.record import OpRecord
from dfc.ops.table import load_all

__all__ = ["all_records", "find", "load_all", "record", "register"]

_RECORDS = cast(dict[str, OpRecord], table.RECORDS)
"""Nothing but records is registered."""


def register(record: OpRecord) -> OpRecord:
    """Adds a record; a second one of the same name is a mistake of the programmer."""
    if record.name in table.RECORDS:
        raise ValueError(f"op {record.name!r} is registered twice")
    table.RECORDS[record.name] = record
    return record


def record(name: str) -> OpRecord:
    """The record of an op; KeyError if there is none."""
    known = _RECORDS.get(name)  # asked of each node by each pass
    if known is None:
        load_all()
        known = _RECORDS[name]
    return known


def find(name: str) -> OpRecord | None:
    load_all()
    return _RECORDS.get(name)


def all_records() -> tuple[OpRecord, ...]:
    """Every record, by name."""
    load_all()
    return tuple(_RECORDS[name] for name in sorted(_RECORDS))
