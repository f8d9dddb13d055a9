"""Items that would read memory after it was overwritten.

Before: `old = read w; assign w; store old to the result`.    After: the store stands before the assignment.

Assumes analysed items in their order. Guarantees that no item reads memory that an item before it has overwritten since
the value was named: a late reader was moved before the write, or the value was copied. Nor does a store compute what it
stores from other points of the same memory: such a value, a stencil in place, has got memory of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.items.analyse import again, analysed, copied
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import (
    Analysed,
    ComputeItem,
    CopyItem,
    Item,
    Leaf,
    StepItem,
    StoreItem,
    domain,
    writes_of,
)
from dfc.lower.fuse.items.order import FIRST, LAST, at, position_of
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import Storage


def without_hazards(scope: Scope, collected: Collected, items: Sequence[Analysed]) -> list[Analysed]:
    """The items in an order in which each of them reads what it means."""
    return _split(scope, collected, _Repair(scope, collected, items).run())


@dataclass(slots=True)
class _Repair:
    """Moves late readers before the write, or makes a copy for them. `orders` are the positions of items by now."""

    scope: Scope
    collected: Collected
    items: Sequence[Analysed]
    orders: dict[Item, int] = field(default_factory=dict["Item", int])
    writers: dict[Storage, list[Item]] = field(default_factory=dict[Storage, "list[Item]"])
    first: dict[Value, Item | None] = field(default_factory=dict[Value, "Item | None"])

    def run(self) -> list[Analysed]:
        for each in self.items:
            self.orders[each.item] = each.order
            for storage in writes_of(each.item):
                self.writers.setdefault(storage, []).append(each.item)
        copies: dict[Value, CopyItem] = {}
        moved = False
        for each in self.items:
            late = [(v, writer) for v, writer in self._late(each) if v not in copies]
            if not late:
                continue
            moved = True
            earliest = min(self.orders[writer] for _, writer in late)
            if self._may_move(each, earliest):
                self.orders[each.item] = min(earliest_order(self.collected, self.orders, each), earliest - 1)
                continue
            for value, writer in dict(late).items():
                copies[value] = copy_of(self.scope, self.collected, value, writer)
        if not moved:
            return list(self.items)
        kept = [replace(each, order=self.orders[each.item]) for each in self.items]
        return sorted([*kept, *map(copied, copies.values())], key=lambda each: each.order)

    def _late(self, each: Analysed) -> list[tuple[Value, Item]]:
        """What an item reads after it was overwritten, and by which item first."""
        own = self.orders[each.item]
        pairs = [(value, self._overwriter(value)) for value, _ in each.leaves]
        return [
            (value, writer)
            for value, writer in pairs
            if writer is not None
            and (self.orders[writer] < own or (writer is each.item and isinstance(writer, StepItem)))
        ]

    def _overwriter(self, value: Value) -> Item | None:
        """The first item that overwrites the memory a value names, after the value was named."""
        if value in self.collected.roots:
            return None
        if value not in self.first:
            view = self.scope.view_of(value)
            candidates = self.writers.get(view.storage, []) if view is not None else []
            start = self.collected.positions.get(value, -1)
            number = bisect_right(candidates, start, key=lambda item: position_of(self.orders[item]))
            self.first[value] = candidates[number] if number < len(candidates) else None
        return self.first[value]

    def _may_move(self, each: Analysed, writer: int) -> bool:
        """Whether an item can run before the one at `writer`: it stores to a result of the call, from what exists by
        then."""
        item = each.item
        if not isinstance(item, StoreItem) or item.target.view.storage.role is not BufferRole.RESULT:
            return False
        if any(view.storage is item.target.view.storage for view in self.scope.claimed.values()):
            return False  # memory that a loop carries
        for value, _ in each.leaves:
            root = self.collected.roots.get(value)
            if root is not None and self._order(root) >= writer:
                return False
            if root is None and self.collected.positions.get(value, -1) >= position_of(writer):
                return False
        return True

    def _order(self, item: Item) -> int:
        return self.orders.get(item, item.order)


def earliest_order(collected: Collected, orders: Mapping[Item, int], each: Analysed) -> int:
    """The first position at which everything an item reads is known: early, so that the write can join others."""
    earliest = at(-1)
    for value, _ in each.leaves:
        root = collected.roots.get(value)
        known = orders.get(root, root.order) if root is not None else at(collected.positions.get(value, -1), LAST)
        earliest = max(earliest, known)
    return earliest + 1


def copy_of(scope: Scope, collected: Collected, value: Value, writer: Item) -> CopyItem:
    """An item that keeps the present value of memory that `writer` is about to overwrite."""
    source = scope.view_of(value)
    assert source is not None
    extents, point = domain(value.tensor.shape)
    order = at(collected.positions.get(value, -1), LAST)
    item = CopyItem(order, value.name, writer.span, value, source, extents, point)
    del scope.views[value]
    collected.roots[value] = item
    return item


# ----------------------------------------------------------------- stencils --


def _split(scope: Scope, collected: Collected, items: list[Analysed]) -> list[Analysed]:
    """Gives memory to a value that is stored where its computation reads at other points: a stencil in place."""
    added: list[ComputeItem | CopyItem] = []
    for each in items:
        item = each.item
        if isinstance(item, StoreItem) and _is_stencil_in_place(scope, collected, item, each.leaves):
            added.append(_value_before(scope, collected, item))
    if not added:
        return items
    # whoever uses the value reads it from its memory now
    new = [copied(item) if isinstance(item, CopyItem) else analysed(scope, collected, item) for item in added]
    known = sorted([*(again(scope, collected, each) for each in items), *new], key=lambda each: each.order)
    return _before_users(collected, known, {item.result: item for item in added})


def _before_users(
    collected: Collected, items: list[Analysed], added: Mapping[Value, ComputeItem | CopyItem]
) -> list[Analysed]:
    """Computes new values early if one of their users was moved before the place where they are named."""
    orders = {each.item: each.order for each in items}
    users = [
        (each.item, added[value])
        for each in items
        for value, _ in each.leaves
        if value in added and added[value] is not each.item
    ]
    if all(orders[root] < orders[item] for item, root in users):
        return items
    roots = frozenset(added.values())
    for each in items:
        if each.item in roots:
            orders[each.item] = min(orders[each.item], earliest_order(collected, orders, each))
    for item, root in users:
        orders[item] = max(orders[item], orders[root] + 1)
    return sorted((replace(each, order=orders[each.item]) for each in items), key=lambda each: each.order)


def _is_stencil_in_place(scope: Scope, collected: Collected, store: StoreItem, leaves: Sequence[Leaf]) -> bool:
    """Whether a store computes its value from the same memory at other points than it is stored to."""
    if store.value in collected.roots:
        return False
    storage, index = store.target.view.storage, store.target.index
    return any(storage in memory_of(scope, collected, value) and point != index for value, point in leaves)


def memory_of(scope: Scope, collected: Collected, value: Value) -> set[Storage]:
    """The memory, of any kind that changes, where a value is or may turn out to be."""
    view = scope.view_of(value)
    if view is None:
        return collected.stored.get(value, set())
    return set() if view.storage.role is BufferRole.CONSTANT else {view.storage}


def _value_before(scope: Scope, collected: Collected, store: StoreItem) -> ComputeItem | CopyItem:
    """An item that computes the value of a store into memory of its own."""
    value = store.value
    if scope.view_of(value) is not None:
        return copy_of(scope, collected, base_of(value), store)
    adopted, node = collected.adopted.get(value), value.node
    assert node is not None, value
    order = at(collected.positions[value], 0 if adopted is None else adopted + FIRST)
    extents, point = domain(value.tensor.shape)
    item = ComputeItem(order, value.name, store.span, node, extents, point)
    collected.roots[value] = item
    return item
