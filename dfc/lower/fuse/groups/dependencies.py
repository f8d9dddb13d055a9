"""What an item must not run before: the rank of the last group that it depends on.

Dependencies are values, memory that is overwritten (read before write before read), and failure before effects. Where
an entry finds out sizes, what comes after such a step, or after a check, runs after it: its memory and its loops may
be of that size. Assumes that items are noted in program order, each with the rank of the group that it joined.
Guarantees that a group of a higher rank than an item's bound has nothing that the item must precede.
"""

from __future__ import annotations

from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import Analysed, ComputeItem, Item, StepItem, StoreItem, writes_of
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import Storage

ROOM = 1 << 20  # ranks between a group and the next one: for scalars, and for what is read at many points
BEFORE_ALL = -ROOM


@dataclass(slots=True)
class Dependencies:
    """The ranks of what was noted so far: of each item, of the last reader and writer of memory, and (`read_through`)
    of the readers of each value that lies in it; of the last check, the last item that may fail, the last step that
    finds out a size."""

    scope: Scope
    collected: Collected
    rank_of: dict[Item, int] = field(default_factory=dict["Item", int])
    written: dict[Storage, int] = field(default_factory=dict[Storage, int])
    read: dict[Storage, int] = field(default_factory=dict[Storage, int])
    read_through: dict[Storage, dict[Value, int]] = field(default_factory=dict[Storage, "dict[Value, int]"])
    check: int = BEFORE_ALL
    failing: int = BEFORE_ALL
    barrier: int = BEFORE_ALL

    def bound(self, each: Analysed) -> int:
        """The highest rank that the item must not run before."""
        item, bound = each.item, self.barrier
        for value, _ in each.leaves:
            root = self.collected.roots.get(value)
            if root is not None and root is not item:
                bound = max(bound, self.rank_of[root])
        for storage in each.reads:
            bound = max(bound, self.written.get(storage, BEFORE_ALL))
        own = _stored_value(item)
        for storage in writes_of(item):
            bound = max(bound, self.written.get(storage, BEFORE_ALL), self.read.get(storage, BEFORE_ALL))
            through = self.read_through.get(storage, {})
            bound = max([bound, *(rank for value, rank in through.items() if value is not own)])
        if each.faults:
            bound = max(bound, self.check)
        changes_state = any(storage.role is BufferRole.RESOURCE for storage in writes_of(item))
        if isinstance(item, StepItem) or changes_state:
            bound = max(bound, self.check, self.failing)
        return bound

    def note(self, each: Analysed, rank: int) -> None:
        """The item runs in the group of this rank."""
        item = each.item
        self.rank_of[item] = rank
        for storage in each.reads:
            self.read[storage] = max(self.read.get(storage, BEFORE_ALL), rank)
        for value, _ in each.leaves:
            for storage in self.collected.stored.get(value, ()):
                through = self.read_through.setdefault(storage, {})
                through[value] = max(through.get(value, BEFORE_ALL), rank)
        own = _stored_value(item)
        for storage in writes_of(item):
            self.written[storage] = max(self.written.get(storage, BEFORE_ALL), rank)
            through = self.read_through.get(storage, {})
            self.read_through[storage] = {value: r for value, r in through.items() if value is own}
        if isinstance(item, StepItem):
            self.check = max(self.check, rank)
            if self.scope.measures and item.node.op in ("range", "assert"):
                self.barrier = rank
        elif each.faults:
            self.failing = max(self.failing, rank)

    def bound_without(self, each: Analysed, item: ComputeItem) -> int:
        """The highest rank among what an item reads, as far as it is known, without the result of another one."""
        roots = (self.collected.roots.get(value) for value, _ in each.leaves)
        return max(
            (self.rank_of.get(root, BEFORE_ALL) for root in roots if root is not None and root != item),
            default=BEFORE_ALL,
        )


def _stored_value(item: Item) -> Value | None:
    """The value of the store that an item is, or makes under a lock."""
    store = item.store if isinstance(item, StepItem) else item
    return store.value if isinstance(store, StoreItem) else None
