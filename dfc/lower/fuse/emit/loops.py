"""Groups of loop items become kernels with the places of their operands.

Assumes settled places. Guarantees that an operand is read and written at the same point, or written in one stage and
read back by later stages at the same outer point, so that outer points are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.kernels.body import Instruction, Reduced
from dfc.kernels.form import Axis, Kernel, LoopKernel, Reduction, Stage, Store
from dfc.lower.fuse.emit.expressions import Expressions
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.emit.reductions import fold, folded
from dfc.lower.fuse.emit.stores import store
from dfc.lower.fuse.groups.groups import Group
from dfc.lower.fuse.indexing import Point, renamed
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import Item, Kind
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView

StageKey = tuple[int, tuple[int, ...]]  # level, inner axes


@dataclass(slots=True)
class Made:
    """A kernel over places, before its sizes are renamed."""

    kernel: Kernel
    places: tuple[BufferView, ...]


@dataclass(slots=True)
class _Draft:
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

    def __init__(self, scope: Scope, found: Collected, group: Group, homed: set[Value]) -> None:
        self.scope = scope
        self.found = found
        self.group = group
        self.homed = homed
        self.slots = Slots()
        inner = [axis for axis in range(len(group.extents)) if axis not in group.outer]
        self.order = [*group.outer, *inner]
        self.names = [self.order.index(axis) for axis in range(len(group.extents))]
        self.stages: dict[StageKey, _Draft] = {}
        self.folds: dict[Item, tuple[int, int]] = {}

    def kernel(self) -> Made:
        jobs = sorted(self._jobs(), key=lambda job: (job[0], job[1].number))
        for number, key in enumerate(sorted({job[0] for job in jobs})):
            expressions = Expressions(self.scope, self.slots, self.found.draws, _Resolver(self, key))
            self.stages[key] = _Draft(key[1], number, expressions)
        for key, item in jobs:
            self._emit(item, self.stages[key], key == self.key(item))
        axes = named_axes([self.group.extents[axis] for axis in self.order])
        drafts = [draft for draft in self.stages.values() if draft.reductions or draft.stores]
        renumbered = {draft.number: position for position, draft in enumerate(drafts)}
        stages = tuple(_with_stages(draft.finished(), renumbered) for draft in drafts)
        kernel = LoopKernel(self.slots.operands(), axes, len(self.group.outer), stages)
        return Made(kernel, self.slots.places)

    def _jobs(self) -> Iterator[tuple[StageKey, Item]]:
        """Each item with its stage; a fold whose result goes to memory is stored in a stage behind it."""
        for item in self.group.items:
            yield self.key(item), item
            if item.kind is Kind.REDUCE and self._place(item) is not None:
                yield (item.level + 1, ()), item

    def key(self, item: Item) -> StageKey:
        axes = tuple(sorted(self.names[axis] for axis in item.axes if axis not in self.group.outer))
        return item.level, axes

    def _place(self, item: Item) -> BufferView | None:
        """Where the item itself stores its value."""
        assert item.result is not None
        return None if item.result in self.homed else self.scope.places.get(item.result)

    def _emit(self, item: Item, draft: _Draft, first: bool) -> None:
        assert item.value is not None
        names = [self.names[axis] for axis in item.axes]
        point = renamed(item.point, names)
        expressions = draft.expressions
        if item.kind is Kind.REDUCE:
            if first:
                self._fold(item, draft, expressions.emit(item.value, point))
            else:
                self._store(item, draft, self.fold_result(item, expressions), renamed(item.result_point, names))
        elif item.kind is Kind.STORE:
            value = expressions.emit(item.value, point)
            assert item.target is not None
            draft.stores += store(self.scope, item, item.target, expressions, value, names)
        elif item.source is not None:
            self._store(item, draft, expressions.load(item.source, point), point)
        else:
            self._store(item, draft, expressions.emit(item.value, point, inside=True), point)

    def _store(self, item: Item, draft: _Draft, value: int, point: Point) -> None:
        place = self._place(item)
        if place is not None:
            draft.stores.append(Store(self.slots.write(place), point, value))

    def _fold(self, item: Item, draft: _Draft, element: int) -> None:
        assert item.node is not None
        reduction = fold(draft.expressions.body, item.node, element)
        if reduction not in draft.reductions:
            draft.reductions.append(reduction)
        self.folds[item] = draft.number, draft.reductions.index(reduction)

    def fold_result(self, item: Item, expressions: Expressions) -> int:
        """The finished result of a fold of an earlier stage."""
        assert item.node is not None
        return folded(expressions.body, item.node, *self.folds[item])


class _Resolver:
    """Finds values of the group and values in memory for one stage."""

    def __init__(self, emitter: Emitter, key: StageKey) -> None:
        self.emitter = emitter
        self.key = key

    def __call__(self, expressions: Expressions, value: Value, point: Point) -> int | None:
        emitter = self.emitter
        item = emitter.group.values.get(value)
        place = emitter.scope.place(value)
        if item is None:
            return None if place is None else expressions.load(place, point)
        if item.kind is Kind.REDUCE:
            return emitter.fold_result(item, expressions)
        if place is not None and self.key > emitter.key(item):
            return expressions.load(place, point)
        return None if item.source is None else expressions.load(item.source, point)


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
