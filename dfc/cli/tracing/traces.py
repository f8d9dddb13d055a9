"""What a trace says in a few lines: where each rank spent its time, and the lines of the source it stood still at.

Assumes a file that `--trace` wrote. Guarantees that waiting inside a receive is counted once, at the line of the value
that was awaited, and waiting inside other work for the host at the line of that work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from dfc.cli.tables import seconds, table
from dfc.cli.tracing import pipelines, schedules
from dfc.cli.tracing.pipelines import Calls, Pipeline, pipeline_of
from dfc.cli.tracing.schedules import Schedule, schedules_of
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.errors import FileError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import items, mapping, text
from dfc_runtime.formats.source import read_text
from dfc_runtime.observe.tracing import LOAD

_MICRO = 1e-6
STALLS = ("receive", "send", "combination")
NO_LINE = "(between calls)"


@dataclass(frozen=True, slots=True)
class Event:
    """`begin` and `length` in seconds from the start of the trace; `entry` is "" between calls."""

    category: str
    name: str
    location: str
    entry: str
    rank: int
    thread: int
    begin: float
    length: float


@dataclass(slots=True)
class Total:
    """Events of one kind at one line."""

    lengths: list[float] = field(default_factory=list[float])
    ranks: set[int] = field(default_factory=set[int])


@dataclass(frozen=True, slots=True)
class Trace:
    program: str
    ranks: Mapping[int, str]
    events: Sequence[Event]
    pipeline: Pipeline | None = None
    schedules: Sequence[Schedule] = ()


def read(path: Path) -> Trace:
    """The trace in a file; a `FileError` if it is none."""
    try:
        data = mapping(strict_json.parse(read_text(path)), "trace")
        about = mapping(data["otherData"], "otherData")
        ranks = {_rank(each): text(each["name"], "name") for each in map(_mapping, items(about["ranks"], "ranks"))}
        events = [_event(each) for each in map(_mapping, items(data["traceEvents"], "events")) if each["ph"] == "X"]
        name = text(about["program"], "program")
        if "stages" not in about:
            return Trace(name, ranks, events)
        stages = mapping(about["stages"], "stages")
        return Trace(name, ranks, events, pipeline_of(stages, _calls(events)), schedules_of(stages))
    except (ValueError, KeyError, OverflowError) as problem:
        reason = f"it has no {problem}" if isinstance(problem, KeyError) else problem
        raise FileError(f"{path} is no trace of dfc: {reason}", code="E0909") from None


def _mapping(value: object) -> dict[str, object]:
    return mapping(value, "event")


def _rank(data: Mapping[str, object], key: str = "rank") -> int:
    value = data[key]
    if not isinstance(value, int):
        raise ValueError(f"{key} is a number")
    return value


def _event(data: Mapping[str, object]) -> Event:
    arguments = mapping(data["args"], "args")
    return Event(
        text(data["cat"], "cat"),
        text(data["name"], "name"),
        text(arguments["place"], "place"),
        text(arguments["entry"], "entry"),
        _rank(data, "pid"),
        _rank(data, "tid"),
        _number(data["ts"]) * _MICRO,
        _number(data["dur"]) * _MICRO,
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("times are numbers")
    return float(value)


def _calls(events: Sequence[Event]) -> dict[str, Calls]:
    """The calls of each entry."""
    by_name: dict[str, list[Event]] = defaultdict(list)
    for each in events:
        if each.category == "call":
            by_name[each.name].append(each)
    return {
        name: Calls(
            len(calls),
            sum(each.length for each in calls),
            max(each.begin + each.length for each in calls) - min(each.begin for each in calls),
        )
        for name, calls in by_name.items()
    }


def stalls(trace: Trace) -> dict[tuple[str, str], Total]:
    """Time in which ranks stood still, by line and what was awaited."""
    return _totals(_standing(trace))


def kernels(trace: Trace) -> dict[tuple[str, str], Total]:
    """Time in kernels, by line and the names they compute."""
    return _totals(replace(each, name=_short(each.name)) for each in trace.events if each.category == "kernel")


def _totals(events: Iterator[Event]) -> dict[tuple[str, str], Total]:
    by_name: dict[tuple[str, str], Total] = defaultdict(Total)
    for each in events:
        total = by_name[each.location or (f"(in {each.entry})" if each.entry else NO_LINE), each.name]
        total.lengths.append(each.length)
        total.ranks.add(each.rank)
    return dict(sorted(by_name.items(), key=lambda item: -sum(item[1].lengths)))


def _standing(trace: Trace) -> Iterator[Event]:
    """Messages and waits, but for waits that are part of a message. A wait that no line asks for is the entry's."""
    ends: dict[tuple[int, int], float] = defaultdict(float)
    working: dict[tuple[int, int], Event] = {}
    calls: dict[tuple[int, int], Event] = {}
    for each in sorted(trace.events, key=lambda each: (each.begin, -each.length)):
        row = each.rank, each.thread
        if each.category in STALLS:
            ends[row] = max(ends[row], each.begin + each.length)
            yield each
        elif each.category == "wait" and each.begin >= ends[row]:
            around = _around(each, working.get(row)) or _around(each, calls.get(row)) or each
            yield replace(each, location=each.location or around.location, entry=each.entry or around.entry)
        elif each.category == "host":
            working[row] = each
        elif each.category == "call":
            calls[row] = each


def _around(event: Event, other: Event | None) -> Event | None:
    """The other event, if it is not over when this one begins."""
    return other if other is not None and event.begin < other.begin + other.length else None


def as_text(trace: Trace, top: int) -> str:
    """Ranks, then the lines that cost most."""
    length = max((each.begin + each.length for each in trace.events), default=0.0)
    count = len(trace.ranks)
    lines = [f"{trace.program}: {count} rank{'s' if count > 1 else ''}, {seconds(length)}, {len(trace.events)} events"]
    lines += _ranks(trace, length)
    if trace.pipeline is not None:
        lines += ["", *pipelines.as_lines(trace.pipeline, top)]
    for each in trace.schedules:
        if each.steps:
            lines += ["", *schedules.as_lines(each, top)]
    for title, totals in (("top stalls", stalls(trace)), ("top kernels", kernels(trace))):
        if totals:
            lines += ["", f"{title} by source line", *_table(list(totals.items())[:top])]
    return "\n".join(lines)


def as_data(trace: Trace) -> dict[str, object]:
    """The same for `--json`, all lines; times in seconds."""
    length = max((each.begin + each.length for each in trace.events), default=0.0)
    totals = {"stalls": stalls(trace), "kernels": kernels(trace)}
    return {
        "program": trace.program,
        "seconds": length,
        "ranks": [{"rank": rank, "name": name} for rank, name in trace.ranks.items()],
        **{
            key: [
                {"line": line, "what": name, "seconds": sum(total.lengths), "times": len(total.lengths)}
                for (line, name), total in lines.items()
            ]
            for key, lines in totals.items()
        },
        "pipeline": pipelines.as_data(trace.pipeline) if trace.pipeline is not None else None,
        "schedules": [schedules.as_data(each) for each in trace.schedules],
    }


def _ranks(trace: Trace, length: float) -> list[str]:
    """Where the time of each rank went; a row adds up to the length of the trace."""
    first = {rank: _first_work(trace, rank, length) for rank in trace.ranks}
    standing: dict[int, float] = defaultdict(float)
    computing: dict[int, float] = defaultdict(float)
    for each in _standing(trace):
        standing[each.rank] += max(0.0, each.begin + each.length - max(each.begin, first.get(each.rank, 0.0)))
    for each in trace.events:
        computing[each.rank] += each.length if each.category == "kernel" else 0.0
    columns = ["before the first step", "in kernels", "standing still", "other work"]
    rows: list[list[str]] = []
    for rank, name in trace.ranks.items():
        known = (first[rank], computing[rank], standing[rank])
        rows.append([name, *map(seconds, (*known, max(0.0, length - sum(known))))])
    return table(["rank", *columns], rows, right=columns)


def _first_work(trace: Trace, rank: int, length: float) -> float:
    """When a rank begins to do something for a call: before that it loads, and waits for the others."""
    works = (each.begin for each in trace.events if each.rank == rank and each.category not in (LOAD, "wait"))
    return min(works, default=length)


def _table(totals: Sequence[tuple[tuple[str, str], Total]]) -> list[str]:
    rows = [
        [
            location,
            seconds(sum(total.lengths)),
            str(len(total.lengths)),
            seconds(max(total.lengths)),
            ",".join(map(str, sorted(total.ranks))),
            name,
        ]
        for (location, name), total in totals
    ]
    return table(["line", "total", "times", "longest", "ranks", "what"], rows, right=["total", "times", "longest"])


def _short(names: str) -> str:
    """The last name, which is what the kernel is for, and how many there are besides."""
    *others, last = names.split(", ")
    return f"{last} and {len(others)} more" if others else last
