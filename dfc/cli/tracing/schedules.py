"""The schedule of a pipeline as a trace has it: which elements came into which queue during which step, where steps
stop waiting, and how long they take then.

A step is from the begin of a call of the entry that takes to the begin of the next one; what came before the first is
step 0. Assumes the steps of `dfc_runtime.runners.steps`; traces without any have no schedule.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from dfc.cli.tables import seconds, table
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.formats.fields import items, mapping, text

_NANO = 1e-9
LAST = 3
"""So many of the last steps are printed where there are more than the table has room for."""


@dataclass(frozen=True, slots=True)
class Step:
    """`begin` in seconds from the first one on; `waits` is how often it waited for an element; `came` has, for each
    queue, the first element and the one behind the last that came into it until the next step."""

    number: int
    begin: float
    length: float
    waits: int
    came: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Of one entry. `queues` from the source on."""

    entry: str
    queues: Sequence[str]
    steps: Sequence[Step]

    @property
    def warm_up(self) -> int:
        """How many steps there were until the last one that waited: all later ones found their elements there."""
        return max((each.number for each in self.steps if each.waits), default=0)

    @property
    def interval(self) -> float | None:
        """The median of the seconds from one step's begin to the next one's, behind the first; None of too few."""
        begins = [each.begin for each in self.steps[1:]][1:]
        gaps = [later - earlier for earlier, later in pairwise(begins)]
        return statistics.median(gaps) if gaps else None


def schedules_of(about: Mapping[str, object]) -> list[Schedule]:
    """From what a trace has of stages; ValueError or KeyError if that is malformed."""
    if "steps" not in about:  # of a former edition
        return []
    return [_schedule(mapping(each, "steps")) for each in items(about["steps"], "steps")]


def _schedule(data: Mapping[str, object]) -> Schedule:
    queues = [text(each, "queue") for each in items(data["queues"], "queues")]
    rows = [_numbers(each) for each in items(data["steps"], "steps")]
    last = _numbers(data["put"])
    if any(len(row) != 3 + len(queues) for row in rows) or len(last) != len(queues):
        raise ValueError("a step has a number for each queue")
    counts = [[0] * len(queues), *(row[3:] for row in rows), last]
    came = [list(zip(before, after, strict=True)) for before, after in pairwise(counts)]
    steps = [Step(0, 0.0, 0.0, 0, came[0])]
    for number, (begin, end, waits, *_) in enumerate(rows, 1):
        steps.append(Step(number, begin * _NANO, (end - begin) * _NANO, waits, came[number]))
    return Schedule(text(data["entry"], "entry"), queues, steps if rows else [])


def _numbers(data: object) -> list[int]:
    numbers: list[int] = []
    for each in items(data, "numbers"):
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise ValueError("steps are numbers")
        numbers.append(each)
    return numbers


# -------------------------------------------------------------------- text --


def as_lines(schedule: Schedule, top: int) -> list[str]:
    """The first steps and the last ones, and a sentence about the warm-up."""
    head = ["step", *schedule.queues, "waits", "takes"]
    shown = list(schedule.steps[: top + 1])
    rows = [_row(each) for each in shown]
    rest = schedule.steps[len(shown) :]
    if len(rest) > LAST:
        rows.append(["...", *([""] * (len(head) - 1))])
    rows += [_row(each) for each in rest[-LAST:]]
    title = f"steps of `{schedule.entry}`, and the elements that came into queues until the next one"
    return [title, *table(head, rows, right=head), "", warm_up_text(schedule)]


def _row(step: Step) -> list[str]:
    came = [_range(first, behind) for first, behind in step.came]
    return [str(step.number), *came, *((str(step.waits), seconds(step.length)) if step.number else ("", ""))]


def _range(first: int, behind: int) -> str:
    """Elements count from 0."""
    if behind <= first:
        return "-"
    return str(first) if behind == first + 1 else f"{first}..{behind - 1}"


def warm_up_text(schedule: Schedule) -> str:
    """One sentence: where the steps stop waiting, and how far apart they begin."""
    count = len(schedule.steps) - 1
    waiting = sum(1 for each in schedule.steps if each.waits)
    apart = "" if schedule.interval is None else f"; steps begin {seconds(schedule.interval)} apart (median)"
    if not waiting:
        return f"warm-up: no step of `{schedule.entry}` waited for an element{apart}"
    if schedule.warm_up == count:
        return (
            f"warm-up: never over, {waiting} of {count} steps of `{schedule.entry}` waited, the last among them{apart}"
        )
    return f"warm-up: {schedule.warm_up} of {count} steps of `{schedule.entry}`; none of the later ones waited{apart}"


def as_data(schedule: Schedule) -> dict[str, object]:
    """The same for `--json`, all steps; times in seconds, elements as the first one and the one behind the last."""
    return {
        "entry": schedule.entry,
        "queues": list(schedule.queues),
        "warm_up": schedule.warm_up,
        "interval": schedule.interval,
        "steps": [
            {
                "step": each.number,
                "begin": each.begin,
                "seconds": each.length,
                "waits": each.waits,
                "came": {name: list(pair) for name, pair in zip(schedule.queues, each.came, strict=True)},
            }
            for each in schedule.steps
        ],
    }
