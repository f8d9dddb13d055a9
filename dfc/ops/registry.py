"""Records of ops by their names. They register once, when their module is imported (`table` says which are)."""

from __future__ import annotations

from typing import cast

from dfc.ops import table
from dfc.ops.record import OpRecord
from dfc.ops.table import load_all

__all__ = ["all_records", "find", "load_all", "record", "register"]


def register(record: OpRecord) -> OpRecord:
    """Adds a record; a second one of the same name is a mistake of the programmer."""
    if record.name in table.RECORDS:
        raise ValueError(f"op {record.name!r} is registered twice")
    table.RECORDS[record.name] = record
    return record


def record(name: str) -> OpRecord:
    """The record of an op; KeyError if there is none."""
    loaded = table.RECORDS.get(name)  # asked of each node by each pass
    if loaded is None:
        load_all()
        loaded = table.RECORDS[name]
    return _as_record(loaded)


def find(name: str) -> OpRecord | None:
    load_all()
    record = table.RECORDS.get(name)
    return None if record is None else _as_record(record)


def all_records() -> tuple[OpRecord, ...]:
    """Every record, by name."""
    load_all()
    return tuple(_as_record(table.RECORDS[name]) for name in sorted(table.RECORDS))


def _as_record(record: table.Typed) -> OpRecord:
    """Nothing but records is registered."""
    return cast(OpRecord, record)
