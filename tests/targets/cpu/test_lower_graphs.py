"""Random graphs through fusion and the CPU target mean what the reference evaluator says, also on two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfc import pipeline
from dfc.backend.lower import lower_graph
from dfc.ir.dtypes import F32
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate
from dfc.passes.expand import expand
from tests.support import random_graphs, random_programs
from tests.support.lowering import close
from tests.support.native_run import NativeRun


def agree(original: Graph, ready: Graph, feeds: dict[str, Any], state: dict[str, Any], sizes: dict[str, int]) -> None:
    before = {name: np.array(value) for name, value in state.items()}
    expected = evaluate(original, "e", {name: np.asarray(value) for name, value in feeds.items()}, dict(before))
    order = [feeds[name] for name in original.entries["e"].parameter_names]
    native = NativeRun(lower_graph(ready), state, threads=2)
    close(native.call("e", order, sizes), expected.results)
    for name in native.state:
        close([native.state[name]], [expected.state[name]])


@pytest.mark.parametrize("block", range(4))
def test_programs_with_state_and_loops(block: int) -> None:
    for seed in range(500 + 8 * block, 508 + 8 * block):
        made = random_programs.Generator(seed).program()
        with np.errstate(all="ignore"):
            agree(made.graph, expand(made.graph), made.feeds, made.state, {"B": made.batch})


@pytest.mark.parametrize("block", range(4))
def test_graphs_of_all_ops_after_all_passes(block: int) -> None:
    for seed in range(7000 + 8 * block, 7008 + 8 * block):
        case = random_graphs.random_case(seed, size=14, floating=F32)
        ready = case.graph
        with np.errstate(all="ignore"):
            for phase in pipeline.PHASES:
                ready = phase.run(ready)
            agree(case.graph, ready, case.feeds(), case.state(), {"N": case.size})
