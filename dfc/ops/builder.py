"""Appends nodes to a block, with types inferred from the op records. Used by the front end, gradients and rewrites."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.attributes import Attributes, Literal
from dfc.ir.dims import Dim, DimLike, dim
from dfc.ir.dtypes import F64, I64, DType, DTypeVariable
from dfc.ir.graph import NO_ATTRIBUTES, Block, Node, Value
from dfc.ir.types import TensorType, Type
from dfc.ops.attributes import (
    AxisAttributes,
    CastAttributes,
    ConstantAttributes,
    DimAttributes,
    PermutationAttributes,
    ReduceAttributes,
    ShapeAttributes,
)
from dfc.ops.table import type_rule


class Builder:
    """A cursor at the end of `block`. `name` and `span` are given to every node until changed."""

    def __init__(self, block: Block, *, name: str = "", span: Span | None = None) -> None:
        self.block = block
        self.name = name
        self.span = span if span is not None else Span.nowhere()

    @classmethod
    def appending(cls, nodes: list[Node], *, name: str = "", span: Span | None = None) -> Builder:
        """A builder that appends to a list of nodes, such as the output of a rewriting pass."""
        block = Block()
        block.nodes = nodes
        return cls(block, name=name, span=span)

    def add(
        self,
        op: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attributes: Attributes | None = None,
        regions: Sequence[Block] = (),
    ) -> Node:
        """Appends a node whose result types are already known."""
        return self.append(
            Node(op, operands, result_types, attributes=attributes, regions=regions, name=self.name, span=self.span)
        )

    def append(self, node: Node) -> Node:
        """Appends a node that was made elsewhere: those with regions by `dfc.ir.regions`, with this as their origin."""
        self.block.nodes.append(node)
        return node

    def node(self, op: str, operands: Sequence[Value], attributes: Attributes | None = None) -> Node:
        """Appends a pure node; result types come from its record (raises `OpError` if they do not fit)."""
        node_attributes = attributes if attributes is not None else NO_ATTRIBUTES
        types = type_rule(op)([v.tensor for v in operands], node_attributes)
        return self.add(op, operands, types, node_attributes)

    def infer(self, op: str, operands: Sequence[Value], attributes: Attributes) -> Sequence[Type]:
        """The result types an op would have; raises `OpError` if the operands do not fit."""
        return type_rule(op)([v.tensor for v in operands], attributes)

    def apply(self, op: str, *operands: Value, attributes: Attributes | None = None) -> Value:
        """Appends a pure node with one result and returns it."""
        return self.node(op, operands, attributes).result

    def constant(self, value: object, dtype: DType | DTypeVariable) -> Value:
        """A constant of the given element type (a scalar or an array)."""
        machine = dtype if isinstance(dtype, DType) else None
        assert machine is not None, "constants of a generic element type are made with `cast`"
        if isinstance(value, (int, float)):
            literal = Literal.scalar(value, machine)
        else:
            literal = Literal(np.asarray(value).astype(machine.numpy))
        type_ = TensorType(machine, tuple(dim(n) for n in literal.shape))
        return self.add("constant", (), (type_,), ConstantAttributes(literal)).result

    def scalar_like(self, number: float, like: Value) -> Value:
        """A scalar constant in the element type of `like` (cast from f64 when that is generic)."""
        dtype = like.tensor.dtype
        if isinstance(dtype, DType):
            return self.constant(number, dtype)
        from_f64 = self.constant(number, F64)
        return self.cast(from_f64, dtype)

    def size(self, size: DimLike) -> Value:
        """A dimension as an i64 scalar."""
        return self.add("dim", (), (TensorType(I64),), DimAttributes(dim(size))).result

    def cast(self, x: Value, dtype: DType | DTypeVariable) -> Value:
        return x if x.tensor.dtype == dtype else self.apply("cast", x, attributes=CastAttributes(dtype))

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        same = x.tensor.shape == tuple(shape)
        return x if same else self.apply("reshape", x, attributes=ShapeAttributes(tuple(shape)))

    def broadcast(self, x: Value, shape: Sequence[Dim]) -> Value:
        same = x.tensor.shape == tuple(shape)
        return x if same else self.apply("broadcast", x, attributes=ShapeAttributes(tuple(shape)))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        return self.apply("transpose", x, attributes=PermutationAttributes(tuple(permutation)))

    def sum(self, x: Value, axes: Sequence[int], keep_dims: bool = False) -> Value:
        return self.apply("sum", x, attributes=ReduceAttributes(tuple(axes), keep_dims)) if axes else x

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        return self.apply("concat", *parts, attributes=AxisAttributes(axis))
