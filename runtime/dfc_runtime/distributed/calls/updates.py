"""Steps that replicas take by themselves: each reads variables, computes, and sends what they are updated by.

    replica                                          owner
      wants variables                        --->      gives them as they are: version v
      computes a block, hands over            --->      updates, whole: version + 1; gives them as they are now
      ..                                     --->      ..

One call of an entry is a step for each of its blocks. The owner alone changes state, one update after the other, in
the order in which they arrive, or in one that it is told. Assumes the bundle's two halves of the entry. Guarantees that
an update is done once, whole, and that equal orders give equal bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.calls.part import Part
from dfc_runtime.distributed.calls.update_log import Updates
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import Pending, as_bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.distributed.transport.wire import CALL, Codec, Head, Member, Value, is_array
from dfc_runtime.errors import BundleError, RunError
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.module import Module

_NONE = -1
"""The block of a replica that has not computed one yet."""


class _Messages:
    """Messages of an entry between its replicas and its owner: numbers, values, and large arrays behind them."""

    def __init__(self, plan: EntryPlan, edges: Edges, waiting: Waiting) -> None:
        self._plan, self._edges, self._waiting = plan, edges, waiting
        self._key = plan.split.updates
        self._pending: list[Pending] = []

    def send(self, rank: int, codec: Codec, numbers: Sequence[int], values: Sequence[Value]) -> None:
        """Arrays have to be as they are until `finish`."""
        message, tag = Head(CALL, self._plan.number).packed(), self._edges.tag(self._key)
        behind = codec.pack(message, numbers, values)
        comm = self._waiting.comm
        self._waiting.post(wire.as_message(message), rank, tag)
        self._pending = [each for each in self._pending if not each.test()]
        self._pending += [comm.isend(as_bytes(array), rank, tag + 1) for array in behind]

    def receive(
        self, source: int | None, codec: Codec, awaited: Callable[[], Awaited]
    ) -> tuple[int, Sequence[int], list[object]]:
        """The rank that a message came from (any, for None), its numbers and values."""
        tag = self._edges.tag(self._key)
        arrival = self._waiting.message(source, tag, awaited)
        numbers, values, behind = codec.unpack(self._waiting.bytes_of(arrival, awaited))
        comm = self._waiting.comm
        for pending in [comm.irecv(as_bytes(array), arrival.source, tag + 1) for array in behind]:
            self._waiting.wait(pending.test, awaited)
        return arrival.source, numbers, values

    def finish(self) -> None:
        for pending in self._pending:
            self._waiting.wait(pending.test, lambda: Awaited("what was sent to be taken", -1))
        self._pending = []


class ReplicaPart(Part):
    """What a task does that computes steps."""

    def __init__(
        self, plan: EntryPlan, part: TaskPart, edges: Edges, waiting: Waiting, topology: Topology, inner: Module
    ) -> None:
        super().__init__(plan, part, edges)
        update = plan.split.update
        assert update is not None
        entry = inner.entries[plan.name]
        feeds, results = len(plan.entry.parameters), len(plan.entry.results)
        own = entry.signature
        names = [each.name for each in own.parameters[:feeds]]
        if names != [each.name for each in plan.entry.parameters] or len(own.parameters) != feeds + len(
            update.variables
        ):
            raise BundleError(f"a part of `{plan.name}` is not what the bundle says of it", code="E0906")
        (self._owner,) = topology.ranks_of(update.owner)
        self._function, self._dim_feeds, self._results = entry.function, own.dim_feeds, results
        self._unnamed = own.unnamed_result
        self._variables = Codec(1, [Member(each.dtype, len(each.shape)) for each in own.parameters[feeds:]])
        self._handed = Codec(2, [Member(each.dtype, len(each.shape)) for each in own.results[results:]])
        self._messages = _Messages(plan, edges, waiting)
        self._awaited = lambda: Awaited(f"variables of `{plan.name}`", self._owner)

    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Takes this task's steps, and stacks their results."""
        first, last = self.part.blocks
        named = self.plan.sizes_for(self.part, sizes, self._dim_feeds) if self._dim_feeds else {}
        rows: list[Sequence[object]] = []
        self._messages.send(self._owner, self._handed, (_NONE, 0), self._nothing())
        for number in range(last - first):
            _, (version,), variables = self._messages.receive(self._owner, self._variables, self._awaited)
            outputs = self._function(*self._block(feeds, number), *variables, **named)
            values = [outputs] if self._unnamed else list(cast("Sequence[object]", outputs))
            handed = self._handed.values_of(values[self._results :])
            self._messages.send(self._owner, self._handed, (first + number, version), handed)
            rows.append(values[: self._results])
        self._messages.finish()
        return [np.stack([np.asarray(value) for value in column]) for column in zip(*rows, strict=True)]

    def _block(self, feeds: Sequence[object], number: int) -> list[object]:
        """What one step is fed: its block of what is cut, and all of the rest."""
        splits = (self.plan.feed_splits[each].split_axis >= 0 for each in self.part.feeds)
        return [
            value[number] if is_split and is_array(value) else value
            for value, is_split in zip(feeds, splits, strict=True)
        ]

    def _nothing(self) -> list[Value]:
        """Values for a message that hands nothing over."""
        return [
            wire.slot_of(each.dtype, 0) if each.is_scalar else np.zeros((0,) * each.rank, wire.numpy_dtype(each.dtype))
            for each in self._handed.members
        ]


class OwnerPart(Part):
    """What the task does that has the state."""

    def __init__(
        self, plan: EntryPlan, part: TaskPart, edges: Edges, waiting: Waiting, topology: Topology, inner: Module
    ) -> None:
        super().__init__(plan, part, edges)
        update = plan.split.update
        assert update is not None
        own: Entry = inner.entries[update.entry].signature
        kinds = {each.name: Member(each.dtype, len(each.shape)) for each in inner.manifest.state}
        if any(name not in kinds for name in update.variables):
            raise BundleError(f"a part of `{plan.name}` is not what the bundle says of it", code="E0906")
        self._function, self._state, self._names = inner.entries[update.entry].function, inner.state, update.variables
        self._variables = Codec(1, [kinds[name] for name in update.variables])
        self._handed = Codec(2, [Member(each.dtype, len(each.shape)) for each in own.parameters])
        self._messages = _Messages(plan, edges, waiting)
        self._ranks = topology.ranks_of(plan.split.replicated_over)
        self._location = plan.entry.location
        self.updates = Updates()
        self.replayed: list[int] | None = None
        """The order that the next call is to have, by tasks."""

    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Updates state by all steps of the call."""
        left = {rank: self.plan.steps_of(rank) for rank in self._ranks}
        replayed, self.replayed = self._checked(left), None
        version, order = 0, list[int]()
        self.updates.order = order
        for number in range(sum(left.values()) + len(left)):
            source = None if replayed is None else self._ranks[replayed[number]]
            rank, (block, read), handed = self._messages.receive(
                source, self._handed, lambda left=left: self._missing(left)
            )
            order.append(self._ranks.index(rank))
            if block != _NONE:
                self._function(*handed)
                self.updates.staleness[version - read] += 1
                version += 1
                left[rank] -= 1
            if left[rank]:
                self._messages.send(rank, self._variables, (version,), self._current())
        self._messages.finish()
        return []

    def _checked(self, left: Mapping[int, int]) -> list[int] | None:
        """The order that was asked for, if it is one of this call."""
        asked = self.replayed
        if asked is None:
            return None
        events = {number: left[rank] + 1 for number, rank in enumerate(self._ranks)}
        if Counter(asked) != Counter(events):
            self.replayed = None
            text = f"the recorded order is not one of this call of `{self.plan.name}`"
            raise RunError(f"{text}: it has {sum(events.values())} events of {len(events)} tasks", code="E0901")
        return asked

    def _current(self) -> list[Value]:
        """Copies: the state changes while they are sent."""
        values = self._state.current(self._names)
        return [
            wire.slot_of(member.dtype, values[name]) if member.is_scalar else values[name].copy()
            for name, member in zip(self._names, self._variables.members, strict=True)
        ]

    def _missing(self, left: Mapping[int, int]) -> Awaited:
        rank = next((rank for rank, count in left.items() if count), -1)
        return Awaited(f"a step of `{self.plan.name}` ({self._location})", rank)
