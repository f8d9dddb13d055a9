"""Every op of the table, on samples of its record, compiled for this processor: what the reference evaluator says."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.backend.lower import lower_graph
from dfc.ir.graph import Entry, Graph, Value
from dfc.ops import registry
from dfc.ops.evaluate import evaluate
from dfc.ops.record import Effect, OpRecord, Sample
from dfc.passes.expand import expand
from dfc.source import NOWHERE
from tests.support.lowering import close
from tests.support.native_run import NativeRun
from tests.support.ops import Scratch

LIMIT = 8  # samples of each record in one program
RECORDS = [
    pytest.param(record, id=record.name)
    for record in registry.all_records()
    if record.effect in (Effect.PURE, Effect.RANDOM) and record.family != "gradient"
]


def _chosen(record: OpRecord) -> list[Sample]:
    """Samples of every kind and element type, few enough to compile in one go."""
    found = [s for s in record.samples() if s.kind != "invalid" and not any(x.dtype.kind == "c" for x in s.operands)]
    return found[:: max(1, len(found) // LIMIT)]


@pytest.mark.parametrize("record", RECORDS)
def test_machine_code_computes_the_reference(record: OpRecord) -> None:
    scratch = Scratch()
    outputs: list[Value] = []
    for sample in _chosen(record):
        operands = [scratch.feed(x) for x in sample.operands]
        outputs += scratch.builder.node(record.name, operands, sample.attributes).results
    scratch.block.outputs = tuple(outputs)
    feeds = {value.name: array for value, array in scratch.feeds}
    results = tuple(f"r{number}" for number in range(len(outputs)))
    graph = Graph("g", {}, {"e": Entry("e", scratch.block, tuple(feeds), results, (), (), (), NOWHERE)})
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    found = NativeRun(lower_graph(expand(graph)), {}).call("e", list(feeds.values()), {})
    close(found, expected)
