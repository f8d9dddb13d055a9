"""What steps take, as images a second: measured, added up over workers, and printed."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dfc.cli.networks.batches import Batch
from dfc.cli.reports.runs import facts_of
from dfc.cli.tables import seconds, table
from dfc.deferred.dataclasses import dataclass

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.asynchronous.update_log import Updates


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each step behind the ones to warm up, how many images a step takes, and the loss of the last one.
    Where a call has several steps, they share its seconds, and its loss is their mean. `updates` says which of them
    came how late, where that is counted."""

    steps: tuple[float, ...]
    images: int
    loss: float
    updates: Updates | None = None

    @property
    def rate(self) -> float:
        """Images a second: all images in all the time."""
        return self.images * len(self.steps) / sum(self.steps)

    @property
    def deviation(self) -> float:
        """The standard deviation of the images a second of single steps."""
        return statistics.pstdev(self.images / step for step in self.steps)


def measure(
    call: Callable[[Batch], float], batches: Iterator[Batch], warm_up: int, count: int, in_a_call: int = 1
) -> Timing:
    """Makes so many steps to warm up, then those that count, one or more, in calls that have as many steps each. What
    a call waits for its images counts."""
    images, loss, times = 0, math.nan, list[float]()
    for number in range((warm_up + count) // in_a_call):
        start = time.perf_counter()
        batch = next(batches)
        loss = call(batch)
        if number >= warm_up // in_a_call:
            times += [(time.perf_counter() - start) / in_a_call] * in_a_call
            images = len(batch[1]) // in_a_call
    return Timing(tuple(times), images, loss)


@dataclass(frozen=True, slots=True)
class Summary:
    """Images a second of all devices together. Workers that are independent each have a timing."""

    timings: Sequence[Timing]
    devices: int

    @property
    def rate(self) -> float:
        return sum(each.rate for each in self.timings)

    @property
    def deviation(self) -> float:
        return math.sqrt(sum(each.deviation**2 for each in self.timings))


def as_text(title: str, summary: Summary) -> str:
    """The figures for people. With several timings, steps and losses are those of the first worker."""
    first = summary.timings[0]
    quickest, median = min(first.steps), statistics.median(first.steps)
    cells = [
        f"{summary.rate:.4g}",
        f"{summary.deviation:.2g}",
        f"{summary.rate / summary.devices:.4g}",
        seconds(median),
        seconds(quickest),
        f"{first.loss:.4g}",
    ]
    head = ["images/s", "deviation", "a device", "median step", "quickest", "last loss"]
    lines = table(head, [cells], right=head)
    return "\n".join([title, *lines, *([] if first.updates is None else [f"  {first.updates}"])])


def as_json(facts: Mapping[str, object], summary: Summary) -> str:
    """The same as one object, with the seconds of each step."""
    figures = {
        **facts,
        "devices": summary.devices,
        "images_per_second": summary.rate,
        "images_per_second_deviation": summary.deviation,
        "last_loss": [each.loss for each in summary.timings],
        "step_seconds": [list(each.steps) for each in summary.timings],
        **facts_of(summary.timings[0].updates),
    }
    return json.dumps(figures, indent=2)
