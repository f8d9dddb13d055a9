"""What a process did when: calls, kernels, requests and waits, as a trace that Chrome and Perfetto show.

Assumes that a recorder is made before the program is loaded; without one nothing of this is called. Kernels are seen
only in bundles that were built with ticks. Guarantees at most `MOST_EVENTS` events: what comes later is counted, and
told in the file.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import HostSite
from dfc_runtime.observe.kernel_times import TICK, pairing

MOST_EVENTS = 1_000_000
COLUMNS = 4
"""Begin and end in nanoseconds, the number of the label, the number of the thread."""
CATEGORIES = {
    "send": "send",
    "send_rows": "send",
    "recv": "receive",
    "contribute": "contribution",
    "combined": "combination",
}
"""Categories by kind of request; others are `host`."""

LOAD = "load"
"""The category of the one event before all calls."""
_GENERATED = "<generated>"

Events = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Label:
    """What an event is: its category and name, and where in the source it comes from."""

    category: str
    name: str
    location: str = ""
    entry: str = ""


class Called(Protocol):
    """An entry of a module."""

    function: Callable[..., object]


class Stages(Protocol):
    """What is measured of runners and queues."""

    @property
    def changes(self) -> Sequence[tuple[int, str, int]]:
        """When a queue was seen with another depth than before, in nanoseconds of `time.perf_counter_ns`."""
        ...

    def recorded(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function of an entry, which notes its calls where runners feed it."""
        ...

    def stop(self) -> None:
        """Measures no more."""
        ...

    def report(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """The totals, as they are written."""
        ...


class Recorder:
    """The events of one process."""

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.dropped = 0
        self._numbers: dict[Label, int] = {}
        self._sites: dict[tuple[int, str], int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._threads: dict[int, int] = {}
        self._new = threading.Lock()
        self._begin = time.perf_counter_ns()

    def add(self, label: Label, begin: int, end: int) -> None:
        """An event, in nanoseconds of `time.perf_counter_ns`."""
        self._add(self._number(label), begin, end)

    def _add(self, number: int, begin: int, end: int) -> None:
        if len(self._rows) >= MOST_EVENTS:
            self.dropped += 1
            return
        thread = self._threads.get(threading.get_ident())
        if thread is None:
            with self._new:
                thread = self._threads.setdefault(threading.get_ident(), len(self._threads))
        self._rows.append((begin, end, number, thread))

    def _number(self, label: Label) -> int:
        number = self._numbers.get(label)
        if number is None:
            with self._new:
                number = self._numbers.setdefault(label, len(self.labels))
                if number == len(self.labels):
                    self.labels.append(label)
        return number

    def events(self) -> Events:
        """All events as rows."""
        return np.array(self._rows, np.int64).reshape(-1, COLUMNS)

    def handlers(self, handlers: Mapping[str, Handler]) -> Mapping[str, Handler]:
        """Handlers that record themselves; ticks record kernels."""
        recorded = {kind: self._recorded(kind, handler) for kind, handler in handlers.items()}
        recorded[TICK] = pairing(self._kernel, lambda _site, _begin, _end: None)
        return recorded

    def _kernel(self, site: HostSite, begin: int, end: int) -> None:
        self._add(self._site_number(site, "kernel"), begin, end)

    def _recorded(self, kind: str, handler: Handler) -> Handler:
        category, clock = CATEGORIES.get(kind, "host"), time.perf_counter_ns

        def recorded(request: HostRequest) -> None:
            begin = clock()
            try:
                handler(request)
            finally:
                self._add(self._site_number(request.site, category), begin, clock())

        return recorded

    def _site_number(self, site: HostSite, category: str) -> int:
        key = id(site), category
        number = self._sites.get(key)
        if number is None:
            name = ", ".join(site.names) or site.kind
            name = name if category == "kernel" else f"{site.kind} {name}"
            number = self._sites[key] = self._number(Label(category, name, _location(site), site.entry))
        return number

    def record_calls(
        self, entries: Mapping[str, Called], attributes: dict[str, object], stages: Stages | None = None
    ) -> None:
        """Calls of these entries are recorded from now on; those among the attributes of a module, too. What was before
        is the time to load."""
        self.add(Label(LOAD, "load"), self._begin, time.perf_counter_ns())
        for name, entry in entries.items():
            plain = entry.function
            entry.function = self._call(name, plain if stages is None else stages.recorded(name, plain))
            if attributes.get(name) is plain:  # and no attribute of the module's own
                attributes[name] = entry.function

    def _call(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        label, clock = Label("call", name, entry=name), time.perf_counter_ns

        @wraps(function)
        def recorded(*feeds: object, **named: object) -> object:
            begin = clock()
            try:
                return function(*feeds, **named)
            finally:
                self.add(label, begin, clock())

        return recorded

    def write(self, path: str | os.PathLike[str], program: str, stages: Stages | None = None) -> None:
        """The trace of a program on one rank."""
        if stages is not None:
            stages.stop()
        write(path, program, [Part(0, "rank 0", self.labels, self.events(), dropped=self.dropped, stages=stages)])


def _location(site: HostSite) -> str:
    """The line of the source; "" for what no line asks for."""
    return (
        f"{site.location.name}:{site.location.line}" if site.location.line and site.location.name != _GENERATED else ""
    )


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one rank. `offset` is what its clock is ahead of that of rank 0, in nanoseconds."""

    rank: int
    name: str
    labels: Sequence[Label]
    events: Events
    offset: int = 0
    error: int = 0
    dropped: int = 0
    stages: Stages | None = None


def write(path: str | os.PathLike[str], program: str, parts: Sequence[Part]) -> None:
    """The trace of all ranks, in one file: times are those of the clock of rank 0, from the first event on."""
    starts = [int(part.events[:, 0].min()) - part.offset for part in parts if len(part.events)]
    first = min(starts, default=0)
    ranks = [
        {"rank": p.rank, "name": p.name, "clock_offset_ns": p.offset, "clock_error_ns": p.error, "dropped": p.dropped}
        for p in parts
    ]
    lines = [json.dumps(each) for part in parts for each in _events(part, first)]
    about: dict[str, object] = {"program": program, "ranks": ranks}
    for part in parts:
        if part.stages is not None:
            about["stages"] = part.stages.report()
    head = json.dumps(about)
    text = f'{{"displayTimeUnit": "ms", "otherData": {head}, "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
    Path(path).write_text(text, encoding="utf-8")


def _events(part: Part, first: int) -> list[dict[str, object]]:
    events: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": part.rank, "tid": 0, "args": {"name": part.name}}
    ]
    for when, name, depth in part.stages.changes if part.stages is not None else ():
        where = {"name": f"queue {name}", "ph": "C", "pid": part.rank, "ts": (when - part.offset - first) / 1000}
        events.append({**where, "args": {"elements": depth}})
    rows = cast("list[list[int]]", part.events.tolist())
    for begin, end, number, thread in rows:
        label = part.labels[number]
        events.append(
            {
                "name": label.name,
                "cat": label.category,
                "ph": "X",
                "ts": (begin - part.offset - first) / 1000,
                "dur": (end - begin) / 1000,
                "pid": part.rank,
                "tid": thread,
                "args": {"place": label.location, "entry": label.entry},
            }
        )
    return events
