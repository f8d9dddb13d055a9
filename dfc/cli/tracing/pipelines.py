"""What a trace says of the stages of a pipeline: how each one worked and waited, how full its queues were, and which
one the others wait for.

A stage is a runner, or an entry that uses queues. It is held up while it waits for an element or for room; of the
copies of a runner, at most one at a time waits at a line, and those that wait for their turn meanwhile wait for it.
What is left of the time is the stage's own, and throughput is that of the stage that has the most of it.

Assumes the totals of `dfc_runtime.runners.stages`, and events of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dfc.cli.tables import seconds, table
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.formats.fields import items, mapping, text

_NANO = 1e-9
CLEAR = 0.5
"""The share of the time from which on a stage is called the bottleneck."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one entry: how many, the seconds inside of them, and from the first begin to the last end."""

    number: int
    inside: float
    window: float


@dataclass(frozen=True, slots=True)
class Wait:
    """At one line: seconds, and how many times."""

    stage: str
    queue: str
    to_put: bool
    line: str
    length: float
    times: int

    @property
    def what(self) -> str:
        return f"room in `{self.queue}`" if self.to_put else f"an element of `{self.queue}`"


@dataclass(frozen=True, slots=True)
class Stage:
    """All in seconds; `elapsed` is by the clock, `between` outside of the calls of an entry, `turns` what copies of a
    runner have waited for each other. `share` of the whole time the stage was not held up by others."""

    name: str
    is_runner: bool
    copies: int
    iterations: int
    elapsed: float
    work: float
    turns: float
    between: float
    for_elements: float
    for_room: float
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Depth:
    """Of a queue: how many elements went through, how many were inside on average and at most."""

    name: str
    put: int
    mean: float
    most: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    stages: Sequence[Stage]
    waits: Sequence[Wait]
    depths: Sequence[Depth]

    @property
    def bottleneck(self) -> Stage | None:
        """The stage that others wait for; None if none has most of the time to itself."""
        first = max(self.stages, key=lambda each: each.share, default=None)
        return first if first is not None and first.share >= CLEAR else None


def pipeline_of(about: Mapping[str, object], calls: Mapping[str, Calls]) -> Pipeline:
    """From what a trace has of stages; ValueError or KeyError if that is malformed."""
    waits = [_wait(each) for each in _rows(about, "waits")]
    stages = [_runner(each, waits) for each in _rows(about, "runners")]
    users = sorted({each.stage for each in waits} & calls.keys())
    stages += [_entry(name, calls[name], waits) for name in users]
    whole = max((each.elapsed for each in stages), default=0.0)
    depths = [
        Depth(text(each["name"], "name"), _count(each, "put"), _number(each, "mean"), _count(each, "most"))
        for each in _rows(about, "queues")
    ]
    return Pipeline([_shared(each, whole) for each in stages], waits, depths)


def _rows(data: Mapping[str, object], key: str) -> Iterable[Mapping[str, object]]:
    return (mapping(each, key) for each in items(data[key], key))


def _number(data: Mapping[str, object], key: str) -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{key} is a number")
    return float(value)


def _count(data: Mapping[str, object], key: str) -> int:
    return int(_number(data, key))


def _wait(data: Mapping[str, object]) -> Wait:
    names = [text(data[key], key) for key in ("entry", "queue", "place")]
    to_put = data["to_put"]
    if not isinstance(to_put, bool):
        raise ValueError("to_put is true or false")
    return Wait(names[0], names[1], to_put, names[2], _number(data, "ns") * _NANO, _count(data, "times"))


def _waited(waits: Iterable[Wait], stage: str, *, to_put: bool) -> float:
    return sum(each.length for each in waits if each.stage == stage and each.to_put == to_put)


def _runner(data: Mapping[str, object], waits: Sequence[Wait]) -> Stage:
    name, copies = text(data["name"], "name"), max(1, _count(data, "copies"))
    alive, turns = _number(data, "alive_ns") * _NANO, _number(data, "turn_ns") * _NANO
    taking, putting = (_waited(waits, name, to_put=to_put) for to_put in (False, True))
    work = max(0.0, alive - turns - taking - putting)
    return Stage(name, True, copies, _count(data, "iterations"), alive / copies, work, turns, 0.0, taking, putting)


def _entry(name: str, calls: Calls, waits: Sequence[Wait]) -> Stage:
    taking, putting = (_waited(waits, name, to_put=to_put) for to_put in (False, True))
    work = max(0.0, calls.inside - taking - putting)
    between = max(0.0, calls.window - calls.inside)
    return Stage(name, False, 1, calls.number, calls.window, work, 0.0, between, taking, putting)


def _shared(stage: Stage, whole: float) -> Stage:
    own = max(0.0, stage.elapsed - stage.for_elements - stage.for_room)
    return replace(stage, share=own / whole if whole else 0.0)


# -------------------------------------------------------------------- text --


def as_lines(pipeline: Pipeline, top: int) -> list[str]:
    """Stages, queues, the lines at which stages waited longest, and the bottleneck."""
    columns = ["copies", "times", "works", "for turns", "for elements", "for room", "between calls", "own time"]
    rows = [
        [
            each.name,
            str(each.copies),
            str(each.iterations),
            *map(seconds, (each.work, each.turns, each.for_elements, each.for_room, each.between)),
            f"{each.share:.0%}",
        ]
        for each in pipeline.stages
    ]
    lines = ["stages, and what they wait for", *table(["stage", *columns], rows, right=columns)]
    depths = [[each.name, str(each.put), f"{each.mean:.1f}", str(each.most)] for each in pipeline.depths]
    lines += ["", "elements in queues", *table(["queue", "put", "mean", "most"], depths, right=["put", "mean", "most"])]
    longest = sorted((each for each in pipeline.waits if each.times), key=lambda each: -each.length)[:top]
    if longest:
        waited = [[each.line, seconds(each.length), str(each.times), each.stage, each.what] for each in longest]
        head = ["line", "total", "times", "stage", "for"]
        lines += ["", "top waits by source line", *table(head, waited, right=["total", "times"])]
    return [*lines, "", bottleneck_text(pipeline)]


def bottleneck_text(pipeline: Pipeline) -> str:
    """One sentence."""
    first = pipeline.bottleneck
    if first is None:
        return "bottleneck: none; every stage waits for others for most of the time"
    if first.between > first.work:
        outside = first.between / first.elapsed
        return f"bottleneck: the caller of `{first.name}`; {outside:.0%} of the time is between calls"
    return f"bottleneck: `{first.name}`, which has {first.share:.0%} of the time to itself; the others wait for it"


def as_data(pipeline: Pipeline) -> dict[str, object]:
    """The same for `--json`; times in seconds."""
    first = pipeline.bottleneck
    return {
        "stages": [
            {
                "name": each.name,
                "runner": each.is_runner,
                "copies": each.copies,
                "times": each.iterations,
                "elapsed": each.elapsed,
                "work": each.work,
                "for_turns": each.turns,
                "for_elements": each.for_elements,
                "for_room": each.for_room,
                "between_calls": each.between,
                "share": each.share,
            }
            for each in pipeline.stages
        ],
        "queues": [
            {"name": each.name, "put": each.put, "mean": each.mean, "most": each.most} for each in pipeline.depths
        ],
        "waits": [
            {
                "line": each.line,
                "stage": each.stage,
                "queue": each.queue,
                "for": "room" if each.to_put else "element",
                "seconds": each.length,
                "times": each.times,
            }
            for each in pipeline.waits
        ],
        "bottleneck": first.name if first is not None else None,
    }
