"""One rank of a program: its part of calls, whoever asks for it.

Assumes a module of the rank's role, whose host calls go to `edges`. Guarantees that a call which fails leaves no
message that a later one would take for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.asynchronous.updates import OwnerPart, ReplicaPart
from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.calls.part import Part
from dfc_runtime.distributed.calls.rank_data import Answer, Command, Data
from dfc_runtime.distributed.topology import Task, Topology
from dfc_runtime.distributed.transport.comm import Array, Pending, as_bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.errors import BundleError, FeedError, RankError
from dfc_runtime.formats.fields import integer, items, text
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.module import Module


class OwnPart(Part):
    """What one rank does in calls of an entry that is one entry of its role, with all that can be known before: feeds
    in the order of the plan's part to arguments of the role's own entry, its results to those that this task gives."""

    __slots__ = ("_dim_feeds", "_function", "_order", "_picks", "_unnamed")

    def __init__(
        self, plan: EntryPlan, part: TaskPart, edges: Edges, signature: Entry, function: Callable[..., object]
    ) -> None:
        super().__init__(plan, part, edges)
        fed = [plan.entry.parameters[number].name for number in part.feeds]
        computed = [result.name for result in signature.results]
        picked = [plan.entry.results[number].name for number in part.results]
        if not {each.name for each in signature.parameters} <= {*fed} or not {*picked} <= {*computed}:
            raise BundleError(f"a part of `{plan.name}` is not what the bundle says of it", code="E0906")
        order = [fed.index(each.name) for each in signature.parameters]
        self._function = function
        self._order = None if order == list(range(len(fed))) else order
        self._dim_feeds = signature.dim_feeds
        self._unnamed = signature.unnamed_result
        self._picks = [computed.index(name) for name in picked]

    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Calls the entry."""
        arguments = feeds if self._order is None else [feeds[index] for index in self._order]
        named = self.plan.sizes_for(self.part, sizes, self._dim_feeds) if self._dim_feeds else {}
        try:
            outputs = self._function(*arguments, **named)
        except FeedError as problem:  # rank 0 has found the feeds to be right
            reason = problem.message.splitlines()[0]
            raise BundleError(f"a part of `{self.plan.name}` refuses its feeds: {reason}", code="E0906") from None
        if not self._picks:
            return []
        values: Sequence[object] = [outputs] if self._unnamed else outputs  # type: ignore[assignment]
        return [values[position] for position in self._picks]


@dataclass(slots=True)
class Rank:
    """What client and followers have in common. `inner` is the program of the rank's role, if it has one."""

    topology: Topology
    waiting: Waiting
    edges: Edges
    plans: Sequence[EntryPlan]
    inner: Module | None
    commands: dict[str, Command]
    _own: dict[int, Part | None] = field(default_factory=dict[int, "Part | None"])
    _added: dict[int, EntryPlan] = field(default_factory=dict[int, EntryPlan])

    @property
    def number(self) -> int:
        return self.waiting.comm.rank

    @property
    def task(self) -> Task:
        return self.topology.by_rank[self.number]

    def run_part(self, own: Part, feeds: Sequence[object], sizes: Mapping[str, int], generation: int) -> list[object]:
        """This rank's part of a call; the results it gives. On failure, nothing is under way any more."""
        waiting = self.waiting
        before, waiting.doing = waiting.doing, own.doing
        own.calls += 1
        waiting.computes(own)
        edges = own.edges
        edges.begin(generation)
        try:
            results = own.run(feeds, sizes)
            edges.finish()
        except BaseException:
            edges.cancel()
            own.cancel()
            raise
        finally:
            waiting.doing = before
            waiting.computes(None)
        return results

    def own_part(self, plan: EntryPlan) -> Part | None:
        """What this rank has to do with an entry; None if it takes no part."""
        if plan.number not in self._own:
            part = plan.part_of(self.number)
            self._own[plan.number] = self._part_of(plan, part, self.inner) if part and self.inner else None
        return self._own[plan.number]

    def silent_parts(self) -> list[int]:
        """Numbers of entries whose part here has nothing to say when it is done. It makes no results, changes nothing
        and cannot fail, waits for nobody, and sends rank 0 a value: who has that knows that the part has run."""
        return [] if self.inner is None else [each.number for each in self.plans if self._is_silent(each, self.inner)]

    def _is_silent(self, plan: EntryPlan, inner: Module) -> bool:
        own = self.own_part(plan)
        if (
            own is None
            or own.part.results
            or plan.split.update is not None
            or plan.entry.is_test
            or inner.manifest.faults
        ):
            return False
        sites = [site for site in inner.manifest.sites if site.entry == plan.name]
        if inner.entries[plan.name].signature.writes or any(site.kind != "send" for site in sites):
            return False
        return any(0 in own.edges.receivers(site) for site in sites)

    def _part_of(self, plan: EntryPlan, part: TaskPart, inner: Module) -> Part:
        if plan.split.update is not None:
            kind = ReplicaPart if self.task.job == plan.split.replicated_over else OwnerPart
            return kind(plan, part, self.edges, self.waiting, self.topology, inner)
        entry = (inner.tests if plan.entry.is_test else inner.entries).get(plan.name)
        if entry is None:
            raise BundleError(f"a role of the bundle has no part of `{plan.name}`", code="E0906")
        return OwnPart(plan, part, self.edges, entry.signature, entry.function)

    def plan(self, number: int) -> EntryPlan:
        """An entry, or a part of one that was added, by its number."""
        return self.plans[number] if number < len(self.plans) else self._added[number]

    def add(self, plan: EntryPlan, own: Part | None) -> None:
        """Something more to be called, and what this rank has to do with it."""
        self._added[plan.number] = plan
        self._own[plan.number] = own

    def receive_arrays(self, arrays: Sequence[Array], source: int, tag: int) -> None:
        """Fills arrays with what was sent behind a message."""
        comm = self.waiting.comm
        for pending in [comm.irecv(as_bytes(array), source, tag) for array in arrays if array.nbytes]:
            self.waiting.wait(pending.test, lambda: Awaited("the rest of a message", source))

    def send_arrays(self, arrays: Sequence[Array], destination: int, tag: int) -> list[Pending]:
        """Sends arrays behind a message; their memory is the messages' until they are done."""
        comm = self.waiting.comm
        return [comm.isend(as_bytes(array), destination, tag) for array in arrays if array.nbytes]

    def tried(self, data: Data, arrays: list[Array]) -> tuple[dict[int, Answer], Exception | None]:
        """What this rank answers to a command, by its number; or what went wrong, unless other ranks are lost."""
        try:
            return {self.number: self.run_command(data, arrays)}, None
        except RankError:
            raise
        except Exception as problem:
            return {}, problem

    def updates(self, data: Data, _: Sequence[Array]) -> Answer:
        """What this rank, which has the state, knows of the updates of an entry; or what it is to know."""
        own = self.own_part(self.plan(integer(data["entry"], "entry")))
        assert isinstance(own, OwnerPart)
        if "replay" in data:
            own.replay([integer(each, "task") for each in items(data["replay"], "replay")])
        return own.updates.to_data(), []

    def run_command(self, data: Data, arrays: list[Array]) -> Answer:
        """Does what all ranks are told to."""
        return self.commands[str(data["command"])](data, arrays)


def described(arrays: Sequence[tuple[str, Array]]) -> list[object]:
    """Element types and shapes, for a message before the arrays."""
    return [[dtype, *array.shape] for dtype, array in arrays]


def empty(description: object) -> list[Array]:
    """Arrays as they were described."""
    arrays: list[Array] = []
    for each in items(description, "arrays"):
        dtype, *shape = items(each, "array")
        arrays.append(np.empty([integer(axis, "axis") for axis in shape], numpy_dtype(text(dtype, "type"))))
    return arrays
