"""Groups of loop items become kernels with the memory of their operands.

Assumes that values which others read have memory. Guarantees that an operand is read and written at the same point, or
written in one stage and read back by later stages at the same outer point, so that outer points are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.kernels.body import Instruction, Reduced
from dfc.kernels.form import Axis, Kernel, LoopKernel, Reduction, Stage, Store
from dfc.lower.fuse.emit.expressions import Expressions
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.emit.reductions import reduced, reduction
from dfc.lower.fuse.emit.stores import store
from dfc.lower.fuse.groups.groups import LoopGroup
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import ComputeItem, CopyItem, Item, Member, ReduceItem, StoreItem
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops.lowering.index_maps import Point, renamed

StageKey = tuple[int, tuple[int, ...]]  # level, inner axes


@dataclass(slots=True)
class BoundKernel:
    """A kernel and the memory of its operands, before its sizes are renamed."""

    kernel: Kernel
    views: tuple[BufferView, ...]


@dataclass(slots=True)
class _OpenStage:
    """A stage under construction."""

    axes: tuple[int, ...]
    number: int
    expressions: Expressions
    reductions: list[Reduction] = field(default_factory=list[Reduction])
    stores: list[Store] = field(default_factory=list[Store])

    def finished(self) -> Stage:
        body = tuple(self.expressions.body.instructions)
        return Stage(self.axes, body, tuple(self.reductions), tuple(self.stores))


class Emitter:
    """Makes the kernel of a group of loop items."""

    def __init__(self, scope: Scope, collected: Collected, group: LoopGroup, stored: set[Value]) -> None:
        self.scope = scope
        self.collected = collected
        self.group = group
        self.stored = stored
        self.slots = Slots()
        inner = [axis for axis in range(len(group.extents)) if axis not in group.outer]
        self.order = [*group.outer, *inner]
        self.names = [self.order.index(axis) for axis in range(len(group.extents))]
        self.stages: dict[StageKey, _OpenStage] = {}
        self.reductions: dict[Item, tuple[int, int]] = {}

    def kernel(self) -> BoundKernel:
        jobs = sorted(self._jobs(), key=lambda job: job[0])
        for number, key in enumerate(sorted({job[0] for job in jobs})):
            expressions = Expressions(self.scope, self.slots, self.collected.draws, _Resolver(self, key))
            self.stages[key] = _OpenStage(key[1], number, expressions)
        for key, member in jobs:
            self._emit(member, self.stages[key], key == self.key(member))
        axes = named_axes([self.group.extents[axis] for axis in self.order])
        open_stages = [stage for stage in self.stages.values() if stage.reductions or stage.stores]
        renumbered = {stage.number: position for position, stage in enumerate(open_stages)}
        stages = tuple(_with_stages(stage.finished(), renumbered) for stage in open_stages)
        kernel = LoopKernel(self.slots.operands(), axes, len(self.group.outer), stages)
        return BoundKernel(kernel, self.slots.views)

    def _jobs(self) -> Iterator[tuple[StageKey, Member]]:
        """Each member with its stage; a reduction whose result goes to memory is stored in a stage behind it."""
        for member in self.group.members:
            yield self.key(member), member
            if isinstance(member.item, ReduceItem) and self._memory_of(member.item.result) is not None:
                yield (member.level + 1, ()), member

    def key(self, member: Member) -> StageKey:
        axes = tuple(sorted(self.names[axis] for axis in member.axes if axis not in self.group.outer))
        return member.level, axes

    def _memory_of(self, result: Value) -> BufferView | None:
        """Where an item itself stores its value."""
        return None if result in self.stored else self.scope.views.get(result)

    def _emit(self, member: Member, stage: _OpenStage, first: bool) -> None:
        item, expressions = member.item, stage.expressions
        names = [self.names[axis] for axis in member.axes]
        match item:
            case ReduceItem() if first:
                self._reduce(item, stage, expressions.emit(item.operand, renamed(item.point, names)))
            case ReduceItem():
                total = self.reduced(item, expressions)
                self._store(item.result, stage, total, renamed(item.result_point, names))
            case StoreItem():
                value = expressions.emit(item.value, renamed(item.point, names))
                stage.stores += store(self.scope, item, expressions, value, names)
            case CopyItem():
                point = renamed(item.point, names)
                self._store(item.result, stage, expressions.load(item.source, point), point)
            case _:
                assert isinstance(item, ComputeItem), item
                point = renamed(item.point, names)
                self._store(item.result, stage, expressions.emit(item.result, point, inside=True), point)

    def _store(self, result: Value, stage: _OpenStage, value: int, point: Point) -> None:
        view = self._memory_of(result)
        if view is not None:
            stage.stores.append(Store(self.slots.write(view), point, value))

    def _reduce(self, item: ReduceItem, stage: _OpenStage, element: int) -> None:
        folding = reduction(stage.expressions.body, item.node, element)
        if folding not in stage.reductions:
            stage.reductions.append(folding)
        self.reductions[item] = stage.number, stage.reductions.index(folding)

    def reduced(self, item: ReduceItem, expressions: Expressions) -> int:
        """The finished result of a reduction of an earlier stage."""
        return reduced(expressions.body, item.node, *self.reductions[item])


class _Resolver:
    """Finds values of the group and values in memory for one stage."""

    def __init__(self, emitter: Emitter, key: StageKey) -> None:
        self.emitter = emitter
        self.key = key

    def __call__(self, expressions: Expressions, value: Value, point: Point) -> int | None:
        emitter = self.emitter
        member = emitter.group.values.get(value)
        view = emitter.scope.view_of(value)
        if member is None:
            return None if view is None else expressions.load(view, point)
        if isinstance(member.item, ReduceItem):
            return emitter.reduced(member.item, expressions)
        if view is not None and self.key > emitter.key(member):
            return expressions.load(view, point)
        return expressions.load(member.item.source, point) if isinstance(member.item, CopyItem) else None


def _with_stages(stage: Stage, numbers: Mapping[int, int]) -> Stage:
    """The stage with references to other stages renumbered."""
    if all(old == new for old, new in numbers.items()):
        return stage
    body = [
        Instruction(Reduced(numbers[i.operation.stage], i.operation.reduction), i.arguments, i.dtype)
        if isinstance(i.operation, Reduced)
        else i
        for i in stage.body
    ]
    return Stage(stage.axes, tuple(body), stage.reductions, stage.stores)


def named_axes(extents: Sequence[Dim]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{number}", extent) for number, extent in enumerate(extents))
