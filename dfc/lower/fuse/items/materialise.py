"""Which inline nodes get memory (become items) and which are computed inside the items that use them.

The rule: an inline node is computed inside an item when that alone uses it, at as many points as the node has elements;
views and generators always. Where several items use it, or one at more points than it has elements (a value of each
channel that every pixel reads), `cost` compares the work that is repeated with the memory traffic that this saves. It
gets memory when a user needs it there (gather, pad and reshape operands, captured by a region), when several items use
it and it follows a product (whose kernel stores it at no cost) and is all that this is used for, or is expensive, when
it is a scalar that array code uses, when the item has grown to `LIMIT` nodes, or when the item runs after a variable
was overwritten that the node reads; so does a small slice of a variable then, which would otherwise be copied whole. A
few operations on indices, such as those of a mask, are repeated by all, and never read from memory.

Before: `d = x - m` used by `exp(d)` and `d * y`, in two items; `r = rsqrt(v)` for each of 32 channels.
After: no memory for `d` (one operation, two loads); memory for `exp(d)` if two items use it, and for `r`.

Assumes items from `collect`. Guarantees linear time in nodes and uses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import product
from dfc.ir.graph import Node, Value
from dfc.lower.fuse.inline import inputs_at, is_generator, is_table, is_view, needs_memory
from dfc.lower.fuse.items.analyse import starts
from dfc.lower.fuse.items.collect import Collected, User
from dfc.lower.fuse.items.cones import NEVER, Cone, cones_of
from dfc.lower.fuse.items.cost import HIDDEN, INDICES, assumed, decision, evaluations
from dfc.lower.fuse.items.factors import factors, nodes_to_pass
from dfc.lower.fuse.items.items import (
    ComputeItem,
    ContractItem,
    Item,
    StepItem,
    domain,
    extents_of,
    result_of,
    writes_of,
)
from dfc.lower.fuse.items.order import FIRST, at, position_of
from dfc.lower.fuse.items.steps import step_operands
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import Storage
from dfc.ops.lowering.index_maps import Point
from dfc.ops.lowering.views import Movement, is_alias, movement_of

LIMIT = 200  # nodes in one item
SMALL = 4  # a part of a variable is at most one of so many
POINTS = 16  # of one item at which a value is read, that are told apart


@dataclass(slots=True)
class _Absorber:
    scope: Scope
    collected: Collected
    writes: dict[Storage, list[int]]
    inline: set[Value]
    cones: dict[Value, Cone] = field(default_factory=dict[Value, Cone])
    users: dict[Node, tuple[Item, ...]] = field(default_factory=dict["Node", tuple[Item, ...]])
    sizes: dict[Item, int] = field(default_factory=dict["Item", int])
    forced: set[Value] = field(default_factory=set[Value])
    reads: dict[Value, dict[Item, list[Point]]] = field(default_factory=dict[Value, "dict[Item, list[Point]]"])

    def run(self) -> None:
        self._pass_factors()
        self._force()
        inline = (node for _, node in self.collected.inline)
        self.cones = cones_of(inline, self.forced, self.collected.users, self._deadline)
        self._read_by_items()
        for position, node in reversed(self.collected.inline):
            if not is_alias(node):
                self._decide(position, node)
        self._drop_unused()
        self.collected.items.sort(key=lambda item: item.order)

    def _pass_factors(self) -> None:
        """Finds what products see through."""
        if self.scope.fusing:
            inline = [node for _, node in self.collected.inline]
            has_memory = self._has_memory
            self.collected.passed = nodes_to_pass(inline, self.collected.items, self.collected.users, has_memory)

    def _has_memory(self, value: Value) -> bool:
        return self.scope.view_of(value) is not None

    def _deadline(self, value: Value) -> int:
        """When the memory that a value names is overwritten for the first time after it was read."""
        view = self.scope.view_of(value)
        if view is None or view.storage not in self.writes:
            return NEVER
        start = self.collected.positions.get(base_of(value), -1)
        positions = self.writes[view.storage]
        first = bisect_right(positions, start)
        return positions[first] if first < len(positions) else NEVER

    def _force(self) -> None:
        """Marks what must be in memory because of who uses it; through views for products and regions."""
        for value, every_user in self.collected.users.items():
            users = [user for user in every_user if user not in self.collected.passed]
            if any(_wants_memory(user, value) for user in users):
                self._force_base(value, any(_wants_itself(user, value) for user in users))
        for item in self.collected.items:
            if isinstance(item, ContractItem):
                self._force_factors(item)

    def _force_factors(self, item: ContractItem) -> None:
        """What a product reads. A factor that is made from its index alone, a broadcast constant say, has to be laid
        out."""
        read = factors(item, self._has_memory, self.collected.passed)
        for factor, operand in zip(read, item.node.operands, strict=True):
            value = base_of(factor.value)
            if value in self.inline:
                generated = value.node is not None and is_generator(value.node)
                self.forced.add(base_of(operand) if generated else value)

    def _force_base(self, value: Value, itself: bool) -> None:
        value = base_of(value) if itself else self._below_views(value)
        if value in self.inline and (itself or value.node is None or not is_generator(value.node)):
            self.forced.add(value)

    def _below_views(self, value: Value) -> Value:
        while value.node is not None and value in self.inline and is_view(value.node):
            value = value.node.operands[0]
        return base_of(value)

    def _decide(self, position: int, node: Node) -> None:
        value = node.result
        items = self._items_using(value)
        if value in self.forced:
            self._root(position, node)
        elif not items or node in self.collected.passed:
            self.users[node] = ()
        elif self._is_late_piece(node, items):
            self._root(position, node)
        elif is_view(node) or is_generator(node) or self._may_absorb(node, items):
            self._absorb(node, items)
        else:
            self._root(position, node)

    def _items_using(self, value: Value) -> tuple[Item, ...]:
        items: dict[Item, None] = {}
        for user in self.collected.users.get(value, ()):
            if not isinstance(user, Node):
                items[user] = None
            elif user.result in self.collected.roots:
                items[self.collected.roots[user.result]] = None
            else:
                items.update(dict.fromkeys(self.users.get(user, ())))
        return tuple(items)

    def _may_absorb(self, node: Node, items: tuple[Item, ...]) -> bool:
        cone = self.cones[node.result]
        if not self.scope.fusing:
            return False
        if any(isinstance(item, StepItem | ContractItem) for item in items):
            return False
        if any(position_of(item.order) > cone.deadline for item in items) and not self._keep_below(node):
            return False
        if any(self.sizes.get(item, 0) >= LIMIT for item in items):
            return False
        if not node.result.tensor.shape and any(extents_of(item) for item in items):
            return False
        return self._repeats(node, cone, items)

    def _repeats(self, node: Node, cone: Cone, items: tuple[Item, ...]) -> bool:
        """Whether these items compute the value of a node themselves: at no more points than it has elements if it is
        one item, else if that costs less than memory."""
        value = node.result
        reads = self.reads.get(value, {})
        if cone.of_indices and cone.weight <= INDICES and value.tensor.shape:
            return True
        if len(items) == 1:
            once = assumed(product(value.tensor.shape))
            if cone.weight <= HIDDEN or evaluations(items[0], reads.get(items[0], ())) <= once:
                return True
        elif cone.is_stored_by_product or not value.tensor.shape:
            return False
        work = (cone.weight, cone.loaded) if len(items) == 1 else (cone.several_weight, cone.several_loaded)
        decided = decision(value, *work, {item: reads.get(item, ()) for item in items})
        self.collected.decisions[value] = decided
        return not decided.keeps

    def _read_by_items(self) -> None:
        """Where items that are there from the beginning read values."""
        for item in self.collected.items:
            if not isinstance(item, StepItem | ContractItem):
                self._read(item, starts(self.scope, self.collected, item))

    def _read(self, item: Item, leaves: Iterable[tuple[Value, Point | None]]) -> None:
        """Notes that an item computes from values, read at points."""
        for value, point in leaves:
            if point is not None and value in self.inline:
                points = self.reads.setdefault(value, {}).setdefault(item, [])
                if point not in points and len(points) < POINTS:
                    points.append(point)

    def _is_late_piece(self, node: Node, items: tuple[Item, ...]) -> bool:
        """Whether a small part of a variable is used after the variable was overwritten: better the part is kept."""
        deadline = self.cones[node.result].deadline
        if movement_of(node) is not Movement.SUBSET or all(position_of(item.order) <= deadline for item in items):
            return False
        part, whole = (product(v.tensor.shape).constant for v in (node.result, node.operands[0]))
        return part is None or whole is None or part * SMALL <= whole

    def _keep_below(self, node: Node) -> bool:
        """Gives memory to the operands that read a variable before it is overwritten, if others use these anyway."""
        early = [v for v in node.operands if self._reads_before(v)]
        if any(v not in self.cones or len(self.collected.users[v]) < 2 or is_view(_node(v)) for v in early):
            return False
        self.forced.update(early)
        return True

    def _reads_before(self, value: Value) -> bool:
        cone = self.cones.get(value)
        return (self._deadline(value) if cone is None else cone.deadline) < NEVER

    def _absorb(self, node: Node, items: tuple[Item, ...]) -> None:
        self.users[node] = items
        reads = self.reads.get(node.result, {})
        for item in items:
            self.sizes[item] = self.sizes.get(item, 0) + 1
            for point in reads.get(item, ()):
                self._read(item, inputs_at(node, point))

    def _root(self, position: int, node: Node) -> None:
        value = node.result
        if is_table(node):
            self.scope.views[value] = self.scope.table(node)
            return
        extents, point = domain(value.tensor.shape)
        adopted = self.collected.adopted.get(value)
        order = at(position, 0 if adopted is None else adopted + FIRST)
        item = ComputeItem(order, node.name, node.span, node, extents, point)
        self.sizes[item] = 1
        self.collected.roots[value] = item
        self.collected.items.append(item)
        self._read(item, starts(self.scope, self.collected, item))

    def _drop_unused(self) -> None:
        """A draw whose numbers nobody uses still advances its rng, but makes no numbers."""
        results = ((item, result_of(item)) for item in self.collected.items)
        self.collected.items = [item for item, result in results if result is None or self.collected.users.get(result)]
        kept = set(self.collected.items)
        self.collected.roots = {value: item for value, item in self.collected.roots.items() if item in kept}


def materialise(scope: Scope, collected: Collected) -> None:
    """Adds a `ComputeItem` for every inline node that gets memory, and numbers all items."""
    inline = {node.result for _, node in collected.inline}
    _Absorber(scope, collected, write_positions(collected.items), inline).run()


def write_positions(items: Iterable[Item]) -> dict[Storage, list[int]]:
    """The positions at which each piece of memory is overwritten, ascending."""
    writes: dict[Storage, list[int]] = {}
    for item in items:
        for storage in writes_of(item):
            writes.setdefault(storage, []).append(position_of(item.order))
    return {storage: sorted(positions) for storage, positions in writes.items()}


def _wants_memory(user: User, value: Value) -> bool:
    return isinstance(user, StepItem) if not isinstance(user, Node) else _wants_itself(user, value)


def _wants_itself(user: User, value: Value) -> bool:
    """Whether the user can't look through a view at the operand."""
    if not isinstance(user, Node):
        return isinstance(user, StepItem) and value in step_operands(user.node)
    return any(operand is value and needs_memory(user, i) for i, operand in enumerate(user.operands))


def _node(value: Value) -> Node:
    assert value.node is not None, value
    return value.node
