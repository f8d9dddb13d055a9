"""Effects on state that other calls use at the same time: each is a node of its own, for which a lock will be held.

Before: `h = w @ x` reads `w` where it is; `w -= g` is part of the kernel that computes `g`.
After: `w` (or, if no more is used, parts of it) is copied under a shared lock and `h` reads the copy; `g` is in memory,
then a kernel subtracts it from `w` under an exclusive lock. A draw copies the state of its rng and counts on, both
under one lock.

Assumes items that were collected as steps, with what they use in memory. Guarantees that nothing but the effect itself
happens while the lock is held, and that no lock is held from one step to the next.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc.ir.graph import Entry, Resource, Value
from dfc.kernels.program import DEFAULT_CONTAINER
from dfc.lower.fuse.emit.ordered import assignment
from dfc.lower.fuse.fused import FusedEffect, FusedKernel
from dfc.lower.fuse.items.collect import Collected, counter, one_more
from dfc.lower.fuse.items.items import StepItem, StoreItem
from dfc.lower.fuse.items.part_reads import part_store
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, whole_view
from dfc.ops.attributes import AssignAttributes, DrawAttributes, ResourceAttributes


def names_to_isolate(
    entry: Entry, resources: Mapping[str, Resource], background: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The state that others may change while an entry runs: all of it beside other calls of a concurrent entry,
    whatever lies in a container that programs share, and what runners share (`background`). A readonly entry holds its
    locks from start to end instead."""
    if entry.readonly or entry.is_test:
        return frozenset()
    shared = (r for r in resources.values() if entry.concurrent or r.container != DEFAULT_CONTAINER)
    return background.union(resource.name for resource in shared)


def isolated(scope: Scope, collected: Collected, item: StepItem) -> FusedEffect:
    """A read, an assignment or a draw, with the kernels that its lock is held for. A read of the whole variable and a
    draw copy first."""
    node = item.node
    match node.attributes:
        case ResourceAttributes() if parts := collected.part_reads.parts.get(node):
            stores = (part_store(each, item.order, scope) for each in parts)
            return FusedEffect(node, kernels=tuple(_kernel(scope, collected, store) for store in stores))
        case ResourceAttributes(name):
            return FusedEffect(node, ((whole_view(scope.state(name)), _view_of(scope, node.result)),))
        case AssignAttributes():
            assert item.store is not None
            return FusedEffect(node, kernels=(_kernel(scope, collected, item.store),))
        case DrawAttributes(name):
            state = scope.state(name)
            count = StoreItem(item.order, item.name, item.span, one_more(), counter(state), (), ())
            counted = (_kernel(scope, collected, count),)
            return FusedEffect(node, ((whole_view(state), _view_of(scope, collected.draws[node])),), counted)
        case _:
            raise AssertionError(node)


def _view_of(scope: Scope, value: Value) -> BufferView:
    view = scope.view_of(value)
    assert view is not None, value
    return view


def _kernel(scope: Scope, collected: Collected, item: StoreItem) -> FusedKernel:
    bound = assignment(scope, collected, item)
    return FusedKernel(bound.kernel, bound.views, (item.name,), item.span)
