"""Calls of a replicated entry with batches that do not fall into its blocks: they are filled up.

    17 rows, 8 blocks    ->    24 rows, of which 17 count; the others are copies of the last one

The compiler makes a second program of the entry, whose sums leave out the rows that do not count; it is made when it is
first needed, and lies beside the first one. Assumes a rank 0 that calls. Guarantees results and state of the rows that
are given, with the same bits for any number of ranks; a batch that falls into blocks is called as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.compiling.partial import Filled
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.calls.gate import Refusing
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.client import Client, Request
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, split_fault
from dfc_runtime.distributed.calls.parts import ClusterParts
from dfc_runtime.distributed.calls.requests import Requests, wrapper
from dfc_runtime.distributed.transport.comm import Array

Axes = Mapping[str, tuple[int, Formula]]


@dataclass(frozen=True, slots=True)
class _Ready:
    """The second program, as rank 0 calls it."""

    plan: EntryPlan
    requests: Requests
    filled: Filled


class ShortBatches:
    """Calls of one entry at rank 0. Ranks that call along call the entry as ever."""

    def __init__(self, plan: EntryPlan, client: Client, lock: Refusing, parts: ClusterParts, limit: int) -> None:
        self._plan = plan
        self._client = client
        self._lock = lock
        self._parts = parts
        self._limit = limit
        self._requests = Requests(plan, limit, is_split=False)
        self._wrap = wrapper(plan)
        self._compilation: Filled | None = None
        self._ready: _Ready | None = None

    def compile(self) -> None:
        """Makes the second program, with all ranks; raises what is wrong if a batch cannot be filled up."""

        def work() -> None:
            self._compiled()

        with self._lock:
            self._client.together("pad", work, lambda _: ({}, []))

    def __call__(self, *feeds: object, **named: object) -> object:
        """Calls the entry with a batch of any size."""
        with self._lock:
            return self._wrap(self._client.call_with(self._plan, lambda: self._run(feeds, named)))

    def _run(self, feeds: Sequence[object], named: Mapping[str, object]) -> list[object]:
        self._client.require_whole(self._plan)
        request = self._requests.checked(feeds, named)
        rows = request.sizes[self._plan.split.split]
        if not split_fault(self._plan.split, rows):
            return self._client.run(self._plan, request)
        ready = self._added()
        full_results = self._client.run(ready.plan, self._filled(ready, request, rows))
        results = zip(self._plan.entry.results, full_results, strict=True)
        return [self._counted(ready.filled.results.get(each.name), value, request.sizes) for each, value in results]

    def _compiled(self) -> Filled:
        if self._compilation is None:
            self._compilation = self._parts.filled(self._client, self._plan.entry.name)
        return self._compilation

    def _added(self) -> _Ready:
        if self._ready is None:
            filled = self._compiled()
            plan = self._parts.add_filled(self._client, self._plan, filled)
            self._ready = _Ready(plan, Requests(plan, self._limit), filled)
        return self._ready

    def _filled(self, ready: _Ready, request: Request, rows: int) -> Request:
        """The request with feeds that fall into blocks."""
        entry, sizes = self._plan.entry, request.sizes
        indices = np.minimum(np.arange(self._whole(rows)), rows - 1)
        feeds: dict[str, object] = {name: sizes[name] for name in entry.dim_feeds}
        for parameter, value in zip(entry.parameters, request.feeds, strict=True):
            split = ready.filled.feeds.get(parameter.name)
            if split is not None:
                value = _taken(cast(Array, value), split[0], split[1].evaluate(sizes), rows, indices)
            feeds[parameter.name] = value
        return ready.requests.checked((), {**feeds, ready.filled.valid: rows})

    def _counted(self, split: tuple[int, Formula] | None, value: object, sizes: Mapping[str, int]) -> object:
        """A result without what it has for rows that do not count."""
        if split is None:
            return value
        rows = sizes[self._plan.split.split]
        return _taken(cast(Array, value), split[0], split[1].evaluate(sizes), self._whole(rows), np.arange(rows))

    def _whole(self, rows: int) -> int:
        """How many rows fall into blocks, at least so many."""
        blocks = self._plan.split.blocks
        return -(-rows // blocks) * blocks


def _taken(array: Array, axis: int, runs: int, rows: int, indices: NDArray[np.int64]) -> Array:
    """Some of the rows of an array that has so many along an axis, in each of its runs."""
    before, behind = array.shape[:axis], array.shape[axis + 1 :]
    per_row = array.shape[axis] // max(runs * rows, 1)
    apart = array.reshape(*before, runs, rows, per_row, *behind)
    taken = np.take(apart, indices, axis + 1)
    return np.ascontiguousarray(taken.reshape(*before, runs * len(indices) * per_row, *behind))
