"""Random graphs after all passes as device code, lane by lane, mean what the reference evaluator says."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from tests.support.kernel_texts import TextInterpreter
from tests.support.lowered_cases import LoweredCase, expanded_programs, optimised_graphs
from tests.support.lowering import close


def agree(case: LoweredCase) -> None:
    with np.errstate(all="ignore"):
        given = {name: np.array(value) for name, value in case.state.items()}
        expected = evaluate(case.original, "e", {name: np.asarray(value) for name, value in case.feeds.items()}, given)
        before = {name: np.array(value) for name, value in case.state.items()}
        program = lower_graph(case.ready)
        entry = next(each for each in program.entries if each.name == "e")
        machine = TextInterpreter(program, entry, before, {symbol: case.sizes[str(symbol)] for symbol in entry.dims})
        order = [case.feeds[name] for name in case.original.entries["e"].parameter_names]
        machine.arguments = {number: np.array(feed) for number, feed in enumerate(order)}
        machine.run(entry.steps)
        close([np.array(machine.array(number)) for number in entry.results], expected.results)
        for name in program.resources:
            close([before[name]], [expected.state[name]])


@pytest.mark.parametrize("block", range(4))
def test_programs_with_state_and_loops(block: int) -> None:
    for case in expanded_programs(block, 4):
        agree(case)


@pytest.mark.parametrize("block", range(8))
def test_graphs_of_all_ops_after_all_passes(block: int) -> None:
    for case in optimised_graphs(block, 4):
        agree(case)
