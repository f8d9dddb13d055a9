"""What each item reads, and where: from its value down to what is in memory or will be.

Assumes that `materialise` has decided which values get memory. Guarantees that everything between an item and its
leaves is computed inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.graph import Node, Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.inline import inputs_at, is_generator, is_view, weight
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.factors import Factor, factors
from dfc.lower.fuse.items.items import (
    Analysed,
    ComputeItem,
    ContractItem,
    CopyItem,
    Item,
    Leaf,
    ReduceItem,
    ScanItem,
    ScatterItem,
    StepItem,
    StoreItem,
    own_reads,
)
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import Storage
from dfc.ops.effects.effects import may_have_no_value
from dfc.ops.lowering.forms import Pick
from dfc.ops.lowering.index_maps import Point
from dfc.ops.registry import lowering_of


def analyse(scope: Scope, collected: Collected) -> list[Analysed]:
    """All items in their order, with what they read."""
    return [analysed(scope, collected, item) for item in collected.items]


def analysed(scope: Scope, collected: Collected, item: Item) -> Analysed:
    """One item with what it reads, by what has memory at the moment."""
    pending: list[Leaf] = list(reversed(starts(scope, collected, item)))
    seen: set[Leaf] = set()
    names: dict[Node, None] = {}
    if isinstance(item, ComputeItem):
        names[item.node] = None
    if isinstance(item, ContractItem):
        names.update((node, None) for factor in _factors(scope, collected, item) for node in factor.through)
    leaves: list[Leaf] = []
    points: list[Point | None] = []
    while pending:
        leaf = pending.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        value, point = leaf
        if is_leaf(scope, collected, value):
            leaves.append((base_of(value), point if base_of(value) is value else None))
            points.append(point)
            continue
        node = value.node
        assert node is not None, value
        names[node] = None
        pending.extend(reversed(_below(node, point)))
    faults = any(_may_fail(node) for node in names) or _store_may_fail(item)
    reads = own_reads(item) | _memory_read(scope, leaves)
    cost = sum(weight(node) for node in names)
    return Analysed(item, item.order, tuple(leaves), tuple(points), tuple(names), reads, cost, faults)


def copied(item: CopyItem) -> Analysed:
    """A copy reads the memory that it keeps the value of, and nothing else."""
    leaf = item.result, item.point
    return Analysed(item, item.order, (leaf,), (item.point,), reads=own_reads(item))


def again(scope: Scope, collected: Collected, before: Analysed) -> Analysed:
    """An item at its place in the order, with what it reads now that other values have memory."""
    if isinstance(before.item, StepItem | CopyItem):
        return before
    return replace(analysed(scope, collected, before.item), order=before.order)


def is_leaf(scope: Scope, collected: Collected, value: Value) -> bool:
    return value in collected.roots or scope.view_of(value) is not None or base_of(value) is not value


def starts(scope: Scope, collected: Collected, item: Item) -> list[Leaf]:
    """The values an item computes from, and where."""
    match item:
        case ComputeItem():
            node = item.node
            return [(collected.draws[node], None)] if node.op == "draw" else inputs_at(node, item.point)
        case CopyItem():
            return [(item.result, item.point)]
        case ReduceItem() | ScanItem():
            return [(item.operand, item.point)]
        case StoreItem():
            return [(item.value, item.point), *((each.ids, each.point) for each in item.target.selectors)]
        case ScatterItem():
            return [(item.ids, item.ids_point), (item.rows, item.point)]
        case ContractItem():
            return [(one.value, _leaf_point(one)) for one in _factors(scope, collected, item)]
        case StepItem():
            return [(value, None) for value in item.used]


def _factors(scope: Scope, collected: Collected, item: ContractItem) -> tuple[Factor, Factor]:
    """The factors of a product, down to what is in memory or will be."""
    return factors(item, lambda value: is_leaf(scope, collected, base_of(value)), collected.passed)


def _leaf_point(factor: Factor) -> Point | None:
    """Where a factor is read, if that can be said by the axes of the item alone."""
    return None if factor.splits or factor.inside else factor.point


def _below(node: Node, point: Point | None) -> list[Leaf]:
    if point is not None:
        return inputs_at(node, point)
    if is_view(node):
        return [(node.operands[0], None)]
    assert is_generator(node), node
    return []


def _may_fail(node: Node) -> bool:
    return isinstance(lowering_of(node), Pick) or may_have_no_value(node)


def _store_may_fail(item: Item) -> bool:
    store = item.store if isinstance(item, StepItem) else item
    return isinstance(store, ScatterItem) or (isinstance(store, StoreItem) and bool(store.target.selectors))


def _memory_read(scope: Scope, leaves: Sequence[Leaf]) -> frozenset[Storage]:
    """The memory behind leaves that has several values over time."""
    views = (scope.view_of(value) for value, _ in leaves)
    changing = (view.storage for view in views if view is not None)
    return frozenset(storage for storage in changing if storage.role is not BufferRole.CONSTANT)
