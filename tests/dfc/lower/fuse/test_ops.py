"""Every op of the table, on every sample of its record, means the same as a program."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.graph import Entry, Graph
from dfc.ops.record import Effect, OpRecord, Sample
from tests.support.lowering import agree
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, samples

PLAIN = [
    pytest.param(record, sample, id=f"{record.name}-{number}")
    for number, (record, sample) in enumerate([*samples("regular"), *samples("edge")])
    if record.effect in (Effect.PURE, Effect.RANDOM) and record.name not in ("grad", "jacobian")
    if not any(x.dtype.kind == "c" for x in sample.operands)
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
