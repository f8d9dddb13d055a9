"""expand: rewrites ops that are a short word for several others, before fusion.

    let p: f32[N] = softmax(x)            let m: f32[1] = graph.max(x, ..)
                                   ->     let e: f32[N] = exp(x - m)
                                          let p: f32[N] = e / graph.sum(e, ..)

Ops whose record says `Decompose`, again until none is left; and `stop_gradient`, which has done its work by now. What
has a routine stays, in f64, until it is known whether the target has routines: else `expand_routines` takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.dtypes import F64
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.lowering.forms import Decompose
from dfc.ops.lowering.routines import has_routine, routine_of
from dfc.ops.sizes.equality import sizes_compared
from dfc.transforms.scalar.cse import cse, cse_block
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.simplify import simplify

NAME = "expand"
MAX_DEPTH = 8


def expand(graph: Graph) -> Graph:
    with sizes_compared():
        return map_blocks(graph, expand_block)


def expand_routines(graph: Graph) -> Graph:
    """Also what has a routine, for a target that has none; the graph itself if there is nothing of that kind."""
    entries = (*graph.entries.values(), *graph.tests.values())
    if not any(has_routine(node) for entry in entries for node in walk.nodes(entry.block)):
        return graph
    with sizes_compared():
        expanded = map_blocks(graph, lambda block: expand_block(block, keeps_routines=False))
    return dce(cse(fold(simplify(expanded))))


def expand_block(block: Block, *, keeps_routines: bool = True) -> Block:
    expanded = block
    for _ in range(MAX_DEPTH):
        if not any(is_composed(node, keeps_routines=keeps_routines) for node in walk.nodes(expanded)):
            return name_nodes(expanded, block)
        # what becomes a loop next cannot be merged after that
        expanded = cse_block(rebuild(expanded, _Expand(keeps_routines)))
    raise AssertionError(f"ops decompose into each other more than {MAX_DEPTH} times")


def is_composed(node: Node, *, keeps_routines: bool = True) -> bool:
    if keeps_routines and routine_of(node) is not None:
        return False
    return node.op == "stop_gradient" or isinstance(registry.record(node.op).lowering, Decompose)


class _Expand(Pass):
    def __init__(self, keeps_routines: bool) -> None:
        self._keeps_routines = keeps_routines

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op == "stop_gradient":
            return site.operands
        lowering = registry.record(site.node.op).lowering
        if not isinstance(lowering, Decompose):
            return None
        kept = site.kept()
        builder = Builder.appending(site.output, name=kept.name, span=kept.span)
        if self._keeps_routines and lowering.routine is not None:
            return None if routine_of(kept) is not None else _in_f64(builder, kept)
        results = lowering.rewrite(builder, kept)
        return [builder.reshape(new, old.tensor.shape) for new, old in zip(results, kept.results, strict=True)]


def _in_f64(b: Builder, node: Node) -> Sequence[Value]:
    """The same op of wider operands."""
    wide = b.node(node.op, [b.cast(v, F64) for v in node.operands], node.attributes)
    return [b.cast(new, old.tensor.dtype) for new, old in zip(wide.results, node.results, strict=True)]
