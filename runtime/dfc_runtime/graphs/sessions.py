"""What calls of one combination of sizes share: places of buffers, addresses in pinned memory, graphs.

Assumes that memory was reserved for these sizes. Guarantees that whatever depends on sizes alone is computed once, so
that a call computes no formula.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from dfc_runtime.graphs.memory_layout import LINE, SLOT, BufferAddresses, Tensor, bytes_of
from dfc_runtime.graphs.segment_graphs import SegmentGraph

_move, _set = ctypes.memmove, ctypes.memset  # looked up once, not in every call
_ERROR_WORDS = ctypes.c_int64 * 4


class Session:
    """One combination of sizes, and of where the caller has its tensors. `stamp` says for which memory it was made."""

    def __init__(self, addresses: BufferAddresses, sizes: dict[str, int], stamp: int) -> None:
        layout, pinned = addresses.layout, addresses.regions.pinned
        entry = addresses.entry
        self.addresses, self.sizes, self.stamp = addresses, sizes, stamp
        self.graphs: OrderedDict[tuple[int, tuple[int, ...]], SegmentGraph] = OrderedDict()
        self.whole: SegmentGraph | None = None
        """The graph of an entry that is one segment, once it is built."""
        self._pinned = pinned
        self._error = pinned + layout.error
        self._error_words = _ERROR_WORDS.from_address(self._error)
        has_scalars = any(b.scalar and b.role == "argument" for b in entry.buffers)
        self._slots_size = SLOT * entry.arguments if has_scalars else 0
        feeds = [*layout.feeds, *layout.large_feeds]
        results = [*layout.results, *layout.large_results]
        self._feeds = [(each.slot, pinned + each.offset, each.room) for each in feeds if each.room]
        fixed = [each for each in results if each.buffer.bytes.symbols() <= sizes.keys()]
        self._results = [(t.slot, pinned + t.offset, bytes_of(t.buffer, sizes)) for t in fixed]
        self._open = [each for each in results if each not in fixed]
        self._scalars = [(SLOT * slot, pinned + offset) for slot, offset in layout.scalar_results()]

    def feed(self, slots: int, words: Sequence[int]) -> None:
        """What the caller gave, into pinned memory; no fault yet."""
        if self._slots_size:
            _move(self._pinned, slots, self._slots_size)
        for slot, address, size in self._feeds:
            _move(address, words[slot], size)
        _set(self._error, 0, LINE)

    def answer(self, slots: int, words: Sequence[int], sizes: Mapping[str, int]) -> None:
        """Results from pinned memory to the caller; `sizes` holds those that the call has found out, too."""
        for offset, address in self._scalars:
            _move(slots + offset, address, SLOT)
        for slot, address, size in self._results:
            _move(words[slot], address, size)
        for each in self._open:
            _move(words[each.slot], self._address(each), bytes_of(each.buffer, sizes))

    def _address(self, tensor: Tensor) -> int:
        return self._pinned + tensor.offset

    def fault(self) -> tuple[int, tuple[int, ...]] | None:
        """The site, counted from 0, and the values of what was reported; only when nothing runs."""
        site = self._error_words[0]
        return (site - 1, tuple(self._error_words[1:])) if site else None

    def close(self) -> None:
        for graph in self.graphs.values():
            graph.close()
        self.graphs.clear()
        self.whole = None
