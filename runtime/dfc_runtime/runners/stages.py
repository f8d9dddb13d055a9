"""How long each stage of a pipeline works and waits, and how full its queues are, while a program is traced.

Assumes native queues that count waits at their fault sites. Guarantees that nothing is measured where no meter is made;
depths are looked at `PERIOD` apart, from a thread of its own that ends with `stop`; and the steps of entries that take
are noted as they come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import MUTEX_ACQUIRE, QUEUE_PUT, HostSite, Manifest
from dfc_runtime.runners.connections import TAKES
from dfc_runtime.runners.crew import Crew
from dfc_runtime.runners.steps import StepLog

PERIOD = 0.005
"""Seconds between two looks at the queues."""
MOST_DEPTHS = 100_000
"""So many changes of depths are kept, for the picture of the trace; means are of all."""


@dataclass(slots=True)
class Depth:
    """What was seen of a queue: the sum and the most of the depths at so many times."""

    total: int = 0
    most: int = 0
    looks: int = 0
    last: int = -1


class StageMeter:
    """The measures of one program from its load on."""

    def __init__(self, manifest: Manifest, crew: Crew) -> None:
        self._crew = crew
        self._sites = [each for each in manifest.sites if each.kind in (QUEUE_PUT, *TAKES, MUTEX_ACQUIRE)]
        self._locations = {each.name: each.location for each in manifest.entries}
        self._waits = crew.queues.measure_waits(len(manifest.faults))
        self._queues = {name: crew.queues.queue(name) for name in crew.connections.queues}
        self._depths = {name: Depth() for name in self._queues if name not in crew.connections.mutexes}
        self._steps: dict[str, StepLog] = {}
        self.changes: list[tuple[int, str, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="dfc-depths", daemon=True)
        self._thread.start()

    def recorded(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function of an entry; one that takes what runners make notes its steps."""
        feeding = self._crew.connections.feeding(name)
        if not feeding:
            return function
        waits = [fault for site, fault in self._fault_sites() if site.entry == name and site.kind in TAKES]
        log = self._steps[name] = StepLog(feeding, lambda: self._put(feeding), lambda: self._times_waited(waits))
        return log.recorded(function)

    def _put(self, queues: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._queues[name].numbers[0] for name in queues)

    def _times_waited(self, faults: Sequence[int]) -> int:
        return sum(int(self._waits[fault, 1]) for fault in faults)

    def _fault_sites(self) -> Iterator[tuple[HostSite, int]]:
        """Where somebody may wait, and the fault that counts it."""
        for site in self._sites:
            fault = site.attributes.get("fault")
            if isinstance(fault, int):
                yield site, fault

    def stop(self) -> None:
        """Looks at no queue any more: their memory may go."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _look_on(self) -> None:
        while not self._ended.wait(PERIOD):
            self.look()

    def look(self) -> None:
        """Notes how full the queues are now, but while nothing has been put into any."""
        now = time.perf_counter_ns()
        numbers = {name: self._queues[name].numbers for name in self._depths}
        if not any(put for put, _, _ in numbers.values()):
            return
        for name, (put, taken, _) in numbers.items():
            depth, now_inside = self._depths[name], max(0, put - taken)
            depth.total, depth.looks = depth.total + now_inside, depth.looks + 1
            depth.most = max(depth.most, now_inside)
            if now_inside != depth.last and len(self.changes) < MOST_DEPTHS:
                self.changes.append((now, name, now_inside))
            depth.last = now_inside

    def report(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """What a trace says of stages: numbers and names only."""
        return {
            "runners": [
                {
                    "name": name,
                    "place": str(self._locations[name]),
                    "copies": total.copies,
                    "iterations": total.iterations,
                    "alive_ns": total.alive,
                    "turn_ns": total.turn_wait,
                }
                for name, total in self._crew.totals.items()
            ],
            "waits": [self._wait(site, fault) for site, fault in self._fault_sites()],
            "queues": [
                {
                    "name": name,
                    "put": self._queues[name].numbers[0],
                    "mean": depth.total / max(depth.looks, 1),
                    "most": depth.most,
                }
                for name, depth in self._depths.items()
            ],
            "steps": [log.report(name) for name, log in self._steps.items()],
        }

    def _wait(self, site: HostSite, fault: int) -> Mapping[str, object]:
        return {
            "entry": site.entry,
            "queue": str(site.attributes["resource"]),
            "to_put": site.kind not in TAKES,
            "place": f"{site.location.name}:{site.location.line}",
            "ns": int(self._waits[fault, 0]),
            "times": int(self._waits[fault, 1]),
        }
