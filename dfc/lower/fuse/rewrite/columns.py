"""Columns of a product that nobody uses: a factor is cut instead of the result.

Before: `(a @ b)[:, 4:8]` computes all columns.
After: `a @ b[:, 4:8]` reads the factor where it lies, and computes those that are asked for.

The gradient of a concatenation asks for parts of a product, and some of them belong to values that need no gradient.
Each element is the same sum as before; a single column stays as it is, since it would be summed in another order.
Assumes a block whose nodes are used. Guarantees that a product stays whole if anything else needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.dims import ONE, ZERO
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops.attributes import SliceAttributes
from dfc.ops.builder import Builder


def narrow_products(block: Block) -> Block:
    """The block with smaller products; the whole ones are left in it, unused."""
    products = {n.result for n in walk.nodes(block) if n.op == "matmul" and n.operands[1].tensor.rank == 2}
    if not products:
        return block
    counts = walk.use_counts(block)
    single = {value for value in products if counts.get(value) == 1}
    slices = {n for n in walk.nodes(block) if n.op == "slice" and n.operands[0] in single and _is_of_columns(n)}
    return rebuild(block, _Columns(slices)) if slices else block


def _is_of_columns(node: Node) -> bool:
    """Whether a slice takes some columns, more than one, of all rows, in their order."""
    attributes, shape = node.attributes, node.operands[0].tensor.shape
    assert isinstance(attributes, SliceAttributes)
    whole = all(size == extent for size, extent in zip(attributes.sizes[:-1], shape[:-1], strict=True))
    start, size = attributes.starts[-1], attributes.sizes[-1]
    in_order = all(step == 1 for step in attributes.steps)
    return len(shape) == 2 and whole and in_order and size != shape[-1] and size != ONE and start.constant is not None


class _Columns(Pass):
    def __init__(self, slices: set[Node]) -> None:
        self._slices = slices

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node not in self._slices:
            return None
        product, attributes = site.operands[0].node, site.node.attributes
        assert product is not None and isinstance(attributes, SliceAttributes)
        left, right = product.operands
        rows = right.tensor.shape[0]
        columns = SliceAttributes((ZERO, attributes.starts[-1]), (rows, attributes.sizes[-1]), (1, 1))
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        return [builder.apply("matmul", left, builder.apply("slice", right, attributes=columns))]
