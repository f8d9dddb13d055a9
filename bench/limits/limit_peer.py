"""The limit of a case as a system: a call on all threads that does nothing but multiply and add, or copy.

A copy has the size of the case's own data, so that where these fit into a cache, it is the cache that is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bench.limits.native import Loops, copy_step, fma_flops
from bench.limits.processor import native_isa, thread_count
from bench.peers.prepared import Prepare, Prepared, Request

TRIPS = 200_000
LEAST_COPIED = 1 << 27
"""Bytes of a call: small copies are repeated, so that starting threads is a small part of it."""
ALIGNMENT = 64
Memory = NDArray[np.uint8]


def version(system: str) -> str:
    return native_isa() or "below x86-64-v2"


def aligned(size: int) -> Memory:
    raw = np.ones(size + ALIGNMENT, np.uint8)
    return raw[-raw.ctypes.data % ALIGNMENT :][:size]


def _on_threads(work: Callable[[int], None]) -> Callable[[], None]:
    """Calls a function of the number of a thread on all threads at once."""
    count = thread_count()
    pool = ThreadPoolExecutor(count)

    def call() -> None:
        for result in [pool.submit(work, number) for number in range(count)]:
            result.result()

    return call


def _isa(request: Request) -> str:
    isa = request.isa or native_isa()
    if isa is None:
        raise RuntimeError("there are no loops for a processor below x86-64-v2")
    return isa


def _fma(request: Request) -> Prepared:
    isa = _isa(request)
    loops, results = Loops(isa), aligned(ALIGNMENT * thread_count())
    call = _on_threads(lambda number: loops.fma(results.ctypes.data + ALIGNMENT * number, TRIPS))
    amount = float(fma_flops(isa) * TRIPS * thread_count())
    return Prepared(call, list, amount=amount)


def _copy(request: Request) -> Prepared:
    isa, count = _isa(request), thread_count()
    step = copy_step(isa) * max(1, ALIGNMENT // (4 * copy_step(isa)))
    elements = max(step, int(request.case.work(request.sizes).bytes / 8) // count // step * step)
    loops, source, target = Loops(isa), aligned(4 * elements * count), aligned(4 * elements * count)
    target_address, source_address = target.ctypes.data, source.ctypes.data
    repeats = max(1, LEAST_COPIED // (8 * elements * count))

    def calls(copy: Callable[..., None]) -> Callable[[], None]:
        def part(number: int) -> None:
            offset = 4 * elements * number
            for _ in range(repeats):
                copy(target_address + offset, source_address + offset, elements)

        return _on_threads(part)

    fastest = min((calls(copy) for copy in loops.copies), key=_best_seconds)
    return Prepared(lambda: fastest() or (source, target), list, amount=8.0 * elements * count * repeats)


def _best_seconds(call: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def preparation(system: str, kind: str) -> Prepare | None:
    """Whatever the kind: the case itself says what limits it."""

    def prepare(request: Request) -> Prepared:
        if request.case.limit is None:
            raise RuntimeError("nothing of the machine limits this case alone")
        return _fma(request) if request.case.limit == "fma" else _copy(request)

    return prepare
