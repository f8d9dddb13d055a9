"""What passes and schedules make of sizes that only the run finds out."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.kernels.program import Launch, Measure
from dfc.kernels.program import walk as walk_steps
from dfc.lower.fuse.rewrite.hoist import hoist
from dfc.lower.program import lower_graph
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.expand import expand
from dfc.transforms.scalar.cse import cse
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.prune import prune
from dfc.transforms.scalar.simplify import simplify
from tests.support.building import graph_of
from tests.support.lowering import agree

USED = "readonly entry e[B](x: f32[B]) -> (r: f32) {\n  let [N] i: i64[N] = range(sum(x as i64), B)\n  return RESULT\n}"


def ops(graph: Graph) -> list[str]:
    return [node.op for node in walk.nodes(graph.entries["e"].block)]


@pytest.mark.parametrize("sweep", [dce, prune])
def test_a_size_is_found_out_where_only_a_type_mentions_it(sweep: object) -> None:
    kept = graph_of(USED.replace("RESULT", "sum(ones(f32[N, 2]))"))
    assert "range" in ops(sweep(kept))  # type: ignore[operator]
    unused = graph_of(USED.replace("RESULT", "sum(ones(f32[B, 2]))"))
    assert "range" not in ops(sweep(unused))  # type: ignore[operator]


def test_two_calls_share_the_sorting_but_not_the_size() -> None:
    text = "entry e[B](x: i32[B]) -> (a: i32[?], b: i64[?]) { return unique(x).values, unique(x).counts }"
    small = dce(cse(fold(simplify(expand(cse(graph_of(text)))))))
    assert ops(small).count("range") == 2
    assert ops(small).count("cumsum") == 1
    loops = [op for op in ops(small) if op == "while"]
    assert len(loops) == len([op for op in ops(sorted_once()) if op == "while"])


def sorted_once() -> Graph:
    text = "entry e[B](x: i32[B]) -> (a: i32[B]) { return sort(reshape(x, [B])) }"
    return dce(cse(fold(simplify(expand(graph_of(text))))))


def test_nothing_of_an_inner_size_leaves_a_loop() -> None:
    text = """
    entry e[B](x: f32[B]) -> (r: f32) {
      let r = loop r: f32 = 0 for k in 0..3 {
        let [N] i: i64[N] = range(k, 3)
        r = r + sum(exp(ones(f32[N])))
      }
      return r
    }"""
    block = graph_of(text).entries["e"].block
    assert [node.op for node in hoist(block).nodes] == [node.op for node in block.nodes]


def test_nothing_leaves_a_loop_before_the_check_of_its_size() -> None:
    text = """
    entry e[B](x: f32[B], n: i32) -> (r: f32) {
      let [N] y: f32[N] = x[x > 0]
      let [M] z: f32[M] = x[x < 0]
      let r = loop r: f32 = 0 for k in 0..n {
        assert N == M
        r = r + sum(exp(y * z))
      }
      return r
    }"""
    block = graph_of(text).entries["e"].block
    assert [node.op for node in hoist(block).nodes] == [node.op for node in block.nodes]


PICKED = """
entry e[B](x: f64[B], w: f64[B]) -> (y: f64[?], total: f64) {
  let [N] y: f64[N] = x[x > 0]
  let z = w[:N] * y + sum(y)
  let small = z[unique(z // 1).values < 3]
  return z, sum(sort(y)) + sum(z)
}
""".replace("  let small = z[unique(z // 1).values < 3]\n", "")


def test_launches_of_a_size_come_after_the_step_that_measures_it() -> None:
    program = lower_graph(expand(graph_of(PICKED)))
    (entry,) = program.entries
    steps = walk_steps(entry.steps)
    (measuring,) = [number for number, step in enumerate(steps) if isinstance(step, Measure)]
    (symbol,) = [symbol for symbol, _ in entry.measured]
    users = [
        number
        for number, step in enumerate(steps)
        if isinstance(step, Launch) and any(symbol in size.symbols() for size in step.sizes)
    ]
    assert users and min(users) > measuring


def test_memory_is_planned_for_the_largest_size() -> None:
    (entry,) = lower_graph(expand(graph_of(PICKED))).entries
    assert {str(s) for s in entry.arena.symbols() | entry.largest_live.symbols()} <= {"B"}
    assert all({str(s) for s in buffer.offset.symbols()} <= {"B"} for buffer in entry.buffers)
    assert [(str(symbol), str(most)) for symbol, most in entry.measured] == [("N", "B")]


@pytest.mark.parametrize("size", [0, 1, 6])
def test_kernels_stay_inside_the_memory_that_was_planned(size: int) -> None:
    rng = np.random.default_rng(size)
    feeds = {"x": rng.normal(size=size), "w": rng.normal(size=size)}
    agree(graph_of(PICKED), feeds, sizes={"B": size})


def test_the_backward_pass_of_a_loop_runs_what_found_out_a_size_again() -> None:
    text = """
    entry e[B](x: f64[B]) -> (r: f64[B]) {
      let s = loop s: f64 = 1 for k in 0..3 { s = s * (1 + sum(square(x[x > (k as f64)]))) }
      return grad(s, x)
    }"""
    x = np.array([0.5, 2.5, -1.0, 1.5])
    factors = [1 + np.sum(x[x > k] ** 2) for k in range(3)]
    slope = sum(np.prod(factors) / factors[k] * 2 * x * (x > k) for k in range(3))
    _, ran = agree(autodiff(graph_of(text)), {"x": x}, sizes={"B": 4})
    np.testing.assert_allclose(ran.results[0], slope)


def test_a_gradient_through_a_draw_of_an_inner_size_is_refused() -> None:
    text = """
    var g: rng = philox(1)
    entry e[B](x: f64[B]) -> (r: f64[B]) {
      let s = loop s: f64 = 0 for k in 0..3 {
        let [N] y: f64[N] = x[x > (k as f64)]
        let noise: f64[N] = g.normal(f64[N])
        s = s + sum(y * noise)
      }
      return grad(s, x)
    }"""
    with pytest.raises(CompileError, match="draws a tensor of a size known only inside"):
        autodiff(graph_of(text))
