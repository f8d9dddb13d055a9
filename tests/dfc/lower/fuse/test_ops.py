"""Every op of the table, on samples of its record (in the gate on all of them), means the same as a program."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.graph import Entry, Graph
from dfc.ops import registry
from dfc.ops.record import Effect, OpRecord, Sample
from tests.support.lowering import agree
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, samples_of
from tests.support.sweeping import few


def real_samples(record: OpRecord, kind: str) -> list[Sample]:
    """Those without complex numbers, which no kernel has."""
    of_kind = [sample for sample in samples_of(record) if sample.kind == kind]
    return [sample for sample in of_kind if not any(x.dtype.kind == "c" for x in sample.operands)]


SAMPLES = {"regular": 1, "edge": 1}
"""How many of each kind an op computes for every change, evenly spread over its element types."""

PLAIN = [
    pytest.param(record, sample, id=f"{record.name}-{kind}-{number}")
    for record in registry.all_records()
    if record.effect in (Effect.PURE, Effect.RANDOM) and record.name not in ("grad", "jacobian")
    for kind, count in SAMPLES.items()
    for number, sample in few(enumerate(real_samples(record, kind)), count)
]


@one_test_an_op(PLAIN)
def test_programs_compute_the_reference(record: OpRecord, sample: Sample) -> None:
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    scratch.block.outputs = node.results
    feeds = {value.name: array for value, array in scratch.feeds}
    results = tuple(f"r{number}" for number in range(len(node.results)))
    entry = Entry("e", scratch.block, tuple(feeds), results, (), (), (), NOWHERE)
    with np.errstate(all="ignore"):
        agree(Graph("g", {}, {"e": entry}), feeds)
