"""Any program at any placement gives, part by part, what it gives undivided: the very same bits."""

from random import Random

import numpy as np
import pytest

from dfc.distribute.partition import RankGraphs, partition
from dfc.distribute.partition.check_parts import check_parts
from tests.support.agreeing import reference, verified
from tests.support.random_graphs import random_case
from tests.support.random_placements import random_placement
from tests.support.sweeping import few
from tests.support.tasks import run_parts


@pytest.mark.parametrize("seed", few(range(150), 30))
def test_parts_together_compute_what_the_whole_computes(seed: int) -> None:
    case = random_case(seed, size=14)
    placement = random_placement(case.graph, Random(seed))
    parts = partition(case.graph, placement)
    for role, graph in parts.graphs.items():
        verified(graph, f"partition of {role.name}")
    check_parts(parts)

    expected = reference(case)
    state, names = case.state(), case.graph.entries["e"].result_names
    tasks = [f"{job}:{n}" for job, count in parts.tasks.items() for n in range(count)]
    own = {task: _own(parts, task, state) for task in tasks}
    results, after = run_parts(parts, "e", case.feeds(), own, {"N": case.size})

    for name, value in zip(names, expected.results, strict=True):
        np.testing.assert_array_equal(results[name], value, err_msg=f"seed {seed}, {name}")
    for task, values in after.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, expected.state[name], err_msg=f"seed {seed}, {name} in {task}")


def _own(parts: RankGraphs, task: str, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    job, _, number = task.partition(":")
    return {name: state[name] for name in parts.graphs[parts.role_of(job, int(number))].resources}
