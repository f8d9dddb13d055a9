"""Nodes of the undivided program as nodes over blocks: new types, sizes and operands.

`Emitter.common` has the new value of what is common, `Emitter.local` what the block at hand has of a value that is cut.
Assumes that values come before their uses. In a loop over the blocks `block` is the global number of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import view
from dfc.ir.types import TensorType
from dfc.ops.attributes import (
    AssignAttributes,
    AxisAttributes,
    ForAttributes,
    OperandSelector,
    ScatterAttributes,
    ShapeAttributes,
    SliceAttributes,
    TypeAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.sharding import COMMON, Common, Partial, Split, State, quotient
from dfc.transforms.batch.analysis import BlockSplits


class Emitter:
    """Appends nodes; what becomes of values that need combining is left to who uses it (`missing`)."""

    def __init__(self, splits: BlockSplits) -> None:
        self.splits = splits
        self.cutting = splits.cutting
        self.common: dict[Value, Value] = {}
        self.local: dict[Value, Value] = {}
        self.block: Value | None = None

    # ---------------------------------------------------------------- operands --

    def operand(self, output: Builder, value: Value, required: State) -> Value:
        """A value as a use wants it."""
        if self.splits.is_local(value, required):
            return self.local[value]
        known = self.common[value]
        match required:
            case Common():
                return known
            case Split():
                return self._split_axis(output, known, value.tensor, required)
            case Partial():
                state = self.splits.state(value)
                return known if isinstance(state, Common) and state.zero else self._once(output, known)

    def _split_axis(self, output: Builder, whole: Value, before: TensorType, piece: Split) -> Value:
        """The block's piece of a common value."""
        assert self.block is not None
        axis, outer = piece.axis, piece.outer or ONE
        run = quotient(before.shape[axis], outer)
        assert run is not None, (before, piece)
        size = self.cutting.part(run)
        shape = whole.tensor.shape
        runs = self.cutting.whole(outer)
        split = output.reshape(whole, (*shape[:axis], runs, size * self.cutting.blocks, *shape[axis + 1 :]))
        indices = self._numbered(output, size)
        gathered = output.apply("gather", split, indices, attributes=AxisAttributes(axis + 1))
        return output.reshape(gathered, (*shape[:axis], runs * size, *shape[axis + 1 :]))

    def _numbered(self, output: Builder, count: Dim) -> Value:
        """The places of the block's elements along an axis, as i64."""
        assert self.block is not None
        own = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (count,))))
        return output.apply("add", own, output.apply("mul", self.block, output.size(count)))

    def _once(self, output: Builder, known: Value) -> Value:
        """A common value as a part: the first block has it, the others zeros."""
        assert self.block is not None
        is_first = output.apply("equal", self.block, output.constant(0, I64))
        return output.apply("select", is_first, known, output.scalar_like(0, known))

    # ---------------------------------------------------------------- nodes --

    def node(self, output: Builder, node: Node, tokens: Sequence[Value] = (), *, only_split: bool = False) -> None:
        """Appends what a node has become. With `only_split` what is common of its results comes from elsewhere."""
        output.name, output.span = node.name, node.span
        use = self.splits.uses.get(node)
        plain = [v for v in node.operands if not v.is_token]
        required = use.required if use is not None else (COMMON,) * len(plain)
        operands = [self.operand(output, v, w) for v, w in zip(plain, required, strict=True)]
        special = self._special(output, node, operands) if use is not None else None
        if special is not None:
            self.define(node.result, special)
            return
        types = [self.cutting.type_of(v.type, self.splits.state(v)) for v in node.results]
        attributes = self._attributes(node, types)
        regions = [self.region(node, region, keeps_tokens=bool(tokens)) for region in node.regions]
        if not tokens:
            types = [t for t, v in zip(types, node.results, strict=True) if not v.is_token]
        copy = output.add(node.op, [*operands, *tokens], types, attributes, regions)
        for old, new in zip(node.results, copy.results, strict=False):
            if not only_split or self.splits.is_split(old):
                self.define(old, new)

    def define(self, old: Value, new: Value) -> None:
        (self.local if self.splits.is_split(old) else self.common)[old] = new

    def _special(self, output: Builder, node: Node, operands: Sequence[Value]) -> Value | None:
        """Ops whose results depend on where the block is, or on how many there are."""
        state = self.splits.state(node.results[0])
        rows_at = rules_of(node).rows_at
        if rows_at is not None and isinstance(state, Split):
            indices = self._numbered(output, self.cutting.part(node.result.tensor.shape[state.axis]))
            return rows_at(output, node, indices, state.axis)
        use = self.splits.uses.get(node)
        if use is not None and use.total:
            mean = output.apply(node.op, *operands, attributes=node.attributes)
            return output.apply("mul", mean, output.scalar_like(1 / self.cutting.blocks, mean))
        return None

    def _attributes(self, node: Node, types: Sequence[object]) -> Attributes:
        """The attributes with the sizes of the new types in them."""
        changed = self.cutting.attributes_of(node.attributes)
        if not types or not isinstance(types[0], TensorType):
            return changed
        shape = types[0].shape
        match changed:
            case ShapeAttributes():
                return ShapeAttributes(shape)
            case SliceAttributes():
                return replace(changed, sizes=shape)
            case ScatterAttributes():
                return replace(changed, shape=shape)
            case _:
                return changed

    # ---------------------------------------------------------------- regions --

    def region(self, node: Node, region: Block, *, keeps_tokens: bool) -> Block:
        """A region for a block; without tokens its checks are left out, which stand where it runs once for all."""
        block = Block([self._parameter(p) for p in region.parameters if keeps_tokens or not p.is_token])
        output = Builder(block)
        for inner in region.nodes:
            self._inside(output, inner, keeps_tokens=keeps_tokens)
        output.name, output.span = node.name, node.span
        required = self.splits.outputs_required(node, region)
        pairs = [(v, w) for v, w in zip(region.outputs, required, strict=True) if keeps_tokens or not v.is_token]
        block.outputs = tuple(self.operand(output, v, w) for v, w in pairs)
        return block

    def _parameter(self, old: Value) -> Value:
        new = Value(self.cutting.type_of(old.type, self.splits.state(old)), old.name)
        self.define(old, new)
        return new

    def _inside(self, output: Builder, node: Node, *, keeps_tokens: bool) -> None:
        tokens = [self.common[v] for v in node.operands if v.is_token] if keeps_tokens else []
        if node.op != "assert" or keeps_tokens:
            self.node(output, node, tokens)

    # ---------------------------------------------------------------- what is common of a region --

    def common_results(self, output: Builder, node: Node) -> None:
        """Appends a node with the common results of one whose other results are cut, and with all its effects."""
        use = self.splits.uses[node]
        output.name, output.span = node.name, node.span
        keep = [not self.splits.is_split(v) for v in node.results]
        if not any(keep):
            return
        plain = [v for v in node.operands if not v.is_token]
        kept = [v for v, w in zip(plain, use.required, strict=True) if isinstance(w, Common)]
        tokens = [self.common[v] for v in node.operands if v.is_token]
        regions = [self._common_region(node, region) for region in node.regions]
        results = [v for v, is_kept in zip(node.results, keep, strict=True) if is_kept]
        types = [self.cutting.type_of(v.type, COMMON) for v in results]
        attributes = self.cutting.attributes_of(node.attributes)
        if isinstance(attributes, ForAttributes):
            attributes = replace(attributes, carries=sum(keep[: len(view(node).results.values)]))
        copy = output.add(node.op, [*(self.common[v] for v in kept), *tokens], types, attributes, regions)
        self.common.update(zip(results, copy.results, strict=True))

    def _common_region(self, node: Node, region: Block) -> Block:
        parameters = [p for p in region.parameters if not self.splits.is_split(p)]
        block = Block([self._parameter(p) for p in parameters])
        output = Builder(block)
        for inner in region.nodes:
            if inner not in self.splits.uses:
                self._inside(output, inner, keeps_tokens=True)
            elif inner.regions:
                self.common_results(output, inner)
        required = self.splits.outputs_required(node, region)
        kept = [v for v, w in zip(region.outputs, required, strict=True) if isinstance(w, Common)]
        block.outputs = tuple(self.common[v] for v in kept)
        return block


def behind_numbers(node: Node) -> int:
    """How many axes of the assigned rows come behind those of their numbers."""
    assert isinstance(node.attributes, AssignAttributes)
    index = node.attributes.index
    return len(index) - 1 - next(n for n, selector in enumerate(index) if isinstance(selector, OperandSelector))


def with_blocks_at(output: Builder, stack: Value, axis: int) -> Value:
    """A stack with the axis of the blocks behind so many others."""
    order = (*range(1, axis + 1), 0, *range(axis + 1, stack.tensor.rank))
    return output.transpose(stack, order) if axis else stack
