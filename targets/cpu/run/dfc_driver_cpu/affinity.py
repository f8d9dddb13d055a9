"""Masks that keep the workers of a pool off the processor of whoever calls: the run half of `pool_keep_apart`.

Linux looks for an idle processor when it wakes a thread, but gives up early on a machine of few processors that was
busy a moment ago. Then a worker lands behind its caller, and two threads take as long as one: on two processors, calls
of 1.2 ms with pauses of 20 ms took 3.0 ms two times out of three. A worker may still run on all others, so it
moves away from what else is busy.

Assumes that a worker is counted in the pool once it is covered. Guarantees that workers may run anywhere again once
there are as many of them as processors. The memory is never given back, like the pool's.
"""

import contextlib
import ctypes
import os
from collections.abc import Sequence

from dfc_driver_cpu.context import Pool

MOST_PROCESSORS = 8
"""With more of them, the system finds an idle one, and a caller that has moved would set many masks."""
NOWHERE = -1


class Affinity:
    """The tables of a pool, made for the processors that this process may use."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._allowed = sorted(os.sched_getaffinity(0))
        self._masks, self._mask_bytes = masks_but_one(self._allowed)
        self._thread_ids = (ctypes.c_int32 * len(self._allowed))()
        pool.avoided = NOWHERE

    def cover(self, thread_ids: Sequence[int]) -> None:
        """Keeps these workers apart from callers, if there are processors for all of them."""
        pool, count = self._pool, len(self._allowed)
        pool.masks, pool.avoided = None, NOWHERE
        if not 1 < count <= MOST_PROCESSORS or len(thread_ids) >= count:
            for thread_id in thread_ids:
                with contextlib.suppress(OSError):  # a thread that has just ended
                    os.sched_setaffinity(thread_id, self._allowed)
            return
        self._thread_ids[: len(thread_ids)] = list(thread_ids)
        pool.thread_ids = ctypes.addressof(self._thread_ids)
        pool.mask_bytes, pool.masked = self._mask_bytes, max(self._allowed) + 1
        pool.masks = ctypes.addressof(self._masks)


def masks_but_one(processors: Sequence[int]) -> tuple[ctypes.Array[ctypes.c_uint64], int]:
    """For each number up to the last processor a mask of all the others, and the bytes of one mask."""
    words = max(processors) // 64 + 1
    table = (ctypes.c_uint64 * (words * (max(processors) + 1)))()
    for left_out in range(max(processors) + 1):
        for processor in processors:
            if processor != left_out:
                table[left_out * words + processor // 64] |= 1 << processor % 64
    return table, 8 * words
