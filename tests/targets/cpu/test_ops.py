"""Every op of the table, on samples of its record, compiled for this processor: what the reference evaluator says."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from tests.support.lowering import close
from tests.support.native_run import NativeRun
from tests.support.op_graphs import RECORDS, SOME, graph_of_samples


@pytest.mark.parametrize("record", RECORDS)
def test_machine_code_computes_the_reference(record: OpRecord) -> None:
    graph, feeds = graph_of_samples(record, limit=SOME)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    found = NativeRun(lower_graph(expand(graph)), {}).call("e", list(feeds.values()), {})
    close(found, expected)
