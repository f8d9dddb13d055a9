"""What each item reads and where; and items that would read a variable after it was overwritten.

Assumes absorbed items in the order of `number`. Guarantees afterwards that no item reads memory that an item before it
has overwritten since the value was named: a late reader was moved before the write, or the value was copied.

Before: `old = read w; assign w; store old to the result`.    After: the store stands before the assignment.
"""

from __future__ import annotations

from bisect import bisect_right

from dfc.ir.graph import Node, Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.indexing import Point
from dfc.lower.fuse.inline import PICK, inputs_at, is_generator, is_view, weight
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.factors import Factor, factors
from dfc.lower.fuse.items.items import Item, Kind, Leaf, Selector, domain
from dfc.lower.fuse.items.materialise import FIRST
from dfc.lower.fuse.scope import Scope, base_of
from dfc.lower.storage import Storage
from dfc.ops.attributes import AxisAttributes, ScatterAttributes
from dfc.ops.effects.effects import may_have_no_value

LAST = 1 << 20  # behind everything that happens at a position


def analyse(scope: Scope, found: Collected) -> None:
    """Fills `leaves`, `nodes`, `weight`, `reads` of every item and repairs late readers."""
    for item in found.items:
        _walk(scope, found, item)
    _repair(scope, found)
    _split(scope, found)


def is_leaf(scope: Scope, found: Collected, value: Value) -> bool:
    return value in found.roots or scope.place(value) is not None or base_of(value) is not value


def starts(scope: Scope, found: Collected, item: Item) -> list[Leaf]:
    """The values an item computes from, and where."""
    node = item.node
    match item.kind:
        case Kind.VALUE:
            assert item.value is not None
            if item.source is not None:
                return [(item.value, item.point)]
            assert node is not None
            return [(found.draws[node], None)] if node.op == "draw" else inputs_at(node, item.point)
        case Kind.REDUCE | Kind.SCAN:
            assert item.value is not None
            return [(item.value, item.point)]
        case Kind.STORE:
            assert item.value is not None and item.target is not None
            ids: list[Leaf] = [(i.ids, i.point) for i in item.target.index if isinstance(i, Selector)]
            return [(item.value, item.point), *ids]
        case Kind.SCATTER:
            assert node is not None and item.value is not None
            return [(node.operands[0], scatter_ids_point(item, node)), (item.value, item.point)]
        case Kind.CONTRACT:
            return [(one.value, _leaf_point(one)) for one in _factors(scope, found, item)]
        case Kind.STEP:
            return [(value, None) for value in item.used]


def _factors(scope: Scope, found: Collected, item: Item) -> tuple[Factor, Factor]:
    """The factors of a product, down to what is in memory or will be."""
    return factors(item, lambda value: is_leaf(scope, found, base_of(value)), found.passed)


def _leaf_point(factor: Factor) -> Point | None:
    """Where a factor is read, if that can be said by the axes of the item alone."""
    return None if factor.splits or factor.inside else factor.point


def scatter_ids_point(item: Item, node: Node) -> Point:
    """Where `ids` of a scatter is read: the axes of the rows that stand for the scattered axis."""
    attributes = node.attributes
    assert isinstance(attributes, ScatterAttributes | AxisAttributes)
    return item.point[attributes.axis : attributes.axis + node.operands[0].tensor.rank]


def _walk(scope: Scope, found: Collected, item: Item) -> None:
    pending: list[Leaf] = list(reversed(starts(scope, found, item)))
    seen: set[Leaf] = set()
    names: dict[Node, None] = {}
    if item.node is not None and item.kind is Kind.VALUE:
        names[item.node] = None
    if item.kind is Kind.CONTRACT:
        names.update((node, None) for factor in _factors(scope, found, item) for node in factor.through)
    while pending:
        leaf = pending.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        value, point = leaf
        if is_leaf(scope, found, value):
            item.leaves.append((base_of(value), point if base_of(value) is value else None))
            item.points.append(point)
            continue
        node = value.node
        assert node is not None, value
        names[node] = None
        pending.extend(reversed(_below(node, point)))
    item.nodes = list(names)
    item.weight = sum(weight(node) for node in item.nodes)
    item.faults = any(_may_fail(node) for node in item.nodes) or _store_may_fail(item)
    _note_reads(scope, item)


def _below(node: Node, point: Point | None) -> list[Leaf]:
    if point is not None:
        return inputs_at(node, point)
    if is_view(node):
        return [(node.operands[0], None)]
    assert is_generator(node), node
    return []


def _may_fail(node: Node) -> bool:
    return node.op in ("gather", PICK) or may_have_no_value(node)


def _store_may_fail(item: Item) -> bool:
    if item.kind is Kind.SCATTER:
        return True
    return item.target is not None and any(isinstance(i, Selector) for i in item.target.index)


def _note_reads(scope: Scope, item: Item) -> None:
    for value, _ in item.leaves:
        place = scope.place(value)
        if place is not None and place.storage.role is not BufferRole.CONSTANT:
            item.reads.add(place.storage)


def _repair(scope: Scope, found: Collected) -> None:
    """Moves late readers before the write, or makes a copy for them."""
    first: dict[Value, Item | None] = {}
    writers: dict[Storage, list[Item]] = {}
    for item in found.items:
        for storage in item.writes:
            writers.setdefault(storage, []).append(item)
    copies: dict[Value, Item] = {}
    moved = False
    for item in found.items:
        late = [(v, w) for v, _ in item.leaves if (w := _overwriter(scope, found, v, writers, first)) is not None]
        late = [(v, w) for v, w in late if (w.key < item.key or (w is item and item.kind is Kind.STEP))]
        late = [(v, w) for v, w in late if v not in copies]
        if not late:
            continue
        moved = True
        earliest = min((w for _, w in late), key=lambda w: w.key)
        if _may_move(scope, found, item, earliest):
            item.key = min(_earliest(found, item), (earliest.key[0], earliest.key[1] - 1))
            continue
        for value, writer in dict(late).items():
            copies[value] = _copy(scope, found, value, writer)
    if moved:
        found.items.extend(copies.values())
        _renumber(found)


def _overwriter(
    scope: Scope,
    found: Collected,
    value: Value,
    writers: dict[Storage, list[Item]],
    known: dict[Value, Item | None],
) -> Item | None:
    """The first item that overwrites the memory a value names, after the value was named."""
    if value in found.roots:
        return None
    if value not in known:
        place = scope.place(value)
        start = found.positions.get(value, -1)
        candidates = writers.get(place.storage, []) if place is not None else []
        first = bisect_right(candidates, start, key=_position)
        known[value] = candidates[first] if first < len(candidates) else None
    return known[value]


def _position(item: Item) -> int:
    return item.key[0]


def _may_move(scope: Scope, found: Collected, item: Item, writer: Item) -> bool:
    """Whether an item can run before `writer`: it stores to a result of the call, from what exists by then."""
    if item.kind is not Kind.STORE or item.target is None or item.target.place.storage.role is not BufferRole.RESULT:
        return False
    if any(place.storage is item.target.place.storage for place in scope.claimed.values()):
        return False  # memory that a loop carries
    for value, _ in item.leaves:
        root = found.roots.get(value)
        if root is not None and root.key >= writer.key:
            return False
        if root is None and found.positions.get(value, -1) >= writer.key[0]:
            return False
    return True


def _split(scope: Scope, found: Collected) -> None:
    """Gives memory to a value that is stored where its computation reads at other points: a stencil in place."""
    added: list[Item] = []
    for item in found.items:
        if item.kind is Kind.STORE and item.value not in found.roots and _reads_elsewhere(scope, found, item):
            added.append(_value_before(scope, found, item))
    if not added:
        return
    found.items.extend(added)
    _renumber(found)
    for item in found.items:  # whoever uses the value reads it from its memory now
        if item.kind is Kind.STEP or item.source is not None:
            continue
        item.leaves, item.points = [], []
        item.reads = {s for s in item.writes if item.target is not None and item.target.mode != ":="}
        _walk(scope, found, item)
    _put_before_users(found, added)


def _put_before_users(found: Collected, added: list[Item]) -> None:
    """Computes new values early if one of their users was moved before the place where they are named."""
    new = {item.value: item for item in added}
    users = [(item, new[v]) for item in found.items for v, _ in item.leaves if v in new and new[v] is not item]
    if all(root.key < item.key for item, root in users):
        return
    for root in sorted(added, key=lambda item: item.key):
        root.key = min(root.key, _earliest(found, root))
    for item, root in users:
        item.key = max(item.key, (root.key[0], root.key[1] + 1))
    _renumber(found)


def _reads_elsewhere(scope: Scope, found: Collected, item: Item) -> bool:
    """Whether a store's value is computed from the same memory at other points than it is stored to."""
    target = item.target
    assert target is not None
    for value, point in item.leaves:
        if target.place.storage in memory_of(scope, found, value) and point != target.index:
            return True
    return False


def memory_of(scope: Scope, found: Collected, value: Value) -> set[Storage]:
    """The memory, of any kind that changes, where a value is or may turn out to be."""
    place = scope.place(value)
    if place is None:
        return found.homes.get(value, set())
    return set() if place.storage.role is BufferRole.CONSTANT else {place.storage}


def _value_before(scope: Scope, found: Collected, store: Item) -> Item:
    """An item that computes the value of a store into memory of its own."""
    value = store.value
    assert value is not None
    if scope.place(value) is not None:
        return _copy(scope, found, base_of(value), store)
    adopted = found.adopted.get(value)
    key = found.positions[value], 0 if adopted is None else adopted - FIRST
    extents, point = domain(value.tensor.shape)
    item = Item(key, Kind.VALUE, value.name, store.span, value=value, result=value, node=value.node)
    item.extents, item.point, item.result_point = extents, point, point
    found.roots[value] = item
    return item


def _renumber(found: Collected) -> None:
    found.items.sort(key=lambda item: item.key)
    for number, item in enumerate(found.items):
        item.number = number


def _earliest(found: Collected, item: Item) -> tuple[int, int]:
    """The first place where everything an item reads is known: early, so that the write can join others."""
    place = (-1, 0)
    for value, _ in item.leaves:
        root = found.roots.get(value)
        place = max(place, root.key if root is not None else (found.positions.get(value, -1), LAST))
    return place[0], place[1] + 1


def _copy(scope: Scope, found: Collected, value: Value, writer: Item) -> Item:
    """An item that keeps the present value of memory that `writer` is about to overwrite."""
    source = scope.place(value)
    assert source is not None
    extents, point = domain(value.tensor.shape)
    position = found.positions.get(value, -1)
    item = Item((position, LAST), Kind.VALUE, value.name, writer.span, value=value, result=value, source=source)
    item.extents, item.point, item.result_point = extents, point, point
    item.leaves, item.points = [(value, point)], [point]
    item.reads = {source.storage}
    del scope.places[value]
    found.roots[value] = item
    return item
