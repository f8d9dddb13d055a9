"""What nodes do besides making values: the union of their own effect and those of the nodes in their regions."""

from __future__ import annotations

from dfc.ir import walk
from dfc.ir.graph import Block, Node
from dfc.kernels.body import is_partial
from dfc.ops import registry
from dfc.ops.lowering.forms import HostCall
from dfc.ops.record import Effect

_ORDERED = frozenset({Effect.READ, Effect.WRITE, Effect.CHECK, Effect.HOST})


def effect(node: Node) -> Effect:
    """The effect of the op alone; REGION means that of what is inside."""
    return registry.record(node.op).effect


def is_host_call(node: Node) -> bool:
    """Whether the run side does what a node means; its token only keeps the order of such calls."""
    return isinstance(registry.record(node.op).lowering, HostCall)


def effects(node: Node) -> frozenset[Effect]:
    """Everything a node does; empty for a pure one."""
    all_effects = {effect(node)}
    for region in node.regions:
        all_effects |= block_effects(region)
    return frozenset(all_effects - {Effect.PURE, Effect.REGION})


def block_effects(block: Block) -> frozenset[Effect]:
    all_effects = {effect(node) for node in walk.nodes(block)}
    return frozenset(all_effects - {Effect.PURE, Effect.REGION})


def is_pure(node: Node) -> bool:
    """Whether a node may be shared, folded and moved: the same operands give the same results, and nothing else."""
    return effect(node) is Effect.PURE if not node.regions else not effects(node)


def may_have_no_value(node: Node) -> bool:
    """Whether an element-wise node fails for some values of its second operand: it must not run where it was not asked
    for."""
    return bool(node.results) and not node.result.is_token and is_partial(node.op, node.result.tensor.machine)


def is_ordered(node: Node) -> bool:
    """Whether a node has a place among others: it reads, writes, checks or talks to the host."""
    return bool(effects(node) & _ORDERED)
