"""Every op of the table as device code in numba's simulator, whose lanes run in threads: what the reference evaluator
says."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from tests.simulated.numba_lanes import in_numba
from tests.support.lowering import close
from tests.support.op_graphs import RECORDS, SOME, graph_of_samples
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, in_text
from tests.support.sweeping import few

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy's scalars, in the threads of lanes
LARGEST = 24  # elements of an operand: each lane of the simulator is a thread


@pytest.mark.parametrize("record", few(RECORDS, 30))
def test_device_code_computes_the_reference(record: OpRecord) -> None:
    graph, feeds = graph_of_samples(record, LARGEST, limit=SOME)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    device = SimulatedDevice(launch=in_numba)
    found = SimulatedRun(lower_graph(expand(graph)), device=device, lower=in_text).call("e", list(feeds.values()))
    close(found, expected)
