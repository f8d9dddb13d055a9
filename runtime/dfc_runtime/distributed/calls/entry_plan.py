"""How calls of an entry are distributed over tasks: who gets which feeds, who gives which results.

Assumes a manifest and a topology that belong together. Guarantees the same plan on every rank, so that what one packs
another unpacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dfc_runtime.calls.sizes import declared
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.reduce.pieces import piece
from dfc_runtime.distributed.reduce.reduction_plan import Node, dealt
from dfc_runtime.distributed.shards import Division, put_part, without_room
from dfc_runtime.distributed.topology import Task, Topology
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.distributed.transport.wire import Codec, Member, is_array
from dfc_runtime.errors import BundleError, FeedError
from dfc_runtime.formats.cluster import ClusterEntry, ResultPart, site
from dfc_runtime.formats.manifest import Entry


@dataclass(frozen=True, slots=True)
class TaskPart:
    """What one task has to do with an entry: numbers of its feeds and of the results it gives, and its blocks."""

    task: Task
    feeds: tuple[int, ...]
    results: tuple[int, ...]
    blocks: Node
    down: Codec
    up: Codec


class EntryPlan:
    """An entry of the program, or a part of one, distributed. `name` is what people call it, if not by its own name."""

    def __init__(self, number: int, entry: Entry, split: ClusterEntry, topology: Topology, name: str = "") -> None:
        self.number = number
        self.entry = replace(entry, slot_dims=entry.dims)
        self.name = name or entry.name
        self.split = split
        self.feed_splits = [next(each for each in split.feeds if each.name == p.name) for p in entry.parameters]
        self.splits_feeds = bool(split.blocks) and split.split in entry.dims
        """Whether a size of the call is cut into the blocks; else it is what comes out of a queue."""
        self._counts = topology.tasks
        self.tasks: Mapping[int, Task] = {task.rank: task for task in topology.parts_of(split)}
        self.other_tasks = [task for rank, task in self.tasks.items() if rank != 0]
        self._known: dict[int, TaskPart] = {}
        self._down: dict[tuple[int, ...], Codec] = {}
        self._up: dict[tuple[int, ...], Codec] = {}
        self.all_results = Codec(0, [self._result_member(i, whole=True) for i in range(len(entry.results))])

    @cached_property
    def parts(self) -> Mapping[int, TaskPart]:
        """Of all tasks that take part, by rank."""
        return {rank: self._part(task) for rank, task in self.tasks.items()}

    @cached_property
    def others(self) -> Sequence[TaskPart]:
        """Those of all ranks but the first, in the order of `other_tasks`."""
        return [part for rank, part in self.parts.items() if rank != 0]

    @cached_property
    def other_ranks(self) -> frozenset[int]:
        return frozenset(task.rank for task in self.other_tasks)

    def part_of(self, rank: int) -> TaskPart | None:
        """That of one rank: only rank 0 has to know all of them."""
        return self._part(self.tasks[rank]) if rank in self.tasks else None

    def _part(self, task: Task) -> TaskPart:
        known = self._known.get(task.rank)
        if known is None:
            known = self._known[task.rank] = self._part_of_task(task)
        return known

    def _part_of_task(self, task: Task) -> TaskPart:
        assert task.role is not None
        role = task.role.name
        feeds = tuple(i for i, each in enumerate(self.feed_splits) if role in each.roles)
        results = tuple(i for i, each in enumerate(self.split.results) if _gives(task, each))
        count = self._counts[task.job]
        own = dealt(self.split.blocks, count, task.number) if task.job == self.split.replicated_over else self._all()
        if feeds not in self._down:
            self._down[feeds] = Codec(len(self.entry.dims), [self._feed_member(i) for i in feeds])
        if results not in self._up:
            self._up[results] = Codec(0, [self._result_member(i) for i in results])
        return TaskPart(task, feeds, results, own, self._down[feeds], self._up[results])

    @cached_property
    def results_are_own(self) -> bool:
        """Whether rank 0 makes all results, whole and in their order."""
        if self.split.update is not None or any(part.results for part in self.others):
            return False
        if any(each.split_axis >= 0 for each in self.split.results):
            return False
        own = self.part_of(0)
        return (own.results if own is not None else ()) == tuple(range(len(self.entry.results)))

    def _all(self) -> Node:
        return 0, self.split.blocks

    def _feed_member(self, number: int) -> Member:
        parameter = self.entry.parameters[number]
        extra = int(self.feed_splits[number].split_axis >= 0)
        return Member(parameter.dtype, len(parameter.shape) + extra, parameter.is_text)

    def _result_member(self, number: int, *, whole: bool = False) -> Member:
        result = self.entry.results[number]
        in_blocks = self.split.results[number].in_blocks or self.split.update is not None
        extra = int(in_blocks and not whole)
        return Member(result.dtype, len(result.shape) + extra)

    def steps_of(self, rank: int) -> int:
        """How many blocks a task has."""
        first, last = self.parts[rank].blocks
        return last - first

    def check_split(self, sizes: Mapping[str, int]) -> None:
        """Refuses a size that cannot be cut into the blocks."""
        if self.splits_feeds and (fault := split_fault(self.split, sizes[self.split.split])):
            raise FeedError(fault + declared(self.entry), code="E0901", spans=[self.entry.location])

    def feed_for(self, part: TaskPart, number: int, value: Array, sizes: Mapping[str, int]) -> Array:
        """What a task gets of an array."""
        split = self.feed_splits[number]
        if split.split_axis < 0:
            return value
        return piece(value, split.split_axis, split.runs.evaluate(sizes), self.split.blocks, part.blocks)

    def with_rows(self, part: TaskPart, number: int, whole: object, memory: Array) -> Array:
        """The rows of a result that a task has, put to their places in the whole, which is made if it is not there."""
        split = self.split.results[number]
        rows, axis, shape = self.entry.results[number].shape[split.split_axis].constant, split.split_axis, memory.shape
        division = Division(split.rule, rows or 0, self._counts[split.source])
        if shape[axis] != division.most:
            raise BundleError(f"a task gives {shape[axis]} rows of a result, not {division.most}", code="E0906")
        if not is_array(whole):
            whole = np.empty((*shape[:axis], division.rows, *shape[axis + 1 :]), memory.dtype)
        own = without_room(memory, axis, division.count(part.task.number))
        put_part(whole, own, split.rule, axis, division.tasks, part.task.number)
        return whole

    def sizes_for(self, part: TaskPart, sizes: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
        """The sizes that a task's own entry is given by name."""
        if not self.split.blocks:
            return {name: sizes[name] for name in names}
        first, last = part.blocks
        own = {**sizes, self.split.count: last - first, self.split.first: first}
        if self.splits_feeds:
            own[self.split.split] = sizes[self.split.split] // self.split.blocks
        return {name: own[name] for name in names}


def own_signature(plan: EntryPlan, part: TaskPart, entries: Iterable[Entry]) -> Entry:
    """What the program of a task's role says of its part of an entry; `BundleError` if that is not what the plan says:
    it wants what the task does not get, or lacks what it is to give."""
    if plan.split.update is not None and part.task.job != plan.split.replicated_over:
        own_entry = next((each for each in entries if each.name == plan.split.update.entry), None)
        if own_entry is None:
            raise BundleError(f"a role of the bundle has no part of `{plan.name}`", code="E0906")
        return own_entry
    own_entry = next(
        (each for each in entries if (each.name, each.is_test) == (plan.entry.name, plan.entry.is_test)), None
    )
    if own_entry is None:
        raise BundleError(f"a role of the bundle has no part of `{plan.name}`", code="E0906")
    fed = {plan.entry.parameters[number].name for number in part.feeds}
    picked = {plan.entry.results[number].name for number in part.results}
    has_more = plan.split.update is not None  # variables behind the feeds, which `updates` looks at
    if (not has_more and not {each.name for each in own_entry.parameters} <= fed) or not picked <= {
        each.name for each in own_entry.results
    }:
        raise BundleError(f"a part of `{plan.name}` is not what the bundle says of it", code="E0906")
    return own_entry


def split_fault(split: ClusterEntry, size: int) -> str:
    """Why a size cannot be cut into the blocks of an entry, and what could be; "" if it can. Nothing at all can."""
    blocks = split.blocks
    if not blocks or size % blocks == 0:
        return ""
    why = "less than one for each" if size < blocks else "no multiple of it"
    near = size // blocks * blocks
    remedy = f"{near} or {near + blocks}" if near else f"{blocks}, or a multiple of it"
    what = f"`{split.name}` is cut into {blocks} blocks along {split.split}, which is {size}: {why}"
    return f"{what}\n  give it {remedy}; the number of blocks is written in the deployment file"


def _gives(task: Task, result: ResultPart) -> bool:
    job, number = site(result.source)
    return task.job == job and number in (None, task.number)
