"""Random graphs after all passes as device code, lane by lane, mean what the reference evaluator says."""

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
from tests.support.kernel_texts import TextInterpreter
from tests.support.lowering import close


def agree(original: Graph, ready: Graph, feeds: dict[str, Any], state: dict[str, Any], sizes: dict[str, int]) -> None:
    given = {name: np.array(value) for name, value in state.items()}
    expected = evaluate(original, "e", {name: np.asarray(value) for name, value in feeds.items()}, given)
    before = {name: np.array(value) for name, value in state.items()}
    program = lower_graph(ready)
    entry = next(each for each in program.entries if each.name == "e")
    machine = TextInterpreter(program, entry, before, {symbol: sizes[str(symbol)] for symbol in entry.dims})
    order = [feeds[name] for name in original.entries["e"].parameter_names]
    machine.arguments = {number: np.array(feed) for number, feed in enumerate(order)}
    machine.run(entry.steps)
    close([np.array(machine.array(number)) for number in entry.results], expected.results)
    for name in program.resources:
        close([before[name]], [expected.state[name]])


@pytest.mark.parametrize("block", range(4))
def test_programs_with_state_and_loops(block: int) -> None:
    for seed in range(500 + 4 * block, 504 + 4 * block):
        made = random_programs.Generator(seed).program()
        with np.errstate(all="ignore"):
            agree(made.graph, expand(made.graph), made.feeds, made.state, {"B": made.batch})


@pytest.mark.parametrize("block", range(8))
def test_graphs_of_all_ops_after_all_passes(block: int) -> None:
    for seed in range(7000 + 4 * block, 7004 + 4 * block):
        case = random_graphs.random_case(seed, size=14, floating=F32)
        ready = case.graph
        with np.errstate(all="ignore"):
            for phase in pipeline.PHASES:
                ready = phase.run(ready)
            agree(case.graph, ready, case.feeds(), case.state(), {"N": case.size})
