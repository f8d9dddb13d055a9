"""The same role with all its receives as early as they could stand: what delaying them is compared with.

    let a = exp(x)                       let r, t0 = recv(t)
    let s = sum(a)              ->       let a = exp(x)
    let r, t1 = recv(t)                  let s = sum(a)

Assumes a graph that `partition` made. Guarantees the same values; the order of messages may not fit that of other roles
any more, so nothing of it is ever run. Receives inside of loops and branches stay in their iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild, with_block, with_parts
from dfc.ir.types import TokenType
from dfc.ops.effects.communication import NETWORK, RecvAttributes


def with_early_receives(graph: Graph) -> Graph:
    """A graph whose entries begin with their receives."""
    result = Graph(graph.name, dict(graph.resources), settings=graph.settings, source=graph.source)
    result.entries.update({name: _early(entry) for name, entry in graph.entries.items()})
    return result


def _early(entry: Entry) -> Entry:
    block = entry.block
    received = [node for node in block.nodes if isinstance(node.attributes, RecvAttributes)]
    if not received:
        return entry
    rest = [node for node in block.nodes if not isinstance(node.attributes, RecvAttributes)]
    chain = _Chain(next(value for value in block.parameters if _is_network(value)))
    moved = rebuild(Block(block.parameters, [*received, *rest], block.outputs), chain)
    outputs = [chain.token if _is_network(value) else value for value in moved.outputs]
    return with_block(entry, Block(moved.parameters, moved.nodes, outputs))


def _is_network(value: Value) -> bool:
    return isinstance(value.type, TokenType) and value.type.resource == NETWORK


class _Chain(Pass):
    """Threads the token of the network through the nodes of the outermost block, in their new order."""

    def __init__(self, token: Value) -> None:
        self.token = token
        self._depth = 0

    def enter(self, block: Block) -> None:
        self._depth += 1

    def leave(self, block: Block) -> None:
        self._depth -= 1

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if self._depth > 1 or not any(_is_network(value) for value in site.operands):
            return None
        operands = [self.token if _is_network(value) else value for value in site.operands]
        node = with_parts(site.node, operands, site.regions)
        site.output.append(node)
        self.token = next(value for value in node.results if _is_network(value))
        return node.results
