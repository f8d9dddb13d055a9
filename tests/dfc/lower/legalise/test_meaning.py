"""Scalar functions of kernel bodies, run by NumPy, against Python's numbers and NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import ALL, BF16, BOOL, F16, F32, F64, I64, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.functions.interpret_function import run
from dfc.lower.legalise.halves import load_function, round_function, store_function
from dfc.lower.legalise.meaning import meaning, search
from dfc.lower.legalise.random import random_function
from dfc.ops.creation.philox import numbers

INTEGERS = [dtype for dtype in ALL.values() if dtype.is_integer]
EDGES = [0.0, -0.0, 0.5, 1, -1, 2, -3, 7.5, 1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan]


def of(name: str, *operands: np.ndarray, dtype: DType, result: DType | None = None) -> np.ndarray:
    return run(meaning(name, [dtype] * len(operands), result or dtype), *operands)[0]


def edges(dtype: DType) -> np.ndarray:
    limits = np.iinfo(dtype.numpy)
    values = {int(limits.min), int(limits.max), 0, 1, 2, 3, int(limits.max) - 1, int(limits.max) // 2}
    values |= {-1, -2, -7} if dtype.kind == "signed" else set()
    return np.array(sorted(values), dtype.numpy)


def wrapped(value: int, dtype: DType) -> int:
    low = value & ((1 << 8 * dtype.size) - 1)
    return low - (1 << 8 * dtype.size) if dtype.kind == "signed" and low >> (8 * dtype.size - 1) else low


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_floor_and_do_not_trap(dtype: DType) -> None:
    x, y = pairs(edges(dtype))
    known = {
        "floordiv": lambda a, b: a // b if b else 0,
        "mod": lambda a, b: a % b if b else 0,
        "minimum": min,
        "maximum": max,
        "shift_left": lambda a, b: a << (b % (8 * dtype.size)),
        "shift_right": lambda a, b: a >> (b % (8 * dtype.size)),
        "pow": lambda a, b: pow(a, b % (1 << 8 * dtype.size), 1 << 8 * dtype.size),
    }
    for name, expected in known.items():
        found = of(name, x, y, dtype=dtype).tolist()
        assert found == [wrapped(expected(int(a), int(b)), dtype) for a, b in zip(x, y, strict=True)], name
    for name, single in {"neg": lambda a: -a, "abs": abs, "sign": lambda a: (a > 0) - (a < 0), "floor": int}.items():
        assert of(name, x, dtype=dtype).tolist() == [wrapped(single(int(a)), dtype) for a in x], name


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floats_are_those_of_numpy(dtype: DType) -> None:
    random = np.random.default_rng(4)
    x, y = pairs(np.concatenate([EDGES, random.standard_normal(20) * 1e3]).astype(dtype.numpy))
    known = {"minimum": np.minimum, "maximum": np.maximum, "mod": np.remainder, "floordiv": np.floor_divide}
    with np.errstate(all="ignore"):
        for name, expected in known.items():
            np.testing.assert_array_equal(of(name, x, y, dtype=dtype), expected(x, y), name)
        zero = (np.remainder(x, y) == 0) & np.isfinite(y)
    assert (np.signbit(of("mod", x, y, dtype=dtype))[zero] == np.signbit(y)[zero]).all()
    np.testing.assert_array_equal(of("sign", x, dtype=dtype), np.sign(x))
    assert of("is_finite", x, dtype=dtype, result=BOOL).tolist() == np.isfinite(x).tolist()


def test_truth_is_taken_bit_by_bit() -> None:
    a, b = pairs(np.array([False, True]))
    assert of("add", a, b, dtype=BOOL).tolist() == (a ^ b).tolist()
    for name, expected in (("less", np.less), ("greater_equal", np.greater_equal), ("maximum", np.maximum)):
        assert of(name, a, b, dtype=BOOL).tolist() == expected(a, b).tolist(), name


@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_casts_of_floats_saturate(source: DType, target: DType) -> None:
    limits = np.iinfo(target.numpy)
    values = np.array(
        [*EDGES, 100.7, -0.5, 127.5, -128.9, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64], source.numpy
    )

    def expected(value: float) -> int:
        if np.isnan(value):
            return 0
        return int(min(max(int(np.clip(value, -1e30, 1e30)), int(limits.min)), int(limits.max)))

    found = run(meaning("cast", [source], target), values)[0]
    assert found.tolist() == [expected(float(value)) for value in values]


def test_every_cast_but_those_is_that_of_numpy() -> None:
    for source in (dtype for dtype in ALL.values() if dtype.is_integer or dtype.is_bool):
        values = np.array([False, True]) if source.is_bool else edges(source)
        for target in ALL.values():
            if not target.is_complex and target not in (F16, BF16):
                found = run(meaning("cast", [source], target), values)[0]
                assert found.tolist() == values.astype(target.numpy).tolist(), (source, target)


def patterns() -> np.ndarray:
    bits = np.random.default_rng(5).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    edges = np.arange(1 << 16, dtype=np.uint32) << 16
    return np.concatenate([bits, edges, edges + 0x8000, edges + 0x7FFF, edges + 0x1000]).view(np.float32)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_halves_round_to_even_and_widen_exactly(dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        widened = every.view(dtype.numpy).astype(np.float32)
        rounded = patterns().astype(dtype.numpy).astype(np.float32)
    np.testing.assert_array_equal(run(load_function(dtype), every)[0], widened)
    np.testing.assert_array_equal(run(round_function(dtype), patterns())[0], rounded)
    back = run(store_function(dtype), widened)[0]
    assert (back == every)[~np.isnan(widened)].all()


def test_doubles_round_to_halves_once() -> None:
    random = np.random.default_rng(6)
    near = patterns()[::7].astype(np.float64) * (1 + random.standard_normal(len(patterns()[::7])) * 2.0**-30)
    with np.errstate(all="ignore"):
        found = run(meaning("cast", [F64], F16), near)[0]
        np.testing.assert_array_equal(found, near.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("largest", [True, False])
def test_searches_keep_nan_then_the_first_of_equals(largest: bool) -> None:
    values = np.array([1.0, np.nan, -2.0, 1.0, np.nan, 5.0])
    best = int(np.argmax(values) if largest else np.argmin(values))
    keeps = run(search(F64, largest=largest), values[best], best, values, np.arange(6))[0]
    assert keeps.tolist() == [number != best for number in range(6)]
    assert not run(search(I64, largest=largest), [3], [4], [3], [2])[0].any()


def test_random_numbers_are_those_of_the_definition() -> None:
    key, draw = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210), 0x1_0000_0003
    for dtype in (F32, F64, F16, BF16):
        words = [np.uint64(word) for word in (*key, draw)]
        uniform = run(random_function("uniform", dtype), np.arange(64), *words)[0]
        assert uniform.tolist() == numbers("uniform", dtype, (64,), key, draw).astype(np.float64).tolist()
        normal = run(random_function("normal", dtype), np.arange(64), *words)[0].astype(np.float64)
        expected = numbers("normal", dtype, (64,), key, draw).astype(np.float64)
        eps = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype.name]
        assert (np.abs(normal - expected) <= 8 * eps * np.maximum(np.abs(expected), 1)).all(), dtype


def test_what_no_type_has_is_refused() -> None:
    with pytest.raises(CodeGenerationError, match="no exp"):
        meaning("exp", [I64], I64)
