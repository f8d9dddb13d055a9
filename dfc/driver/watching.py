"""Watching the stages: what `--print-after`, `--print-after-all` and `--time-passes` show, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions


@dataclass(frozen=True, slots=True)
class Event:
    """A stage that has just ended: its number among the passes (from 1; 0 for a stage that is none), what it has made,
    how that prints, and how long it took. `part` is the role or device of one of several parts of a program."""

    number: int
    name: str
    form: object
    seconds: float
    show: Callable[[], str]
    part: str = ""

    @property
    def graph(self) -> Graph:
        """What a pass has made."""
        assert isinstance(self.form, Graph), self.name
        return self.form

    @property
    def title(self) -> str:
        return f"{self.name} of {self.part}" if self.part else self.name


Watch = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For callers that want only the result."""
    del event


def watcher(options: CompileOptions, out: TextIO | None = None) -> Watch:
    """A watch that prints what the options ask for."""
    stream = out if out is not None else sys.stderr

    def watch(event: Event) -> None:
        if options.print_after_all or event.name in options.print_after:
            number = f" (pass {event.number})" if event.number else ""
            text = event.show()
            stream.write(f"# ---- after {event.title}{number} ----\n{text}{'' if text.endswith(chr(10)) else chr(10)}")
        if options.time_passes:
            stream.write(f"{event.seconds * 1000:10.2f} ms  {event.title}\n")

    return watch
