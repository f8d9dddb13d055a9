"""Gradients of every op where it is not smooth, or where there is nothing: against differences to both sides.

    python -m tests.gate.op_gradients [COUNT] [--seed N] [--op NAME ...]

COUNT operand sets are drawn from each sample (default 20), of ties, zeros, infinities and a few plain numbers; besides
that every axis of the samples is made empty. At a kink every number between the two one-sided difference quotients is a
subgradient; anything else is wrong. Where the results have no end there is nothing to compare with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from dfc.ir.graph import Value
from dfc.ops import registry
from dfc.ops.attributes import SliceAttributes
from dfc.ops.record import Array, OpError, OpRecord, Sample
from dfc_runtime.errors import DfcError
from tests.support import gating
from tests.support.ops import Scratch, backward, type_of

STEP = 1e-6
STEEP = 1e3
"""A difference quotient above it is one of a jump, or of a pole."""
POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -0.25)
LARGEST = 60
MATRICES = frozenset(("inverse", "determinant", "log_determinant", "cholesky", "qr", "eigh", "svd", "solve"))
"""Have no slope where eigenvalues meet, and none at all where there is no inverse: only nothing is asked of them."""
TOGETHER = frozenset(("unique", "median", "top_k"))
"""Of equal elements one alone does not move the result, or adds one: they are moved together."""


IN_WINDOWS = frozenset(("conv1d", "conv2d", "max_pool", "mean_pool"))
"""Attributes say how many windows there are: only examples and channels can be none."""


@dataclass(frozen=True)
class Case:
    record: OpRecord
    sample: Sample
    operands: tuple[Array, ...]

    @property
    def title(self) -> str:
        return f"{self.record.name}{[x.tolist() for x in self.operands]} {self.sample.attributes}"


def records() -> list[OpRecord]:
    return [r for r in registry.all_records() if r.gradient is not None and r.name != "cast"]


def cases(record: OpRecord, count: int, rng: np.random.Generator) -> Iterator[Case]:
    """Of each sample the empty ones, and `count` of awkward numbers."""
    for sample in _samples(record):
        for operands in _empty(sample.operands):
            case = Case(record, sample, operands)
            if _keeps_windows(case) and _is_possible(case):
                yield case
        for _ in range(count if record.name not in MATRICES else 0):
            case = Case(record, sample, tuple(_drawn(x, rng) for x in sample.operands))
            if _is_possible(case):
                yield case


def _samples(record: OpRecord) -> list[Sample]:
    """One for each shape and attributes, in double precision."""
    found: dict[object, Sample] = {}
    for sample in record.samples():
        operands = tuple(x.astype(np.float64) if _is_float(x) else x for x in map(np.asarray, sample.operands))
        if sample.kind != "invalid" and sum(x.size for x in operands) < LARGEST and any(map(_is_float, operands)):
            key = (tuple((x.shape, x.dtype.kind) for x in operands), sample.attributes)
            found.setdefault(key, Sample(operands, sample.attributes, sample.kind))
    return list(found.values())


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" or x.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _empty(operands: Sequence[Array]) -> Iterator[tuple[Array, ...]]:
    """With each axis empty: of one operand, and of all that have an axis of this size."""
    seen = set[tuple[tuple[int, ...], ...]]()
    for number, x in enumerate(operands):
        for axis, size in enumerate(x.shape):
            alone = [y.shape for y in operands]
            alone[number] = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
            linked = [tuple(0 if each == size else each for each in y.shape) for y in operands]
            beside = [(*y.shape[:axis], 0, *y.shape[axis + 1 :]) if axis < y.ndim else y.shape for y in operands]
            for shapes in (alone, linked, beside):
                if tuple(shapes) not in seen:
                    seen.add(tuple(shapes))
                    yield tuple(np.resize(y, shape).astype(y.dtype) for y, shape in zip(operands, shapes, strict=True))


def _drawn(x: Array, rng: np.random.Generator) -> Array:
    """Few numbers, so that many are equal; sometimes infinities among them. What is no float may be a place."""
    if not _is_float(x):
        return rng.permutation(x.reshape(-1)).reshape(x.shape)
    drawn = rng.choice(POINTS, x.shape)
    return np.where(rng.random(x.shape) < rng.choice([0, 0.2]), rng.choice([np.inf, -np.inf], x.shape), drawn)


def _keeps_windows(case: Case) -> bool:
    """Whether the axes that windows go along, or slices begin on, are those of the sample."""
    attributes, (now, *_), (before, *_) = case.sample.attributes, case.operands, case.sample.operands
    if isinstance(attributes, SliceAttributes):
        return all(start.constant == 0 for start, size in zip(attributes.starts, now.shape, strict=True) if not size)
    return case.record.name not in IN_WINDOWS or now.shape[1:-1] == before.shape[1:-1]


def _is_possible(case: Case) -> bool:
    """Whether the types fit one another and the attributes, which may have sizes of their own, and there is a value."""
    record, attributes, types = case.record, case.sample.attributes, [type_of(x) for x in case.operands]
    try:
        with np.errstate(all="ignore"):
            made = record.infer(types, attributes)
            if any(low.constant > high.constant for low, high in record.demands(types, attributes)):
                return False
            results = record.evaluate(case.operands, attributes, {})
    except (OpError, DfcError, ValueError, IndexError, np.linalg.LinAlgError):
        return False
    shapes = [tuple(size.constant for size in each.shape) for each in made]
    return all(None in shape or shape == x.shape for shape, x in zip(shapes, results, strict=True))


def findings(case: Case) -> list[str]:
    """What is wrong with the gradients of a case, one line an operand."""
    scratch = Scratch()
    values = [scratch.feed(x) for x in case.operands]
    results = scratch.builder.node(case.record.name, values, case.sample.attributes).results
    floats = [v for v in results if v.tensor.machine.is_float]
    if not floats:
        return []
    loss = reduce(partial(scratch.builder.apply, "add"), [_weighted(scratch, v) for v in floats])
    found: list[str] = []
    for number, value in enumerate(values):
        gradient = backward(scratch.builder, loss, value) if _is_float(case.operands[number]) else None
        if gradient is not None:
            wrong = _wrong(case, scratch, loss, gradient, number)
            found += [f"{case.title}, operand {number}: {wrong}"] if wrong else []
    return found


def _weighted(scratch: Scratch, value: Value) -> Value:
    """A sum with growing weights: a tied element in the middle has a slope between those of the first and the last."""
    shape = tuple(d.constant or 0 for d in value.tensor.shape)
    weights = np.linspace(0.5, 1.5, int(np.prod(shape, dtype=int))).reshape(shape)
    product = scratch.builder.apply("mul", value, scratch.feed(weights))
    return scratch.builder.sum(product, tuple(range(value.tensor.rank)))


def _wrong(case: Case, scratch: Scratch, loss: Value, gradient: Value, number: int) -> str:
    at, name = case.operands[number], scratch.feeds[number][0].name
    with np.errstate(all="ignore"):
        (slope,), (here,) = scratch.run([gradient]), scratch.run([loss])
        if slope.shape != at.shape:
            return f"the gradient has the shape {slope.shape}"
        for group in _groups(case.record, at):
            sides: list[float] = []
            for step in (-STEP, STEP):
                moved = at.copy()
                moved[group] += step
                (there,) = scratch.run([loss], **{name: moved})
                sides.append(float(there - here) / step)
            total, margin = float(slope[group].sum()), 1e-4 * (1 + max(map(abs, sides)))
            known = np.all(np.abs(sides) < STEEP)  # and no NaN
            if known and not min(sides) - margin <= total <= max(sides) + margin:
                return f"{total} at {np.flatnonzero(group).tolist()}, differences are {sides}"
    return ""


def _groups(record: OpRecord, at: Array) -> Iterator[Array]:
    """Masks of what is moved together."""
    if record.name in TOGETHER:
        yield from (at == value for value in np.unique(at[np.isfinite(at)]))
        return
    for place in range(at.size):
        mask = np.zeros(at.size, bool)
        mask[place] = True
        yield mask.reshape(at.shape)


def sweep(record: OpRecord, count: int, rng: np.random.Generator) -> Iterator[tuple[int, Sequence[str]]]:
    for case in cases(record, count, rng):
        yield 1, findings(case)


if __name__ == "__main__":
    sys.exit(gating.main_over_ops(__doc__ or "", records(), sweep))
