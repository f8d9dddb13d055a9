"""Which calls of a program exclude each other: those that share state which one of them writes.

    entry a writes v, reads s        a excludes c (s) and init (v, s)        {a, c, init}
    entry b writes w                 b excludes init (w)               ->    {b, init}
    entry c writes s

Each of the groups on the right becomes one lock, which all calls of its entries take: as few as greedy search finds,
most often one. Readonly entries exclude no call, native code has locks for what they read; concurrent ones do not
exclude each other. Queues and mutexes keep nobody apart, they have locks of their own. Assumes the state that a
manifest lists for each entry, random streams and positions of readers included. Guarantees that two calls which meet in
no group may run at the same time and leave, but for queues, what they would leave one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.manifest import QUEUE, RESTORE, SAVE, Entry, Manifest


@dataclass(frozen=True, slots=True)
class Group:
    """Entries by number: each of the exclusive ones excludes itself and all others, concurrent ones only these."""

    exclusive: frozenset[int]
    concurrent: frozenset[int] = frozenset()


class Conflicts:
    """Those between the entries of one program."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        names = [each.name for each in manifest.state if each.kind != QUEUE]
        self._bits = {name: 1 << number for number, name in enumerate(names)}
        self._used = [self._masks(entry) for entry in manifest.entries]
        self._numbers = {entry.name: number for number, entry in enumerate(manifest.entries)}

    def _masks(self, entry: Entry) -> tuple[int, int]:
        """What an entry reads or writes, and what it writes: a bit for each piece of state."""
        written = sum(self._bits.get(name, 0) for name in entry.writes)
        return written | sum(self._bits.get(name, 0) for name in set(entry.reads)), written

    def excludes(self, one: Entry, other: Entry) -> bool:
        """Whether calls of two entries, or two calls of one, never run at the same time."""
        if self._manifest.uses_queues_only(one) or self._manifest.uses_queues_only(other):
            return False
        if self._runs_alone(one) or self._runs_alone(other):
            return True
        if one.readonly or other.readonly:
            return False
        return self._in_turn(self._numbers[one.name], self._numbers[other.name])

    def shared(self, one: Entry, other: Entry) -> list[str]:
        """The state that both use and one of them writes; nothing where they exclude each other for other reasons."""
        (used, written), (used_too, written_too) = (self._used[self._numbers[each.name]] for each in (one, other))
        common = written & used_too | written_too & used
        return [name for name, bit in self._bits.items() if bit & common]

    def groups(self) -> list[Group]:
        """Groups in which every two entries that exclude each other meet."""
        manifest = self._manifest
        members = [
            number
            for number, entry in enumerate(manifest.entries)
            if not (entry.readonly or entry.is_runner or manifest.uses_queues_only(entry) or self._runs_alone(entry))
        ]
        partners = {one: {other for other in members if self._in_turn(one, other)} for one in members}
        pairs = [(one, other) for one in members for other in members if one < other and other in partners[one]]
        pairs += [(one, one) for one in members if one in partners[one]]
        missing = dict.fromkeys(pairs)
        groups: list[Group] = []
        for pair in pairs:
            if pair in missing:
                group = self._grown(pair, members, partners)
                for one in group:
                    for other in group:
                        missing.pop((one, other), None)
                concurrent = frozenset(each for each in group if manifest.entries[each].concurrent)
                groups.append(Group(frozenset(group) - concurrent, concurrent))
        return groups

    def _grown(self, pair: Iterable[int], members: Iterable[int], partners: dict[int, set[int]]) -> list[int]:
        """The pair, and whoever may share its lock: excludes all in it, or is concurrent like those it does not."""
        entries, group = self._manifest.entries, [*dict.fromkeys(pair)]
        for new in members:
            if new not in group and all(
                each in partners[new] or (entries[each].concurrent and entries[new].concurrent) for each in group
            ):
                group.append(new)
        return group

    def _in_turn(self, one: int, other: int) -> bool:
        """Of entries that are neither readonly nor run alone."""
        if self._manifest.entries[one].concurrent and self._manifest.entries[other].concurrent:
            return False
        (used, written), (used_too, written_too) = self._used[one], self._used[other]
        return one == other or bool(written & used_too or written_too & used)

    def _runs_alone(self, entry: Entry) -> bool:
        """Saving and restoring work on the state in Python."""
        return not self._manifest.kinds_in(entry.name).isdisjoint((SAVE, RESTORE))
