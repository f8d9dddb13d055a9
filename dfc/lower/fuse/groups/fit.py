"""Whether an item fits into the index space of a group, and how.

Assumes that the item's leaves are known. Guarantees that every value of the group is read by the item at the same point
of the group's axes (ones aside), so that the two can be computed together.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.kernels.body import Affine
from dfc.lower.fuse.groups.groups import Fit, OpenGroup
from dfc.lower.fuse.inline import is_memory_first, is_random
from dfc.lower.fuse.items.items import (
    Analysed,
    CopyItem,
    Item,
    Member,
    ReduceItem,
    StepItem,
    StoreItem,
    extents_of,
    result_point,
)
from dfc.ops.lowering.index_maps import Point, plain_axis

ROW_LIMIT = 16384  # elements of a kernel with so few outer points that one thread may do it all
PARALLEL = 16  # outer points that are enough for a kernel with several stages
EPILOGUE_LIMIT = 64  # nodes after a product


def fit(each: Analysed, group: OpenGroup) -> Fit | None:
    """How the item can join the group whose values it reads, or None."""
    return _fit(each, group, _known_axes(each, group))


def fit_sibling(each: Analysed, group: OpenGroup) -> Fit | None:
    """How the item can join a group that reads the same memory at the same points, or None."""
    known: dict[int, int] = {}
    for value, point in each.leaves:
        shared = group.points.get(value)
        if shared is not None and point is not None and not _overlay(point, shared, known):
            return None
    return _fit(each, group, known if len(set(known.values())) == len(known) else None) if known else None


def fit_total(each: Analysed, group: OpenGroup) -> Fit | None:
    """How a fold to a scalar joins another one over the same axes."""
    item = each.item
    if not isinstance(item, ReduceItem) or group.outer or len(item.folded) != len(item.extents):
        return None
    if list(item.extents) != group.extents or any(value in group.values for value, _ in each.leaves):
        return None
    return Fit(tuple(range(len(item.extents))), 0)


def _overlay(point: Point, shared: Point, known: dict[int, int]) -> bool:
    """Extends the axes by what makes two reads of one memory the same."""
    for index, own in zip(point, shared, strict=True):
        axis, own_axis = plain_axis(index), plain_axis(own)
        if axis is None or own_axis is None:
            if index.terms or own.terms or index.offset != own.offset:
                return False
        elif known.setdefault(axis, own_axis) != own_axis:
            return False
    return True


def _fit(each: Analysed, group: OpenGroup, known: dict[int, int] | None) -> Fit | None:
    extents = extents_of(each.item)
    if known is None or any(extents[axis] != group.extents[own] for axis, own in known.items()):
        return None
    if not extents:
        return _fit_scalar(each, group)
    if group.is_product:
        return _fit_epilogue(each, group, known)
    if group.folds:
        return _fit_rows(each, group, known) if known or not group.outer else None
    if isinstance(each.item, ReduceItem):
        return _fit_fold(each, each.item, group, known)
    return _fit_map(each.item, group, known)


def _known_axes(each: Analysed, group: OpenGroup) -> dict[int, int] | None:
    """Which axis of the group each local axis must be, from the values of the group that the item reads."""
    known: dict[int, int] = {}
    for value, point in each.leaves:
        producer = group.values.get(value)
        if producer is None:
            continue
        if point is None:
            return None
        if not _agree(point, producer, known):
            return None
    return known if len(set(known.values())) == len(known) else None


def _agree(point: Point, producer: Member, known: dict[int, int]) -> bool:
    for index, own in zip(point, _result_point(producer), strict=True):
        if not own.terms:
            if index.terms or index.offset != ZERO:
                return False
            continue
        axis = plain_axis(index)
        own_axis = producer.axes[own.terms[0][0]]
        if axis is None or known.setdefault(axis, own_axis) != own_axis:
            return False
    return True


def _result_point(producer: Member) -> Point:
    """Where the result of a member stands, over its local axes."""
    item = producer.item
    assert not isinstance(item, StoreItem | StepItem), item
    return result_point(item)


def level_in(each: Analysed, group: OpenGroup) -> int:
    """The earliest level at which everything the item reads from the group is known."""
    level = 0
    for value, _ in each.leaves:
        producer = group.values.get(value)
        if producer is not None:
            level = max(level, producer.level + isinstance(producer.item, ReduceItem))
    return level


def _fit_scalar(each: Analysed, group: OpenGroup) -> Fit | None:
    """A scalar item after a scalar group or after a fold to a scalar."""
    reads = any(value in group.values for value, _ in each.leaves)
    if group.outer or group.is_product or not (reads or not group.extents):
        return None
    return Fit((), level_in(each, group))


def _fit_map(item: Item, group: OpenGroup, known: dict[int, int]) -> Fit | None:
    extents = extents_of(item)
    if len(known) != len(extents) or set(known.values()) != set(range(len(group.extents))):
        return None
    return Fit(tuple(known[axis] for axis in range(len(extents))), 0)


def _fit_fold(each: Analysed, item: ReduceItem, group: OpenGroup, known: dict[int, int]) -> Fit | None:
    """A reduction of what an element-wise group computes: kept axes become outer, folded ones inner."""
    folded = item.folded
    if set(known.values()) != set(range(len(group.extents))):
        return None
    if any(axis not in known for axis in range(len(item.extents)) if axis not in folded):
        return None
    outer = tuple(known[axis] for axis in range(len(item.extents)) if axis not in folded)
    inner = [known[axis] for axis in folded if axis in known]
    if inner and len(group.extents) - 1 not in inner:
        return None  # the rows would be columns of what the group stores
    axes, added = _complete(item.extents, group, known, outer)
    if added and list(axes) != sorted(axes):
        return None  # the group is about fewer axes, which would come to lie outside those of longer strides
    if not _rows_suffice(outer, [*group.extents, *added]):
        return None
    return Fit(axes, level_in(each, group), outer, added)


def _fit_rows(each: Analysed, group: OpenGroup, known: dict[int, int]) -> Fit | None:
    """An item after a fold, at the same outer point."""
    outer = set(group.outer)
    image = set(known.values())
    if not outer <= image:
        return None
    item = each.item
    if isinstance(item, ReduceItem):
        kept = {known.get(axis, -1) for axis in range(len(item.extents)) if axis not in item.folded}
        if kept != outer:
            return None
    axes, added = _complete(extents_of(item), group, known, tuple(group.outer))
    if len(axes) > len(outer) and not _rows_suffice(tuple(group.outer), [*group.extents, *added]):
        return None
    return Fit(axes, level_in(each, group), None, added)


def _complete(
    extents: tuple[Dim, ...], group: OpenGroup, known: dict[int, int], outer: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Dim, ...]]:
    """Axes for all local axes: inner axes of equal extent are shared, missing ones are added."""
    axes: list[int] = []
    added: list[Dim] = []
    taken = set(known.values()) | set(outer)
    for local, extent in enumerate(extents):
        axis = known.get(local)
        if axis is None:
            free = (a for a, e in enumerate(group.extents) if a not in taken and e == extent)
            axis = next(free, None)
        if axis is None:
            axis = len(group.extents) + len(added)
            added.append(extent)
        taken.add(axis)
        axes.append(axis)
    return tuple(axes), tuple(added)


def _rows_suffice(outer: tuple[int, ...], extents: list[Dim]) -> bool:
    """Whether rows give enough parallel work, or are so few and short that it does not matter.

    Stages of a kernel without outer axes are cut into blocks by the target.
    """
    points = product(extents[axis] for axis in outer).constant
    total = product(extents).constant
    return not outer or points is None or points >= PARALLEL or (total is not None and total <= ROW_LIMIT)


def _fit_epilogue(each: Analysed, group: OpenGroup, known: dict[int, int]) -> Fit | None:
    item, extents = each.item, extents_of(each.item)
    if isinstance(item, ReduceItem | CopyItem) or group.nodes + len(each.nodes) > EPILOGUE_LIMIT:
        return None
    result = {axis for axis, extent in enumerate(group.extents[:-1]) if extent != ONE}
    if len(known) != len(extents) or set(known.values()) != result:
        return None
    if any(is_memory_first(n) or is_random(n) for n in each.nodes) or each.faults:
        return None
    for point in each.points:
        if point is None or any(index.terms and plain_axis(index) is None for index in point):
            return None
    return Fit(tuple(known[axis] for axis in range(len(extents))), 0) if _stores_plainly(item) else None


def _stores_plainly(item: Item) -> bool:
    """Whether a store, if the item is one, writes element (i, j) of something at (i, j) or at a fixed distance."""
    if not isinstance(item, StoreItem):
        return True
    return all(isinstance(i, Affine) and all(c == 1 for _, c in i.terms) for i in item.target.index)
