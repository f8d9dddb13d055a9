"""Blocks: a prepared block becomes kernels and, between them, the nodes that are none, with fused regions.

Assumes a prepared block whose parameters are in memory. Guarantees the order of effects of the graph. It recurses into
regions only, whose nesting the front end bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.dtypes import BOOL
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured
from dfc.ir.regions import ForView, bodies, controls, for_view, if_view, while_view
from dfc.ir.types import TensorType
from dfc.kernels.body import Affine
from dfc.lower.fuse.emit.effects import isolated
from dfc.lower.fuse.emit.loops import BoundKernel, Emitter
from dfc.lower.fuse.emit.ordered import ordered
from dfc.lower.fuse.emit.products import product
from dfc.lower.fuse.emit.routines import routine
from dfc.lower.fuse.fused import (
    FusedBlock,
    FusedCheck,
    FusedCheckpoint,
    FusedFor,
    FusedHostCall,
    FusedIf,
    FusedKernel,
    FusedMeasure,
    FusedPart,
    FusedWhile,
)
from dfc.lower.fuse.groups.groups import KernelGroup, LoopGroup, OrderedGroup, ProductGroup, StepGroup
from dfc.lower.fuse.groups.join import join
from dfc.lower.fuse.groups.memory import assign_memory
from dfc.lower.fuse.items.analyse import analyse
from dfc.lower.fuse.items.collect import Collected, Exit, RegionMemory, collect
from dfc.lower.fuse.items.hazards import without_hazards
from dfc.lower.fuse.items.items import Selector, StepItem, Target, result_of
from dfc.lower.fuse.items.materialise import materialise
from dfc.lower.fuse.items.targets import whole
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, fresh, whole_view
from dfc.ops.attributes import FINITE, AssertAttributes, ConstantAttributes
from dfc.ops.effects.effects import is_host_call
from dfc.ops.effects.mutexes import MutexAttributes
from dfc.ops.effects.queues import QueueAttributes, TakeAttributes
from dfc.ops.lowering.index_maps import along
from dfc.ops.lowering.routines import routine_of


def fuse_block(scope: Scope, block: Block, exits: Sequence[Exit]) -> FusedBlock:
    """The kernels and nodes of a block in an order of execution; afterwards each exit value is in its target."""
    collected = collect(scope, block, exits)
    materialise(scope, collected)
    items = without_hazards(scope, collected, analyse(scope, collected))
    groups = join(scope, collected, items)
    stored = assign_memory(scope, collected, groups)
    parts: list[FusedPart] = []
    for group in groups:
        if isinstance(group, StepGroup):
            parts.append(_node(scope, collected, group.item))
        else:
            parts += [_kernel(collected, bound, group) for bound in _kernels(scope, collected, group, stored)]
    for value in collected.adopted:
        scope.views.pop(value, None)
    return tuple(parts)


def _kernels(scope: Scope, collected: Collected, group: KernelGroup, stored: set[Value]) -> list[BoundKernel]:
    result = result_of(group.members[0].item)
    if len(group.members) == 1 and result is not None and result not in scope.views:
        return []  # nobody reads it
    match group:
        case ProductGroup():
            return [product(scope, collected, group, stored)]
        case OrderedGroup():
            return ordered(scope, collected, group.item)
        case LoopGroup():
            bound = Emitter(scope, collected, group, stored).kernel()
            return [bound] if bound.views else []


def _kernel(collected: Collected, bound: BoundKernel, group: KernelGroup) -> FusedKernel:
    names: dict[str, None] = {}
    for member in group.members:
        names.update((node.name, None) for node in member.analysed.nodes)
        names[member.item.name] = None
    spans = (member.item.span for member in group.members)
    span = next((span for span in spans if not span.is_nowhere), Span.nowhere())
    reasons = (*group.reasons, *_decisions(collected, group))
    return FusedKernel(bound.kernel, bound.views, tuple(name for name in names if name), span, reasons)


def _decisions(collected: Collected, group: KernelGroup) -> Iterator[str]:
    """What was decided by cost about the values that a group computes."""
    values: dict[Value, None] = {}
    for member in group.members:
        result = result_of(member.item)
        computed = (value for node in member.analysed.nodes for value in node.results)
        values.update(dict.fromkeys((*computed, *([result] if result is not None else []))))
    for value in values:
        yield from (str(known[value]) for known in (collected.decisions, collected.read_back) if value in known)


def _node(scope: Scope, collected: Collected, item: StepItem) -> FusedPart:
    node = item.node
    match node.op:
        case "assert":
            attributes = node.attributes
            assert isinstance(attributes, AssertAttributes)
            kind = "finite" if attributes.condition_text == FINITE else "assert"
            fault = scope.fault(node, kind, attributes.message or attributes.condition_text, node.span)
            return FusedCheck(node, _view_of(scope, node.operands[0]), fault)
        case "range":
            fault = scope.fault(node, "size", f"the size {measured(node)}", node.span)
            return FusedMeasure(node, _view_of(scope, node.operands[0]), fault)
        case "if":
            return _if(scope, collected.regions[node], node)
        case "while":
            return _while(scope, collected.regions[node], node)
        case "for":
            return _for(scope, collected.regions[node], node)
        case "read" | "assign" | "draw":
            return isolated(scope, collected, item)
        case _ if is_host_call(node):
            operands, results = (
                tuple(_view_of(scope, v) for v in _tensors(vs)) for vs in (node.operands, node.results)
            )
            return FusedHostCall(node, operands, results, _fault_of(scope, node))
        case _ if (name := routine_of(node)) is not None:
            return routine(scope, node, name)
        case _:
            return FusedCheckpoint(node, scope.texts[node.operands[0]])


def _fault_of(scope: Scope, node: Node) -> int | None:
    """The site of what can go wrong with a queue; its message is the name of the queue."""
    if not isinstance(node.attributes, QueueAttributes | TakeAttributes | MutexAttributes):
        return None
    return scope.fault(node, "queue", node.attributes.resource, node.span)


def _view_of(scope: Scope, value: Value) -> BufferView:
    view = scope.view_of(value)
    assert view is not None, value
    return view


def _tensors(values: Sequence[Value]) -> list[Value]:
    return [v for v in values if isinstance(v.type, TensorType)]


def _bind(scope: Scope, parameters: Sequence[Value], views: Sequence[BufferView]) -> None:
    scope.views.update(zip(parameters, views, strict=True))


def _if(scope: Scope, memory: RegionMemory, node: Node) -> FusedIf:
    parts = if_view(node)
    then, otherwise = (
        fuse_block(scope, region, _exits(after.values, memory.carried))
        for region, after in zip(bodies(parts), parts.after, strict=True)
    )
    return FusedIf(node, _view_of(scope, parts.condition), then, otherwise)


def _exits(values: Sequence[Value], views: Sequence[BufferView]) -> list[Exit]:
    return [(value, whole(view)) for value, view in zip(values, views, strict=True)]


def _while(scope: Scope, memory: RegionMemory, node: Node) -> FusedWhile:
    parts = while_view(node)
    test = whole_view(fresh(BOOL, (), f"{node.name}/condition"))
    _bind(scope, parts.condition_inside.values, memory.carried)
    _bind(scope, parts.inside.values, memory.carried)
    condition = fuse_block(scope, parts.condition, [(parts.test, whole(test))])
    body = fuse_block(scope, parts.body, _exits(parts.after.values, memory.carried))
    return FusedWhile(node, condition, test, body)


def _for(scope: Scope, memory: RegionMemory, node: Node) -> FusedFor:
    parts = for_view(node)
    body, index = parts.body, parts.index
    view = whole_view(fresh(index.tensor.machine, (), index.name))
    _bind(scope, (index, *parts.inside.values), [view, *memory.carried])
    exits = _exits(parts.after.values, memory.carried)
    if memory.stacked:
        row, body = _row_number(parts)
        emits = zip(parts.after.emitted, memory.stacked, strict=True)
        exits = [*((v, _row_of(stacked, row)) for v, stacked in emits), *exits]
    start, stop = (_view_of(scope, v) for v in controls(parts))
    return FusedFor(node, view, start, stop, fuse_block(scope, body, exits))


def _row_of(view: BufferView, row: Value) -> Target:
    """One row of a stacked emit."""
    rest = tuple(along(axis) for axis in range(len(view.shape) - 1))
    index: tuple[Affine | Selector, ...] = (Selector(row, ()), *rest)
    return Target(view, index, region=view.shape[1:])


def _row_number(parts: ForView) -> tuple[Value, Block]:
    """The number of the iteration: the index minus where it started."""
    node, body, index, start = parts.node, parts.body, parts.index, parts.start
    if _is_zero(start):
        return index, body
    row = Node("sub", (index, start), (index.type,), name=f"{node.name}/iteration", span=node.span)
    return row.result, Block(body.parameters, [row, *body.nodes], body.outputs)


def _is_zero(value: Value) -> bool:
    attributes = value.node.attributes if value.node is not None else None
    return isinstance(attributes, ConstantAttributes) and not np.any(attributes.value.array)
