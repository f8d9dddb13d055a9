"""Gradients where an op is not smooth: one of its one-sided slopes, or a value between them; and nothing of nothing.

At a kink every number between the two one-sided difference quotients is a subgradient; anything else is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import dim
from dfc.ir.graph import Value
from dfc.ops import registry
from dfc.ops.attributes import SizedAttributes, SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.record import OpRecord, Sample
from tests.gate import op_gradients
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, backward, weighted_sum
from tests.support.sweeping import few

STEP = 1e-6
POINTS = (-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0)
ELEMENTWISE = [
    record
    for record in registry.all_records()
    if record.family == "element-wise" and record.gradient is not None and record.name not in ("cast", "select")
]


def _slopes(
    record: OpRecord, operands: list[np.ndarray], attributes: Attributes
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each operand: the gradient, and the difference quotients to both sides, element by element."""
    scratch = Scratch()
    values = [scratch.feed(x) for x in operands]
    (result,) = scratch.builder.node(record.name, values, attributes).results
    loss = weighted_sum(scratch, result, 1)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for value, at in zip(values, operands, strict=True):
        gradient = backward(scratch.builder, loss, value)
        if gradient is None:
            continue
        sides = [np.empty(at.shape), np.empty(at.shape)]
        (here,) = scratch.run([result])
        weights = next(x for v, x in scratch.feeds if v not in values)
        for side, step in zip(sides, (-STEP, STEP), strict=True):
            (there,) = scratch.run([result], **{value.name: at + step})
            with np.errstate(all="ignore"):
                side[...] = (there - here) * weights / step
        found.append((scratch.run([gradient])[0], *sides))
    return found


def _operands(record: OpRecord) -> list[np.ndarray]:
    """All combinations of the points."""
    count = len(record.parameters)
    return [grid.ravel() for grid in np.meshgrid(*[np.array(POINTS)] * count, indexing="ij")]


@pytest.mark.parametrize("record", ELEMENTWISE, ids=lambda r: r.name)
def test_at_awkward_points_the_gradient_is_a_subgradient(record: OpRecord) -> None:
    sample = next(s for s in record.samples() if s.kind == "regular")
    with np.errstate(all="ignore"):
        every = _slopes(record, _operands(record), sample.attributes)
    assert every
    for gradient, behind, ahead in every:
        known = np.isfinite(behind) & np.isfinite(ahead) & (np.maximum(abs(behind), abs(ahead)) < 1e3)
        margin = 1e-4 * (1 + np.maximum(abs(behind), abs(ahead)))
        low, high = np.minimum(behind, ahead) - margin, np.maximum(behind, ahead) + margin
        wrong = known & ~((low <= gradient) & (gradient <= high))
        assert not wrong.any(), [x.ravel()[wrong.ravel()][:5] for x in (*_operands(record), gradient, behind, ahead)]


@pytest.mark.parametrize("record", ELEMENTWISE, ids=lambda r: r.name)
def test_nothing_has_an_empty_gradient(record: OpRecord) -> None:
    sample = next(s for s in record.samples() if s.kind == "regular")
    for gradient, _, _ in _slopes(record, [np.zeros((0, 3))] * len(record.parameters), sample.attributes):
        assert gradient.shape == (0, 3)


MATRICES = {"inverse", "determinant", "log_determinant", "cholesky", "qr", "eigh", "svd"}  # have no slope at ties
ELSEWHERE = {"sort", "unique"}  # of tied elements each has a slope of its own; ties change how many there are
WHOLE = [
    record
    for record in registry.all_records()
    if record.gradient is not None and record.family != "element-wise" and record.name not in MATRICES | ELSEWHERE
]


def _tied(x: np.ndarray) -> np.ndarray:
    """Ties and zeros in place of floats."""
    if x.dtype.kind != "f" and x.dtype.name != "bfloat16":
        return x
    return np.resize(np.array([1.0, 0.0, 1.0, -1.0, 0.0, -0.0, 2.0]), x.shape)


def _cases() -> list[object]:
    found: dict[str, object] = {}
    for record in WHOLE:
        for sample in record.samples():
            if sample.kind == "regular" and 0 < sum(x.size for x in sample.operands) < 60:
                found.setdefault(record.name, pytest.param(record, sample, id=record.name))
    return list(found.values())


@one_test_an_op(_cases())
def test_with_ties_and_zeros_the_gradient_is_between_those_of_both_sides(record: OpRecord, sample: Sample) -> None:
    operands = [_tied(x) for x in sample.operands]
    scratch = Scratch()
    values = [scratch.feed(x) for x in operands]
    results = scratch.builder.node(record.name, values, sample.attributes).results
    result = next((v for v in results if v.tensor.machine.is_float), None)
    if result is None:
        return
    loss = weighted_sum(scratch, result, 1)
    for value, at in zip(values, operands, strict=True):
        gradient = backward(scratch.builder, loss, value) if at.dtype == np.float64 else None
        if gradient is None:
            continue
        with np.errstate(all="ignore"):
            (slope,), (here,) = scratch.run([gradient]), scratch.run([loss])
            for place in np.ndindex(at.shape):
                moved = [at.copy(), at.copy()]
                moved[0][place] -= STEP
                moved[1][place] += STEP
                (behind,), (ahead,) = (scratch.run([loss], **{value.name: each}) for each in moved)
                sides = sorted(((here - behind) / STEP, (ahead - here) / STEP))
                if np.all(np.abs(sides) < 1e3):
                    assert sides[0] - 1e-4 <= slope[place] <= sides[1] + 1e-4, (value, place)


@pytest.mark.parametrize("record", op_gradients.records(), ids=lambda r: r.name)
def test_empty_and_awkward_operands_have_subgradients(record: OpRecord) -> None:
    """The wide version is `tests/gate/op_gradients.py`."""
    every = list(op_gradients.cases(record, 1, np.random.default_rng(11)))
    nothing = [case for case in every if any(x.size == 0 for x in case.operands)]
    awkward = [case for case in every if all(x.size for x in case.operands)]
    assert (nothing or record.name == "slice") and (awkward or record.name in op_gradients.MATRICES)
    some = [*few(nothing, 2), *few(awkward[:6], 2)]
    assert [line for case in some for line in op_gradients.findings(case)] == []


@pytest.mark.parametrize("name", ["sort", "unique", "median"])
def test_what_orders_elements_has_subgradients_where_some_are_equal(name: str) -> None:
    record = registry.record(name)
    samples = [s for s in record.samples() if s.kind == "regular" and s.operands[0].ndim == 1]
    cases = [op_gradients.Case(record, s, (_repeated(s),)) for s in samples if s.operands[0].size > 2]
    assert cases and [line for case in cases for line in op_gradients.findings(case)] == []


def _repeated(sample: Sample) -> np.ndarray:
    """As many different numbers as there may be, each several times if there is room."""
    x = sample.operands[0]
    different = int(sample.attributes.size.constant or 0) if isinstance(sample.attributes, SizedAttributes) else 2
    return np.resize(np.arange(different, dtype=np.float64), x.shape)


def test_a_point_infinitely_far_away_does_not_turn() -> None:
    y, x = np.array([1.0, np.inf, -np.inf, np.inf, 3.0]), np.array([np.inf, 2.0, np.inf, -np.inf, 4.0])
    slopes = [gradient for gradient, _, _ in _slopes(registry.record("atan2"), [y, x], NoAttributes())]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 5)
    np.testing.assert_allclose(slopes, [weights * [0, 0, 0, 0, 4 / 25], weights * [0, 0, 0, 0, -3 / 25]], rtol=1e-12)


def test_a_power_of_zero_is_constant_also_of_infinities() -> None:
    x, y = np.array([np.inf, -np.inf, 0.0, -3.0]), np.zeros(4)
    of_base, _ = (gradient for gradient, _, _ in _slopes(registry.record("pow"), [x, y], NoAttributes()))
    np.testing.assert_array_equal(of_base, np.zeros(4))


def test_infinite_powers_of_minus_one_are_all_one() -> None:
    x, y = np.array([-1.0, -1.0]), np.array([np.inf, -np.inf])
    _, of_exponent = (gradient for gradient, _, _ in _slopes(registry.record("pow"), [x, y], NoAttributes()))
    np.testing.assert_array_equal(of_exponent, np.zeros(2))


def test_powers_that_infinities_make_nothing_have_no_gradient() -> None:
    x, y = np.array([0.5, -0.25, -np.inf, 3.0, 2.0]), np.array([np.inf, np.inf, -0.5, -np.inf, 3.0])
    slopes = [gradient for gradient, _, _ in _slopes(registry.record("pow"), [x, y], NoAttributes())]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 5)
    expected = [weights * [0, 0, 0, 0, 12], weights * [0, 0, 0, 0, 8 * np.log(2)]]
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(builder: Builder, loss: Value, target: Value) -> Value:
        gradient = backward(builder, loss, target)
        assert gradient is not None
        return builder.apply("neg", gradient)

    record = registry.record("max")
    sample = next(s for s in record.samples() if s.operands[0].ndim == 2 and s.kind == "regular")
    case = op_gradients.Case(record, sample, (np.array([[1.0, 2.0], [2.0, 2.0]]),))
    assert op_gradients.findings(case) == []
    monkeypatch.setattr(op_gradients, "backward", turned)
    (line,) = op_gradients.findings(case)
    assert line.startswith("max[[[1.0, 2.0], [2.0, 2.0]]]") and "differences are" in line


def test_a_slice_of_nothing_has_an_empty_gradient() -> None:
    zero, one, two = dim(0), dim(1), dim(2)
    sample = Sample((np.zeros((0, 4)),), SliceAttributes((zero, one), (zero, two), (1, 1)))
    assert op_gradients.findings(op_gradients.Case(registry.record("slice"), sample, sample.operands)) == []
