"""Memory for messages and sums, used again from step to step.

Guarantees that a buffer that was taken is nobody else's until it is given back. What it holds at first is anything.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.calls.memory import aligned
from dfc_runtime.distributed.transport.comm import Bytes

_MOST_KEPT = 64
"""Buffers of one size that are kept."""


class Pool:
    """Free buffers by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Bytes]] = {}

    def take(self, size: int) -> Bytes:
        free = self._free.get(size)
        return free.pop() if free else aligned((size,), np.dtype(np.uint8))  # type: ignore[return-value]

    def give(self, buffer: Bytes) -> None:
        kept = self._free.setdefault(buffer.size, [])
        if len(kept) < _MOST_KEPT:
            kept.append(buffer)
