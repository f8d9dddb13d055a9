"""expand: rewrites ops that are a short word for several others, before fusion.

    let p: f32[N] = softmax(x)            let m: f32[1] = graph.max(x, ..)
                                   ->     let e: f32[N] = exp(x - m)
                                          let p: f32[N] = e / graph.sum(e, ..)

Ops whose record says `Decompose`, again until none is left; and `stop_gradient`, which has done its work by now.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.record import Decompose
from dfc.ops.sizes.equality import sizes_compared
from dfc.transforms.scalar.cse import cse_block

NAME = "expand"
MAX_DEPTH = 8


def expand(graph: Graph) -> Graph:
    with sizes_compared():
        return map_blocks(graph, expand_block)


def expand_block(block: Block) -> Block:
    expanded = block
    for _ in range(MAX_DEPTH):
        if not any(map(is_composed, walk.nodes(expanded))):
            return name_nodes(expanded, block)
        expanded = cse_block(rebuild(expanded, _Expand()))  # what becomes a loop next cannot be merged after that
    raise AssertionError(f"ops decompose into each other more than {MAX_DEPTH} times")


def is_composed(node: Node) -> bool:
    return node.op == "stop_gradient" or isinstance(registry.record(node.op).lowering, Decompose)


class _Expand(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op == "stop_gradient":
            return site.operands
        lowering = registry.record(site.node.op).lowering
        if not isinstance(lowering, Decompose):
            return None
        kept = site.kept()
        builder = Builder.appending(site.output, name=kept.name, span=kept.span)
        results = lowering.rewrite(builder, kept)
        return [builder.reshape(new, old.tensor.shape) for new, old in zip(results, kept.results, strict=True)]
