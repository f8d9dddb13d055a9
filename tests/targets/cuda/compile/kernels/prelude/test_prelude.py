"""The names of kernel text: the same for device and simulation, and with the bits of the CPU target."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dfc.ir.dtypes import BF16, F16, F32, F64
from dfc.ops.creation.philox import numbers
from dfc_target_cpu.machine import detect_host
from tests.support.cpu_math import ArrayMath
from tests.support.cuda_simulator.names import simulated_names

HOST = detect_host()
KEY = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210)
DRAW = 0x1_0000_0003
FORMATS = {"f32": ("float", np.float32, np.uint32), "f64": ("double", np.float64, np.uint64)}
FRACTIONS = {"f32": 23, "f64": 52, "f16": 10, "bf16": 7}
FUNCTIONS = ["exp", "log", "log1p", "tanh", "erf", "sin", "cos", "pow", "sqrt", "rsqrt", "floor", "ceil", "round"]


def prelude() -> dict[str, Any]:
    """The names of kernel text in Python, for warps of four lanes."""
    return simulated_names(4)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy speaks of overflow where IEEE arithmetic gives infinity."""
    with np.errstate(all="ignore"):
        yield


def samples(kind: type, bits: type, seed: int) -> np.ndarray:
    """Special values, bit patterns, and numbers where functions do something."""
    limits = np.finfo(kind)
    special = [0.0, -0.0, 1, -1, 0.5, 2, 3, -3, np.inf, -np.inf, np.nan, limits.max, limits.tiny]
    special += [limits.smallest_subnormal, -limits.smallest_subnormal, 2.0**20, 1e10, -1e30, 88.7, -104, 709.7, -745]
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, np.iinfo(bits).max, 300, dtype=bits).view(kind)
    usual = np.concatenate([rng.standard_normal(300) * 3, rng.uniform(-1e3, 1e3, 100), rng.uniform(2**19, 2**40, 100)])
    return np.concatenate([np.array(special, kind), patterns, usual.astype(kind)])


def pairs(kind: type, bits: type) -> list[np.ndarray]:
    """Every special value with every other, then usual ones."""
    values = samples(kind, bits, 1)
    left = np.concatenate([np.repeat(values[:22], 22), values, np.abs(values)])
    right = np.random.default_rng(3).permutation(values)
    return [left, np.concatenate([np.tile(values[:22], 22), right, right[::-1]])]


@pytest.mark.skipif(HOST is None or not HOST.fused_multiply_add, reason="the CPU's last bits differ without it")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", list(FORMATS))
def test_functions_have_the_bits_of_the_cpu_target(form: str, name: str) -> None:
    element, kind, bits = FORMATS[form]
    operands = pairs(kind, bits) if name == "pow" else [samples(kind, bits, 1)]
    assert HOST is not None
    expected = ArrayMath(HOST, name, element, 4)(*operands)
    found = np.array([prelude()[f"{form}_{name}"](*point) for point in zip(*operands, strict=True)], kind)
    same = (expected.view(bits) == found.view(bits)) | (np.isnan(expected) & np.isnan(found))
    assert same.all(), [(o[~same][:3], expected[~same][:3], found[~same][:3]) for o in operands]


@pytest.mark.parametrize("form", list(FORMATS))
def test_floor_division_and_remainder_are_those_of_numpy(form: str) -> None:
    _, kind, bits = FORMATS[form]
    a = samples(kind, bits, 5)
    b = np.random.default_rng(6).permutation(a)
    for x, y in zip(a, b, strict=True):
        for name, known in (("mod", np.remainder), ("floordiv", np.floor_divide)):
            found, expected = prelude()[f"{form}_{name}"](x, y), known(x, y)
            assert found == expected or (np.isnan(found) and np.isnan(expected)), (name, x, y)
            if expected == 0:
                assert np.signbit(found) == np.signbit(expected), (name, x, y)


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integers_wrap_and_floor_as_in_numpy(kind: str) -> None:
    numpy = np.dtype(kind.replace("i", "int").replace("u", "uint")).type
    limits = np.iinfo(numpy)
    edges = [limits.min, limits.max, 0, 1, 2, 3, limits.max - 1, limits.max // 2]
    edges += [-1, -2, -7] if kind[0] == "i" else []
    for x in edges:
        for y in edges:
            for name, known in (("minimum", np.minimum), ("maximum", np.maximum)):
                assert prelude()[f"{kind}_{name}"](x, y) == known(numpy(x), numpy(y))
            quotient, rest = (0, 0) if y == 0 else divmod(x, y)
            assert prelude()[f"{kind}_floordiv"](x, y) == prelude()[kind](quotient)
            assert prelude()[f"{kind}_mod"](x, y) == rest
            assert prelude()[f"{kind}_pow"](x, y) == prelude()[kind](pow(x, y % (1 << limits.bits), 1 << limits.bits))
        assert prelude()[f"{kind}_abs"](x) == prelude()[kind](abs(x))
        assert prelude()[f"{kind}_sign"](x) == (x > 0) - (x < 0)


def test_casts_to_integers_saturate() -> None:
    for kind, least, most in (("i8", -128, 127), ("u64", 0, 2**64 - 1), ("i64", -(2**63), 2**63 - 1), ("u8", 0, 255)):
        for form, real in (("f32", np.float32), ("f64", np.float64)):
            cast = prelude()[f"to_{kind}_from_{form}"]
            values = (-np.inf, -1e30, -1.5, -0.5, 0.0, 1.9, 100.7, 1e30, np.inf, np.nan)
            expected = [least, least, max(least, -1), 0, 0, 1, 100, most, most, 0]
            assert [cast(real(value)) for value in values] == expected, (kind, form)
    assert prelude()["to_u64_from_f64"](np.float64(2.0**63 + 2.0**40)) == 2**63 + 2**40


def test_halves_round_once_to_even() -> None:
    wide = samples(np.float64, np.uint64, 7)
    single = samples(np.float32, np.uint32, 8)
    for dtype in (F16, BF16):
        for x in wide:
            found, expected = prelude()[f"to_{dtype}_from_f64"](x), float(x.astype(dtype.numpy))
            if dtype is F16:  # ml_dtypes goes by way of f32 for bf16
                assert found == expected or np.isnan(x), x
        for x in single:
            found, expected = prelude()[f"{dtype}_round"](x), float(x.astype(dtype.numpy))
            assert found == expected or (np.isnan(found) and np.isnan(x)), x


def test_random_numbers_are_those_of_the_definition() -> None:
    for dtype in (F32, F64, F16, BF16):
        uniform = numbers("uniform", dtype, (64,), KEY, DRAW)
        normal = numbers("normal", dtype, (64,), KEY, DRAW).astype(np.float64)
        for element in range(64):
            assert prelude()[f"philox_uniform_{dtype}"](element, *KEY, DRAW) == float(uniform[element])
            found = float(prelude()[f"philox_normal_{dtype}"](element, *KEY, DRAW))
            assert (
                abs(found - normal[element]) <= 8 * 2.0 ** -{"f32": 23, "f64": 52, "f16": 10, "bf16": 7}[dtype.name] * 4
            )


def test_device_and_simulation_have_the_same_names() -> None:
    from dfc_target_cuda.code import device_functions  # which loads numba: not with all that is collected

    both = {name for name in device_functions.names() if not name.startswith("_")} - {"min", "max"}  # which Python has
    assert both == {name for name in prelude() if not name.startswith("__")}
