"""Factors of products, seen through views: which memory each one reads, and by what index map.

Before: `windows(pad(x))`, transposed and reshaped to a matrix [B * Y * X, R * S * C], times a matrix.
After: the product reads x at [b, y * stride + r * dilation - pad, .., c], and 0 outside of it; nothing is copied.

A reshape that merges axes splits an axis of the product into sub-axes; zeros around and between elements become places
where the map reads nothing. Assumes a prepared block. Where a map cannot say what a node does, its value needs memory.
Guarantees that products without windows read reshaped and padded values from memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import Node, Value
from dfc.kernels.body import Affine
from dfc.kernels.form import MatrixOperand, Split
from dfc.lower.fuse.inline import is_view
from dfc.lower.fuse.items.items import ContractItem, Item
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.lowering.forms import MaskedView
from dfc.ops.lowering.index_maps import ORIGIN, Point, along, composed, plain_axis
from dfc.ops.lowering.views import Movement, index_map_of, is_alias, movement_of, whole_axis
from dfc.ops.registry import lowering_of

FACTORS_AFTER_BATCH = 3
"""Axes of a product behind its batch: rows, columns, depth."""


@dataclass(frozen=True, slots=True)
class Factor:
    """`value` is read at `point`, which is over the axes of the product and the sub-axes of `splits`; `inside` as in
    `MatrixOperand`. `through` are the nodes between the product and the value."""

    value: Value
    point: Point
    splits: tuple[Split, ...] = ()
    inside: tuple[tuple[int, int], ...] = ()
    through: tuple[Node, ...] = ()

    def operand(self, slot: int) -> MatrixOperand:
        return MatrixOperand(slot, self.point, self.splits, self.inside)


def contract_points(item: ContractItem) -> tuple[Point, Point]:
    """Where the factors of a product are read, over the local axes (batch.., m, n, k)."""
    k = len(item.extents) - 1
    batch = tuple(along(axis) for axis in range(k - 2))
    return (*batch, along(k - 2), along(k)), (*batch, along(k), along(k - 1))


def factors(item: ContractItem, has_memory: Callable[[Value], bool], passed: set[Node] | None) -> tuple[Factor, Factor]:
    """Both factors of a product, each down to the first value in memory; `passed` are the reshapes and pads that may be
    seen through (None: all that a map can say)."""
    first, second = (
        _factor(Factor(value, point), len(item.extents), has_memory, passed)
        for value, point in zip(item.node.operands, contract_points(item), strict=True)
    )
    return first, second


def _factor(factor: Factor, rank: int, has_memory: Callable[[Value], bool], passed: set[Node] | None) -> Factor:
    while not has_memory(factor.value):
        node = factor.value.node
        if node is None or not (is_view(node) or passed is None or node in passed):
            break
        below = _below(factor, node, rank)
        if below is None:
            break
        factor = replace(below, through=(*factor.through, node))
    return factor


def _below(factor: Factor, node: Node, rank: int) -> Factor | None:
    """The factor as the operand of a node is read; None if a map cannot say it."""
    lowering = lowering_of(node)
    if isinstance(lowering, MaskedView):
        return _below_masked(factor, node, lowering)
    index_map = index_map_of(node)
    if index_map is not None:
        inside = _inside_below(factor, node, index_map, {})
        return None if inside is None else _read_at(factor, node, index_map, inside)
    return _below_merge(factor, node, rank) if is_alias(node) and not factor.inside else None


def _read_at(factor: Factor, node: Node, index_map: Point, inside: Mapping[int, int]) -> Factor:
    point = composed(index_map, factor.point)
    return replace(factor, value=node.operands[0], point=point, inside=tuple(sorted(inside.items())))


def _below_masked(factor: Factor, node: Node, lowering: MaskedView) -> Factor | None:
    """Zeros around what is padded already are more of the same; those between elements have to come last."""
    if not _is_zero(node.operands[1]):
        return None
    index_map, steps = lowering.index_map(node), dict(lowering.steps(node))
    inside = _inside_below(factor, node, index_map, steps)
    return None if inside is None else _read_at(factor, node, index_map, {**inside, **steps})


def _inside_below(factor: Factor, node: Node, index_map: Point, steps: Mapping[int, int]) -> dict[int, int] | None:
    """`inside` for the operand of a node; None if what is outside of the result need not be outside of that: then the
    operand must end where the result does, or lie within it along an axis that the map may leave (`steps`)."""
    result, operand = node.result.tensor.shape, node.operands[0].tensor.shape
    below: dict[int, int] = {}
    for position, step in factor.inside:
        axes = [axis for axis, index in enumerate(index_map) if any(term == position for term, _ in index.terms)]
        if len(axes) != 1:
            return None
        (axis,) = axes
        index = index_map[axis]
        forwards = whole_axis(index, operand[axis], result)
        if axis in steps:
            if step > 1 or not _lies_within(index, operand[axis], result[position], steps[axis]):
                return None
        elif forwards is None or (not forwards and step > 1):
            return None
        below[axis] = step
    return below


def _lies_within(index: Affine, size: Dim, result: Dim, step: int) -> bool:
    """Whether all elements of an axis of this size are in the result, which is read along it."""
    if len(index.terms) != 1 or index.terms[0][1] != 1:
        return False
    last = (size - 1) * step
    return all(NO_FACTS.holds(ZERO, "<=", each) is True for each in (-index.offset, result - 1 + index.offset - last))


def _is_zero(value: Value) -> bool:
    attributes = value.node.attributes if value.node is not None else None
    return isinstance(attributes, ConstantAttributes) and not any(attributes.value.array.tobytes())


def _below_merge(factor: Factor, node: Node, rank: int) -> Factor | None:
    """A reshape each of whose axes is made of whole axes of the operand."""
    operand = node.operands[0]
    merged = _merged_axes(node.result.tensor.shape, operand.tensor.shape)
    if merged is None:
        return None
    splits = list(factor.splits)
    point: list[Affine] = [ORIGIN] * operand.tensor.rank
    for index, axes in zip(factor.point, merged, strict=True):
        if len(axes) == 1:
            point[axes[0]] = index
        elif axes:
            axis = plain_axis(index)
            taken = {split.axis for split in splits}
            if axis is None or not rank - FACTORS_AFTER_BATCH <= axis < rank or axis in taken:
                return None
            first = rank + sum(len(split.extents) for split in splits)
            splits.append(Split(axis, tuple(operand.tensor.shape[each] for each in axes)))
            for number, each in enumerate(axes):
                point[each] = along(first + number)
    return replace(factor, value=operand, point=tuple(point), splits=tuple(splits))


def _merged_axes(shape: Sequence[Dim], operand: Sequence[Dim]) -> list[list[int]] | None:
    """For each axis of a reshape the axes of its operand that it is made of, without those of one element; None if it
    is not made of whole ones."""
    grouped: list[list[int]] = []
    position = 0
    for extent in shape:
        axes: list[int] = []
        so_far = ONE
        while so_far != extent:
            if position == len(operand):
                return None
            if operand[position] != ONE:
                axes.append(position)
            so_far = so_far * operand[position]
            position += 1
        grouped.append(axes)
    return grouped if all(extent == ONE for extent in operand[position:]) else None


def nodes_to_pass(
    inline: Sequence[Node], items: Iterable[Item], users: Mapping[Value, Sequence[Node | Item]],
    has_memory: Callable[[Value], bool],
) -> set[Node]:  # fmt: skip
    """The views, reshapes and pads that products with windows see through, if nothing else uses them: their values
    need no memory."""
    seen: set[Node] = set()
    ends: set[Value] = set()
    for item in items:
        if not isinstance(item, ContractItem):
            continue
        through = factors(item, has_memory, None)
        nodes = (node for factor in through for node in factor.through)
        if not any(movement_of(node) is Movement.OVERLAPPING for node in nodes):
            through = factors(item, has_memory, set())
        seen.update(node for factor in through for node in factor.through)
        ends.update(factor.value for factor in through)
    passed: set[Node] = set()
    for node in reversed(inline):
        value = node.result
        if node in seen and value not in ends and all(_is_product(u) or u in passed for u in users.get(value, ())):
            passed.add(node)
    return passed


def _is_product(user: Node | Item) -> bool:
    return isinstance(user, ContractItem)
