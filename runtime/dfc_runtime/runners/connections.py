"""Who fills which queue, and who empties it: read from the requests of a program.

Assumes a manifest that was checked. Guarantees that runners count as connected with an entry if elements can come from
one to the other through any number of queues, in either direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import (
    MUTEX_KINDS,
    QUEUE,
    QUEUE_CLOSE,
    QUEUE_KINDS,
    QUEUE_PUT,
    QUEUE_TAKE,
    QUEUE_TAKE_UP_TO,
    Entry,
    HostSite,
    Manifest,
)

TAKES = (QUEUE_TAKE, QUEUE_TAKE_UP_TO)
TURNS = "turns"
"""The attribute of sites that take turns: at how many things the copies of the runner do."""


@dataclass(frozen=True, slots=True)
class Uses:
    """What an entry or a runner does with queues, by their names."""

    puts: frozenset[str]
    takes: frozenset[str]
    all: frozenset[str]
    may_wait: bool
    """Whether it may have to wait for a queue or a mutex."""

    @staticmethod
    def of(sites: Iterable[HostSite]) -> Uses:
        """Of the sites of one entry."""
        own = list(sites)
        named = [(each.kind, str(each.attributes["resource"])) for each in own if each.kind in QUEUE_KINDS]
        puts = frozenset(name for kind, name in named if kind == QUEUE_PUT)
        takes = frozenset(name for kind, name in named if kind in TAKES)
        used = frozenset(name for kind, name in named if kind != QUEUE_CLOSE)
        return Uses(puts, takes, used, may_wait=bool(puts or takes) or any(each.kind in MUTEX_KINDS for each in own))


class Connections:
    """The queues of a program, and what its entries do with them."""

    def __init__(self, manifest: Manifest) -> None:
        self.entries: Mapping[str, Entry] = {each.name: each for each in manifest.entries}
        self.numbers: Mapping[str, int] = {each.name: number for number, each in enumerate(manifest.entries)}
        self._sites = {name: [site for site in manifest.sites if site.entry == name] for name in self.entries}
        self.uses: Mapping[str, Uses] = {name: Uses.of(sites) for name, sites in self._sites.items()}
        self.mutexes = {str(site.attributes["resource"]) for site in manifest.sites if site.kind in MUTEX_KINDS}
        self.queues = [each.name for each in manifest.state if each.kind == QUEUE]
        self.runners = [each.name for each in manifest.entries if each.is_runner]
        self.layouts = {each.name: each.queue for each in manifest.state if each.queue is not None}

    def turns(self, name: str) -> int:
        """At how many things the copies of a runner take turns."""
        counts = [site.attributes.get(TURNS, 0) for site in self._sites[name]]
        return max((count for count in counts if isinstance(count, int)), default=0)

    def connected(self, uses: Uses) -> frozenset[str]:
        """The runners that a queue connects with an entry of these uses, perhaps through others."""
        connected: set[str] = set()
        queues = set(uses.all)
        while True:
            others = (name for name in self.runners if name not in connected)
            more = {name for name in others if not self.uses[name].all.isdisjoint(queues)}
            if not more:
                return frozenset(connected)
            connected |= more
            queues = queues.union(*(self.uses[name].all for name in more))

    def downstream_first(self) -> list[str]:
        """The runners, each behind those that take what it puts in. Of runners in a ring there is no such order, and
        they are missing."""
        order: list[str] = []
        while True:
            waiting = [name for name in self.runners if name not in order]
            taken = {queue: [name for name in waiting if queue in self.uses[name].takes] for queue in self.queues}
            free = [name for name in waiting if not any(taken[queue] for queue in self.uses[name].puts)]
            if not free:
                return order
            order += free

    def fillers(self, queue: str) -> list[str]:
        """The runners that put into a queue."""
        return [name for name in self.runners if queue in self.uses[name].puts]

    def feeding(self, entry: str) -> tuple[str, ...]:
        """The queues that feed an entry through runners, those nearer to the source first; none if no runner does. A
        queue in a circle comes where it is reached first, from the entry back."""
        uses = self.uses[entry]
        if self.entries[entry].is_runner or not any(self.fillers(queue) for queue in uses.takes):
            return ()
        backwards, fed = sorted(uses.takes), 0
        while fed < len(backwards):
            takes = set[str]().union(*(self.uses[runner].takes for runner in self.fillers(backwards[fed])))
            backwards += sorted(takes.difference(backwards))
            fed += 1
        return tuple(reversed(backwards))

    def is_filled_by_calls(self, queue: str) -> bool:
        """Whether an entry that is called puts into it, tests included."""
        return any(queue in uses.puts for name, uses in self.uses.items() if not self.entries[name].is_runner)

    def helps(self, entry: str, queue: str, *, to_put: bool) -> bool:
        """Whether a call of an entry could end the wait of somebody at a queue."""
        uses = self.uses[entry]
        return queue in (uses.takes if to_put else uses.puts)
