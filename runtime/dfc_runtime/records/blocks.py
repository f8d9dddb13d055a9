"""Blocks of records in memory, from which native code takes one after the other by itself.

A block is a header and a table with a row for each record: the position of the stream it comes at, the one behind it,
and where its frame is: in memory, or in a file that is open. Native code takes a row whose position is the one it asks
for, compares the frame, and asks the run side where there is no such row or something is wrong with it: so a block that
is old, or that nobody filled, is never wrong, and neither is a file that has changed.
Assumes that those who take from one block do so one at a time, and that files are open until a block is filled anew or
empty: what is in another file of the same number may be a record too. Guarantees that bytes and rows stay where they
are while the block is there.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfc_runtime.records.images.resizing import NativeResize

Numbers: TypeAlias = "NDArray[np.int64]"
Bytes: TypeAlias = "NDArray[np.uint8]"


class BlockHeader(ctypes.Structure):
    """`next` of `count` rows is the one that comes next."""

    _fields_ = (
        ("next", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("rows", ctypes.c_void_p),  # of the structure `Row`
        ("decoders", ctypes.c_void_p),  # null, or a table of processes that decode images: `calls/handlers/decoders`
        ("resize", ctypes.c_void_p),  # code that resizes images, from the first of them on: `resizing`
    )


_ROW = (
    ("position", ctypes.c_int64),
    ("following", ctypes.c_int64),
    ("address", ctypes.c_void_p),
    ("length", ctypes.c_int64),
    ("number", ctypes.c_int64),
    ("descriptor", ctypes.c_int64),
    ("offset", ctypes.c_int64),
)


class Row(ctypes.Structure):
    """One record. `address` is that of its bytes, with its frame around them; without one (0) the frame is at `offset`
    of the file `descriptor`, of which there is none below 0."""

    _fields_ = _ROW


COLUMNS = tuple(name for name, _ in _ROW)


class RecordBlock:
    """A block with what it holds."""

    def __init__(self) -> None:
        self._header = BlockHeader()
        self._kept: tuple[Numbers, Bytes | None] | None = None
        self._resize: NativeResize | None = None

    @property
    def address(self) -> int:
        """Of the header."""
        return ctypes.addressof(self._header)

    def use_decoders(self, address: int) -> None:
        """Has images of the records decoded by the processes of this table."""
        self._header.decoders = address

    @property
    def resize(self) -> NativeResize | None:
        """The code that resizes images, once it has asked for one."""
        address = self._header.resize
        if self._resize is None and address:
            from dfc_runtime.records.images.resizing import NativeResize  # only programs with images

            self._resize = NativeResize(address)
        return self._resize

    def fill(self, data: Bytes | None, **columns: Numbers | int) -> None:
        """Other records, with the columns of `Row` by name; `data` is kept, as addresses are in it."""
        some = columns["position"]
        assert isinstance(some, np.ndarray), "a column with a number for each record"
        rows = np.zeros((len(some), len(COLUMNS)), np.int64)
        rows[:, COLUMNS.index("descriptor")] = -1
        for name, values in columns.items():
            rows[:, COLUMNS.index(name)] = values
        header = self._header
        self.empty()
        self._kept = rows, data
        header.rows, header.next, header.count = rows.ctypes.data, 0, len(rows)

    def empty(self) -> None:
        """Has no rows any more."""
        self._header.count = 0

    def next(self, position: int) -> tuple[int, int] | None:
        """The number of the record at this position and the position behind it, if it comes next."""
        header = self._header
        if header.next >= header.count or self._kept is None:
            return None
        row = dict(zip(COLUMNS, self._kept[0][header.next].tolist(), strict=True))
        return (row["number"], row["following"]) if row["position"] == position else None

    def advance(self) -> None:
        """The next row is done with."""
        self._header.next += 1
