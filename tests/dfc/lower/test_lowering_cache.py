"""What was made of a graph before its stages run is what they go on with, once."""

from __future__ import annotations

from dfc.kernels.printer import print_program
from dfc.lower.lowering_cache import LoweringCache
from tests.support.building import graph_of

GRAPH = graph_of("dfg 1\nentry f[N](x: f32[N]) -> f32 { return sum(exp(x) * 2) }\n")
NONE: frozenset[str] = frozenset()
OTHERS = frozenset({"parallel"})


def test_stages_take_what_was_made_once() -> None:
    cache = LoweringCache()
    program = cache.program(GRAPH, NONE)
    fused = cache.fuse(GRAPH, NONE)
    scheduled = cache.schedule(fused, NONE)
    assert cache.assign_buffers(scheduled) is program
    assert cache.fuse(GRAPH, NONE) is not fused
    assert cache.schedule(fused, NONE) is not scheduled
    again = cache.assign_buffers(cache.schedule(cache.fuse(GRAPH, NONE), NONE))
    assert again is not program
    assert print_program(again) == print_program(program)


def test_what_was_made_for_other_kernel_forms_is_not_taken() -> None:
    cache = LoweringCache()
    cache.program(GRAPH, NONE)
    fused = cache.fuse(GRAPH, OTHERS)
    assert cache.fuse(GRAPH, NONE) is not fused
    assert cache.fuse(graph_of(GRAPH.source), NONE) is not fused
