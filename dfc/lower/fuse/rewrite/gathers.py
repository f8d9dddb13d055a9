"""Gathers from what is computed from a tensor element by element: the tensor is gathered from, then the rest computed.

Before: `table[:, 0:2][ids]` has a slice of all rows in memory, because rows are picked from it.
After: `table[ids][:, 0:2]` picks the rows of the table itself.

So do transposed tensors, axes of one element behind the axis of the rows (a copy in every iteration of a loop
otherwise), and cheap functions of one operand that only gathers use. Assumes a prepared block.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ZERO, Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ir.walk import blocks
from dfc.lower.fuse.inline import is_elementwise, weight
from dfc.ops.attributes import AxisAttributes, PermutationAttributes, ShapeAttributes, SliceAttributes
from dfc.ops.lowering.forms import View
from dfc.ops.lowering.index_maps import as_permutation, as_slice, only_unit_axes_differ
from dfc.ops.lowering.views import is_reshape, picked_axis
from dfc.ops.registry import lowering_of
from dfc.transforms.scalar.dce import dce_block


def gathers_first(block: Block) -> Block:
    first = rebuild(block, _GathersFirst(_only_gathered(block)))
    return block if first is block else dce_block(first)


class _GathersFirst(Pass):
    def __init__(self, gathered: set[Value]) -> None:
        self._gathered = gathered

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        axis = picked_axis(site.node)
        if axis is None:
            return None
        x, ids = site.operands
        x, axis, above = _below(x, axis, self._gathered)
        if not above:
            return None
        shape = (*x.tensor.shape[:axis], *ids.tensor.shape, *x.tensor.shape[axis + 1 :])
        types = (x.tensor.with_shape(shape),)
        rows = Node(
            "gather", (x, ids), types, attributes=AxisAttributes(axis), name=site.node.name, span=site.node.span
        )
        site.output.append(rows)
        return [_again(site, rows.result, axis, ids.tensor.rank, above)]


def _only_gathered(block: Block) -> set[Value]:
    """The results of cheap element-wise functions of one operand that only gathers use, as what is picked from."""
    gathered: set[Value] = set()
    others: set[Value] = set()
    for each in blocks(block):
        others.update(each.outputs)
        for node in each.nodes:
            first = node.operands[:1] if picked_axis(node) is not None else ()
            gathered.update(first)
            others.update(node.operands[len(first) :])
    return {v for v in gathered - others if v.node is not None and _is_cheap(v.node)}


def _is_cheap(node: Node) -> bool:
    return len(node.operands) == 1 and is_elementwise(node) and weight(node) <= 1


def _below(x: Value, axis: int, gathered: set[Value]) -> tuple[Value, int, list[Node]]:
    """What lies below the nodes that rows can be picked before, the axis there, and these nodes, lowest last."""
    above: list[Node] = []
    while (node := x.node) is not None:
        order = _order(node)
        if order is not None:
            axis = order[axis]
        elif not (x in gathered or _keeps(node, axis) or _keeps_first(node, axis)):
            break
        above.append(node)
        x = node.operands[0]
    return x, axis, above


def _order(node: Node) -> tuple[int, ...] | None:
    """The order of a transpose."""
    lowering = lowering_of(node)
    if not isinstance(lowering, View):
        return None
    before, after = node.operands[0].tensor.shape, node.result.tensor.shape
    order = as_permutation(lowering.index_map(node), len(after))
    return order if order is not None and after == tuple(before[axis] for axis in order) else None


def _slice(node: Node) -> SliceAttributes | None:
    """What a view takes that goes along the axes of its operand."""
    lowering = lowering_of(node)
    where = as_slice(lowering.index_map(node), node.result.tensor.rank) if isinstance(lowering, View) else None
    return None if where is None else SliceAttributes(where[0], node.result.tensor.shape, where[1])


def _keeps(node: Node, axis: int) -> bool:
    """Whether a slice keeps an axis as it is."""
    where = _slice(node)
    if where is None or where.starts[axis] != ZERO or where.steps[axis] != 1:
        return False
    return where.sizes[axis] == node.operands[0].tensor.shape[axis]


def _keeps_first(node: Node, axis: int) -> bool:
    """Whether a reshape adds or drops axes of one element behind the first axis, which is picked from."""
    if not is_reshape(node) or axis:
        return False
    before, after = node.operands[0].tensor.shape, node.result.tensor.shape
    same = bool(before) and bool(after) and before[0] == after[0]
    return same and only_unit_axes_differ(before[1:], after[1:])


def _again(site: RewriteSite, x: Value, axis: int, rank: int, above: Sequence[Node]) -> Value:
    """The nodes above once more, over the rows that were picked: `rank` axes stand where one was."""
    for node in reversed(above):
        shape = x.tensor.shape
        if (order := _order(node)) is not None:
            groups = [_group(each, axis, rank) for each in order]
            permutation = tuple(each for group in groups for each in group)
            shape = tuple(shape[each] for each in permutation)
            x = _append_view(site, "transpose", x, shape, PermutationAttributes(permutation), node)
            axis = order.index(axis)
        elif (where := _slice(node)) is not None:
            own = shape[axis : axis + rank]
            shape = (*where.sizes[:axis], *own, *where.sizes[axis + 1 :])
            starts = (*where.starts[:axis], *(ZERO for _ in own), *where.starts[axis + 1 :])
            steps = (*where.steps[:axis], *(1 for _ in own), *where.steps[axis + 1 :])
            x = _append_view(site, "slice", x, shape, SliceAttributes(starts, shape, steps), node)
        elif is_reshape(node):
            shape = (*shape[:rank], *node.result.tensor.shape[1:])
            x = _append_view(site, "reshape", x, shape, ShapeAttributes(shape), node)
        else:
            x = _append_view(site, node.op, x, shape, node.attributes, node)
    return x


def _append_view(
    site: RewriteSite, op: str, x: Value, shape: tuple[Dim, ...], attributes: Attributes, origin: Node
) -> Value:
    kind = origin.result.tensor.with_shape(shape)
    node = Node(op, (x,), (kind,), attributes=attributes, name=site.node.name, span=origin.span)
    site.output.append(node)
    return node.result


def _group(axis_before: int, axis: int, rank: int) -> range:
    """The axes that stand for one of the axes before the gather."""
    if axis_before == axis:
        return range(axis, axis + rank)
    start = axis_before if axis_before < axis else axis_before + rank - 1
    return range(start, start + 1)
