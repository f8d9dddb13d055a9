"""What nodes that are no kernels look at, and which state they touch."""

from __future__ import annotations

from dfc.ir.graph import Node, Value
from dfc.ir.regions import controls, view
from dfc.ir.types import TensorType
from dfc.ir.walk import nodes
from dfc.ops.attributes import AssignAttributes, DrawAttributes, HostAttributes, ResourceAttributes
from dfc.ops.effects.effects import is_host_call
from dfc.ops.effects.mutexes import MutexAttributes
from dfc.ops.lowering.routines import routine_of


def is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def step_operands(node: Node) -> tuple[Value, ...]:
    """What a step itself looks at: numbers that control it, and all operands of a call of the run side or of a
    routine; carried values
    were stored before it."""
    match node.op:
        case "if" | "for":
            return controls(view(node))
        case "assert" | "range":
            return node.operands[:1]
        case _:
            takes_all = is_host_call(node) or routine_of(node) is not None
            return tuple(filter(is_tensor, node.operands)) if takes_all else ()


def state_effects(node: Node) -> list[tuple[str, bool]]:
    """Which state a step reads (False) or writes (True), nested regions included."""
    effects: dict[tuple[str, bool], None] = {}
    for inner in (node, *(n for region in node.regions for n in nodes(region))):
        attributes = inner.attributes
        match attributes:
            case ResourceAttributes():
                effects[attributes.resource, False] = None
            case AssignAttributes() | DrawAttributes():
                effects[attributes.resource, True] = None
            case HostAttributes():
                effects.update(((name, inner.op == "checkpoint_restore"), None) for name in attributes.resources)
            case MutexAttributes():
                effects.update(((name, True), None) for name in attributes.guarded)
            case _:
                pass
    return list(effects)
