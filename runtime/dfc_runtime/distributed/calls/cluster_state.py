"""The state of a program on many ranks, by full name: fetched from where it lies, put together where it is sharded.

Assumes the sites of the manifest. Guarantees copies, as for ordinary programs; writing checks type and shape, and goes
to every copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.follower import Follower
from dfc_runtime.distributed.calls.rank import Answer, Data, Rank
from dfc_runtime.distributed.shards import Division, part_of, put_part, with_room, without_room
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.formats.manifest import QUEUE, StateEntry
from dfc_runtime.names import did_you_mean
from dfc_runtime.state.former_names import present_name
from dfc_runtime.state.state import UnknownStateError, checked_value

GET, SET = "state.get", "state.set"


class ShardedState(Mapping[str, "Array | np.generic"]):
    """`state["w"]` is a copy, `state["w"] = array` writes; on ranks that do not serve, all ranks do so together."""

    def __init__(
        self,
        entries: Sequence[StateEntry],
        rank: Rank,
        end: Client | Follower,
        omitted: Set[str] = frozenset(),
    ) -> None:
        """`omitted` is state that only entries mention that were left out."""
        self.omitted = omitted
        self.entries = {entry.name: entry for entry in entries if entry.kind != QUEUE}
        self.queues = {entry.name: entry for entry in entries if entry.kind == QUEUE}
        self._rank = rank
        self._end = end
        self._placements = {each.name: each for each in rank.topology.cluster.state}
        rank.commands[GET] = self._give
        rank.commands[SET] = self._take

    def __getitem__(self, name: str) -> Array | np.generic:
        name = self._known(name)
        label = f"state[{name!r}]"
        if isinstance(self._end, Follower):
            array = self._end.together(label)[1][0]
        else:
            client, dtype = self._end, self.entries[name].dtype
            fetched = client.together(label, lambda: self.fetch(client, name), lambda reply: _answer(dtype, reply))
            array = fetched
        return array if array.ndim else array[()]

    def __setitem__(self, name: str, value: object) -> None:
        name = self._known(name)
        label = f"state[{name!r}] = ..."
        if isinstance(self._end, Follower):
            self._end.together(label)
            return
        client = self._end
        client.together(label, lambda: self.store(client, name, value), lambda _: ({}, []))

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        sites = {name: self._placements[name].site for name in self.entries}
        lines = [f"  {name}: {entry} on {sites[name]}" for name, entry in self.entries.items()]
        return "\n".join(["<state", *lines]) + ">"

    def owners(self, name: str) -> tuple[int, ...]:
        """The ranks that have it: all parts of it where it is sharded, else the first copy."""
        placement = self._placements[name]
        ranks = self._rank.topology.ranks_of(placement.site)
        return ranks if placement.rule else ranks[:1]

    def owned(self) -> list[str]:
        """What this rank is to save: what it has alone, its part of what is sharded, and first copies."""
        return [name for name in self.entries if self._rank.number in self.owners(name)]

    def sharding(self, name: str) -> tuple[str, int, tuple[int, ...]]:
        """The rule by which it is sharded ("" if it is not), the axis, and the ranks that own it."""
        placement = self._placements[name]
        return placement.rule, placement.axis, self.owners(name)

    def own(self, name: str) -> Array:
        """A copy of what this rank has of it."""
        assert self._rank.inner is not None
        placement, division = self._placements[name], self._division(name)
        memory = np.array(self._rank.inner.state[name])
        return (
            memory if division is None else without_room(memory, placement.axis, division.count(self._rank.task.number))
        )

    def set_own(self, name: str, value: Array) -> None:
        """Writes what this rank has of it."""
        assert self._rank.inner is not None
        division = self._division(name)
        if division is not None:
            value = with_room(value, self._placements[name].axis, division.most)
        self._rank.inner.state[name] = value if value.ndim else value[()]

    def _division(self, name: str) -> Division | None:
        """How its rows are divided, if they are."""
        placement = self._placements[name]
        if not placement.rule:
            return None
        rows = self.entries[name].shape[placement.axis]
        return Division(placement.rule, rows, len(self.owners(name)))

    def fetch(self, client: Client, name: str) -> Array:
        """The value, wherever it lies. Inside of something that is done together."""
        placement, entry, owners = self._placements[name], self.entries[name], self.owners(name)
        answers = client.command({"command": GET, "name": name}, (), owners)
        if not placement.rule:
            return answers[owners[0]][1][0]
        whole = np.empty(entry.shape, numpy_dtype(entry.dtype))
        for task, rank in enumerate(owners):
            put_part(whole, answers[rank][1][0], placement.rule, placement.axis, len(owners), task)
        return whole

    def store(self, client: Client, name: str, value: object) -> None:
        """Writes every copy, or every part. Inside of something that is done together."""
        placement, entry = self._placements[name], self.entries[name]
        array = checked_value(entry, value)
        ranks = self._rank.topology.ranks_of(placement.site)
        data: Data = {"command": SET, "name": name}
        if not placement.rule:
            client.command(data, [(entry.dtype, np.asarray(array, order="C"))], ranks)
            return
        for task, rank in enumerate(ranks):
            part = part_of(array, placement.rule, placement.axis, len(ranks), task)
            client.command(data, [(entry.dtype, part)], [rank])

    def _known(self, name: str) -> str:
        if name not in self.entries:
            present = present_name(str(name), self.entries)
            if present:
                return present
            raise UnknownStateError(f"there is no state `{name}`{did_you_mean(name, self.entries)}", code="E0901")
        return name

    def _give(self, data: Data, _: list[Array]) -> Answer:
        name = str(data["name"])
        return _answer(self.entries[name].dtype, self.own(name))

    def _take(self, data: Data, arrays: list[Array]) -> Answer:
        assert self._rank.inner is not None
        self.set_own(str(data["name"]), arrays[0])
        return {}, []


def _answer(dtype: str, array: Array) -> Answer:
    return {"arrays": [[dtype, *array.shape]]}, [array]
