"""Whether what a record says of its lowering fits a node: maps of the right rank, over axes that are there.

Kernels trust maps: one that leaves its operand would read memory that is not the operand's. Assumes a node whose types
were checked. What depends on sizes that are not known is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dfc.ir.dims import Dim
from dfc.ir.graph import Node
from dfc.kernels.body import Affine
from dfc.ops.lowering.forms import Contract, ContractAxes, Lowering, MaskedView, Pick, Picked, View


def lowering_faults(node: Node, lowering: Lowering, *, compares_sizes: bool) -> Iterator[str]:
    """What is wrong, in words. Sizes may differ where code never runs: there they are not to be compared."""
    if isinstance(lowering, View):
        yield from _map_faults(node, lowering.index_map(node), compares_sizes=compares_sizes)
    elif isinstance(lowering, MaskedView):
        steps = lowering.steps(node)
        rank = node.operands[0].tensor.rank
        if any(not 0 <= axis < rank or step < 1 for axis, step in steps):
            yield f"its steps {steps} are no axes of an operand of rank {rank}, with steps of 1 or more"
        masked = {axis for axis, _ in steps}
        yield from _map_faults(node, lowering.index_map(node), masked, compares_sizes=compares_sizes)
    elif isinstance(lowering, Pick):
        yield from _map_faults(node, lowering.index_map(node), compares_sizes=compares_sizes)
    elif isinstance(lowering, Contract):
        yield from _contraction_faults(node, lowering.axes(node), compares_sizes=compares_sizes)


def _map_faults(
    node: Node, index_map: Sequence[Affine | Picked], masked: Iterable[int] = (), *, compares_sizes: bool
) -> Iterator[str]:
    operand, result = node.operands[0].tensor, node.result.tensor.shape
    if len(index_map) != operand.rank:
        yield f"its index map has {len(index_map)} indices for an operand of rank {operand.rank}"
        return
    for axis, index in enumerate(index_map):
        size = operand.shape[axis] if compares_sizes and axis not in masked else None
        if isinstance(index, Affine):
            yield from _index_faults(index, result, size)
            continue
        if not 0 < index.operand < len(node.operands):
            yield f"it picks by operand {index.operand} of {len(node.operands)}"
            continue
        ids = node.operands[index.operand].tensor
        if len(index.point) != ids.rank or not ids.machine.is_integer:
            yield f"it picks by {len(index.point)} indices into {ids}, not by whole numbers with an index for each axis"
            continue
        for each, extent in zip(index.point, ids.shape, strict=True):
            yield from _index_faults(each, result, extent if compares_sizes else None)


def _index_faults(index: Affine, result: Sequence[Dim], size: Dim | None) -> Iterator[str]:
    """`size` is that of the axis that is read."""
    missing = [axis for axis, _ in index.terms if not 0 <= axis < len(result)]
    if missing:
        yield f"its index map is over axis {missing[0]} of a result of rank {len(result)}"
        return
    extents = [each.constant for each in result if each.constant is not None]
    end, offset = None if size is None else size.constant, index.offset.constant
    if end is None or offset is None or len(extents) < len(result) or 0 in extents:
        return
    reach = [factor * (extents[axis] - 1) for axis, factor in index.terms]
    first, last = offset + sum(min(each, 0) for each in reach), offset + sum(max(each, 0) for each in reach)
    if first < 0 or last >= end:
        yield f"its index map goes from {first} to {last} along an axis of {end}"


def _contraction_faults(node: Node, axes: ContractAxes, *, compares_sizes: bool) -> Iterator[str]:
    summed = node.result.tensor.rank
    sizes: dict[int, Dim] = dict(enumerate(node.result.tensor.shape))
    for operand, own in zip(node.operands, (axes.left, axes.right), strict=True):
        if len(own) != operand.tensor.rank or len({*own}) != len(own) or summed not in own:
            yield f"its axes {own} are not those of an operand of rank {operand.tensor.rank}, with {summed} summed over"
            return
        for axis, size in zip(own, operand.tensor.shape, strict=True):
            other = sizes.setdefault(axis, size).constant
            if compares_sizes and None not in (other, size.constant) and other != size.constant:
                yield f"its axis {axis} has {other} elements, and {size} in an operand"
    if {*axes.left, *axes.right} != {*range(summed + 1)}:
        yield f"its axes {axes.left} and {axes.right} are not those of a result of rank {summed} and one more"
