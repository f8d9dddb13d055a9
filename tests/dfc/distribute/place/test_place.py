"""Placement: what the file says holds, the rest goes where it is finished first; any placement can be partitioned."""

from random import Random

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.distribute.deployment.model import Constraint, TaskSite
from dfc.distribute.partition import partition
from dfc.distribute.partition.check_parts import check_parts
from dfc.distribute.place import PlacementConstraints, PlacementError, place
from dfc.distribute.place.cost import Costs
from dfc.ir import walk
from dfc.ir.graph import Graph
from tests.support.agreeing import reference, verified
from tests.support.building import graph_of
from tests.support.random_graphs import random_case
from tests.support.sweeping import few
from tests.support.tasks import run_parts


def _on(job: str, task: int | None = None) -> Constraint:
    return Constraint(job, task, None, None, NOWHERE)


VARIABLES = """dfg 1

var a: f32[100] = 0
var b: f32[60] = 0
var c: f32[50] = 0
var d: f32[10] = 0

entry sum_all() -> (s: f32) {
  return sum(a) + sum(b) + sum(c) + sum(d)
}
"""


def test_state_is_spread_by_size_over_the_tasks_of_its_job() -> None:
    wishes = PlacementConstraints({"ps": 2, "worker": 1}, state=dict.fromkeys("abcd", _on("ps")))
    placed = place(graph_of(VARIABLES), wishes)
    assert {d.name: d.site for d in placed.state} == {
        "a": TaskSite("ps", 0),
        "b": TaskSite("ps", 1),
        "c": TaskSite("ps", 1),
        "d": TaskSite("ps", 0),
    }


@pytest.mark.parametrize("seed", range(30))
def test_no_task_holds_more_than_grahams_bound(seed: int) -> None:
    random = Random(seed)
    sizes = [random.randint(1, 400) for _ in range(random.randint(1, 9))]
    text = "dfg 1\n" + "".join(f"var v{n}: f32[{size}] = 0\n" for n, size in enumerate(sizes))
    tasks = random.randint(1, 4)
    placed = place(graph_of(text), PlacementConstraints({"ps": tasks}))
    held = [sum(4 * sizes[int(d.name[1:])] for d in placed.state if d.site.task == n) for n in range(tasks)]
    best = max(max(sizes), sum(sizes) / tasks) * 4  # no placement can do better
    assert max(held) <= best * (4 / 3 + 1), (sizes, held)
    assert sum(held) == 4 * sum(sizes)
    assert max(held) <= best * (4 / 3 - 1 / (3 * tasks)) or _optimum(sizes, tasks) * 4 * (4 / 3) >= max(held)


def _optimum(sizes: list[int], tasks: int) -> int:
    """The least possible load of the fullest task, by trying all placements."""
    loads = {(0,) * tasks}
    for size in sizes:
        loads = {tuple(sorted(x + size * (n == k) for n, x in enumerate(load))) for load in loads for k in range(tasks)}
    return min(max(load) for load in loads)


def test_too_little_memory_is_refused_with_the_numbers() -> None:
    wishes = PlacementConstraints({"ps": 1}, memory={"ps": 500})
    with pytest.raises(PlacementError, match="880 bytes of state, but has 500"):
        place(graph_of(VARIABLES), wishes)


def test_names_that_belong_together_share_a_task() -> None:
    wishes = PlacementConstraints({"ps": 2}, together=dict.fromkeys("abd", "a"))
    sites = {d.name: d.site for d in place(graph_of(VARIABLES), wishes).state}
    assert sites["a"] == sites["b"] == sites["d"] != sites["c"]


TWO_PATHS = """dfg 1

entry step(x: f64[300, 300], y: f64[300, 300]) -> (p: f64, q: f64) {
  let p = sum(x @ x @ x)
  let q = sum(y @ y @ y)
  return p, q
}
"""


def _sites(graph: Graph, wishes: PlacementConstraints) -> dict[str, TaskSite]:
    placed = place(graph, wishes)
    return {d.name: d.site for d in placed.entries["step"]}


def test_independent_work_is_spread_when_it_is_worth_a_message() -> None:
    sites = _sites(graph_of(TWO_PATHS), PlacementConstraints({"worker": 2}))
    assert sites["step/p"] == TaskSite("worker", 0)
    assert sites["step/q"] == TaskSite("worker", 1)


def test_a_measured_cost_changes_the_decision() -> None:
    graph, wishes = graph_of(TWO_PATHS), PlacementConstraints({"worker": 2})
    cheap = {node.name: 1e-9 for node in walk.nodes(graph.entries["step"].block)}
    dear = place(graph, wishes).placement.nodes
    free = place(graph, wishes, Costs(measured=cheap)).placement.nodes
    assert len(set(dear.values())) == 2
    assert len(set(free.values())) == 1


def test_decisions_give_the_times_that_were_compared() -> None:
    placed = place(graph_of(TWO_PATHS), PlacementConstraints({"worker": 2}))
    for decision in placed.entries["step"]:
        finishes = dict(decision.alternatives)
        assert decision.finish == min(finishes.values()) == finishes[decision.site]


@pytest.mark.parametrize("seed", few(range(60), 25))
def test_what_is_placed_computes_what_the_whole_computes(seed: int) -> None:
    case, random = random_case(seed, size=14), Random(seed)
    tasks = {job: random.randint(1, 2) for job in random.sample(["ps", "worker"], random.randint(1, 2))}
    asked = {name: _on(random.choice(list(tasks))) for name in case.graph.resources if random.random() < 0.5}
    replicated = {"e": random.choice(list(tasks))} if random.random() < 0.4 else {}
    parts = partition(
        case.graph, place(case.graph, PlacementConstraints(tasks, state=asked, replicated=replicated)).placement
    )
    for role, graph in parts.graphs.items():
        verified(graph, f"partition of {role.name}")
    check_parts(parts)

    expected, state = reference(case), case.state()
    own = {
        f"{job}:{n}": {name: state[name] for name in parts.graphs[parts.role_of(job, n)].resources}
        for job, count in tasks.items()
        for n in range(count)
    }
    results, after = run_parts(parts, "e", case.feeds(), own, {"N": case.size})
    for name, value in zip(case.graph.entries["e"].result_names, expected.results, strict=True):
        np.testing.assert_array_equal(results[name], value, err_msg=f"seed {seed}, {name}")
    for values in after.values():
        for name, value in values.items():
            np.testing.assert_array_equal(value, expected.state[name], err_msg=f"seed {seed}, {name}")
