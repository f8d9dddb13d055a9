"""Every op of the registry: what is folded has the bits of what runs, on its samples and on awkward numbers.

    python -m tests.gate.op_samples [COUNT] [--seed N] [--op NAME ...]

COUNT operand sets are drawn from each sample (default 20). Each set is computed twice by machine code: fed, and as
constants that the compiler may fold. NaN of any payload is the same; all else must agree in every bit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.driver import pipeline
from dfc.ir.attributes import Literal
from dfc.ir.dtypes import from_numpy
from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.options import CompileOptions
from dfc.lower.program import lower_graph
from dfc.ops import registry
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.builder import Builder
from dfc.ops.record import Array, Effect, OpRecord, Sample
from dfc_runtime.errors import DfcError
from tests.support import gating
from tests.support.native_run import NativeRun
from tests.support.ops import Scratch

AWKWARD = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.0000001)
PER_PROGRAM = 60


@dataclass(frozen=True)
class Case:
    record: OpRecord
    sample: Sample
    operands: tuple[Array, ...]

    @property
    def title(self) -> str:
        shown = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.operands)
        return f"{self.record.name}({shown}) {self.sample.attributes}"


def records() -> list[OpRecord]:
    return [r for r in registry.all_records() if r.effect is Effect.PURE and r.family != "gradient"]


def cases(record: OpRecord, count: int, rng: np.random.Generator) -> Iterator[Case]:
    """The samples themselves, and `count` others like each of them."""
    for sample in record.samples():
        if sample.kind == "invalid" or any(x.dtype.kind == "c" for x in sample.operands):
            continue
        yield Case(record, sample, tuple(np.asarray(x) for x in sample.operands))
        for _ in range(count):
            operands = tuple(_like(np.asarray(x), rng) for x in sample.operands)
            if _has_a_value(record, sample, operands):
                yield Case(record, sample, operands)


def _like(x: Array, rng: np.random.Generator) -> Array:
    """Floats of any size with awkward ones among them; whole numbers, which may be positions, in another order."""
    if from_numpy(x.dtype) is None or not x.size or not from_numpy(x.dtype).is_float:
        return rng.permutation(x.reshape(-1)).reshape(x.shape)
    drawn = rng.standard_normal(x.shape) * 10.0 ** rng.integers(-3, 4)
    with np.errstate(all="ignore"):
        return np.where(rng.random(x.shape) < 0.3, rng.choice(AWKWARD, x.shape), drawn).astype(x.dtype)


def _has_a_value(record: OpRecord, sample: Sample, operands: Sequence[Array]) -> bool:
    try:
        with np.errstate(all="ignore"):
            record.evaluate(operands, sample.attributes, {})
    except (DfcError, np.linalg.LinAlgError):
        return False
    return True


def _program(chosen: Sequence[Case], *, fed: bool) -> tuple[Graph, list[Array]]:
    scratch = Scratch()
    outputs: list[Value] = []
    for number, case in enumerate(chosen):
        operands = [
            _fed(scratch, x) if fed else _constant(scratch.block, x, f"c{number}_{place}")
            for place, x in enumerate(case.operands)
        ]
        builder = Builder(scratch.block, name=f"x{number}", span=NOWHERE)
        outputs += builder.node(case.record.name, operands, case.sample.attributes).results
    scratch.block.outputs = tuple(outputs)
    names = tuple(value.name for value, _ in scratch.feeds)
    results = tuple(f"r{number}" for number in range(len(outputs)))
    graph = Graph("g", {}, {"e": Entry("e", scratch.block, names, results, (), (), (), NOWHERE)})
    return pipeline.optimise(graph, CompileOptions()), [array for _, array in scratch.feeds]


def _fed(scratch: Scratch, array: Array) -> Value:
    """Equal arrays are one feed, as equal constants are one: what ops share decides what they are fused with, and that
    the order of sums."""
    known = ((v, x) for v, x in scratch.feeds if (x.shape, x.dtype) == (array.shape, array.dtype))
    return next((v for v, x in known if x.tobytes() == array.tobytes()), None) or scratch.feed(array)


def _constant(block: Block, array: Array, name: str) -> Value:
    return Builder(block, name=name, span=NOWHERE).node("constant", (), ConstantAttributes(Literal(array))).result


def differences(chosen: Sequence[Case]) -> list[str]:
    """What folding changes, one line a case."""
    (graph, arrays), (folded, nothing) = _program(chosen, fed=True), _program(chosen, fed=False)
    ran = NativeRun(lower_graph(graph), {}).call("e", arrays, {})
    known = NativeRun(lower_graph(folded), {}).call("e", nothing, {})
    owners = [case for case in chosen for _ in range(_results(case))]
    return [
        f"{case.title}: {where}"
        for case, a, b in zip(owners, ran, known, strict=True)
        if (where := first_difference(np.asarray(a), np.asarray(b)))
    ]


def _results(case: Case) -> int:
    return len(Scratch().builder.node(case.record.name, _feeds(case), case.sample.attributes).results)


def _feeds(case: Case) -> list[Value]:
    scratch = Scratch()
    return [scratch.feed(x) for x in case.operands]


def first_difference(ran: Array, folded: Array) -> str:
    """Where two arrays differ in a bit that is not one of a NaN; empty if nowhere."""
    if (ran.shape, ran.dtype) != (folded.shape, folded.dtype):
        return f"{ran.dtype}{ran.shape} and {folded.dtype}{folded.shape}"
    whole = np.dtype(f"u{ran.dtype.itemsize}")
    bits = [np.ascontiguousarray(x).reshape(-1).view(whole) for x in (ran, folded)]
    different = bits[0] != bits[1]
    if ran.dtype.kind in "fV":
        different &= ~(np.isnan(ran.astype(np.float64)) & np.isnan(folded.astype(np.float64))).reshape(-1)
    if not different.any():
        return ""
    place = int(np.argmax(different))
    return f"element {place}: ran {ran.reshape(-1)[place]!r}, folded {folded.reshape(-1)[place]!r}"


def chunks(all_cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    for first in range(0, len(all_cases), PER_PROGRAM):
        yield all_cases[first : first + PER_PROGRAM]


def sweep(record: OpRecord, count: int, rng: np.random.Generator) -> Iterator[tuple[int, Sequence[str]]]:
    for chunk in chunks(list(cases(record, count, rng))):
        yield len(chunk), differences(chunk)


if __name__ == "__main__":
    sys.exit(gating.main_over_ops(__doc__ or "", records(), sweep))
