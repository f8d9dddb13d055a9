"""A rank as another thread of it sees it: whether it computes for longer than others would wait, and which kernel.

Native code answers nobody, so a rank that computes without end is found out from beside it. Assumes one thread that
calls the program. Guarantees that a rank which waits, or lies idle between calls, is never found guilty: only one that
computes for longer than the deadline without a look at what others say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.distributed.transport.waiting import Waiting
from dfc_runtime.formats.manifest import HostSite
from dfc_runtime.observe.kernel_times import BEGIN, TICK

LOOK_EVERY = 0.25


class Watchdog:
    """Looks at a rank as long as the block runs; if it is overdue, `end` is called with what is to be told, once."""

    def __init__(self, waiting: Waiting, end: Callable[[str], None]) -> None:
        self._waiting = waiting
        self._end = end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="dfc-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            text = self._waiting.overdue()
            if text:
                self._end(text)
                return


def noting_kernels(handlers: Mapping[str, Handler], waiting: Waiting) -> Mapping[str, Handler]:
    """The handlers, of which that for ticks notes which kernel begins: only programs that were built with ticks ask."""
    names: dict[int, str] = {}
    tick = handlers.get(TICK)

    def noting(request: HostRequest) -> None:
        site = request.site
        if site.attributes["what"] == BEGIN:
            name = names.get(id(site))
            waiting.kernel = name if name is not None else names.setdefault(id(site), _described(site))
        if tick is not None:
            tick(request)

    return {**handlers, TICK: noting}


def _described(site: HostSite) -> str:
    name = site.names[0] if site.names else site.kind
    is_written = site.location.line and not site.location.name.startswith("<")
    return f"`{name}` ({site.location.name}:{site.location.line})" if is_written else f"`{name}`"
