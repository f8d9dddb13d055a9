"""What is small is combined behind the loop over the blocks: the same additions as one by one, and no request alone."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.distribute.replicate.small import MOST_BLOCKS, MOST_BYTES
from dfc.ir import walk
from dfc_runtime.distributed.calls.edges import Edges
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.combining import sequential
from tests.support.replicating import replicated_f32

SUMS = """dfg 1
entry f[B](x: f32[B, 37], n: i64[B]) -> (s: f32[37], t: f64, k: i64) {
  return sum(x, axis = 0), sum(x as f64), sum(n)
}
"""
PLACES = """
job worker tasks {tasks}
replicate f over worker with mode = "sync", split = "B", combine = "sum", blocks = {blocks}
"""


def feeds(blocks):
    """One row for each block, so that its part is the row; numbers of which every order of additions has other bits."""
    random = np.random.default_rng(blocks)
    x = (random.normal(size=(blocks, 37)) * 2.0 ** random.integers(-20, 20, (blocks, 37))).astype(np.float32)
    return x, random.integers(-(2**62), 2**62, blocks)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 8, 12])
def test_parts_are_added_along_the_tree_over_their_blocks(blocks):
    x, n = feeds(blocks)
    wanted = sequential(list(x)).tobytes(), sequential(list(n)).tobytes()
    data = cluster_bundle(SUMS, PLACES.format(tasks=blocks, blocks=blocks))
    for tasks in sorted({1, min(2, blocks), min(3, blocks), blocks}):
        found = on_cluster(data, tasks, lambda module: module.f(x, n), jobs={"worker": tasks})
        assert (found.s.tobytes(), found.k.tobytes()) == wanted, tasks
        assert found.t == pytest.approx(x.sum(dtype=np.float64), rel=1e-12)


def test_one_task_asks_for_nothing(monkeypatch):
    asked = []
    monkeypatch.setattr(Edges, "contribute", lambda self, request: asked.append(request.site.kind))
    monkeypatch.setattr(Edges, "combined", lambda self, request: asked.append(request.site.kind))
    x, n = feeds(8)
    data = cluster_bundle(SUMS, PLACES.format(tasks=1, blocks=8))
    assert np.isfinite(on_cluster(data, 1, lambda module: module.f(x, n)).s).all()
    assert asked == []
    data = cluster_bundle(SUMS, PLACES.format(tasks=2, blocks=8))
    on_cluster(data, 2, lambda module: module.f(x, n))
    assert sorted(asked) == 6 * ["combined"] + 6 * ["contribute"]  # of two tasks for three values, not for each block


@pytest.mark.parametrize(
    ("type_", "sum_", "blocks"),
    [
        (f"f32[B, {MOST_BYTES // 4 // 8 + 1}]", "sum(x, axis = 0)", 8),
        ("f32[B, 4]", "sum(x, axis = 0)", MOST_BLOCKS + 1),
        ("bf16[B, 4]", "sum(x, axis = 0)", 8),
        ("f32[B, 4]", "max(x, axis = 0)", 8),
    ],
)
def test_what_is_large_or_rounded_elsewhere_leaves_in_the_loop(type_, sum_, blocks):
    result = type_.replace("B, ", "")
    body = f"entry f[B](x: {type_}) -> (s: {result}) where B >= 1 {{ return {sum_} }}"
    small = "entry f[B](x: f32[B, 4]) -> (s: f32[4]) { return sum(x, axis = 0) }"
    for text, count, leaves in ((body, blocks, True), (small, 8, False)):
        _, graph, _ = replicated_f32(f"dfg 1\n{text}", "f", count, {})
        inside = {
            outer.op: {node.op for region in outer.regions for node in walk.nodes(region)}
            for outer in graph.entries["f"].block.nodes
            if outer.regions
        }
        assert ("contribute" in inside["for"]) is leaves
        assert ("if" in inside) is not leaves
