"""Small graphs for tests, made by hand: no front end, no op records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.ir import dtypes
from dfc.ir.attributes import Literal
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Entry, Graph, Node, Resource, ResourceKind, Value
from dfc.ir.types import TensorType, TokenType, tensor
from dfc.ops.attributes import AssignAttributes, ConstantAttributes, ResourceAttributes


def entry(
    name: str,
    parameters: Sequence[Value],
    nodes: Sequence[Node],
    outputs: Sequence[Value],
    *,
    dims: Sequence[Symbol] = (),
    dim_feeds: Sequence[Symbol] = (),
) -> Entry:
    """An entry whose feeds and results are called like their values."""
    return Entry(
        name,
        Block(parameters, nodes, outputs),
        tuple(v.name for v in parameters if not v.is_token),
        tuple(f"r{i}" for i, v in enumerate(outputs) if not v.is_token),
        tuple(dims),
        tuple(dim_feeds),
        (),
        NOWHERE,
    )


def graph(*entries: Entry, resources: Sequence[Resource] = ()) -> Graph:
    return Graph("test", {r.name: r for r in resources}, {e.name: e for e in entries})


def variable(name: str, type_: TensorType, initial: object = 0) -> Resource:
    """A trained variable filled with a constant."""
    shape = [d.constant for d in type_.shape]
    array = np.full([n for n in shape if n is not None], initial, type_.machine.numpy)
    node = constant(array, f"{name}/initial")
    return Resource(name, ResourceKind.VARIABLE, type_, True, Block((), (node,), node.results), NOWHERE)


def constant(value: object, name: str, dtype: np.dtype[np.generic] | None = None) -> Node:
    array = np.asarray(value, dtype)
    literal = Literal(array)
    return Node("constant", (), (_type_of(literal),), attributes=ConstantAttributes(literal), name=name)


def _type_of(literal: Literal) -> TensorType:
    from_array = dtypes.from_numpy(literal.array.dtype)
    assert from_array is not None
    return tensor(from_array, *literal.array.shape)


def token(resource: str) -> Value:
    return Value(TokenType(resource), f"{resource}/token")


def read(resource: Resource, before: Value, name: str) -> Node:
    return Node(
        "read", (before,), (resource.type, before.type), attributes=ResourceAttributes(resource.name), name=name
    )


def assign(resource: Resource, value: Value, before: Value, name: str, mode: str = ":=") -> Node:
    attributes = AssignAttributes(resource.name, mode)
    return Node("assign", (value, before), (before.type,), attributes=attributes, name=name)
