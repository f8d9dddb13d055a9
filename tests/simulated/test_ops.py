"""Every op of the table as device code, lane by lane: kernels mean what they say, results are the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.backend.lower import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpRecord
from dfc.passes.expand import expand
from tests.support.kernel_texts import TextInterpreter
from tests.support.lowering import close
from tests.support.op_graphs import RECORDS, graph_of_samples


@pytest.mark.parametrize("record", RECORDS)
def test_device_code_computes_the_reference(record: OpRecord) -> None:
    graph, feeds = graph_of_samples(record)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    program = lower_graph(expand(graph))
    entry = program.entries[0]
    machine = TextInterpreter(program, entry, {}, {})
    machine.arguments = {number: np.array(feed) for number, feed in enumerate(feeds.values())}
    machine.run(entry.steps)
    close([np.array(machine.array(number)) for number in entry.results], expected)
