"""A step of one replicated entry, from the call at rank 0 to its return: the nodes in program order, on all ranks.

Before: a placed entry whose loop over blocks counts those of one task. After: when each rank is done, and what was busy
for how long. With more ranks than blocks each rank has one block of the same size, so that the batch grows with the
ranks; with fewer, ranks share the blocks.

A call is one message to each rank but the first, its large feeds behind it, and one answer from each (`calls`); each
is called for its part. Of several ranks each asks its host to contribute to a sum, to wait for one, to send and to
receive. A value that another site needs is one message from each task that has it to each one that needs it. What is
inside of a region is part of its node, but for sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.place.cost import Costs, nodes_inside
from dfc.distribute.place.model import Decision
from dfc.distribute.replicate.model import Replication
from dfc.distribute.simulate.calls import Calls
from dfc.distribute.simulate.clocks import Clocks, Ranks
from dfc.distribute.simulate.network import Network
from dfc.distribute.simulate.sums import Sum, SumPrediction, compared, finish_together
from dfc.ir import walk
from dfc.ir.attributes import Attributes
from dfc.ir.graph import Entry, Node, Value
from dfc.ir.types import TensorType
from dfc.ops.effects.communication import JOINED, CombinedAttributes, ContributeAttributes
from dfc_runtime.distributed.transport.wire import INLINE

COMPUTING = "computing"
RESOURCES = ("the processor of rank {} with messages", "the link out of rank {}", "the link into rank {}")


@dataclass(frozen=True, slots=True)
class Job:
    """The tasks of a job are ranks from `first` on."""

    first: int
    tasks: int

    def ranks(self, task: int | None) -> Ranks:
        """Of one task, or of all."""
        if task is None:
            return np.arange(self.first, self.first + self.tasks)
        return np.array([self.first + task])


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """`seconds` until the call returns; `computing` those of the mean rank of the replicated job. `busy` has the most
    that any rank is busy with, by the name of the resource; bytes are those that one rank sends, or receives."""

    entry: str
    ranks: int
    blocks: int
    seconds: float
    computing: float
    busy: Mapping[str, float]
    most_sent: float
    most_received: float
    mean_sent: float
    sums: Sequence[SumPrediction]

    @property
    def bottleneck(self) -> tuple[str, float]:
        """What is busy for longest, and for which share of the step."""
        name = max(self.busy, key=lambda each: self.busy[each])
        return name, self.busy[name] / self.seconds if self.seconds else 0.0


def simulated(
    entry: Entry,
    decisions: Sequence[Decision],
    replication: Replication,
    jobs: Mapping[str, Job],
    costs: Costs,
    network: Network,
) -> StepPrediction:
    """The prediction for one call; `jobs` may have other numbers of tasks than those the entry was placed for."""
    return _Step(entry, replication, jobs, costs, network).run(decisions)


class _Step:
    def __init__(
        self, entry: Entry, replication: Replication, jobs: Mapping[str, Job], costs: Costs, network: Network
    ) -> None:
        self._entry, self._replication, self._jobs = entry, replication, jobs
        self._job = jobs[replication.job]
        self._blocks = max(replication.blocks, self._job.tasks)
        own = costs.of_entry(entry.name)
        each = -(-self._blocks // self._job.tasks)
        self._costs = Costs({**own.sizes, replication.count: each}, own.measured, own.own, own.blocks)
        self._clocks = Clocks(sum(job.tasks for job in jobs.values()), network)
        self._sites: dict[Value, TaskSite] = {}
        self._moved: set[tuple[Value, TaskSite]] = set()
        self._sums: dict[str, Sum] = {}
        self._held = 0.0

    def run(self, decisions: Sequence[Decision]) -> StepPrediction:
        sites = sorted({each.site for each in decisions if each.node is not None})
        taking_part = np.unique(np.concatenate([np.array([0]), *(self._ranks(site) for site in sites)]))
        calls = self._calls(taking_part)
        calls.call()
        if len(taking_part) > 1:
            self._clocks.serve(taking_part, self._clocks.network.call)
        for each in decisions:
            if each.node is not None:
                self._node(each.node, each.site)
        if len(taking_part) > 1:
            calls.answer()
        return self._prediction(float(self._clocks.now[0]))

    def _ranks(self, site: TaskSite) -> Ranks:
        return self._jobs[site.job].ranks(site.task)

    def _calls(self, ranks: Ranks) -> Calls:
        """The messages of the call to these ranks, and of their answers."""
        others = ranks[ranks != 0]
        sizes = [self._costs.bytes_of(value) for value in self._feeds()]
        arrays = [size for size, value in zip(sizes, self._feeds(), strict=True) if value.tensor.shape]
        messages = 1 + sum(size > INLINE for size in arrays)  # what is smaller travels in the call itself
        names = zip(self._entry.result_names, self._entry.block.outputs, strict=False)
        up = float(sum(self._costs.bytes_of(v) for name, v in names if name in self._replication.results))
        down = float(sum(arrays))
        return Calls(self._clocks, others, down=down, messages=messages, up=up, passes_on=not (arrays or up))

    def _feeds(self) -> list[Value]:
        return [value for value in self._entry.block.parameters if not value.is_token]

    def _node(self, node: Node, site: TaskSite) -> None:
        ranks = self._ranks(site)
        for value in walk.inputs(node):
            self._fetch(value, site)
        waits = list(_keys(node, CombinedAttributes))
        if not waits:
            self._compute(node, ranks)
        for key in _keys(node, ContributeAttributes):  # all of them before anything is waited for
            self._contribute(key)
        if waits:
            finish_together(self._sums.values(), self._clocks)
        for key in waits:
            if self._job.tasks > 1:
                self._clocks.serve(ranks, self._clocks.network.request)
            self._sum(key).wait(self._clocks)
        self._sites.update(dict.fromkeys(node.results, site))

    def _compute(self, node: Node, ranks: Ranks) -> None:
        """The seconds of a node. Of a loop over the blocks the last iteration makes the parts of sums one after the
        other: what is not held back leaves while the rest of it computes."""
        seconds, done = self._costs.seconds(node), 0.0
        inside = [(self._costs.seconds(each), each) for region in node.regions for each in region.nodes]
        last = seconds / max(self._costs.trip_count(node), 1) if inside else 0.0
        total = sum(took for took, _ in inside) or 1.0
        reached = seconds - last
        for took, each in inside:
            reached += last * took / total
            for key in _keys(each, ContributeAttributes):
                if self._sum(key).is_held_back:
                    continue
                self._clocks.compute(ranks, reached - done)
                done = reached
                self._contribute(key)
                self._finish_arrived()
        self._clocks.compute(ranks, seconds - done)

    def _finish_arrived(self) -> None:
        """Owners of chunks add at the next request to their host what has come meanwhile, and send it on."""
        for each in self._sums.values():
            if each.has_arrived(self._clocks):
                each.finish(self._clocks)

    def _contribute(self, key: str) -> None:
        if not self._sum(key).is_contributed:
            if self._job.tasks > 1:
                self._clocks.serve(self._job.ranks(None), self._clocks.network.request)
            self._held = self._sum(key).contribute(self._clocks, self._held)

    def _sum(self, key: str) -> Sum:
        known = self._sums.get(key)
        if known is None:
            elements, item, joined = self._summed(key)
            ranks, first = self._job.ranks(None), len(self._sums) % self._job.tasks
            known = self._sums[key] = Sum(key, elements, item, self._blocks, ranks, first, is_joined=joined)
        return known

    def _summed(self, key: str) -> tuple[int, int, bool]:
        """Of what is summed, or joined, the elements that each rank has, the bytes of one, and whether it is joined."""
        combination = next(each for each in self._replication.combinations if each.key == key)
        item = combination.type.machine.numpy.itemsize
        elements = self._costs.bytes_of_type(combination.type) // item
        joined = combination.how == JOINED
        return -(-elements // self._job.tasks) if joined else elements, item, joined

    def _compared(self, key: str) -> SumPrediction:
        elements, item, joined = self._summed(key)
        return compared(key, elements, item, self._blocks, self._job.tasks, self._clocks.network, is_joined=joined)

    def _fetch(self, value: Value, site: TaskSite) -> None:
        """A value of another site comes over the network, once."""
        source = self._sites.get(value)
        if source is None or source == site or (value, site) in self._moved or not isinstance(value.type, TensorType):
            return
        self._moved.add((value, site))
        senders, receivers, clocks = self._ranks(source), self._ranks(site), self._clocks
        receivers = np.setdiff1d(receivers, senders)
        if source.job == site.job and source.task is None:
            return  # a task of the job has it itself
        size, first = float(self._costs.bytes_of(value)), float(clocks.now[senders].min())
        clocks.serve(senders, clocks.network.request)
        clocks.handle(senders, len(receivers))
        left = clocks.send(senders, len(receivers), size)
        clocks.wait(receivers, clocks.arrive(receivers, len(senders), size, float(left.max()), first))
        clocks.serve(receivers, clocks.network.request)
        clocks.handle(receivers, len(senders))

    def _prediction(self, seconds: float) -> StepPrediction:
        clocks, workers = self._clocks, self._job.ranks(None)
        slowest = int(np.argmax(clocks.computing))
        busy = {f"rank {slowest}, computing": float(clocks.computing[slowest])}
        for name, times in zip(RESOURCES, (clocks.messaging, clocks.sending, clocks.receiving), strict=True):
            busy[name.format(int(np.argmax(times)))] = float(times.max())
        return StepPrediction(
            self._entry.name,
            len(clocks.now),
            self._blocks,
            seconds,
            float(clocks.computing[workers].mean()),
            busy,
            float(clocks.bytes_out.max()),
            float(clocks.bytes_in.max()),
            float(clocks.bytes_out.mean()),
            [self._compared(key) for key in self._sums],
        )


def _keys(node: Node, kind: type[Attributes]) -> Iterator[str]:
    """Of what a node, or something inside of it, contributes or waits for."""
    for each in nodes_inside(node):
        attributes = each.attributes
        if isinstance(attributes, kind) and isinstance(attributes, ContributeAttributes | CombinedAttributes):
            yield attributes.key
