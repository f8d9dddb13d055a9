"""Moves reshapes behind the element-wise nodes that follow a product, so that these join the product's kernel.

Before: `let z = reshape(p, [B, T, D])`, `let y = z + x`        (p: the product, [B * T, D]; x in memory)
After:  `let f = p + reshape(x, [B * T, D])`, `let y = reshape(f, [B, T, D])`

A reshape of memory costs nothing, so the other operands must be in memory, or scalars, or vectors along axes that both
shapes end with. Assumes a prepared block. Guarantees the same values.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.lower.fuse.inline import is_alias, is_elementwise, is_reshape
from dfc.ops.attributes import ShapeAttributes
from dfc.transforms.scalar.dce import dce_block

Shape = tuple[Dim, ...]


def flatten(block: Block) -> Block:
    """Reshapes that nothing reads in the end are not left behind: what they read would need memory."""
    return dce_block(rebuild(block, _Flatten()))


class _Flatten(Pass):
    def __init__(self) -> None:
        self.flat: set[Value] = set()  # element-wise values that follow a product

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if is_reshape(node) or not node.operands or not is_elementwise(node):
            return None
        shape = node.result.tensor.shape
        source = next((s for v in site.operands if (s := self._source(v, shape)) is not None), None)
        if source is None:
            if any(self._follows(v) for v in site.operands if v.tensor.shape == shape):
                kept = site.kept()
                site.output.append(kept)
                self.flat.update(kept.results)
                return kept.results
            return None
        flat_shape = source.tensor.shape
        operands = [self._operand(site, v, shape, flat_shape) for v in site.operands]
        if any(v is None for v in operands):
            return None
        return self._flattened(site, [v for v in operands if v is not None], flat_shape)

    def _flattened(self, site: RewriteSite, operands: Sequence[Value], flat_shape: Shape) -> Sequence[Value]:
        node = site.node
        kind = node.result.tensor
        flattened = Node(
            node.op,
            operands,
            (kind.with_shape(flat_shape),),
            attributes=node.attributes,
            name=node.name,
            span=node.span,
        )
        site.output.append(flattened)
        self.flat.update(flattened.results)
        return _reshape(site, flattened.result, kind.shape).results

    def _follows(self, value: Value) -> bool:
        return value in self.flat or (value.node is not None and value.node.op == "matmul")

    def _source(self, value: Value, shape: Shape) -> Value | None:
        """What a reshape to the shape was made from, if that follows a product."""
        node = value.node
        if node is None or not is_reshape(node) or value.tensor.shape != shape or not is_alias(node):
            return None
        return node.operands[0] if self._follows(node.operands[0]) else None

    def _operand(self, site: RewriteSite, value: Value, shape: Shape, flat_shape: Shape) -> Value | None:
        """The operand as the flat node reads it, None if it would have to be computed first."""
        own = value.tensor.shape
        rank = len(own)
        if rank == 0 or (rank < len(flat_shape) and own == shape[-rank:] == flat_shape[-rank:]):
            return value
        if own != shape:
            return None
        node = value.node
        if node is not None and is_reshape(node) and node.operands[0].tensor.shape == flat_shape:
            return node.operands[0]
        if node is None or node.op in ("read", "matmul"):
            return _reshape(site, value, flat_shape).result
        return None


def _reshape(site: RewriteSite, value: Value, shape: Shape) -> Node:
    node = Node(
        "reshape",
        (value,),
        (value.tensor.with_shape(shape),),
        attributes=ShapeAttributes(shape),
        name=site.node.name,
        span=site.node.span,
    )
    site.output.append(node)
    return node
