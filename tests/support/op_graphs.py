"""A graph of all samples of an op, for tests of targets."""

from __future__ import annotations

from typing import Any

import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.graph import Entry, Graph, Value
from dfc.ops import registry
from dfc.ops.record import Effect, OpRecord, Sample
from tests.support.ops import Scratch
from tests.support.sweeping import WHOLE

LIMIT = 8  # samples of each record in one program
SOME = LIMIT if WHOLE else 2  # where other tests look at the others
RECORDS = [
    pytest.param(record, id=record.name)
    for record in registry.all_records()
    if record.effect in (Effect.PURE, Effect.RANDOM) and record.family != "gradient"
]


def graph_of_samples(record: OpRecord, largest: int | None = None, limit: int = LIMIT) -> tuple[Graph, dict[str, Any]]:
    """One entry `e` that computes the op on its samples, and what it is fed. `largest` leaves out samples with more
    elements in an operand, as long as others stay."""
    scratch = Scratch()
    outputs: list[Value] = []
    for sample in _chosen(record, largest, limit):
        operands = [scratch.feed(x) for x in sample.operands]
        outputs += scratch.builder.node(record.name, operands, sample.attributes).results
    scratch.block.outputs = tuple(outputs)
    feeds = {value.name: array for value, array in scratch.feeds}
    results = tuple(f"r{number}" for number in range(len(outputs)))
    return Graph("g", {}, {"e": Entry("e", scratch.block, tuple(feeds), results, (), (), (), NOWHERE)}), feeds


def _chosen(record: OpRecord, largest: int | None, limit: int) -> list[Sample]:
    """Samples of every kind and most element types, few enough to compile in one go."""
    samples = [s for s in record.samples() if s.kind != "invalid" and not any(x.dtype.kind == "c" for x in s.operands)]
    small = [s for s in samples if largest is None or all(x.size <= largest for x in s.operands)]
    chosen = small or samples
    if limit >= len(chosen) or limit == LIMIT:
        return chosen[:: max(1, len(chosen) // LIMIT)]
    return _most_different(chosen, limit)


def _most_different(samples: list[Sample], count: int) -> list[Sample]:
    """The first ones of other kinds than those before, then of other families of element types, then of other element
    types, then of other ranks. Three have more of their combinations than four that are evenly spread."""
    left, result = [*samples], list[Sample]()
    seen: set[object] = set()
    while len(result) < count:
        news = [[feature not in seen for feature in _features(sample)] for sample in left]
        result.append(left.pop(news.index(max(news))))
        seen |= {*_features(result[-1])}
    return result


def _features(sample: Sample) -> tuple[object, ...]:
    """What matters most comes first."""
    types = [x.dtype for x in sample.operands]
    ranks = tuple(x.ndim for x in sample.operands)
    families = "".join(dtype.kind for dtype in types).replace("V", "f")  # bf16 is no type of NumPy's own
    return sample.kind, families, tuple(dtype.name for dtype in types), ranks
