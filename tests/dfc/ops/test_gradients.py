"""Each gradient row is the slope: against central differences in f64, first order, and second order where smooth."""

import zlib
from functools import partial, reduce

import ml_dtypes
import numpy as np
import pytest

from dfc.ir.graph import Value
from dfc.ops import registry
from dfc.ops.attributes import AxisAttributes, ReduceAttributes
from dfc.ops.record import OpRecord, Sample
from tests.support.one_test_an_op import one_test_an_op
from tests.support.one_test_for_all import one_test_for_all
from tests.support.ops import Scratch, backward, samples, weighted_sum
from tests.support.sweeping import WHOLE, few

STEP = 1e-6


def _moderate(x: np.ndarray) -> bool:
    """Small enough for a difference quotient to mean something."""
    return bool(np.all(np.abs(x.astype(np.float64)) < 1e3))


DIRECTIONS = 3 if WHOLE else 1
FIRST = [
    (record, sample)
    for record, sample in [*samples("regular"), *samples("edge")]
    if record.gradient is not None and all(_moderate(x) for x in sample.operands)
]


STACKED = {"inverse", "determinant", "log_determinant", "solve", "triangular_solve", "cholesky", "qr", "eigh", "svd"}


def _in_f64(sample: Sample) -> list[np.ndarray] | None:
    """The operands with floats in f64; None if there is no float to differentiate by."""
    operands = [x.astype(np.float64) if _is_float(x) else x for x in sample.operands]
    return operands if any(x.dtype == np.float64 for x in operands) else None


def _is_float(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" or x.dtype.name == "bfloat16"


def _cases(smooth_only: bool) -> list[object]:
    """One case for each distinct situation, some of them for each op: narrow types repeat what f64 says."""
    found: dict[str, dict[object, object]] = {}
    for record, sample in FIRST:
        operands = _in_f64(sample)
        if operands is None or (smooth_only and (not record.smooth or sum(x.size for x in operands) > 200)):
            continue
        if smooth_only and record.name in STACKED and sample.operands[0].ndim > 2:
            continue  # a backward pass that is a loop; see `test_stacks`
        key = (record.name, tuple(x.shape for x in operands), sample.attributes, tuple(x.dtype for x in operands))
        of_op = found.setdefault(record.name, {})
        of_op.setdefault(key, pytest.param(record, sample, operands, id=f"{record.name}-{len(of_op)}"))
    return [case for of_op in found.values() for case in few(of_op.values(), 2 if smooth_only else 4)]


def _loss(record: OpRecord, sample: Sample, operands: list[np.ndarray]) -> tuple[Scratch, list[Value], Value]:
    scratch = Scratch()
    values = [scratch.feed(x) for x in operands]
    results = scratch.builder.node(record.name, values, sample.attributes).results
    floats = [v for v in results if v.tensor.machine.is_float]
    parts = [weighted_sum(scratch, v, seed) for seed, v in enumerate(floats, 1)]
    return scratch, values, reduce(partial(scratch.builder.apply, "add"), parts)


def _check_slope(scratch: Scratch, output: Value, gradient: Value, feed: Value, at: np.ndarray) -> None:
    """The projection of the gradient on random directions against the difference quotient along them."""
    random = np.random.default_rng(zlib.crc32(feed.name.encode()))
    (slope,) = scratch.run([gradient])
    if not at.size:
        assert slope.shape == at.shape
        return
    for _ in range(DIRECTIONS):
        direction = random.uniform(-1, 1, at.shape)
        (ahead,) = scratch.run([output], **{feed.name: at + STEP * direction})
        (behind,) = scratch.run([output], **{feed.name: at - STEP * direction})
        measured = (ahead - behind) / (2 * STEP)
        projected = np.sum(slope * direction)
        scale = max(1.0, float(np.sum(np.abs(slope * direction))))
        assert abs(measured - projected) <= 1e-5 * scale


@one_test_an_op(_cases(smooth_only=False))
def test_first_gradient(record: OpRecord, sample: Sample, operands: list[np.ndarray]) -> None:
    scratch, values, loss = _loss(record, sample, operands)
    some = False
    for value, array in zip(values, operands, strict=True):
        gradient = backward(scratch.builder, loss, value)
        if array.dtype != np.float64:
            assert gradient is None
        elif gradient is not None:
            some = True
            assert gradient.type == value.type
            _check_slope(scratch, loss, gradient, value, array)
    assert some or record.name == "cast"


@one_test_an_op(_cases(smooth_only=True))
def test_second_gradient(record: OpRecord, sample: Sample, operands: list[np.ndarray]) -> None:
    scratch, values, loss = _loss(record, sample, operands)
    for value, array in zip(values, operands, strict=True):
        gradient = backward(scratch.builder, loss, value) if array.dtype == np.float64 else None
        if gradient is None:
            continue
        again = weighted_sum(scratch, gradient, 2)
        second = backward(scratch.builder, again, value)
        if second is None:
            (here,), (there,) = scratch.run([again]), scratch.run([again], **{value.name: array + 0.01})
            assert here == there
        else:
            _check_slope(scratch, again, second, value, array)


@one_test_for_all([r for r in registry.all_records() if r.gradient])
def test_no_cotangent_gives_none(record: OpRecord) -> None:
    sample = next(s for s in record.samples() if s.kind == "regular")
    scratch = Scratch()
    values = [scratch.feed(x) for x in sample.operands]
    node = scratch.builder.node(record.name, values, sample.attributes)
    before = len(scratch.block.nodes)
    assert list(record.gradient(scratch.builder, node, [None] * len(node.results))) == [None] * len(values)
    assert len(scratch.block.nodes) == before


def _slope(name: str, *operands: np.ndarray, of: int = 0, attributes: object = None) -> np.ndarray:
    scratch = Scratch()
    values = [scratch.feed(x) for x in operands]
    result = scratch.builder.apply(name, *values, attributes=attributes)
    loss = scratch.builder.sum(result, tuple(range(result.tensor.rank)))
    gradient = backward(scratch.builder, loss, values[of])
    assert gradient is not None
    return scratch.run([gradient])[0]


def test_the_gradient_of_relu_at_zero_is_zero() -> None:
    np.testing.assert_array_equal(_slope("relu", np.array([-1.0, 0.0, 2.0])), [0, 0, 1])


def test_ties_of_minimum_and_maximum_are_shared() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    np.testing.assert_array_equal(_slope("maximum", a, b), [0, 0.5, 1])
    np.testing.assert_array_equal(_slope("minimum", a, b, of=1), [0, 0.5, 1])


def test_elements_that_tie_for_the_maximum_share_its_gradient() -> None:

    x = np.array([[4.0, 1.0, 4.0, 4.0]])
    np.testing.assert_allclose(_slope("max", x, attributes=ReduceAttributes((1,))), [[1 / 3, 0, 1 / 3, 1 / 3]])


def test_powers_are_safe_at_zero() -> None:
    base = np.array([0.0, 0.0, 0.0, 2.0])
    exponent = np.array([0.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(_slope("pow", base, exponent), [0, 1, 0, 12])
    assert np.all(np.isfinite(_slope("pow", base, exponent, of=1)))


@pytest.mark.parametrize(
    ("x", "wanted"), [([2.0, 3.0, 4.0], [12, 8, 6]), ([0.0, 3.0, 4.0], [12, 0, 0]), ([0.0, 0.0, 4.0], [0, 0, 0])]
)
def test_the_product_has_the_right_gradient_with_zeros(x: list[float], wanted: list[float]) -> None:

    np.testing.assert_allclose(_slope("prod", np.array(x), attributes=ReduceAttributes((0,))), wanted)


def test_clamp_gives_the_gradient_at_its_limits_to_x() -> None:
    x, low, high = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array(-1.0), np.array(1.0)
    np.testing.assert_array_equal(_slope("clamp", x, low, high), [0, 1, 1, 1, 0])
    assert _slope("clamp", x, low, high, of=1) == 1
    assert _slope("clamp", x, low, high, of=2) == 1


def test_limits_that_cross_give_the_whole_gradient_to_the_upper_one() -> None:
    x, low, high = np.array([-2.0, 0.0, 2.0]), np.array(1.0), np.array(-1.0)
    np.testing.assert_array_equal(_slope("clamp", x, low, high), [0, 0, 0])
    assert _slope("clamp", x, low, high, of=1) == 0
    assert _slope("clamp", x, low, high, of=2) == 3


def test_logsumexp_of_minus_infinity_has_no_nan_gradient() -> None:

    slope = _slope("logsumexp", np.full(3, -np.inf), attributes=ReduceAttributes((0,)))
    assert not np.any(np.isnan(slope))


def test_cross_entropy_of_huge_scores_has_finite_gradient() -> None:
    slope = _slope("cross_entropy", np.array([[1e4, -1e4, 0.0]]), np.array([1]))
    np.testing.assert_allclose(slope, [[1, -1, 0]])


def test_repeated_indices_add_their_gradients() -> None:

    slope = _slope("gather", np.zeros((4, 2)), np.array([1, 1, -1]), attributes=AxisAttributes(0))
    np.testing.assert_array_equal(slope, [[0, 0], [2, 2], [0, 0], [1, 1]])


NARROW = [
    ("mean", ReduceAttributes((0,)), 3000),
    ("logsumexp", ReduceAttributes((0,)), 3000),
    ("log_softmax", AxisAttributes(0), 3000),
    ("softmax", AxisAttributes(0), 12),
]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "attributes", "size"), NARROW, ids=lambda x: x if isinstance(x, str) else "")
def test_gradients_in_narrow_floats_are_those_of_f64_rounded(
    name: str, attributes: object, size: int, dtype: type
) -> None:
    x = np.linspace(-4, 6, size).astype(dtype)
    weights = np.linspace(0, 1, size).astype(dtype)

    def slope(kind: type) -> np.ndarray:
        scratch = Scratch()
        value = scratch.feed(x.astype(kind))
        result = scratch.builder.apply(name, value, attributes=attributes)
        if result.tensor.rank:
            result = scratch.builder.apply("mul", result, scratch.feed(weights.astype(kind)))
            result = scratch.builder.sum(result, (0,))
        gradient = backward(scratch.builder, result, value)
        assert gradient is not None
        return scratch.run([gradient])[0].astype(np.float64)

    exact = slope(np.float64)
    unit = {np.float16: 2.0**-11, ml_dtypes.bfloat16: 2.0**-8}[dtype]
    np.testing.assert_allclose(slope(dtype), exact, rtol=8 * unit, atol=8 * unit * np.max(np.abs(exact)) + 1e-7)
