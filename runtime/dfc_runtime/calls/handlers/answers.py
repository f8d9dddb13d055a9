"""The handlers that dfc has itself: summaries, lines for debugging, the clock, checkpoints, records."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dfc_runtime.calls.gate import Serving
from dfc_runtime.calls.hosts import Handler, HostRequest, Hosts
from dfc_runtime.checkpoints.requests import checkpoint_handlers
from dfc_runtime.checkpoints.saving import Saver
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import RECORD_NEXT, Manifest
from dfc_runtime.observe.destinations import Destination, opened
from dfc_runtime.observe.kernel_times import TICK
from dfc_runtime.observe.printing import formatted, print_line
from dfc_runtime.observe.summaries import Sink, Summary, Value, histogram
from dfc_runtime.observe.tracing import Recorder
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.readers import Readers


@dataclass(frozen=True, slots=True)
class Answers:
    """How the requests of a program are answered: handlers of the user by kind, where summaries go, what file names in
    the program are relative to, and the files of some readers instead of those that it names."""

    handlers: Mapping[str, Handler]
    summaries: Destination | None = None
    recorder: Recorder | None = None
    folder: str = ""
    data: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict[str, "str | os.PathLike[str]"])

    def readers(self, manifest: Manifest) -> Readers | None:
        """What reads the records that a program asks for, if it does."""
        if not self.data and not any(site.kind == RECORD_NEXT for site in manifest.sites):
            return None
        from dfc_runtime.calls.handlers.readers import Readers  # most programs read no records

        return Readers(manifest, self.folder, self.data)

    def hosts(
        self, manifest: Manifest, state: State, saver: Saver, serving: Serving, readers: Readers | None = None
    ) -> Hosts:
        """The requests of a program that is being loaded; opens the files for its summaries."""
        sink = opened(self.summaries)
        own = {**own_handlers(sink), **checkpoint_handlers(state, saver), **(readers.handlers if readers else {})}
        answering = {**own, **self.handlers}
        handlers = answering if self.recorder is None else self.recorder.handlers(answering)
        return Hosts(manifest, handlers, sink, serving)


def own_handlers(sink: Sink) -> Mapping[str, Handler]:
    """Handlers by kind; summaries go to the sink."""

    def record(request: HostRequest, value: Value) -> None:
        step = int(request.inputs[1].item()) if len(request.inputs) > 1 else request.call.number
        sink(Summary(step, str(request.site.attributes["tag"]), value))

    def scalar(request: HostRequest) -> None:
        value = request.inputs[0].item()
        record(request, value if isinstance(value, bool | int | float) else float(value))

    return {
        "summary_scalar": scalar,
        "summary_histogram": lambda request: record(request, histogram(request.inputs[0])),
        "debug_print": _print,
        "clock": _clock,
        TICK: _ignore,
    }


def _print(request: HostRequest) -> None:
    print_line(formatted(str(request.site.attributes["format"]), request.inputs))


def _ignore(_: HostRequest) -> None:
    """Ticks of a timed build, where nobody measures."""


def _clock(request: HostRequest) -> None:
    request.outputs[0][...] = time.monotonic_ns()
