"""Element-wise ops against an independent reference: Python's own numbers, one element at a time."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from dfc.ir.attributes import NoAttributes
from dfc.ir.dtypes import ALL
from dfc.ops import registry
from dfc.ops.attributes import CastAttributes
from dfc.ops.record import OpRecord, Sample
from dfc_runtime.errors import RunError
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import evaluate_sample, samples

INF, NAN = math.inf, math.nan


def _round_half_even(x: float) -> float:
    return x if not math.isfinite(x) else math.copysign(float(round(x)), x)


def _within(function: Callable[[float], float], low: float, high: float) -> Callable[[float], float]:
    """The function where it is defined, else NaN."""
    return lambda x: function(x) if low <= x <= high else NAN


def _erf_inverse(y: float) -> float:
    """Newton's method on the error function."""
    if abs(y) == 1:
        return math.copysign(INF, y)
    if not abs(y) < 1:
        return NAN
    x = 0.0
    for _ in range(60):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


def _log_add(a: float, b: float) -> float:
    if a == b:
        return a + math.log(2)
    top = max(a, b) if not (math.isnan(a) or math.isnan(b)) else NAN
    return top if math.isinf(top) else top + math.log1p(math.exp(-abs(a - b)))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


FLOATS: dict[str, Callable[..., float]] = {
    "neg": lambda x: -x,
    "abs": math.fabs,
    "sign": lambda x: x if x == 0 or math.isnan(x) else math.copysign(1.0, x),
    "exp": lambda x: INF if x > 709 else math.exp(x),
    "log": lambda x: -INF if x == 0 else NAN if x < 0 else math.log(x),
    "log1p": lambda x: NAN if x < -1 else -INF if x == -1 else math.log1p(x),
    "sqrt": lambda x: NAN if x < 0 else math.sqrt(x),
    "rsqrt": lambda x: NAN if x < 0 else math.copysign(INF, x) if x == 0 else 1 / math.sqrt(x),
    "square": lambda x: x * x,
    "sin": lambda x: NAN if math.isinf(x) else math.sin(x),
    "cos": lambda x: NAN if math.isinf(x) else math.cos(x),
    "tanh": math.tanh,
    "sigmoid": _logistic,
    "relu": lambda x: x if math.isnan(x) or x > 0 else 0.0,
    "gelu": lambda x: NAN if x == -INF else x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "erf": math.erf,
    "floor": lambda x: x if not math.isfinite(x) else float(math.floor(x)),
    "ceil": lambda x: x if not math.isfinite(x) else float(math.ceil(x)),
    "round": _round_half_even,
    "expm1": math.expm1,
    "exp2": lambda x: 2.0**x,
    "log2": lambda x: -INF if x == 0 else NAN if x < 0 else math.log2(x),
    "log10": lambda x: -INF if x == 0 else NAN if x < 0 else math.log10(x),
    "tan": lambda x: math.tan(x) if math.isfinite(x) else NAN,
    "asin": _within(math.asin, -1, 1),
    "acos": _within(math.acos, -1, 1),
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": _within(math.acosh, 1, INF),
    "atanh": lambda x: math.copysign(INF, x) if abs(x) == 1 else _within(math.atanh, -1, 1)(x),
    "erf_inverse": _erf_inverse,
    "log_sigmoid": lambda x: x if x == -INF else -math.log1p(math.exp(-x)),
    "silu": lambda x: NAN if x == -INF else x * _logistic(x),
    "trunc": lambda x: x if not math.isfinite(x) else math.copysign(float(math.trunc(x)), x),
    "is_nan": math.isnan,
    "is_infinite": math.isinf,
    "sign_bit": lambda x: not math.isnan(x) and math.copysign(1, x) < 0,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "fmod": lambda a, b: NAN if math.isinf(a) or b == 0 else math.fmod(a, b),
    "logaddexp": _log_add,
    "stop_gradient": lambda x: x,
    "is_finite": math.isfinite,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": lambda a, b: NAN if math.isnan(a) or math.isnan(b) else min(a, b),
    "maximum": lambda a, b: NAN if math.isnan(a) or math.isnan(b) else max(a, b),
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
WHOLE: dict[str, Callable[..., int]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0),
    "stop_gradient": lambda x: x,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "bit_not": lambda x: ~x,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "xor": lambda a, b: a != b,
    "minimum": min,
    "maximum": max,
    "not": lambda x: not x,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    **{n: FLOATS[n] for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
}
SLACK = {2: 2.0**-8, 4: 4 * 2.0**-23, 8: 1e-14}


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def _cases(table: dict[str, Callable[..., object]], floats: bool) -> list[object]:
    found = [*samples("regular", families=["element-wise"]), *samples("edge", families=["element-wise"])]
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(found)
        if record.name in table and _is_float(sample.operands[0].dtype) == floats
    ]


def _elements(sample: Sample) -> tuple[tuple[int, ...], list[tuple[object, ...]]]:
    spread = np.broadcast_arrays(*sample.operands)
    wide = [x.astype(np.float64) if _is_float(x.dtype) else x for x in spread]
    return spread[0].shape, list(zip(*(x.ravel().tolist() for x in wide), strict=True))


@one_test_an_op(_cases(FLOATS, floats=True))
def test_floats(record: OpRecord, sample: Sample) -> None:
    shape, elements = _elements(sample)
    (got,) = evaluate_sample(record, sample)
    wanted = np.array([FLOATS[record.name](*e) for e in elements]).reshape(shape)
    if got.dtype == np.bool_:
        np.testing.assert_array_equal(got, wanted)
        return
    limit = float(np.finfo(np.float32).max if got.dtype == ml_dtypes.bfloat16 else np.finfo(got.dtype).max)
    moderate = np.abs(wanted) < limit
    slack = SLACK[got.dtype.itemsize]
    exact = got.astype(np.float64)
    np.testing.assert_allclose(exact[moderate], wanted[moderate], rtol=slack, atol=1e-300 if slack < 1e-10 else 1e-37)
    np.testing.assert_array_equal(np.isnan(exact), np.isnan(wanted))
    np.testing.assert_array_equal(exact[np.isinf(wanted)], wanted[np.isinf(wanted)])


@one_test_an_op(_cases(WHOLE, floats=False))
def test_whole_numbers_wrap(record: OpRecord, sample: Sample) -> None:
    shape, elements = _elements(sample)
    (got,) = evaluate_sample(record, sample)
    numbers = [int(WHOLE[record.name](*e)) for e in elements]
    if got.dtype == np.bool_:
        wanted = np.array([bool(n) for n in numbers], np.bool_)
    else:
        bits = 8 * got.dtype.itemsize
        wanted = np.array([n % (1 << bits) for n in numbers], f"u{got.dtype.itemsize}").view(got.dtype)
    np.testing.assert_array_equal(got, wanted.reshape(shape))


def _apply(name: str, *operands: object, dtype: object = np.float32) -> np.ndarray:
    arrays = [x if isinstance(x, np.ndarray) else np.array(x, dtype) for x in operands]
    return registry.record(name).evaluate(arrays, NoAttributes(), {})[0]


@pytest.mark.parametrize(
    ("name", "operands", "wanted"),
    [
        ("div", (1.0, 0.0), INF),
        ("div", (-1.0, 0.0), -INF),
        ("div", (0.0, 0.0), NAN),
        ("mul", (0.0, INF), NAN),
        ("sub", (INF, INF), NAN),
        ("maximum", (NAN, 1.0), NAN),
        ("minimum", (1.0, NAN), NAN),
        ("mod", (-1.0, 3.0), 2.0),
        ("mod", (1.0, -3.0), -2.0),
        ("floordiv", (-7.0, 2.0), -4.0),
        ("pow", (0.0, 0.0), 1.0),
        ("pow", (-2.0, 3.0), -8.0),
        ("pow", (-2.0, 0.5), NAN),
        ("pow", (2.0, -INF), 0.0),
        ("pow", (-INF, 0.5), INF),
        ("pow", (-0.0, 0.5), 0.0),
        ("clamp", (NAN, 0.0, 1.0), NAN),
        ("clamp", (5.0, 0.0, 1.0), 1.0),
        ("sigmoid", (-100.0,), math.exp(-100)),
        ("sigmoid", (-INF,), 0.0),
        ("sigmoid", (INF,), 1.0),
        ("round", (2.5,), 2.0),
        ("round", (-0.5,), -0.0),
        ("rsqrt", (0.0,), INF),
    ],
)
def test_special_values(name: str, operands: tuple[float, ...], wanted: float) -> None:
    (got,) = _apply(name, *operands).ravel()
    assert math.isnan(got) if math.isnan(wanted) else got == pytest.approx(wanted, rel=1e-6, abs=0)
    assert math.isnan(wanted) or math.copysign(1, got) == math.copysign(1, wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("score", [-1e4, -3.0, -0.5, 0.0, 0.25, 40.0, 6e4])
@pytest.mark.parametrize("truth", [0.0, 0.25, 1.0])
def test_the_surprise_of_a_score_does_not_overflow(score: float, truth: float, dtype: type) -> None:
    (got,) = _apply("sigmoid_cross_entropy", score, truth, dtype=dtype).ravel()
    exact = float(np.array(score, dtype))
    terms = [max(exact, 0), -exact * truth, math.log1p(math.exp(-abs(exact)))]
    slack = 4 * float(np.finfo(dtype).eps) * sum(map(abs, terms))
    assert abs(float(got) - math.fsum(terms)) <= slack


@pytest.mark.parametrize(
    ("name", "dtype", "operands", "wanted"),
    [
        ("shift_left", np.int32, (3, 4), 48),
        ("shift_left", np.int8, (3, 7), -128),
        ("shift_left", np.uint8, (255, 8), 0),
        ("shift_left", np.int64, (1, -1), 0),
        ("shift_left", np.uint64, (1, 63), 2**63),
        ("shift_right", np.int32, (-5, 1), -3),
        ("shift_right", np.int32, (-5, 40), -1),
        ("shift_right", np.int32, (5, -3), 0),
        ("shift_right", np.uint8, (255, 4), 15),
        ("shift_right", np.uint8, (255, 8), 0),
        ("shift_right", np.int64, (-(2**63), 63), -1),
    ],
)
def test_shifts_lose_every_bit_beyond_the_width(name: str, dtype: type, operands: tuple[int, int], wanted: int) -> None:
    (got,) = _apply(name, *operands, dtype=dtype).ravel()
    assert got == wanted


@pytest.mark.parametrize("name", ["floordiv", "mod"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_integers_divided_by_zero_stop_the_program(name: str, dtype: type) -> None:
    with pytest.raises(RunError, match="by zero"):
        _apply(name, np.array([1, 2], dtype), np.array([1, 0], dtype))
    assert _apply(name, np.zeros(0, dtype), np.zeros((), dtype)).shape == (0,)


@pytest.mark.parametrize("base", [2, 1, -1, 0])
def test_a_negative_power_of_an_integer_stops_the_program(base: int) -> None:
    with pytest.raises(RunError, match="negative power"):
        _apply("pow", np.array([base, base], np.int32), np.array([3, -1], np.int32))
    assert _apply("pow", np.zeros(0, np.int32), np.full((), -1, np.int32)).shape == (0,)


def test_the_lowest_integer_wraps_where_its_negative_does_not_exist() -> None:
    lowest = np.array(np.iinfo(np.int32).min, np.int32)
    assert _apply("neg", lowest) == lowest
    assert _apply("abs", lowest) == lowest
    assert _apply("floordiv", lowest, np.array(-1, np.int32)) == lowest


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_computed_in_f32_and_rounded_once(dtype: type) -> None:
    x = np.array([1.0, 3.0, 0.1, 100.0], dtype)
    wanted = (np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float32)))).astype(dtype)
    np.testing.assert_array_equal(_apply("sigmoid", x).astype(np.float32), wanted.astype(np.float32))


CASTS = [
    (np.float32, [1.9, -1.9, 0.5, -0.5], "i32", [1, -1, 0, 0]),
    (np.float32, [3e9, -3e9, INF, -INF, NAN], "i32", [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]),
    (np.float64, [1e20, -1e20, 2.0**63, NAN], "i64", [2**63 - 1, -(2**63), 2**63 - 1, 0]),
    (np.float64, [-1.0, 1e30, 255.9], "u8", [0, 255, 255]),
    (np.float64, [1.9e19, -5.0, 2.0**64], "u64", [2**64 - 1, 0, 2**64 - 1]),
    (np.float16, [INF, 70.5], "i8", [127, 70]),
    (np.int32, [300, -1, 128], "u8", [44, 255, 128]),
    (np.int64, [2**40 + 5, -(2**35)], "i32", [5, 0]),
    (np.float32, [0.0, -0.0, 0.1, NAN], "bool", [False, False, True, True]),
    (np.int8, [0, -3], "bool", [False, True]),
    (np.bool_, [True, False], "f32", [1.0, 0.0]),
    (np.float64, [1e300, 65520.0], "f16", [INF, INF]),
    (np.float32, [1 + 2.0**-8, 1 + 3 * 2.0**-8], "bf16", [1.0, 1 + 2.0**-6]),
]


@pytest.mark.parametrize(("dtype", "values", "target", "wanted"), CASTS)
def test_casts(dtype: type, values: list[object], target: str, wanted: list[object]) -> None:

    record = registry.record("cast")
    (got,) = record.evaluate([np.array(values, dtype)], CastAttributes(ALL[target]), {})
    assert got.dtype == ALL[target].numpy
    assert got.tolist() == wanted


@pytest.mark.parametrize("shapes", [((), ()), ((4,), ()), ((4,), (1,)), ((2, 3), (1, 3)), ((0, 3), ())])
def test_a_power_does_not_depend_on_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    got = _apply("pow", np.full(shapes[0], -INF), np.full(shapes[1], 0.5))
    assert got.shape == np.broadcast_shapes(*shapes) and np.all(got == INF)
