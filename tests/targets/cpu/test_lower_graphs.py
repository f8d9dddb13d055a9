"""Random graphs through fusion and the CPU target mean what the reference evaluator says, also on two threads."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from tests.support.lowered_cases import LoweredCase, expanded_programs, optimised_graphs
from tests.support.lowering import close
from tests.support.native_run import NativeRun
from tests.support.sweeping import WHOLE, few


def agree(case: LoweredCase) -> None:
    with np.errstate(all="ignore"):
        before = {name: np.array(value) for name, value in case.state.items()}
        expected = evaluate(
            case.original, "e", {name: np.asarray(value) for name, value in case.feeds.items()}, dict(before)
        )
        order = [case.feeds[name] for name in case.original.entries["e"].parameter_names]
        native = NativeRun(lower_graph(case.ready), case.state, threads=2)
        close(native.call("e", order, case.sizes), expected.results)
        for name in native.state:
            close([native.state[name]], [expected.state[name]])


@pytest.mark.parametrize("block", few(range(4), 2))
def test_programs_with_state_and_loops(block: int) -> None:
    for case in expanded_programs(block, 8 if WHOLE else 5):
        agree(case)


@pytest.mark.parametrize("block", few(range(4), 2))
def test_graphs_of_all_ops_after_all_passes(block: int) -> None:
    for case in optimised_graphs(block, 8 if WHOLE else 5):
        agree(case)
