"""Reads of state that others may change meanwhile, of which only rows or slices are used: these are copied, not all.

Before: `w` is copied under a lock, and `x = w[ids]` and `y = w[0:3]` read the copy.
After: `x` and `y` are copied from `w`, both under one lock.

Assumes a prepared block. Guarantees that all parts of one read are of one moment, and that the entry has no other
effect between the read and that moment: nobody can tell that it came later.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Block, Node, Value
from dfc.ir.walk import free_values
from dfc.lower.fuse.items.items import StepItem, StoreItem, domain
from dfc.lower.fuse.items.targets import whole, with_axes
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import Storage, fresh, whole_view
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.lowering.forms import Pick
from dfc.ops.lowering.views import Movement, movement_of
from dfc.ops.registry import lowering_of


def _takes_a_part(node: Node) -> bool:
    return isinstance(lowering_of(node), Pick) or movement_of(node) is Movement.SUBSET


@dataclass(slots=True)
class PartReads:
    """`parts` are the nodes that take parts of a read, in order; `first` says which read a first part belongs to."""

    parts: dict[Node, tuple[Node, ...]] = field(default_factory=dict[Node, tuple[Node, ...]])
    first: dict[Node, Node] = field(default_factory=dict[Node, Node])
    others: set[Node] = field(default_factory=set[Node])

    def __contains__(self, node: Node) -> bool:
        return node in self.parts or node in self.first or node in self.others


def part_reads(scope: Scope, block: Block) -> PartReads:
    """The reads of a block of which only parts need be copied."""
    reads = PartReads()
    if not scope.isolated:
        return reads
    uses = _Uses(block)
    for node in block.nodes:
        if isinstance(node.attributes, ResourceAttributes) and node.attributes.resource in scope.isolated:
            parts = uses.parts(node)
            if parts:
                reads.parts[node] = parts
                reads.first[parts[0]] = node
                reads.others.update(parts[1:])
    return reads


class _Uses:
    """Who uses the values of a block, and where the block has effects on its state."""

    def __init__(self, block: Block) -> None:
        self._positions: dict[Value, int] = {}
        self._users: dict[Value, list[tuple[int, Node]]] = {}
        self._elsewhere = set(block.outputs)
        self._effects: list[int] = []
        for position, node in enumerate(block.nodes):
            self._note(position, node)

    def _note(self, position: int, node: Node) -> None:
        self._positions.update((value, position) for value in node.results)
        for value in node.operands:
            self._users.setdefault(value, []).append((position, node))
        if any(value.is_token for value in node.operands):
            self._effects.append(position)
        for region in node.regions:
            self._elsewhere.update(free_values(region))

    def parts(self, read: Node) -> tuple[Node, ...]:
        """The nodes that take parts of a read; none if all of it is needed, or if they cannot be taken at once."""
        users = self._users.get(read.result, [])
        if not users or read.result in self._elsewhere:
            return ()
        if any(not _takes_a_part(node) or read.result in node.operands[1:] for _, node in users):
            return ()
        start, first = self._positions[read.result], min(position for position, _ in users)
        if any(self._positions.get(ids, -1) >= first for _, node in users for ids in node.operands[1:]):
            return ()
        if bisect_left(self._effects, first) - bisect_left(self._effects, start) > 1:
            return ()  # the read itself is one
        return tuple(node for _, node in sorted(users, key=lambda each: each[0]))


def part_step(read: Node, reads: PartReads, order: int, scope: Scope) -> StepItem:
    """The step that copies the parts of a read into memory of their own; it uses the row numbers that take."""
    attributes = read.attributes
    assert isinstance(attributes, ResourceAttributes)
    state = scope.state(attributes.resource)
    scope.views[read.result] = whole_view(state)
    writes: list[Storage] = []
    numbers: list[Value] = []
    for part in reads.parts[read]:
        kind = part.result.tensor
        view = scope.views[part.result] = whole_view(fresh(kind.machine, kind.shape, part.name))
        writes.append(view.storage)
        numbers += part.operands[1:]
    return StepItem(order, read.name, read.span, read, tuple(numbers), frozenset((state,)), frozenset(writes))


def part_store(part: Node, order: int, scope: Scope) -> StoreItem:
    """The store of one part into its memory. A copy of the node, as what the node makes is looked up there."""
    types = (part.result.type,)
    copy = Node(part.op, part.operands, types, attributes=part.attributes, name=part.name, span=part.span)
    target = whole(scope.views[part.result])
    extents, point = domain(target.view.shape)
    return StoreItem(order, part.name, part.span, copy.result, with_axes(target, point), extents, point)
