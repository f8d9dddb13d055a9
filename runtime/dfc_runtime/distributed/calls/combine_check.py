"""Whether the gradients of a replicated entry are what its deployment file calls them, where only numbers can tell.

    replicate train over worker with .., combine = "mean"

The gradients are computed for the batch of the first call, and for that batch twice, one copy behind the other. Means
stay as long as they are, sums get twice as long; what lies between is taken for the nearer one. Gradients that are 0
tell nothing: then the next call is asked.

Assumes a part of the entry that gives the gradients and changes nothing. Guarantees that the call is refused before it
runs; on any number of ranks, for the parts have the same bits on all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import cast

import numpy as np

from dfc_runtime.distributed.calls.client import Client, Request
from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.parts import ClusterParts
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import FeedError, LimitError, RunError
from dfc_runtime.formats.cluster import CombineCheck

BETWEEN = math.sqrt(2)


class FirstCalls:
    """The first calls of an entry, at rank 0; `done` once it is known what its gradients are."""

    def __init__(self, plan: EntryPlan, check: CombineCheck, parts: ClusterParts) -> None:
        self._plan = plan
        self._check = check
        self._parts = parts
        self._feed_axes = [(each.split_axis, each.runs) for each in plan.feed_splits]
        self.done = False

    def look(self, client: Client, request: Request) -> None:
        """Part of a call that all ranks make together; raises `RunError` if the gradients are not what is said."""
        once = self._length(client, request.feeds)
        if not (once > 0 and math.isfinite(once)):
            return
        self.done = True
        try:
            twice = self._length(client, self._doubled(request))
        except (FeedError, LimitError) as problem:
            text = (
                f"whether the gradients of `{self._plan.name}` are what {self._check.location} says cannot be checked"
            )
            warnings.warn(f"{text}: {problem.message}", stacklevel=2)
            return
        are = "sum" if twice > BETWEEN * once else "mean"
        if are != self._check.combine:
            text = f'`combine = "{self._check.combine}"`, but the gradients of `{self._plan.name}` are a {are}'
            how = f"for this batch twice they are {twice / once:.3g} times as long as for it once"
            fix = f'write `combine = "{are}"` at {self._check.location}'
            raise RunError(f"{text} over `{self._plan.split.split}`: {how}\n  {fix}", code="E0831")

    def _length(self, client: Client, feeds: Sequence[object]) -> float:
        names = [each.name for each in self._plan.entry.parameters]
        gradients = self._parts.within(client, self._check.gradients, dict(zip(names, feeds, strict=True)))
        with np.errstate(all="ignore"):
            return math.sqrt(sum(float(np.sum(np.square(np.asarray(each), dtype=np.float64))) for each in gradients))

    def _doubled(self, request: Request) -> list[object]:
        return [
            value
            if split.split_axis < 0
            else _twice(cast(Array, value), split.split_axis, split.runs.evaluate(request.sizes))
            for value, split in zip(request.feeds, self._plan.feed_splits, strict=True)
        ]


def _twice(array: Array, axis: int, runs: int) -> Array:
    """The examples along an axis twice, in each of the runs along it."""
    before, size, behind = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    apart = array.reshape(*before, runs, size // max(runs, 1), *behind)
    return np.ascontiguousarray(np.concatenate([apart, apart], axis + 1).reshape(*before, 2 * size, *behind))
