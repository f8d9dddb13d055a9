"""Steps that replicas take by themselves: each reads variables, computes, and sends what they are updated by.

    replica                                          owner
      wants variables                        --->      gives them as they are, and the number of a step
      computes that step, hands over         --->      updates; gives them as they are now, or says that all is done
      ..                                     --->      ..

One call of an entry is a step for each of its blocks. The owner alone changes state, one update after the other;
`turns` says which updates an arrival brings, in the order in which they come, or in one that it is told. Assumes the
bundle's two halves of the entry. Guarantees that an update is done once, whole, and that equal orders give equal bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from dfc_runtime.distributed.calls.asynchronous.turns import FirstFew, OwnPace, Turns, is_possible
from dfc_runtime.distributed.calls.asynchronous.update_log import Updates
from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.calls.part import Part
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import Bytes, Pending, as_bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.distributed.transport.wire import CALL, DONE, Codec, Head, Member, Value, is_array
from dfc_runtime.errors import BundleError, RunError, counted
from dfc_runtime.formats.cluster import FIRST, MEAN, ClusterUpdate
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.module import Module


class _Messages:
    """Messages of an entry between its replicas and its owner: numbers, values, and large arrays behind them."""

    def __init__(self, plan: EntryPlan, edges: Edges, waiting: Waiting) -> None:
        self._plan, self._edges, self._waiting = plan, edges, waiting
        self._key = plan.split.updates
        self._pending: list[Pending] = []
        self._abandoned: list[Pending] = []

    def send(
        self, rank: int, codec: Codec, numbers: Sequence[int], values: Sequence[Value], *, is_last: bool = False
    ) -> None:
        """Arrays have to be as they are until `finish`."""
        begin = self.begin()
        message = Head(DONE if is_last else CALL, self._plan.number).packed()
        tag, comm = self._edges.tag(self._key), self._waiting.comm
        behind = codec.pack(message, numbers, values)
        self._waiting.post(wire.as_message(message), rank, tag)
        self._pending = [each for each in self._pending if not each.test()]
        self._pending += [comm.isend(as_bytes(array), rank, tag + 1) for array in behind]
        self.note("send", begin, rank)

    def begin(self) -> int:
        """When a message begins to come or to go, for `note`; 0 where nothing is recorded."""
        return time.perf_counter_ns() if self._waiting.on_message is not None else 0

    def note(self, category: str, begin: int, rank: int) -> None:
        """Records a message that has come from a rank, or is on its way to it."""
        if begin and self._waiting.on_message is not None:
            what = f"{'to' if category == 'send' else 'from'} {self._waiting.name(rank)}"
            location = self._plan.entry.location
            self._waiting.on_message(category, begin, what, self._plan.name, f"{location.name}:{location.line}")

    def arrival(self, source: int | None, awaited: Callable[[], Awaited]) -> tuple[int, Bytes]:
        """The rank that a message came from (any, for None), and the message."""
        arrival = self._waiting.message(source, self._edges.tag(self._key), awaited)
        return arrival.source, self._waiting.bytes_of(arrival, awaited)

    def values(
        self, message: Bytes, source: int, codec: Codec, awaited: Callable[[], Awaited]
    ) -> tuple[Sequence[int], list[object]]:
        """The numbers and values of a message; what comes behind it has been received then."""
        numbers, values, behind = codec.unpack(message)
        tag, comm = self._edges.tag(self._key) + 1, self._waiting.comm
        for pending in [comm.irecv(as_bytes(array), source, tag) for array in behind]:
            self._waiting.wait(pending.test, awaited)
        return numbers, values

    def finish(self) -> None:
        for pending in self._pending:
            self._waiting.wait(pending.test, lambda: Awaited("what was sent to be taken", -1))
        self._pending = []

    def cancel(self) -> None:
        """Gives up; messages may still read their memory, so it is kept."""
        self._abandoned += self._pending
        self._pending = []


_LAST = Codec(2, [])


class ReplicaPart(Part):
    """What a task does that computes steps."""

    def __init__(
        self, plan: EntryPlan, part: TaskPart, edges: Edges, waiting: Waiting, topology: Topology, inner: Module
    ) -> None:
        super().__init__(plan, part, edges)
        update = plan.split.update
        assert update is not None
        entry = inner.entries[plan.name]
        feeds, results = len(part.feeds), len(plan.entry.results)
        own = entry.signature
        names = [each.name for each in own.parameters[:feeds]]
        if names != [plan.entry.parameters[number].name for number in part.feeds] or len(own.parameters) != feeds + len(
            (*update.taken, *update.variables)
        ):
            raise BundleError(f"a part of `{plan.name}` is not what the bundle says of it", code="E0906")
        (self._owner,) = topology.ranks_of(update.owner)
        self._function, self._dim_feeds, self._results = entry.function, own.dim_feeds, results
        self._unnamed = own.unnamed_result
        self._variables = Codec(2, [Member(each.dtype, len(each.shape)) for each in own.parameters[feeds:]])
        self._handed = Codec(0, [Member(each.dtype, len(each.shape)) for each in own.results[results:]])
        self._no_steps = [
            np.zeros((0,) * (len(each.shape) + 1), wire.numpy_dtype(each.dtype)) for each in own.results[:results]
        ]
        self._messages = _Messages(plan, edges, waiting)
        self._awaited = lambda: Awaited(f"variables of `{plan.name}`", self._owner)

    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Takes steps of this task until there are no more, and stacks the results of those that were used."""
        named = self.plan.sizes_for(self.part, sizes, self._dim_feeds) if self._dim_feeds else {}
        rows: list[Sequence[object]] = []
        used: list[bool] = []
        self._messages.send(self._owner, self._handed, (), self._nothing())
        while True:
            begin = self._messages.begin()
            source, message = self._messages.arrival(self._owner, self._awaited)
            is_last = wire.head_of(message).kind == DONE
            codec = _LAST if is_last else self._variables
            (step, was_used), variables = self._messages.values(message, source, codec, self._awaited)
            self._messages.note("receive", begin, source)
            if rows:
                used.append(bool(was_used))
            if is_last:
                break
            outputs = self._function(*self._block(feeds, step), *variables, **named)
            values = [outputs] if self._unnamed else list(cast("Sequence[object]", outputs))
            self._messages.send(self._owner, self._handed, (), self._handed.values_of(values[self._results :]))
            rows.append(values[: self._results])
        self._messages.finish()
        if not rows:  # all steps were over when this task came
            return [*self._no_steps]
        return [np.stack([np.asarray(value) for value in column])[used] for column in zip(*rows, strict=True)]

    def cancel(self) -> None:
        self._messages.cancel()

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
        self._update = update
        self._function, self._state, self._names = inner.entries[update.entry].function, inner.state, update.variables
        taken, self._take, self._picks = self._taking(update, inner)
        self._variables = Codec(2, [*taken, *(kinds[name] for name in update.variables)])
        self._handed = Codec(0, [Member(each.dtype, len(each.shape)) for each in own.parameters])
        self._messages = _Messages(plan, edges, waiting)
        self._ranks = topology.ranks_of(plan.split.replicated_over)
        self._location = plan.entry.location
        self.updates = Updates()
        self._order: list[int] | None = None
        """What the next call is to have, by tasks."""

    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Updates state by the steps of the call."""
        turns, order, log = self._turns(), self._order, self.updates
        elements = self._elements()  # before anything changes: there may be too few
        log.order = []
        self._order = None
        in_time: dict[int, list[object]] = {}
        while not turns.is_over:
            source = None if order is None else self._ranks[order[len(log.order)]]

            def awaited() -> Awaited:
                return Awaited(f"a step of `{self.plan.name}` ({self._location})", self._ranks[min(turns.busy)])

            begin = self._messages.begin()
            rank, message = self._messages.arrival(source, awaited)
            task = self._ranks.index(rank)
            in_time[task] = self._messages.values(message, rank, self._handed, awaited)[1]
            self._messages.note("receive", begin, rank)
            log.order.append(task)
            turn = turns.arrived(task)
            if turn.updates:
                self._function(*self._together([in_time[each] for each in turn.updates]))
            log.dropped += turn.is_late
            for each in turn.answers:
                self._answer(turns, each, elements, is_late=turn.is_late)
        log.staleness.update(turns.staleness)
        self._messages.finish()
        return []

    def cancel(self) -> None:
        self._messages.cancel()

    def replay(self, order: list[int]) -> None:
        """Gives the next call this order; refuses one that it cannot have, before anything is run."""
        if not is_possible(self._turns(), order):
            text = f"the recorded order is not one of a call of `{self.plan.name}`"
            remedy = "the tasks, blocks and mode have to be those that it was recorded with"
            raise RunError(f"{text}\n  {remedy}", code="E0901")
        self._order = order

    def _taking(self, update: ClusterUpdate, inner: Module) -> tuple[list[Member], Callable[..., object], list[int]]:
        """What a step takes: of which kinds, with what, and which results of it these are."""
        if not update.take:
            return [], lambda: (), []
        if update.take not in inner.entries:
            raise BundleError(f"a role of the bundle has no part of `{self.plan.name}`", code="E0906")
        entry = inner.entries[update.take]
        results = {each.name: (number, each) for number, each in enumerate(entry.signature.results)}
        if not results.keys() >= {*update.taken} or entry.signature.parameters:
            raise BundleError(f"a part of `{self.plan.name}` is not what the bundle says of it", code="E0906")
        picked = [results[name] for name in update.taken]
        members = [Member(each.dtype, len(each.shape)) for _, each in picked]
        return members, entry.function, [number for number, _ in picked]

    def _elements(self) -> list[list[object]]:
        """What each step of a call works on, in the order of its blocks; of a call that gets less nothing is done."""
        if not self._update.take:
            return []
        taken = (cast("Sequence[object]", self._take()) for _ in range(self.plan.split.blocks))
        return [[values[number] for number in self._picks] for values in taken]

    def _answer(self, turns: Turns, task: int, elements: Sequence[Sequence[object]], *, is_late: bool) -> None:
        step, rank = turns.step(task), self._ranks[task]
        numbers = (step, int(not is_late))
        if task in turns.busy:
            first, _ = self.plan.parts[rank].blocks
            element = elements[first + step] if elements else ()
            self._messages.send(rank, self._variables, numbers, self._current(element))
        else:
            self._messages.send(rank, _LAST, numbers, (), is_last=True)

    def _turns(self) -> Turns:
        steps, update = [self.plan.steps_of(rank) for rank in self._ranks], self._update
        if update.mode != "backup":
            return OwnPace(steps, update.bound)
        if len({*steps}) > 1 or len(steps) <= update.backups:
            raise RunError(_not_shared_out(self.plan.name, sum(steps), len(steps), update.backups), code="E0901")
        return FirstFew(len(steps), steps[0], len(steps) - update.backups)

    def _together(self, handed: Sequence[Sequence[object]]) -> Sequence[object]:
        """What several steps hand over, as one update is fed it."""
        if not self._update.handed:
            return handed[0]
        return [
            together(how, values) for how, values in zip(self._update.handed, zip(*handed, strict=True), strict=True)
        ]

    def _current(self, element: Sequence[object]) -> list[Value]:
        """What a step is fed: what was taken for it, and copies, as the state changes while they are sent."""
        values, members = self._state.current(self._names), self._variables.members
        variables = zip(self._names, members[len(element) :], strict=True)
        return [
            *Codec(0, members[: len(element)]).values_of(element),
            *(
                wire.slot_of(member.dtype, values[name]) if member.is_scalar else values[name].copy()
                for name, member in variables
            ),
        ]


def together(how: str, values: Sequence[object]) -> object:
    """What tasks hand over in one step: the same from all, or a sum or mean in the order of tasks."""
    first, *others = values
    if how == FIRST:
        return first
    total = np.array(first)
    for value in others:
        total = total + np.asarray(value)
    return total / total.dtype.type(len(values)) if how == MEAN else total


def _not_shared_out(entry: str, blocks: int, tasks: int, backups: int) -> str:
    """Why so many tasks cannot each take as many of these blocks, some of them as backups, and how many could."""
    text = f"`{entry}` is cut into {blocks} blocks, with {backups} of its tasks as backups"
    fitting = [str(count) for count in range(backups + 1, blocks + 1) if blocks % count == 0]
    remedy = f"\n  as many tasks as fit: {', '.join(fitting)}" if fitting else ""
    return f"{text}: {counted(tasks, 'task')} cannot share that out{remedy}"
