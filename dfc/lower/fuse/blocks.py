"""Blocks: a prepared block becomes kernels and, between them, the nodes that are none, with fused regions.

Assumes a prepared block whose parameters have places. Guarantees the order of effects of the graph. It recurses into
regions only, whose nesting the front end bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.dtypes import BOOL
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured
from dfc.ir.types import TensorType
from dfc.kernels.body import Affine
from dfc.lower.fuse.emit.effects import isolated
from dfc.lower.fuse.emit.loops import Emitter, Made
from dfc.lower.fuse.emit.ordered import ordered
from dfc.lower.fuse.emit.products import product
from dfc.lower.fuse.fused import FusedBlock, FusedKernel, FusedNode
from dfc.lower.fuse.groups.groups import Group
from dfc.lower.fuse.groups.join import join
from dfc.lower.fuse.groups.memory import settle
from dfc.lower.fuse.indexing import along
from dfc.lower.fuse.items.analyse import analyse
from dfc.lower.fuse.items.collect import Collected, Exit, Regions, collect
from dfc.lower.fuse.items.items import Item, Kind, Selector, Target
from dfc.lower.fuse.items.materialise import absorb
from dfc.lower.fuse.items.targets import whole
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, fresh, place_of
from dfc.ops.attributes import FINITE, AssertAttributes, ConstantAttributes
from dfc.ops.effects.effects import is_host_call


def fuse_block(scope: Scope, block: Block, exits: Sequence[Exit]) -> FusedBlock:
    """The kernels and nodes of a block in an order of execution; afterwards each exit value is in its target."""
    found = collect(scope, block, exits)
    absorb(scope, found)
    analyse(scope, found)
    groups = join(scope, found)
    homed = settle(scope, found, groups)
    parts: list[FusedKernel | FusedNode] = []
    for group in groups:
        if group.kind is Kind.STEP:
            parts.append(_node(scope, found, group.items[0]))
        else:
            parts += [_kernel(made, group) for made in _kernels(scope, found, group, homed)]
    for value in found.adopted:
        scope.places.pop(value, None)
    return tuple(parts)


def _kernels(scope: Scope, found: Collected, group: Group, homed: set[Value]) -> list[Made]:
    first = group.items[0]
    if len(group.items) == 1 and first.result is not None and first.result not in scope.places:
        return []  # nobody reads it
    if group.kind is Kind.CONTRACT:
        return [product(scope, found, group, homed)]
    if group.closed:
        return ordered(scope, found, first)
    made = Emitter(scope, found, group, homed).kernel()
    return [made] if made.places else []


def _kernel(made: Made, group: Group) -> FusedKernel:
    names: dict[str, None] = {}
    for item in group.items:
        names.update((node.name, None) for node in item.nodes)
        names[item.name] = None
    span = next((item.span for item in group.items if not item.span.is_nowhere), Span.nowhere())
    return FusedKernel(made.kernel, made.places, tuple(name for name in names if name), span, tuple(group.reasons))


def _node(scope: Scope, found: Collected, item: Item) -> FusedNode:
    node = item.node
    assert node is not None
    match node.op:
        case "assert":
            attributes = node.attributes
            assert isinstance(attributes, AssertAttributes)
            kind = "finite" if attributes.condition_text == FINITE else "assert"
            fault = scope.fault(node, kind, attributes.message or attributes.condition_text, node.span)
            return FusedNode(node, (_place(scope, node.operands[0]),), fault=fault)
        case "range":
            fault = scope.fault(node, "size", f"the size {measured(node)}", node.span)
            return FusedNode(node, (_place(scope, node.operands[0]),), fault=fault)
        case "if":
            return _if(scope, found.regions[node], node)
        case "while":
            return _while(scope, found.regions[node], node)
        case "for":
            return _for(scope, found.regions[node], node)
        case "read" | "assign" | "draw":
            return isolated(scope, found, item)
        case _ if is_host_call(node):
            operands, results = (tuple(_place(scope, v) for v in _tensors(vs)) for vs in (node.operands, node.results))
            return FusedNode(node, operands, results)
        case _:
            return FusedNode(node, text=scope.texts[node.operands[0]])


def _place(scope: Scope, value: Value) -> BufferView:
    place = scope.place(value)
    assert place is not None, value
    return place


def _tensors(values: Sequence[Value]) -> list[Value]:
    return [v for v in values if isinstance(v.type, TensorType)]


def _bind(scope: Scope, parameters: Sequence[Value], places: Sequence[BufferView]) -> None:
    scope.places.update(zip(_tensors(parameters), places, strict=True))


def _if(scope: Scope, memory: Regions, node: Node) -> FusedNode:
    branches: list[FusedBlock] = []
    for region in node.regions:
        outputs = _tensors(region.outputs)
        exits = [(v, whole(place)) for v, place in zip(outputs, memory.carried, strict=True)]
        branches.append(fuse_block(scope, region, exits))
    return FusedNode(node, (_place(scope, node.operands[0]),), regions=tuple(branches))


def _while(scope: Scope, memory: Regions, node: Node) -> FusedNode:
    condition, body = node.regions
    test = place_of(fresh(BOOL, (), f"{node.name}/condition"))
    _bind(scope, condition.parameters, memory.carried)
    _bind(scope, body.parameters, memory.carried)
    before = fuse_block(scope, condition, [(_tensors(condition.outputs)[0], whole(test))])
    exits = [(v, whole(place)) for v, place in zip(_tensors(body.outputs), memory.carried, strict=True)]
    return FusedNode(node, regions=(before, fuse_block(scope, body, exits)), control=test)


def _for(scope: Scope, memory: Regions, node: Node) -> FusedNode:
    (body,) = node.regions
    index = body.parameters[0]
    place = place_of(fresh(index.tensor.machine, (), index.name))
    _bind(scope, body.parameters, [place, *memory.carried])
    outputs = _tensors(body.outputs)
    carried = len(memory.carried)
    exits: list[Exit] = [(v, whole(place)) for v, place in zip(outputs[:carried], memory.carried, strict=True)]
    if memory.stacked:
        row, body = _row_number(node, body)
        emits = zip(outputs[carried:], memory.stacked, strict=True)
        exits = [*((v, _row_of(stacked, row)) for v, stacked in emits), *exits]
    start, stop = (_place(scope, v) for v in node.operands[:2])
    return FusedNode(node, (start, stop), regions=(fuse_block(scope, body, exits),), control=place)


def _row_of(place: BufferView, row: Value) -> Target:
    """One row of a stacked emit."""
    rest = tuple(along(axis) for axis in range(len(place.shape) - 1))
    index: tuple[Affine | Selector, ...] = (Selector(row, ()), *rest)
    return Target(place, index, region=place.shape[1:])


def _row_number(node: Node, body: Block) -> tuple[Value, Block]:
    """The number of the iteration: the index minus where it started."""
    index, start = body.parameters[0], node.operands[0]
    if _is_zero(start):
        return index, body
    row = Node("sub", (index, start), (index.type,), name=f"{node.name}/round", span=node.span)
    return row.result, Block(body.parameters, [row, *body.nodes], body.outputs)


def _is_zero(value: Value) -> bool:
    attributes = value.node.attributes if value.node is not None else None
    return isinstance(attributes, ConstantAttributes) and not np.any(attributes.value.array)
