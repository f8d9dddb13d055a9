"""How long the kernels of a program take: the answers to the ticks that a timed build asks for.

Assumes a build with ticks in pairs. Guarantees seconds without those that the ticks themselves take: a pair with
nothing between tells how many these are, and they are taken off.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field

from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import HostSite, Manifest

TICK = "tick"
"""The kind of these requests. Their attribute `what` says which."""
EMPTY, BEGIN, END = "empty", "begin", "end"
OPERATIONS, BYTES = "operations", "bytes"
"""Attributes of a tick that ends a launch: formulas of what it does and moves at least, as texts of their tokens."""
MOST_SAMPLES = 10_000
"""Launches of one kernel whose times are kept; later ones are only counted."""


def is_timed(manifest: Manifest) -> bool:
    """Whether a program was compiled with clocks around its kernels."""
    return any(site.kind == TICK for site in manifest.sites)


class Ticks(threading.local):
    """When the last tick of this thread was, and whether nothing was to be measured then."""

    begin = 0
    is_empty = False


Span = Callable[[HostSite, int, int], None]
"""Takes the place of a kernel and when it ran, in nanoseconds of the clock."""


def pairing(kernel: Span, empty: Span) -> Callable[[HostRequest], None]:
    """A handler for ticks that puts two together. Time spent here is not part of what is measured."""
    ticks, clock = Ticks(), time.perf_counter_ns

    def tick(request: HostRequest) -> None:
        now = clock()
        site = request.site
        what = site.attributes["what"]
        if what == END:
            (empty if ticks.is_empty else kernel)(site, ticks.begin, now)
        else:
            ticks.is_empty = what == EMPTY
            ticks.begin = clock()

    return tick


@dataclass(slots=True)
class Samples:
    """One kernel at one place: how often it was launched, and nanoseconds of the first launches."""

    site: HostSite
    taken: list[int] = field(default_factory=list[int])
    launches: int = 0


class Meter:
    """Collects samples; `tick` is the handler."""

    def __init__(self) -> None:
        self._kernels: dict[int, Samples] = {}
        self._empty: list[int] = []
        self.tick = pairing(self._kernel, lambda _, begin, end: self._empty.append(end - begin))

    def _kernel(self, site: HostSite, begin: int, end: int) -> None:
        samples = self._kernels.get(id(site))
        if samples is None:
            samples = self._kernels[id(site)] = Samples(site)
        samples.launches += 1
        if len(samples.taken) < MOST_SAMPLES:
            samples.taken.append(end - begin)

    def forget(self) -> None:
        """Leaves out what was measured so far: calls that warm up."""
        self._kernels.clear()

    @property
    def overhead(self) -> float:
        """Seconds that a pair of ticks takes."""
        return _median(self._empty) * 1e-9 if self._empty else 0.0

    def kernels(self) -> list[tuple[HostSite, float, int]]:
        """Each kernel with the median of its seconds, and how often it was launched."""
        overhead = self.overhead
        return [
            (each.site, max(_median(each.taken) * 1e-9 - overhead, 0.0), each.launches)
            for each in self._kernels.values()
        ]


def _median(values: Sequence[int]) -> float:
    from statistics import median  # with decimal fractions, which the many runs that measure nothing do without

    return median(values)
