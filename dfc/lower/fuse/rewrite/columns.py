"""Columns of a product that nobody uses: a factor is cut instead of the result.

Before: `(a @ b)[:, 4:8]` computes all columns.
After: `a @ b[:, 4:8]` reads the factor where it lies, and computes those that are asked for.

The gradient of a concatenation asks for parts of a product, and some of them belong to values that need no gradient.
Each element is the same sum as before; a single column stays as it is, since it would be summed in another order.
Assumes a block whose nodes are used. Guarantees that a product stays whole if anything else needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir import walk
from dfc.ir.dims import ONE, ZERO, Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops.attributes import SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.lowering.forms import Contract
from dfc.ops.lowering.index_maps import as_slice
from dfc.ops.lowering.views import index_map_of
from dfc.ops.registry import lowering_of


def narrow_products(block: Block) -> Block:
    """The block with smaller products; the whole ones are left in it, unused."""
    products = {
        node.result
        for node in walk.nodes(block)
        if isinstance(lowering_of(node), Contract) and node.operands[1].tensor.rank == 2
    }
    if not products:
        return block
    counts = walk.use_counts(block)
    single = {value for value in products if counts.get(value) == 1}
    slices: dict[Node, Dim] = {}
    for node in walk.nodes(block):
        first = _first_column(node) if node.operands and node.operands[0] in single else None
        if first is not None:
            slices[node] = first
    return rebuild(block, _Columns(slices)) if slices else block


def _first_column(node: Node) -> Dim | None:
    """The first of the columns, more than one, that a view takes of all rows, in their order; None if it does not."""
    index_map = index_map_of(node)
    if index_map is None:
        return None
    shape, taken = node.operands[0].tensor.shape, node.result.tensor.shape
    where = as_slice(index_map, len(taken))
    if where is None or len(shape) != 2 or taken[1] in (shape[1], ONE):
        return None
    (row, start), steps = where
    in_order = row == ZERO and taken[0] == shape[0] and steps == (1, 1)
    return start if in_order and start.constant is not None else None


class _Columns(Pass):
    def __init__(self, slices: Mapping[Node, Dim]) -> None:
        self._slices = slices

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        start = self._slices.get(site.node)
        product = site.operands[0].node if start is not None else None
        if product is None or start is None:
            return None
        left, right = product.operands
        rows, count = right.tensor.shape[0], site.node.result.tensor.shape[1]
        columns = SliceAttributes((ZERO, start), (rows, count), (1, 1))
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        return [builder.apply("matmul", left, builder.apply("slice", right, attributes=columns))]
