"""Moves reshapes behind the element-wise nodes that follow a product, so that these join the product's kernel, and
behind folds over all axes that a reshape has made of one, so that what is folded needs no memory.

Before: `let z = reshape(p, [B, T, D])`, `let y = z + x`        (p: the product, [B * T, D]; x in memory)
After:  `let f = p + reshape(x, [B * T, D])`, `let y = reshape(f, [B, T, D])`

Before: `let s = sum(square(z), axes = [0, 1])`                 (statistics of a channel, say)
After:  `let s = sum(square(p), axes = [0])`

A reshape of memory costs nothing, so the other operands must be in memory, or the same along all axes but those that
both shapes end with. Assumes a prepared block. Guarantees the same values, but for the order of such folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile

from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.lower.fuse.inline import is_elementwise, is_product
from dfc.ops.attributes import ReduceAttributes, ShapeAttributes
from dfc.ops.lowering.views import Movement, is_alias, is_reshape, movement_of
from dfc.transforms.scalar.dce import dce_block

Shape = tuple[Dim, ...]


def flatten(block: Block) -> Block:
    """The block without the reshapes that nobody reads any more: what is read by one would need memory."""
    return dce_block(rebuild(block, _Flatten()))


class _Flatten(Pass):
    def __init__(self) -> None:
        self.flat: set[Value] = set()  # element-wise values that follow a product

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if isinstance(node.attributes, ReduceAttributes):
            return self._fold(site, node.attributes)
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

    def _fold(self, site: RewriteSite, attributes: ReduceAttributes) -> Sequence[Value] | None:
        """A fold over all axes that the flat shape has as its first one, and any of those that both shapes end with."""
        node, shape = site.node, site.operands[0].tensor.shape
        source = self._source(site.operands[0], shape)
        if source is None:
            return None
        merged = len(shape) - source.tensor.rank + 1
        if merged < 1 or shape[merged:] != source.tensor.shape[1:] or not set(range(merged)) <= set(attributes.axes):
            return None
        axes = (0, *(axis - merged + 1 for axis in attributes.axes if axis >= merged))
        kept = (ONE, *(ONE if axis in axes else extent for axis, extent in enumerate(source.tensor.shape) if axis))
        kind = node.result.tensor
        folded = Node(
            node.op,
            (source,),
            (kind.with_shape(kept) if attributes.keep_dims else kind,),
            attributes=replace(attributes, axes=axes),
            name=node.name,
            span=node.span,
        )
        site.output.append(folded)
        return _reshape(site, folded.result, kind.shape).results if attributes.keep_dims else folded.results

    def _follows(self, value: Value) -> bool:
        return value in self.flat or is_product(value)

    def _source(self, value: Value, shape: Shape) -> Value | None:
        """What a reshape to the shape was made from, if that follows a product."""
        node = value.node
        if node is None or value.tensor.shape != shape or not is_alias(node):
            return None
        return node.operands[0] if self._follows(node.operands[0]) else None

    def _operand(self, site: RewriteSite, value: Value, shape: Shape, flat_shape: Shape) -> Value | None:
        """The operand as the flat node reads it, None if it would have to be computed first."""
        node = value.node
        if node is not None and movement_of(node) is Movement.REPEATED:
            value = node.operands[0]
        own = value.tensor.shape
        inner = tuple(dropwhile(lambda extent: extent == ONE, own))
        rank = len(inner)
        if rank == 0 or (rank < len(flat_shape) and inner == shape[-rank:] == flat_shape[-rank:]):
            return value if inner == own else _reshape(site, value, inner).result
        if own != shape:
            return None
        if node is not None and is_reshape(node) and node.operands[0].tensor.shape == flat_shape:
            return node.operands[0]
        if node is None or node.op == "read" or is_product(value):
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
