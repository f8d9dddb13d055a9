"""`erf_inverse` as machine code: at most 4 units in the last place, up to the last number before 1."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import dfc
from dfc.ops.elementwise import erf_inverse_coefficients
from dfc.ops.elementwise.special import erf_inverse
from tests.support.sweeping import WHOLE

PROGRAM = "dfg 1\n" + "".join(
    f"\nreadonly entry of_{dtype}[N](y: {dtype}[N]) -> {dtype}[N] {{\n  return erf_inverse(y)\n}}\n"
    for dtype in ("f16", "bf16", "f32", "f64")
)
BOUND = 4.0
TOOLS = Path(__file__).parents[3] / "tools"
Solved = Callable[[Decimal], Decimal]


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> Solved:
    """The inverse with a hundred digits."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("fit_erf_inverse").solved


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> dfc.Module:
    place = tmp_path_factory.mktemp("erf") / "p.bundle"
    dfc.compile(text=PROGRAM).save(place)
    return dfc.load(place)


def spread(dtype: type, count: int) -> np.ndarray:
    """Numbers between -1 and 1 that are evenly spread, near 0, and near both ends, down to the last ones."""
    rng = np.random.default_rng(11)
    least = float(np.finfo(dtype).epsneg)
    ends = 1 - np.exp(rng.uniform(np.log(least), 0, count))
    last = 1 - np.arange(1, 100) * least
    found = np.concatenate([rng.uniform(-1, 1, count), ends, -ends, last, -last, np.exp(rng.uniform(-80, 0, count))])
    found = found.astype(dtype)
    return found[np.abs(found) < 1]


def test_single_precision_keeps_its_bound(module: dfc.Module) -> None:
    y = spread(np.float32, 5000)
    exact = erf_inverse(y.astype(np.float64))
    distance = np.abs(module.of_f32(y=y) - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert distance.max() <= BOUND, y[np.argmax(distance)]


def test_double_precision_keeps_its_bound(module: dfc.Module, solved: Solved) -> None:
    y = spread(np.float64, 60)
    y = y[np.abs(y) > 1e-3][:: 1 if WHOLE else 3]
    for argument, got in zip(y, module.of_f64(y=y), strict=True):
        exact = solved(Decimal(abs(float(argument))))
        error = abs(Decimal(abs(float(got))) - exact)
        assert error <= Decimal(BOUND * float(np.spacing(float(exact)))), argument


@pytest.mark.parametrize(("name", "dtype"), [("of_f16", np.float16), ("of_bf16", ml_dtypes.bfloat16)])
def test_every_narrow_number_is_the_nearest_or_next_to_it(module: dfc.Module, name: str, dtype: type) -> None:
    y = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    y = y[np.isfinite(y.astype(np.float32))]
    y = y[np.abs(y.astype(np.float64)) < 1]
    exact = erf_inverse(y.astype(np.float64))
    got = getattr(module, name)(y=y)
    near = [np.nextafter(got, np.array(end, dtype)).astype(np.float64) for end in (-np.inf, np.inf)]
    step = np.maximum(*(np.abs(each - got.astype(np.float64)) for each in near))
    assert np.all(np.abs(got.astype(np.float64) - exact) <= 1.5 * step)


@pytest.mark.parametrize(("name", "dtype"), [("of_f32", np.float32), ("of_f64", np.float64)])
def test_special_values(module: dfc.Module, name: str, dtype: type) -> None:
    y = np.array([1, -1, 1.5, -np.inf, np.nan, 0.0, -0.0], dtype)
    got = getattr(module, name)(y=y)
    np.testing.assert_array_equal(got, np.array([np.inf, -np.inf, np.nan, np.nan, np.nan, 0, 0], dtype))
    assert np.signbit(got[-2:]).tolist() == [False, True]


def test_the_reference_is_exact_near_one(solved: Solved) -> None:
    y = spread(np.float64, 8)
    y = y[np.abs(y) > 1e-3][:: 1 if WHOLE else 3]
    exact = [float(solved(Decimal(abs(float(each))))) for each in y]
    np.testing.assert_allclose(np.abs(erf_inverse(y)), exact, rtol=1e-15)


def test_coefficients_are_those_the_tool_computes() -> None:
    tool = [sys.executable, TOOLS / "fit_erf_inverse.py"]
    written = subprocess.run(tool, check=True, capture_output=True, text=True).stdout
    assert Path(erf_inverse_coefficients.__file__).read_text() == written
