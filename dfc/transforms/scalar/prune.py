"""prune: drops nodes from which neither a result nor an effect can be reached.

    let a: f32 = exp(x)                let b: f32 = neg(x)
    let b: f32 = neg(x)         ->     return b
    let w1: f32 = graph.read(resource = "w")
    return b

A read whose value nobody uses is an effect only in name and goes too; a draw moves its generator on and stays.
Region nodes are kept or dropped as a whole (`dce` thins them out).
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.measured import Dependence
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.scalar.dead_results import without_idle_tokens

NAME = "prune"


def prune(graph: Graph) -> Graph:
    return map_blocks(graph, prune_block)


def prune_block(block: Block) -> Block:
    """The block without nodes that its outputs do not need."""
    swept = rebuild(block, Sweep(needed_nodes(block)))
    return block if swept is block else without_idle_tokens(swept)


def needed_nodes(block: Block) -> set[Node]:
    """The nodes that the outputs of a block need, nested ones included."""
    needed: set[Node] = set()
    seen: set[Value] = set()
    pending = list(block.outputs)
    dependence = Dependence.within(block)
    while pending:
        value = pending.pop()
        node = value.node
        if value in seen:
            continue
        seen.add(value)
        pending += dependence.of(value)
        if node is None:
            continue
        if value.is_token and _is_read(node):
            pending.append(_token_operand(node))
        elif node not in needed:
            needed.add(node)
            pending.extend(node.operands)
            for region in node.regions:
                pending.extend(region.outputs)
                pending.extend(region.parameters)
    return needed


def _is_read(node: Node) -> bool:
    return effect(node) is Effect.READ and not node.regions


def _token_operand(node: Node) -> Value:
    (token,) = (v for v in node.operands if v.is_token)
    return token


class Sweep(Pass):
    """Drops nodes outside a set; around a dropped read its token goes straight on."""

    def __init__(self, needed: set[Node]) -> None:
        self._needed = needed

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node in self._needed:
            return None
        token = next((v for v in site.operands if v.is_token), None)
        return [token if v.is_token and token is not None else v for v in site.node.results]
