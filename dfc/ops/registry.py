"""Records of ops by their names. They register once, when their module is imported (`table` says which are)."""

from __future__ import annotations

from operator import is_
from typing import cast

from dfc.ir.graph import Node
from dfc.ops import table
from dfc.ops.lowering.forms import Lowering
from dfc.ops.record import OpRecord
from dfc.ops.table import load_all

__all__ = ["all_records", "find", "load_all", "lowering_of", "record", "register"]

_RECORDS = cast(dict[str, OpRecord], table.RECORDS)
"""Nothing but records is registered."""
_sorted: tuple[tuple[OpRecord, ...], tuple[OpRecord, ...]] = ((), ())
"""The records of the table when they were last asked for in order, and in order."""


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


def lowering_of(node: Node) -> Lowering:
    """How the op of a node becomes kernels."""
    known = _RECORDS.get(node.op)  # asked of each node many times, by fusion
    return known.lowering if known is not None else record(node.op).lowering


def find(name: str) -> OpRecord | None:
    load_all()
    return _RECORDS.get(name)


def all_records() -> tuple[OpRecord, ...]:
    """Every record, by name; the same tuple as long as the table is the same."""
    global _sorted
    load_all()
    known, in_order = _sorted
    now = tuple(_RECORDS.values())
    if len(now) != len(known) or not all(map(is_, now, known)):
        in_order = tuple(_RECORDS[name] for name in sorted(_RECORDS))
        _sorted = now, in_order
    return in_order
