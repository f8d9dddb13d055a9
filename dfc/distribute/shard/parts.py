"""Nodes and blocks of a divided entry over other sizes, operands and outputs.

Assumes well-formed ones. Guarantees that tokens stand behind plain values, in the order of their resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.shard.routes import NETWORK_TOKEN
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import Type
from dfc.ops.attributes import ResourceAttributes, ScatterAttributes, ShapeAttributes, SliceAttributes


@dataclass(frozen=True, slots=True)
class End:
    """How a block ends: the token of the network it began with, the one it hands on, and rows in place of outputs."""

    start: Value
    network: Value
    rows: Mapping[int, Value] = field(default_factory=dict[int, Value])

    @property
    def talks(self) -> bool:
        return self.network is not self.start

    def finished(self, block: Block, talks: bool) -> Block:
        """The block with these outputs, and with the token if any block beside it has one."""
        if self.rows:
            outputs = [self.rows.get(number, value) for number, value in enumerate(block.outputs)]
            block = Block(block.parameters, block.nodes, outputs)
        return with_network(block, self.start, self.network) if talks else block


def with_size(attributes: Attributes, axis: int, size: Dim) -> Attributes:
    """Attributes of what has fewer rows along an axis."""
    match attributes:
        case ShapeAttributes(shape):
            return ShapeAttributes((*shape[:axis], size, *shape[axis + 1 :]))
        case SliceAttributes():
            sizes = attributes.sizes
            return replace(attributes, sizes=(*sizes[:axis], size, *sizes[axis + 1 :]))
        case ScatterAttributes():
            shape = attributes.shape
            return replace(attributes, shape=(*shape[:axis], size, *shape[axis + 1 :]))
        case _:
            return attributes


def origin(value: Value) -> str | None:
    """The state that a value was read from, if it was."""
    node = value.node
    if node is None or node.op != "read":
        return None
    return node.attributes.resource if isinstance(node.attributes, ResourceAttributes) else None


def with_types(
    node: Node, operands: Sequence[Value], regions: Sequence[Block], plain: Sequence[Type], network: Value | None
) -> Node:
    """A node with regions over other types of its results; with the token of the network, if there is one."""
    all_operands = [*operands] if network is None else [*(v for v in operands if v.type != NETWORK_TOKEN), network]
    taken = in_order(all_operands)
    types = [*plain, *(v.type for v in taken if v.is_token)]
    return Node(node.op, taken, types, attributes=node.attributes, regions=regions, name=node.name, span=node.span)


def with_network(block: Block, start: Value, network: Value) -> Block:
    """The block with the token of the network among its parameters and outputs."""
    kept = [v for v in block.parameters if v is not start]
    outputs = [v for v in block.outputs if v.type != NETWORK_TOKEN]
    return Block(in_order([*kept, start]), block.nodes, in_order([*outputs, network]))


def in_order(values: Sequence[Value]) -> tuple[Value, ...]:
    """Plain values, then tokens by resource."""
    plain = [v for v in values if not v.is_token]
    return (*plain, *sorted((v for v in values if v.is_token), key=lambda v: str(v.type)))
