"""The items of a block that are there whatever fusion decides: folds, products, stores, steps.

Assumes a prepared block and `scope.views` for every parameter that is a tensor. Guarantees that every effect of the
block is an item, in program order by `order`, and that results of regions and reads have their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import Literal
from dfc.ir.dims import ONE, ZERO, dim
from dfc.ir.dtypes import U64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import captured, carried, view
from dfc.ir.types import tensor
from dfc.kernels.body import Affine
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.inline import is_generator, is_inline
from dfc.lower.fuse.items.cost import Decision
from dfc.lower.fuse.items.items import (
    ComputeItem,
    ContractItem,
    Item,
    Producer,
    ReduceItem,
    ScanItem,
    ScatterItem,
    StepItem,
    StoreItem,
    Target,
    domain,
    own_reads,
    reduced_domain,
    writes_of,
)
from dfc.lower.fuse.items.order import STEP, at, position_of
from dfc.lower.fuse.items.part_reads import PartReads, part_reads, part_step
from dfc.lower.fuse.items.steps import is_tensor, state_effects, step_operands
from dfc.lower.fuse.items.targets import everything, region_shape, selected, whole, with_axes
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import BufferView, Storage, fresh, whole_view
from dfc.ops.attributes import (
    ArgAttributes,
    AssignAttributes,
    AxisAttributes,
    ConstantAttributes,
    DrawAttributes,
    ReduceAttributes,
    ResourceAttributes,
)
from dfc.ops.effects.effects import is_host_call
from dfc.ops.lowering.forms import ArgReduce, Concat, Contract, Reduce, Scan, ScatterAdd, Structural
from dfc.ops.lowering.index_maps import ORIGIN, along, broadcast_point, shifted
from dfc.ops.lowering.routines import routine_of
from dfc.ops.lowering.views import is_alias
from dfc.ops.registry import lowering_of

User = Node | Item


@dataclass(frozen=True, slots=True)
class RegionMemory:
    """The memory of the results of a node with regions: `carried` (or handed out by branches), and stacked emits."""

    carried: tuple[BufferView, ...]
    stacked: tuple[BufferView, ...]


@dataclass(slots=True)
class Collected:
    """A block as items and inline nodes."""

    block: Block
    items: list[Item] = field(default_factory=list[Item])
    inline: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])
    roots: dict[Value, Producer] = field(default_factory=dict[Value, Producer])
    users: dict[Value, list[User]] = field(default_factory=dict[Value, list[User]])
    positions: dict[Value, int] = field(default_factory=dict[Value, int])
    regions: dict[Node, RegionMemory] = field(default_factory=dict["Node", RegionMemory])
    stored: dict[Value, set[Storage]] = field(
        default_factory=dict[Value, "set[Storage]"]
    )  # where values are stored whole
    adopted: dict[Value, int] = field(default_factory=dict[Value, int])  # results of nodes of outer blocks, in order
    draws: dict[Node, Value] = field(default_factory=dict["Node", Value])
    part_reads: PartReads = field(default_factory=PartReads)
    decisions: dict[Value, Decision] = field(default_factory=dict[Value, "Decision"])  # by cost
    read_back: dict[Value, Decision] = field(default_factory=dict[Value, "Decision"])  # by later stages, or repeated
    passed: set[Node] = field(default_factory=set[Node])  # what products see through; their values need no memory

    def use(self, value: Value, user: User) -> None:
        self.users.setdefault(value, []).append(user)


Exit = tuple[Value, Target]


def collect(scope: Scope, block: Block, exits: Sequence[Exit]) -> Collected:
    """The items of a block; each exit is a value and the memory it must be in when the block ends."""
    collector = _Collector(scope, block)
    for position, node in enumerate(block.nodes):
        collector.visit(position, node)
    for number, (value, target) in enumerate(exits):
        if not collector.claim(value, target):
            collector.store(at(len(block.nodes), number), value, target, value.name, Span.nowhere())
    collector.result.items.sort(key=lambda item: item.order)
    return collector.result


class _Collector:
    def __init__(self, scope: Scope, block: Block) -> None:
        self.scope = scope
        self.result = Collected(block, part_reads=part_reads(scope, block))

    def visit(self, position: int, node: Node) -> None:
        for value in node.results:
            self.result.positions[value] = position
        if node.op == "constant" and not is_generator(node):
            self.scope.views[node.result] = self.scope.constant(node)
        elif node in self.result.part_reads:
            self._read_parts(position, node)
        elif is_alias(node) or is_inline(node):
            self._inline(position, node)
        else:
            self._visit_item(position, node)

    def _inline(self, position: int, node: Node) -> None:
        self._adopt(position, node.operands)
        self.result.inline.append((position, node))
        for value in node.operands:
            self.result.use(value, node)

    def _adopt(self, position: int, values: Sequence[Value]) -> None:
        """Takes views and generators of outer blocks that have no memory there as nodes of this block."""
        pending = [v.node for v in values if self._is_foreign(v) and v.node is not None]
        while pending:
            node = pending[-1]
            below = [v.node for v in node.operands if self._is_foreign(v) and v.node is not None]
            if below:
                pending += below
                continue
            pending.pop()
            if self._is_foreign(node.result):
                self.result.positions[node.result] = position
                self.result.adopted[node.result] = len(self.result.adopted)
                self.result.inline.append((position, node))
                for value in node.operands:
                    self.result.use(value, node)

    def _is_foreign(self, value: Value) -> bool:
        return value not in self.result.positions and value.node is not None and self.scope.view_of(value) is None

    def _visit_item(self, position: int, node: Node) -> None:
        match lowering_of(node):
            case Contract():
                self._contract(position, node)
            case Concat(axis):
                self._concat(position, node, axis(node))
            case Scan():
                self._scan(position, node)
            case ScatterAdd(axis):
                self._scatter(position, node, axis(node))
            case Reduce() | ArgReduce():
                self._reduce(position, node)
            case Structural():
                self._structural(position, node)
            case _:
                assert is_host_call(node) or routine_of(node) is not None, f"{node.op} reaches fusion"
                self._call(position, node)

    def _structural(self, position: int, node: Node) -> None:
        match node.op:
            case "read":
                self._read(position, node)
            case "assign":
                self._assign(position, node)
            case "draw":
                self._draw(position, node)
            case _:
                self._step(position, node)

    def claim(self, value: Value, target: Target) -> bool:
        """Makes memory of this block the memory of a result, if the value has some of its own."""
        buffer = self.scope.views.get(value)
        result = target.view.storage
        if buffer is None or result not in self.scope.results or value not in self.result.positions:
            return False
        storage = buffer.storage
        if storage.role is not BufferRole.ARENA or not buffer.whole:
            return False
        storage.role, storage.index, storage.name = BufferRole.RESULT, result.index, result.name
        self.scope.claimed[result] = buffer
        return True

    def _add(self, item: Item, *used: Value) -> None:
        self._adopt(position_of(item.order), used)
        self.result.items.append(item)
        if not isinstance(item, StoreItem | StepItem):
            self.result.roots[item.result] = item
        for value in used:
            self.result.use(value, item)

    def store(self, order: int, value: Value, target: Target, name: str, span: Span, node: Node | None = None) -> None:
        """Adds a store of a value, broadcast to the region that the target selects."""
        item = self._store(order, value, target, name, span, node)
        self._add(item, item.value, *(index.ids for index in item.target.selectors))

    def _store(
        self, order: int, value: Value, target: Target, name: str, span: Span, node: Node | None = None
    ) -> StoreItem:
        base = base_of(value)
        if target.whole and base is not value and value.tensor.shape == target.view.shape:
            value, target = base, whole(BufferView(target.view.storage, base.tensor.shape))
        shape = region_shape(target)
        extents, point = domain(shape)
        if target.whole:
            self.result.stored.setdefault(value, set()).add(target.view.storage)
        where = broadcast_point(point, shape, value.tensor.shape)
        return StoreItem(order, name, span, value, with_axes(target, point), extents, where, node)

    def _read(self, position: int, node: Node) -> None:
        """A value where the variable is; a copy where other calls may change it."""
        attributes = node.attributes
        assert isinstance(attributes, ResourceAttributes)
        state = self.scope.state(attributes.resource)
        self.scope.views[node.result] = whole_view(state)
        if attributes.resource in self.scope.isolated:
            self.scope.views[node.result] = self._copied(at(position), node, state)

    def _read_parts(self, position: int, node: Node) -> None:
        """At the first part of a read, the step that copies all of them."""
        reader = self.result.part_reads.first.get(node)
        if reader is not None:
            step = part_step(reader, self.result.part_reads, at(position), self.scope)
            self._add(step, *step.used)

    def _copied(self, order: int, node: Node, state: Storage) -> BufferView:
        """Memory that a step of its own copies state to; that of a draw counts it as well."""
        buffer = whole_view(fresh(state.dtype, state.shape, node.name))
        writes = {buffer.storage, state} if node.op == "draw" else {buffer.storage}
        reads = frozenset((state,))
        self._add(StepItem(order, node.name, node.span, node, reads=reads, writes=frozenset(writes)))
        return buffer

    def _assign(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, AssignAttributes)
        storage = self.scope.state(attributes.resource)
        isolated = attributes.resource in self.scope.isolated
        if attributes.index:
            target = selected(storage, node, attributes)
        else:
            target = everything(storage, attributes.mode) if isolated else whole(whole_view(storage))
        if not isolated:
            self.store(at(position), node.operands[0], target, attributes.resource, node.span, node)
            return
        store = self._store(at(position), node.operands[0], target, attributes.resource, node.span, node)
        used = (store.value, *(index.ids for index in store.target.selectors))
        step = StepItem(store.order, store.name, node.span, node, used, own_reads(store), writes_of(store), store)
        self._add(step, *used)

    def _draw(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, DrawAttributes)
        state = self.scope.state(attributes.resource)
        source = Value(tensor(U64, 4), attributes.resource)
        isolated = attributes.resource in self.scope.isolated
        self.scope.views[source] = self._copied(at(position, -1), node, state) if isolated else whole_view(state)
        self.result.draws[node] = source
        self.result.positions[source] = position
        extents, point = domain(node.result.tensor.shape)
        self._add(ComputeItem(at(position), node.name, node.span, node, extents, point), source)
        if not isolated:
            self.store(at(position, 1), one_more(), counter(state), attributes.resource, node.span)

    def _contract(self, position: int, node: Node) -> None:
        a, b = node.operands
        *batch, m, k = a.tensor.shape
        n = b.tensor.shape[-1]
        axes = (along(axis) for axis in range(len(batch) + 2))
        point = tuple(ORIGIN if d == ONE else index for index, d in zip(axes, node.result.tensor.shape, strict=True))
        self._add(ContractItem(at(position), node.name, node.span, node, (*batch, m, n, k), point), a, b)

    def _concat(self, position: int, node: Node, joined: int) -> None:
        """Every part is stored into its own piece of the result."""
        kind = node.result.tensor
        buffer = self.scope.views[node.result] = whole_view(fresh(kind.machine, kind.shape, node.name))
        start = ZERO
        for number, part in enumerate(node.operands):
            shape = part.tensor.shape
            index = tuple(shifted(along(axis), start) if axis == joined else along(axis) for axis in range(len(shape)))
            self.store(at(position, number), part, Target(buffer, index, region=shape), node.name, node.span)
            start = start + shape[joined]

    def _scan(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, AxisAttributes)
        shape = node.result.tensor.shape
        point = tuple(along(axis) for axis in range(len(shape)))
        self._add(ScanItem(at(position), node.name, node.span, node, shape, point), node.operands[0])

    def _scatter(self, position: int, node: Node, axis: int) -> None:
        ids, rows = node.operands
        point = tuple(along(axis) for axis in range(rows.tensor.rank))
        where = point[axis : axis + ids.tensor.rank]
        item = ScatterItem(at(position), node.name, node.span, node, rows.tensor.shape, point, where, axis)
        self._add(item, ids, rows)

    def _reduce(self, position: int, node: Node) -> None:
        attributes = node.attributes
        operand = node.operands[0]
        if isinstance(attributes, ArgAttributes):
            axes, keep = (attributes.axis,), False
        else:
            assert isinstance(attributes, ReduceAttributes), node
            axes, keep = attributes.axes, attributes.keep_dims
        extents, point = reduced_domain(operand.tensor, axes)
        kept = [ORIGIN if axis in axes else i for axis, i in enumerate(point) if keep or axis not in axes]
        self._add(ReduceItem(at(position), node.name, node.span, node, extents, point, tuple(kept)), operand)

    def _step(self, position: int, node: Node) -> None:
        used = tuple(dict.fromkeys([*step_operands(node), *filter(is_tensor, captured(node))]))
        effects = state_effects(node)
        reads = frozenset(self.scope.state(name) for name, written in effects if not written)
        writes = {self.scope.state(name) for name, written in effects if written}
        if node.regions:
            writes |= self._regions(position, node)
        order = at(position, STEP)
        self._add(StepItem(order, node.name, node.span, node, used, reads, frozenset(writes)), *used)

    def _call(self, position: int, node: Node) -> None:
        """What the run side or a routine gives has memory of its own."""
        writes = frozenset(self._own(value).storage for value in node.results if is_tensor(value))
        used = step_operands(node)
        order = at(position, STEP)
        self._add(StepItem(order, node.name, node.span, node, used, writes=writes), *used)

    def _own(self, value: Value) -> BufferView:
        """Gives a value memory of its own."""
        buffer = self.scope.views[value] = whole_view(fresh(value.tensor.machine, value.tensor.shape, value.name))
        return buffer

    def _regions(self, position: int, node: Node) -> set[Storage]:
        """Gives results of a node with regions their memory, and stores there what a loop begins with."""
        parts = view(node)
        carries, stacked = (tuple(map(self._own, v)) for v in (parts.results.values, parts.results.emitted))
        self.result.regions[node] = RegionMemory(carries, stacked)
        initial = [flow.initial for flow in carried(parts) if flow.initial is not None]
        for number, (value, buffer) in enumerate(zip(initial, carries, strict=False)):
            self.store(at(position, number - len(initial)), value, whole(buffer), node.name, node.span)
        return {buffer.storage for buffer in (*carries, *stacked)}


def one_more() -> Value:
    """What a draw adds to the count of its rng."""
    return Node("constant", (), (tensor(U64),), attributes=ConstantAttributes(Literal(np.array(1, np.uint64)))).result


def counter(state: Storage) -> Target:
    """The count of draws in the state of an rng."""
    return Target(whole_view(state), (Affine((), dim(2)),), "+=")
