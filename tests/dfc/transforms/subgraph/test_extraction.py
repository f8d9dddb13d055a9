"""The part of an entry that some values need: which nodes, effects, feeds and sizes are left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Value
from dfc.ops.evaluate import Outcome, evaluate
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.subgraph.extraction import Extraction, extract
from tests.support.agreeing import verified
from tests.support.building import graph_of

STEPS = """
dfg 1
var n: i64 = 0
var total: f32 = 0
var dice: rng = philox(7)
entry step[B](x: f32[B], rate: f32) -> (last: f32) where B > 0 {
  let scaled = x * rate
  let first = n
  n += 1
  let second = n
  assert second < 100
  n += 10
  let noise = dice.uniform(f32[3])
  let more = dice.uniform(f32[3])
  total += sum(scaled)
  let end = total
  return end
}
entry branch(c: bool) -> (y: i64) {
  let y = if c {
    n += 1
    let seen = n
    n += 100
    yield seen
  } else { yield 7 }
  return y
}
entry rounds(k: i32) -> (sum: i64) {
  let sum, left = loop sum: i64 = 0, left = k while left > 0 {
    n += 1
    total += 1.0
    sum = sum + n
    left = left - 1
  }
  return sum
}
entry kept(path: string) -> (y: f32) {
  total += 1.0
  checkpoint.save(path, program)
  let y = total
  return y
}
"""


def value(graph: Graph, name: str) -> Value:
    entry = graph.entries[name.split("/")[0]]
    for parameter, each in zip(entry.parameter_names, entry.block.parameters, strict=False):
        if name == f"{entry.name}/{parameter}":
            return each
    nodes = {node.name: node.results[0] for node in entry.block.nodes if not node.results[0].is_token}
    return graph.bound.get(name) or nodes[name]


def part(graph: Graph, fetch: Sequence[str], feed: Sequence[str] = ()) -> Extraction:
    entry = graph.entries[fetch[0].split("/")[0]]
    made = extract(graph, entry, [(n, value(graph, n)) for n in fetch], [(n, value(graph, n)) for n in feed])
    verified(made.graph, "cut")
    return made


def only(made: Extraction) -> Entry:
    (entry,) = made.graph.entries.values()
    return entry


def ops(made: Extraction) -> list[str]:
    return [node.op for node in walk.nodes(only(made).block)]


def run(made: Extraction, state: dict[str, object], **feeds: object) -> Outcome:
    entry = only(made)
    arrays = {name: np.asarray(v) for name, v in state.items()}
    return evaluate(autodiff(made.graph), entry.name, feeds, arrays)


def test_what_is_fetched_needs_only_what_is_above_it() -> None:
    made = part(graph_of(STEPS), ["step/scaled"])
    assert ops(made) == ["mul"]
    assert only(made).parameter_names == ("x", "rate") == made.missing
    assert only(made).readonly and not made.graph.resources


def test_a_fed_value_is_a_parameter_and_what_is_above_it_goes() -> None:
    made = part(graph_of(STEPS), ["step/end"], ["step/scaled"])
    assert only(made).parameter_names == ("step/scaled",)
    assert "mul" not in ops(made)
    outcome = run(made, {"total": np.float32(1)}, **{"step/scaled": np.array([1, 2], "f4")})
    assert outcome.result == 4 and outcome.state["total"] == 4


def test_a_read_before_a_write_does_not_run_the_write() -> None:
    outcome = run(part(graph_of(STEPS), ["step/first"]), {"n": np.int64(5)})
    assert outcome.result == 5 and outcome.state["n"] == 5


def test_a_read_after_a_write_runs_that_write_and_none_behind_it() -> None:
    made = part(graph_of(STEPS), ["step/second"])
    assert ops(made).count("assign") == 1 and "assert" not in ops(made)
    outcome = run(made, {"n": np.int64(5)})
    assert outcome.result == 6 and outcome.state["n"] == 6


def test_a_draw_comes_after_the_draws_before_it() -> None:
    graph = graph_of(STEPS)
    assert ops(part(graph, ["step/noise"])).count("draw") == 1
    assert ops(part(graph, ["step/more"])).count("draw") == 2


def test_a_fed_draw_does_not_happen() -> None:
    made = part(graph_of(STEPS), ["step/noise"], ["step/noise"])
    assert ops(made) == [] and only(made).parameter_names == ("step/noise",)


def test_a_branch_ends_with_the_last_effect_that_is_needed() -> None:
    made = part(graph_of(STEPS), ["branch/y"])
    outcome = run(made, {"n": np.int64(3)}, c=True)
    assert outcome.result == 4 and outcome.state["n"] == 4
    assert run(made, {"n": np.int64(3)}, c=False).state["n"] == 3


def test_effects_of_a_loop_that_the_value_does_not_need_do_not_run() -> None:
    made = part(graph_of(STEPS), ["rounds/sum"])
    assert set(made.graph.resources) == {"n"}
    outcome = run(made, {"n": np.int64(0)}, k=3)
    assert outcome.result == 1 + 2 + 3 and outcome.state["n"] == 3
    made = part(graph_of(STEPS), ["rounds/left"])
    assert not made.graph.resources and run(made, {}, k=3).result == 0


def test_a_save_on_the_way_does_not_happen() -> None:
    made = part(graph_of(STEPS), ["kept/y"])
    assert "checkpoint_save" not in ops(made) and only(made).parameter_names == ()
    assert run(made, {"total": np.float32(1)}).result == 2


def test_sizes_that_no_feed_decides_any_more_are_fed() -> None:
    graph = graph_of(
        """
        dfg 1
        entry e[B, C](x: f32[B], y: f32[C]) -> (z: f32) where B > 1 {
          let sized = iota(f32[B * 2])
          let total = sum(x) + sum(sized)
          let other = sum(y)
          let z = total + other
          return z
        }
        """
    )
    made = only(part(graph, ["e/sized"]))
    assert [str(s) for s in made.dims] == ["B"] == [str(s) for s in made.dim_feeds]
    assert len(made.checks) == 1
    made = only(part(graph, ["e/z"], ["e/total"]))
    assert [str(s) for s in made.dims] == ["C"] and made.dim_feeds == () and made.checks == ()


def test_a_gradient_sees_a_fed_value_as_a_constant() -> None:
    graph = graph_of(
        """
        dfg 1
        param w: f32 = 3
        entry e(x: f32) -> (g: f32) {
          let y = w * x
          let z = y * w
          let g = grad(z, w)
          return g
        }
        """
    )
    state = {"w": np.float32(3)}
    assert run(part(graph, ["e/g"]), state, x=5).result == 2 * 3 * 5
    assert run(part(graph, ["e/g"], ["e/y"]), state, **{"e/y": np.float32(7)}).result == 7


def test_the_graph_that_is_cut_stays_as_it_was() -> None:
    graph = graph_of(STEPS)
    before = [(id(node), node.operands) for node in walk.nodes(graph.entries["rounds"].block)]
    part(graph, ["rounds/sum"], ["rounds/k"])
    assert [(id(node), node.operands) for node in walk.nodes(graph.entries["rounds"].block)] == before
