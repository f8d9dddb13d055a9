"""Every op of the table, on samples of its record, as kernel text on a simulated device: what the reference evaluator
says."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from tests.support.lowering import close
from tests.support.op_graphs import RECORDS, SOME, graph_of_samples
from tests.support.simulated_programs import SimulatedRun, in_text

LARGEST = 64  # elements of an operand: a simulated lane runs in Python


@pytest.mark.parametrize("record", RECORDS)
def test_kernel_text_computes_the_reference(record: OpRecord) -> None:
    graph, feeds = graph_of_samples(record, LARGEST, limit=SOME)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    found = SimulatedRun(lower_graph(expand(graph)), lower=in_text).call("e", list(feeds.values()))
    close(found, expected)
