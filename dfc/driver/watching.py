"""Watching the phases: what `--print-after`, `--print-after-all` and `--time-passes` show, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.ops.spelling import show


@dataclass(frozen=True, slots=True)
class Event:
    """A phase that has just ended: its number (from 1; 0 behind the passes), the graph after it, how long it took."""

    number: int
    name: str
    graph: Graph
    seconds: float


Watch = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For callers that want only the result."""
    del event


def watcher(options: CompileOptions, out: TextIO | None = None) -> Watch:
    """A watch that prints what the options ask for."""
    stream = out if out is not None else sys.stderr

    def watch(event: Event) -> None:
        if event.number and (options.print_after_all or event.name in options.print_after):
            stream.write(f"# ---- after {event.name} (pass {event.number}) ----\n{show(event.graph)}\n")
        if options.time_passes:
            stream.write(f"{event.seconds * 1000:10.2f} ms  {event.name}\n")

    return watch
