"""The items of a block that are there whatever fusion decides: folds, products, stores, steps.

Assumes a prepared block and `scope.places` for every parameter that is a tensor. Guarantees that every effect of the
block is an item, in program order by `key`, and that results of regions and reads have their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.attributes import Literal
from dfc.ir.dims import ONE, ZERO, dim
from dfc.ir.dtypes import U64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ir.walk import free_values, nodes
from dfc.kernels.body import Affine
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.indexing import ORIGIN, along, broadcast_point, shifted
from dfc.lower.fuse.inline import is_alias, is_generator, is_inline, is_reshape
from dfc.lower.fuse.items.items import Item, Kind, Selector, Target, domain, reduced_domain
from dfc.lower.fuse.items.part_reads import PartReads, part_reads, part_step
from dfc.lower.fuse.items.targets import everything, region_shape, selected, whole, with_axes
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import BufferView, Storage, fresh, place_of
from dfc.ops import registry
from dfc.ops.attributes import (
    ArgAttributes,
    AssignAttributes,
    AxisAttributes,
    ConstantAttributes,
    DrawAttributes,
    ForAttributes,
    HostAttributes,
    ReduceAttributes,
    ResourceAttributes,
    ScatterAttributes,
)
from dfc.ops.effects.effects import is_host_call
from dfc.ops.record import Reduce, Scan

User = Node | Item


@dataclass(slots=True)
class Regions:
    """The memory of a node with regions: `carried` (results of `if` too), stacked emits, and the bool of a `while`."""

    carried: list[BufferView] = field(default_factory=list[BufferView])
    stacked: list[BufferView] = field(default_factory=list[BufferView])
    test: BufferView | None = None


@dataclass(slots=True)
class Collected:
    """A block as items and inline nodes."""

    block: Block
    items: list[Item] = field(default_factory=list[Item])
    inline: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])
    roots: dict[Value, Item] = field(default_factory=dict[Value, Item])
    users: dict[Value, list[User]] = field(default_factory=dict[Value, list[User]])
    positions: dict[Value, int] = field(default_factory=dict[Value, int])
    regions: dict[Node, Regions] = field(default_factory=dict["Node", Regions])
    homes: dict[Value, set[Storage]] = field(
        default_factory=dict[Value, "set[Storage]"]
    )  # where values are stored whole
    adopted: dict[Value, int] = field(default_factory=dict[Value, int])  # results of nodes of outer blocks, in order
    draws: dict[Node, Value] = field(default_factory=dict["Node", Value])
    part_reads: PartReads = field(default_factory=PartReads)
    passed: set[Node] = field(default_factory=set[Node])  # what products see through; their values need no memory

    def use(self, value: Value, user: User) -> None:
        self.users.setdefault(value, []).append(user)


Exit = tuple[Value, Target]


def collect(scope: Scope, block: Block, exits: Sequence[Exit]) -> Collected:
    """The items of a block; each exit is a value and the memory it must be in when the block ends."""
    found = _Collector(scope, block)
    for position, node in enumerate(block.nodes):
        found.visit(position, node)
    for number, (value, target) in enumerate(exits):
        if not found.claim(value, target):
            found.store((len(block.nodes), number), value, target, value.name, Span.nowhere())
    found.result.items.sort(key=lambda item: item.key)
    return found.result


class _Collector:
    def __init__(self, scope: Scope, block: Block) -> None:
        self.scope = scope
        self.result = Collected(block, part_reads=part_reads(scope, block))

    def visit(self, position: int, node: Node) -> None:
        for value in node.results:
            self.result.positions[value] = position
        if node.op == "constant" and not is_generator(node):
            self.scope.places[node.result] = self.scope.constant(node)
        elif node in self.result.part_reads:
            self._read_parts(position, node)
        elif is_alias_node(node) or is_inline(node):
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
        return value not in self.result.positions and value.node is not None and self.scope.place(value) is None

    def _visit_item(self, position: int, node: Node) -> None:
        match node.op:
            case "read":
                self._read(position, node)
            case "assign":
                self._assign(position, node)
            case "draw":
                self._draw(position, node)
            case "matmul":
                self._contract(position, node)
            case "concat":
                self._concat(position, node)
            case _ if isinstance(registry.record(node.op).lowering, Scan):
                self._scan(position, node)
            case "scatter_add":
                self._scatter(position, node)
            case "if" | "while" | "for" | "assert" | "range" | "checkpoint_save" | "checkpoint_restore":
                self._step(position, node)
            case _ if is_host_call(node):
                self._host_call(position, node)
            case _:
                self._reduce(position, node)

    def claim(self, value: Value, target: Target) -> bool:
        """Makes memory of this block the memory of a result, if the value has some of its own."""
        place = self.scope.places.get(value)
        result = target.place.storage
        if place is None or result not in self.scope.results or value not in self.result.positions:
            return False
        storage = place.storage
        if storage.role is not BufferRole.ARENA or not place.whole:
            return False
        storage.role, storage.index, storage.name = BufferRole.RESULT, result.index, result.name
        self.scope.claimed[result] = place
        return True

    def _add(self, item: Item, *used: Value) -> Item:
        self._adopt(item.key[0], used)
        item.used = used
        self.result.items.append(item)
        if item.result is not None:
            self.result.roots[item.result] = item
        for value in used:
            self.result.use(value, item)
        return item

    def store(self, key: tuple[int, int], value: Value, target: Target, name: str, span: Span) -> Item:
        """An item that stores a value, broadcast to the region that the target selects."""
        base = base_of(value)
        if target.whole and base is not value and value.tensor.shape == target.place.shape:
            value, target = base, whole(BufferView(target.place.storage, base.tensor.shape))
        shape = region_shape(target)
        extents, point = domain(shape)
        item = Item(key, Kind.STORE, name, span, value=value, target=with_axes(target, point), extents=extents)
        item.point = broadcast_point(point, shape, value.tensor.shape)
        item.writes.add(target.place.storage)
        if target.whole:
            self.result.homes.setdefault(value, set()).add(target.place.storage)
        if target.mode != ":=":
            item.reads.add(target.place.storage)
        ids = [index.ids for index in target.index if isinstance(index, Selector)]
        return self._add(item, value, *ids)

    def _read(self, position: int, node: Node) -> None:
        """A value where the variable is; a copy where other calls may change it."""
        attributes = node.attributes
        assert isinstance(attributes, ResourceAttributes)
        state = self.scope.state(attributes.resource)
        self.scope.places[node.result] = place_of(state)
        if attributes.resource in self.scope.isolated:
            self.scope.places[node.result] = self._copied((position, 0), node, state)

    def _read_parts(self, position: int, node: Node) -> None:
        """At the first part of a read, the step that copies all of them."""
        reader = self.result.part_reads.first.get(node)
        if reader is not None:
            self._add(*part_step(reader, self.result.part_reads, (position, 0), self.scope))

    def _copied(self, key: tuple[int, int], node: Node, state: Storage) -> BufferView:
        """Memory that a step of its own copies state to."""
        place = place_of(fresh(state.dtype, state.shape, node.name))
        item = self._add(Item(key, Kind.STEP, node.name, node.span, node=node))
        item.reads.add(state)
        item.writes.add(place.storage)
        if node.op == "draw":
            item.writes.add(state)  # the same step counts the draw
        return place

    def _assign(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, AssignAttributes)
        storage = self.scope.state(attributes.resource)
        isolated = attributes.resource in self.scope.isolated
        if attributes.index:
            target = selected(storage, node, attributes)
        else:
            target = everything(storage, attributes.mode) if isolated else whole(place_of(storage))
        item = self.store((position, 0), node.operands[0], target, attributes.resource, node.span)
        item.node = node
        item.kind = Kind.STEP if isolated else item.kind

    def _draw(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, DrawAttributes)
        state = self.scope.state(attributes.resource)
        source = Value(tensor(U64, 4), attributes.resource)
        isolated = attributes.resource in self.scope.isolated
        self.scope.places[source] = self._copied((position, -1), node, state) if isolated else place_of(state)
        self.result.draws[node] = source
        self.result.positions[source] = position
        extents, point = domain(node.result.tensor.shape)
        item = Item((position, 0), Kind.VALUE, node.name, node.span, value=node.result, result=node.result, node=node)
        item.extents, item.point, item.result_point = extents, point, point
        self._add(item, source)
        if not isolated:
            self.store((position, 1), one_more(), counter(state), attributes.resource, node.span)

    def _contract(self, position: int, node: Node) -> None:
        a, b = node.operands
        *batch, m, k = a.tensor.shape
        n = b.tensor.shape[-1]
        item = Item((position, 0), Kind.CONTRACT, node.name, node.span, result=node.result, node=node)
        item.extents = (*batch, m, n, k)
        result = tuple(along(axis) for axis in range(len(batch) + 2))
        item.result_point = tuple(
            ORIGIN if d == ONE else index for index, d in zip(result, node.result.tensor.shape, strict=True)
        )
        self._add(item, a, b)

    def _concat(self, position: int, node: Node) -> None:
        """Every part is stored into its own piece of the result."""
        attributes = node.attributes
        assert isinstance(attributes, AxisAttributes)
        kind = node.result.tensor
        place = self.scope.places[node.result] = place_of(fresh(kind.machine, kind.shape, node.name))
        start = ZERO
        for number, part in enumerate(node.operands):
            shape = part.tensor.shape
            index = tuple(
                shifted(along(axis), start) if axis == attributes.axis else along(axis) for axis in range(len(shape))
            )
            self.store((position, number), part, Target(place, index, region=shape), node.name, node.span)
            start = start + shape[attributes.axis]

    def _scan(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, AxisAttributes)
        item = Item((position, 0), Kind.SCAN, node.name, node.span, node.operands[0], node.result, node)
        shape = node.result.tensor.shape
        item.extents = shape
        item.point = item.result_point = tuple(along(axis) for axis in range(len(shape)))
        self._add(item, node.operands[0])

    def _scatter(self, position: int, node: Node) -> None:
        attributes = node.attributes
        assert isinstance(attributes, ScatterAttributes)
        ids, rows = node.operands
        item = Item((position, 0), Kind.SCATTER, node.name, node.span, rows, node.result, node)
        item.extents = rows.tensor.shape
        item.point = tuple(along(axis) for axis in range(len(item.extents)))
        self._add(item, ids, rows)

    def _reduce(self, position: int, node: Node) -> None:
        lowering = registry.record(node.op).lowering
        attributes = node.attributes
        operand = node.operands[0]
        if isinstance(attributes, ArgAttributes):
            axes, keep = (attributes.axis,), False
        else:
            assert isinstance(lowering, Reduce), f"{node.op} reaches fusion"
            assert isinstance(attributes, ReduceAttributes)
            axes, keep = attributes.axes, attributes.keep_dims
        item = Item((position, 0), Kind.REDUCE, node.name, node.span, operand, node.result, node)
        item.extents, item.point = reduced_domain(operand.tensor, axes)
        kept = [ORIGIN if axis in axes else i for axis, i in enumerate(item.point) if keep or axis not in axes]
        item.result_point = tuple(kept)
        self._add(item, operand)

    def _step(self, position: int, node: Node) -> None:
        item = Item((position, 9), Kind.STEP, node.name, node.span, node=node)
        captured = list(dict.fromkeys(v for region in node.regions for v in free_values(region) if _is_tensor(v)))
        used = dict.fromkeys([*_step_operands(node), *captured])
        for name, written in _state_effects(node):
            (item.writes if written else item.reads).add(self.scope.state(name))
        if node.regions:
            self._regions(position, node, item)
        self._add(item, *used)

    def _host_call(self, position: int, node: Node) -> None:
        """What the run side gives has memory of its own."""
        item = Item((position, 9), Kind.STEP, node.name, node.span, node=node)
        for value in filter(_is_tensor, node.results):
            place = self.scope.places[value] = place_of(fresh(value.tensor.machine, value.tensor.shape, value.name))
            item.writes.add(place.storage)
        self._add(item, *filter(_is_tensor, node.operands))

    def _regions(self, position: int, node: Node, item: Item) -> None:
        memory = self.result.regions[node] = Regions()
        first = 2 if node.op == "for" else 0
        carries = [v for v in node.operands[first:] if _is_tensor(v)] if node.op != "if" else []
        kept = [v for v in node.results if _is_tensor(v)]
        count = len(kept)
        if node.op == "for":
            assert isinstance(node.attributes, ForAttributes)
            count = node.attributes.carries
        for number, result in enumerate(kept):
            storage = fresh(result.tensor.machine, result.tensor.shape, result.name)
            place = self.scope.places[result] = place_of(storage)
            (memory.carried if number < count else memory.stacked).append(place)
            item.writes.add(storage)
        for number, (value, place) in enumerate(zip(carries, memory.carried, strict=False)):
            self.store((position, number - len(carries)), value, whole(place), node.name, node.span)


def one_more() -> Value:
    """What a draw adds to the count of its rng."""
    return Node("constant", (), (tensor(U64),), attributes=ConstantAttributes(Literal(np.array(1, np.uint64)))).result


def counter(state: Storage) -> Target:
    """The count of draws in the state of an rng."""
    return Target(place_of(state), (Affine((), dim(2)),), "+=")


def is_alias_node(node: Node) -> bool:
    return is_reshape(node) and is_alias(node)


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _step_operands(node: Node) -> list[Value]:
    """The operands a step looks at itself; carried values were stored before it."""
    match node.op:
        case "if" | "assert" | "range":
            return [node.operands[0]]
        case "for":
            return list(node.operands[:2])
        case _:
            return []


def _state_effects(node: Node) -> list[tuple[str, bool]]:
    """Which state a step reads (False) or writes (True), nested regions included."""
    effects: dict[tuple[str, bool], None] = {}
    for inner in (node, *(n for region in node.regions for n in nodes(region))):
        attributes = inner.attributes
        match attributes:
            case ResourceAttributes():
                effects[attributes.resource, False] = None
            case AssignAttributes() | DrawAttributes():
                effects[attributes.resource, True] = None
            case HostAttributes():
                effects.update(((name, inner.op == "checkpoint_restore"), None) for name in attributes.resources)
            case _:
                pass
    return list(effects)
