"""cse: computes what is computed twice only once.

    let a: f32 = exp(x)                let a: f32 = exp(x)
    let b: f32 = exp(x)         ->     return a + a
    return a + b

Only pure ops without regions: random numbers and reads are never shared. A node serves those below it in its block and
in the regions below it, never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.attributes import Attributes
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ir.types import Type
from dfc.ops import registry
from dfc.ops.effects.effects import is_pure

NAME = "cse"
_Key = tuple[str, tuple[int, ...], Attributes, tuple[Type, ...]]
"""An op with its operands; the types of its results only where they are not those of another node so far."""


def cse(graph: Graph) -> Graph:
    return map_blocks(graph, cse_block)


def cse_block(block: Block) -> Block:
    return rebuild(block, _Share())


class _Share(Pass):
    """Knows the nodes that are visible, and for each open block which it added."""

    def __init__(self) -> None:
        self._known: dict[_Key, Node] = {}
        self._added: list[list[_Key]] = []

    def enter(self, block: Block) -> None:
        self._added.append([])

    def leave(self, block: Block) -> None:
        for key in self._added.pop():
            del self._known[key]

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if node.regions or not is_pure(node):
            return None
        key = _key(node, site.operands)
        known = self._known.get(key)
        if known is not None and not _same_types(known, node):
            key = (*key[:3], tuple([v.type for v in node.results]))
            known = self._known.get(key)
        if known is not None:
            return known.results
        kept = site.kept()
        site.output.append(kept)
        self._known[key] = kept
        self._added[-1].append(key)
        return kept.results


def _key(node: Node, operands: Sequence[Value]) -> _Key:
    numbers = [id(v) for v in operands]
    if "commutative" in registry.record(node.op).identities:
        numbers.sort()
    return node.op, tuple(numbers), node.attributes, ()


def _same_types(a: Node, b: Node) -> bool:
    return [v.type for v in a.results] == [v.type for v in b.results]
