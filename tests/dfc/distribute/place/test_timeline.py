"""What a simulated run is compared with, and how state is balanced."""

from __future__ import annotations

from random import Random

import pytest

from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.place import PlacementConstraints, place
from dfc.distribute.place.balance import loads
from dfc.distribute.place.cost import Costs
from dfc.distribute.place.timeline import timeline
from tests.support.building import graph_of
from tests.support.random_graphs import random_case

CHAINS = """dfg 1

entry step(x: f64[300, 300], y: f64[300, 300]) -> (p: f64, q: f64) {
  let p = sum(x @ x @ x)
  let q = sum(y @ y @ y)
  return p, q
}
"""


def test_independent_chains_run_side_by_side_and_the_bound_is_half_the_work() -> None:
    placed = place(graph_of(CHAINS), PlacementConstraints({"worker": 2}))
    run = timeline(placed.entries["step"], [TaskSite("worker", 0), TaskSite("worker", 1)])
    assert run.lower_bound == max(run.critical_path, run.work / 2)
    assert run.critical_path == pytest.approx(run.work / 2)
    assert run.lower_bound <= run.finish < 0.75 * run.work


def test_the_longest_chain_counts_measured_seconds() -> None:
    graph = graph_of(CHAINS)
    names = [node.name for node in graph.entries["step"].block.nodes if node.op == "matmul"]
    placed = place(graph, PlacementConstraints({"worker": 1}), Costs(measured={names[0]: 5.0, names[1]: 2.0}))
    run = timeline(placed.entries["step"], [TaskSite("worker", 0)])
    assert run.critical_path == pytest.approx(7.0, abs=0.1)
    assert run.finish == pytest.approx(run.work)


@pytest.mark.parametrize("seed", range(10))
def test_no_simulated_run_ends_before_the_bound(seed: int) -> None:
    graph = random_case(seed).graph
    tasks = Random(seed).randint(1, 3)
    placed = place(graph, PlacementConstraints({"a": tasks}))
    for decisions in placed.entries.values():
        run = timeline(decisions, [TaskSite("a", number) for number in range(tasks)])
        assert run.finish >= run.lower_bound * (1 - 1e-9)


def test_loads_name_the_bytes_of_each_task_and_what_nobody_can_beat() -> None:
    graph = graph_of("dfg 1\nvar a: f32[100] = 0\nvar b: f32[60] = 0\nvar c: f32[50] = 0\n")
    wishes = PlacementConstraints({"ps": 2})
    (load,) = loads(graph, place(graph, wishes).state, wishes.tasks, {"ps": 1000})
    assert load.tasks == {TaskSite("ps", 0): 400, TaskSite("ps", 1): 440}
    assert (load.fullest, load.least, load.limit) == (440, 420, 1000)
    assert load.fullest <= load.factor * load.least
