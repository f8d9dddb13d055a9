"""Which elements have come into which queue between two calls of an entry that takes: the schedule of a pipeline.

Assumes queues that count what was put in. Guarantees at most `MOST_STEPS` calls of an entry: later ones are not kept.
Of calls that overlap, each one's waits are those of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps

from dfc_runtime.dataclasses import dataclass

MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """One call: begin and end in nanoseconds of `time.perf_counter_ns`, how often it has waited for an element, and how
    many elements had come into each queue when it began."""

    begin: int
    end: int
    waits: int
    put: tuple[int, ...]


class StepLog:
    """The steps of one entry. `queues` are those that feed it, from the source on; `put` counts what came into them,
    `waits` how often the entry has waited."""

    def __init__(self, queues: Sequence[str], put: Callable[[], tuple[int, ...]], waits: Callable[[], int]) -> None:
        self.queues = tuple(queues)
        self.steps: list[Step] = []
        self._behind: tuple[int, ...] | None = None
        self._put, self._waits = put, waits

    def recorded(self, function: Callable[..., object]) -> Callable[..., object]:
        """The same function, whose calls that return are steps from now on."""
        put, waits, clock = self._put, self._waits, time.perf_counter_ns

        @wraps(function)
        def step(*feeds: object, **named: object) -> object:
            came, waited, begin = put(), waits(), clock()
            result = function(*feeds, **named)
            if len(self.steps) < MOST_STEPS:
                self.steps.append(Step(begin, clock(), waits() - waited, came))
            elif self._behind is None:
                self._behind = came
            return result

        return step

    def report(self, entry: str) -> Mapping[str, object]:
        """What a trace says of the entry: numbers and names only, times in nanoseconds from the first step on. `put` is
        of the end of what is told: of now, or of the begin of the first call that was not kept."""
        first = self.steps[0].begin if self.steps else 0
        return {
            "entry": entry,
            "queues": list(self.queues),
            "put": list(self._put() if self._behind is None else self._behind),
            "steps": [[each.begin - first, each.end - first, each.waits, *each.put] for each in self.steps],
        }
