"""In which order calls begin that were started: behind those that they share something with, as they were started.

What a call shares is known by name: variables, streams, ends of queues, and its entry, unless that is concurrent.
Assumes that each call says when it has ended. Guarantees that a call waits for no later one, so that no ring of calls
waits; and that nothing is kept of calls that have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Generic, TypeVar

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import (
    MUTEX_KINDS,
    QUEUE,
    QUEUE_CLOSE,
    QUEUE_KINDS,
    QUEUE_PUT,
    QUEUE_SIZE,
    RESTORE,
    SAVE,
    Entry,
    Manifest,
)

T = TypeVar("T")


class Access(Enum):
    """How a call uses something. Readers may overlap, and so may concurrent calls; all others are in order."""

    READ = "read"
    CONCURRENT = "concurrent"
    ALONE = "alone"


Uses = Mapping[str, Access]
"""What a call of an entry uses, and how."""


def uses_of(manifest: Manifest, entry: Entry) -> Uses:
    """Concurrent entries have no order between them. A call that only puts into queues, or only takes from them, is
    behind others that do the same: it could not help them. One that does both, or that may wait for a mutex, could, so
    it waits for none of them."""
    queues = {each.name for each in manifest.state if each.kind == QUEUE}
    uses: dict[str, Access] = {}
    if not entry.readonly and not manifest.uses_queues_only(entry):
        uses[f"@entry {entry.name}"] = Access.CONCURRENT if entry.concurrent else Access.ALONE
    mode = Access.CONCURRENT if entry.concurrent else Access.ALONE
    uses |= {name: _read(manifest, entry, name) for name in entry.reads if name not in queues}
    uses |= {name: mode for name in entry.writes if name not in queues}
    if not manifest.kinds_in(entry.name).isdisjoint((SAVE, RESTORE)):
        uses |= {each.name: mode for each in manifest.state if each.kind != QUEUE}
    if not entry.concurrent:
        uses |= dict.fromkeys(_ends(manifest, entry), Access.ALONE)
    return uses


def _read(manifest: Manifest, entry: Entry, name: str) -> Access:
    """What some concurrent entry writes, others read as they do: in no order to it."""
    is_loose = entry.concurrent and any(each.concurrent and name in each.writes for each in manifest.entries)
    return Access.CONCURRENT if is_loose else Access.READ


def _ends(manifest: Manifest, entry: Entry) -> Iterable[str]:
    """The ends of queues that calls of an entry come to in their order."""
    sites = [site for site in manifest.sites if site.entry == entry.name and site.kind != QUEUE_SIZE]
    used = [(site.kind in (QUEUE_PUT, QUEUE_CLOSE), site) for site in sites if site.kind in QUEUE_KINDS]
    if any(site.kind in MUTEX_KINDS for site in sites) or len({puts for puts, _ in used}) != 1:
        return ()
    return (f"@{'put' if puts else 'take'} {site.attributes['resource']}" for puts, site in used)


@dataclass(slots=True)
class _Shared(Generic[T]):
    """Calls that use one thing and have not ended: the last ones, which may overlap, and those that they are behind."""

    access: Access = Access.READ
    last: set[T] = field(default_factory=set[T])
    before: set[T] = field(default_factory=set[T])


class Order(Generic[T]):
    """The calls of one program that have been started and have not ended."""

    def __init__(self) -> None:
        self._shared: dict[str, _Shared[T]] = {}
        self._behind: dict[T, list[T]] = {}
        self._missing: dict[T, int] = {}
        self._uses: dict[T, Uses] = {}

    def __iter__(self) -> Iterator[T]:
        return iter([*self._uses])

    def __contains__(self, call: T) -> bool:
        return call in self._uses

    def __len__(self) -> int:
        return len(self._uses)

    def add(self, call: T, uses: Uses) -> bool:
        """Whether a call can begin at once."""
        earlier: set[T] = set()
        for name, access in uses.items():
            shared = self._shared.setdefault(name, _Shared())
            if access is Access.ALONE or access is not shared.access:
                if shared.last:
                    shared.before, shared.last = shared.last, set()
                shared.access = access
            shared.last.add(call)
            earlier |= shared.before
        self._uses[call], self._missing[call] = uses, len(earlier)
        self._behind[call] = []
        for each in earlier:
            self._behind[each].append(call)
        return not earlier

    def remove(self, call: T) -> list[T]:
        """A call has ended: those that can begin because of it."""
        for name in self._uses.pop(call):
            shared = self._shared[name]
            shared.last.discard(call)
            shared.before.discard(call)
            if not shared.last and not shared.before:
                del self._shared[name]
        del self._missing[call]
        ready: list[T] = []
        for later in self._behind.pop(call):
            self._missing[later] -= 1
            if not self._missing[later]:
                ready.append(later)
        return ready
