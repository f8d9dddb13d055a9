"""Stores to memory that others own: results, state, carried values, rows of stacked emits."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.kernels.body import Computed, Index
from dfc.kernels.form import Store
from dfc.lower.fuse.emit.expressions import OUT_OF_RANGE, Expressions
from dfc.lower.fuse.items.items import Selector, StoreItem
from dfc.lower.fuse.scope import Scope
from dfc.ops.lowering.index_maps import renamed
from dfc.ops.operators import UPDATES

UNCHECKED = -1  # the fault site of an index that is known to be inside


def store(scope: Scope, item: StoreItem, expressions: Expressions, value: int, names: Sequence[int]) -> list[Store]:
    """The store of an instruction; with a mode other than `:=` the old element is loaded at the same index first."""
    target = item.target
    index: list[Index] = []
    for axis, i in enumerate(target.index):
        if isinstance(i, Selector):
            row = expressions.emit(i.ids, renamed(i.point, names))
            index.append(Computed(row, _site(scope, item, axis)))
        else:
            index.append(*renamed((i,), names))
    at = tuple(index)
    if target.mode != ":=":
        old = expressions.load(target.view, at)
        value = expressions.body.apply(UPDATES[target.mode], old, value)
    return [Store(expressions.slots.write(target.view), at, value)]


def _site(scope: Scope, item: StoreItem, axis: int) -> int:
    if item.node is None:
        return UNCHECKED
    return scope.fault(item.node, "index", OUT_OF_RANGE, item.span, axis)
