"""The slots of a call: how they are packed, and where native code leaves scalars.

Assumes the slot convention of `dfc_runtime.driver`. Guarantees one `struct` format per entry.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.memory import Arena, address_of
from dfc_runtime.calls.scalars import slot_format
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats.manifest import Entry

SLOT = 8


class FrameLayout:
    """The slots of an entry."""

    def __init__(self, entry: Entry) -> None:
        if any(each.dtype == "c128" and not each.shape for each in (*entry.parameters, *entry.results)):
            raise UnsupportedError(f"`{entry.name}` has a c128 of rank 0, which is not supported yet", code="E1001")
        arguments = ["8x" if p.is_text else "Q" if p.shape else slot_format(p.dtype) for p in entry.parameters]
        results = ["Q" if r.shape else "8x" for r in entry.results]
        sizes = "q" * len(entry.slot_dims) + "Q" + "8x" * len(entry.measured)
        self.format = struct.Struct("<" + "".join(arguments + results) + sizes)
        self.scalars = [
            (numpy_dtype(result.dtype), SLOT * (len(entry.parameters) + number))
            for number, result in enumerate(entry.results)
            if not result.shape
        ]
        assert self.format.size == SLOT * entry.slot_count
        self.measured = [SLOT * (entry.slot_count - len(entry.measured) + i) for i in range(len(entry.measured))]


class Frame:
    """Slots in memory, for one call at a time. `scalars` show the 0-d results, `measured` the sizes found out."""

    __slots__ = ("address", "arena", "buffer", "measured", "scalars")

    def __init__(self, layout: FrameLayout, arena: Arena) -> None:
        memory = np.zeros(layout.format.size, np.uint8)
        self.buffer = memory.data
        self.address = address_of(memory)
        self.arena = arena
        self.scalars: list[NDArray[np.generic]] = [
            memory[offset : offset + dtype.itemsize].view(dtype) for dtype, offset in layout.scalars
        ]
        self.measured: list[NDArray[np.int64]] = [
            memory[offset : offset + SLOT].view(np.int64) for offset in layout.measured
        ]
