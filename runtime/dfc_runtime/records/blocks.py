"""Blocks of records in memory, from which native code takes one after the other by itself.

A block is a header and a table with a row for each record: the position of the stream it comes at, the one behind it,
how many damaged elements lie between, and where its bytes are. Native code takes a row whose position is the one it
asks for, and asks the run side where there is none: so a block that is old, or that nobody filled, is never wrong.
Assumes that those who take from one block do so one at a time. Guarantees that bytes and rows stay where they are
while the block is there.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"
Bytes: TypeAlias = "NDArray[np.uint8]"


class BlockHeader(ctypes.Structure):
    """`next` of `count` rows is the one that comes next."""

    _fields_ = (
        ("next", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("rows", ctypes.c_void_p),  # of the structure `Row`
    )


class Row(ctypes.Structure):
    """One record."""

    _fields_ = (
        ("position", ctypes.c_int64),
        ("following", ctypes.c_int64),
        ("skipped", ctypes.c_int64),
        ("address", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        ("number", ctypes.c_int64),
    )


COLUMNS = tuple(name for name, *_ in Row._fields_)


class RecordBlock:
    """A block with what it holds."""

    def __init__(self) -> None:
        self._header = BlockHeader()
        self._kept: tuple[Numbers, Bytes] | None = None

    @property
    def address(self) -> int:
        """Of the header."""
        return ctypes.addressof(self._header)

    def fill(self, data: Bytes, starts: Numbers, **columns: Numbers | int) -> None:
        """Other records: they begin at `starts` in `data`, and `columns` are the rest of `Row`. `data` stays alive."""
        rows = np.empty((len(starts), len(COLUMNS)), np.int64)
        columns["address"] = starts + data.ctypes.data
        for number, name in enumerate(COLUMNS):
            rows[:, number] = columns[name]
        header = self._header
        header.count = 0
        self._kept = rows, data
        header.rows, header.next, header.count = rows.ctypes.data, 0, len(rows)

    def take(self, position: int) -> tuple[dict[str, int], Bytes] | None:
        """The row of this position with the bytes of its record, if it comes next."""
        header = self._header
        if header.next >= header.count or self._kept is None:
            return None
        rows, data = self._kept
        row = dict(zip(COLUMNS, rows[header.next].tolist(), strict=True))
        if row["position"] != position:
            return None
        header.next += 1
        start = row["address"] - data.ctypes.data
        return row, data[start : start + row["length"]]
