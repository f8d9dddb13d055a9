"""Moves expensive work that is the same in every iteration out of loops.

Before: `for i in 0..n { s = tanh(s @ exp(w)) }`    After: `let e = exp(w)`, `for i in 0..n { s = tanh(s @ e) }`

Moved are pure nodes that cannot fail: folds, products and expensive element-wise nodes of arrays, with what they alone
need. Cheap nodes and views stay: computing them in place costs less than memory. A loop that never runs wastes it.

Assumes a verified block. Guarantees the same values and effects.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured_in, mentioned
from dfc.ir.rewrite import Pass, RewriteSite, rebuild, with_parts
from dfc.ir.symbols import symbols_of
from dfc.lower.fuse.inline import is_inline, weight
from dfc.ops.effects.effects import effect, may_have_no_value
from dfc.ops.record import Effect
from dfc.ops.rules.lookup import may_end_the_run

EXPENSIVE = 4  # weight of an element-wise node that is worth memory


def hoist(block: Block) -> Block:
    return rebuild(block, _Hoist(frozenset(measured_in(block))))


class _Hoist(Pass):
    """Inner loops come first, so that what leaves them may leave the outer loop as well."""

    def __init__(self, measured: frozenset[Symbol]) -> None:
        self._measured = measured

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op not in ("for", "while"):
            return None
        parts = [_split(region, self._measured) for region in site.regions]
        if not any(moved for moved, _ in parts):
            return None
        for moved, _ in parts:
            site.output.extend(moved)
        node = with_parts(site.node, site.operands, [region for _, region in parts])
        site.output.append(node)
        return node.results


def _split(region: Block, measured: frozenset[Symbol]) -> tuple[list[Node], Block]:
    """The nodes to move out of a region, and the region without them."""
    inside: set[Value] = set(region.parameters)
    sizes = _unsafe_sizes(region, measured)
    same: list[Node] = []
    for node in region.nodes:
        if _is_free(node) and not _mentions(node, sizes) and inside.isdisjoint(node.operands):
            same.append(node)
        else:
            inside.update(node.results)
    moving: set[Node] = set()
    needed: set[Value] = set()
    for node in reversed(same):
        if _is_expensive(node) or not needed.isdisjoint(node.results):
            moving.add(node)
            needed.update(node.operands)
    if not moving:
        return [], region
    moved = [node for node in same if node in moving]
    return moved, Block(region.parameters, [node for node in region.nodes if node not in moving], region.outputs)


def _unsafe_sizes(region: Block, measured: frozenset[Symbol]) -> frozenset[Symbol]:
    """The sizes that mean nothing before a region runs: those it finds out; all such sizes, if it checks any."""
    if not measured or any(node.op == "assert" for node in region.nodes):
        return measured
    return frozenset(measured_in(region))


def _mentions(node: Node, sizes: frozenset[Symbol]) -> bool:
    """Whether a node works on tensors of such a size."""
    if not sizes:
        return False
    used = mentioned(node).union(*(symbols_of(value.type) for value in node.operands))
    return not sizes.isdisjoint(used)


def _is_free(node: Node) -> bool:
    """Whether a node may run more or less often, or earlier, than it is written."""
    if effect(node) not in (Effect.PURE, Effect.RANDOM) or node.regions:
        return False
    return not may_end_the_run(node) and not may_have_no_value(node)


def _is_expensive(node: Node) -> bool:
    if not node.operands or not any(v.tensor.shape for v in (*node.operands, *node.results)):
        return False
    return weight(node) >= EXPENSIVE or not is_inline(node)
