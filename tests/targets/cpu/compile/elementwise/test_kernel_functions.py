"""Elementary functions: bounds in ULP, special cases, the same bits for any width."""

import functools
import math
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64
from dfc.kernels import math_coefficients
from dfc.lower.legalise.elementary import ELEMENTARY, elementary
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.llvm.text import ModuleText
from dfc_target_cpu.machine import MACHINES
from tests.support.cpu_code import host, runnable_machines
from tests.support.cpu_math import SINGLE_BOUNDS, ArrayMath, reference, ulp_distance
from tests.support.sweeping import WHOLE, few

DOUBLE_BOUNDS = {**SINGLE_BOUNDS, "expm1": 3, "sin": 3, "cos": 3}
del DOUBLE_BOUNDS["erf"]
NEAR = 200_001 if WHOLE else 30_001
INF, NAN = math.inf, math.nan
SPECIALS = np.array([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 5e-324, -5e-324, 1e-45, -1e-45, 1e-310, 3.4e38, -3.4e38])
EXTENDED = np.finfo(np.longdouble).nmant > 60


@functools.cache
def single_inputs() -> np.ndarray:
    """A quarter of a million bit patterns spread over all of them (two million in the gate), and the neighbourhood
    of the interesting places."""
    bits = np.arange(0, 1 << 32, 2039 if WHOLE else 16_381, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [np.linspace(-110, 110, NEAR), np.linspace(-2, 2, NEAR), np.linspace(0.5, 1.5, NEAR // 2)]
    return np.concatenate([bits, *(part.astype(np.float32) for part in near)])


@functools.cache
def double_inputs() -> np.ndarray:
    """Bit patterns, the neighbourhood of the interesting places, and multiples of a quarter turn; five times as many in
    the gate."""
    generator, count = np.random.default_rng(7), 30_000 if WHOLE else 6_000
    bits = generator.integers(0, 1 << 64, 50_000 if WHOLE else 12_000, dtype=np.uint64).view(np.float64)
    near = [generator.uniform(-r, r, count) for r in (750, 2, 1e7)]
    multiples = np.arange(1, 200_001, 7 if WHOLE else 31) * (np.pi / 2)
    return np.concatenate([bits, *near, 1 + generator.uniform(-0.3, 0.5, count), multiples])


BOUNDED = runnable_machines()
if not WHOLE:
    BOUNDED = [each for each in BOUNDED if each in (BOUNDED[0], BOUNDED[-1])]
"""The widest, and the baseline, which has no fused multiply-add: what lies between has forms of these two alone."""


@pytest.mark.parametrize("name", SINGLE_BOUNDS)
@pytest.mark.parametrize("machine", BOUNDED, ids=lambda m: m.name)
def test_single_precision_keeps_its_bound(name: str, machine):
    x = single_inputs()
    if machine is not host():
        x = x[::7]
    with np.errstate(invalid="ignore"):
        exact = reference(name, x.astype(np.float64))
    distance = ulp_distance(ArrayMath(machine, name, "float", machine.lanes(32))(x), exact)
    worst = int(np.argmax(distance))
    assert distance[worst] <= SINGLE_BOUNDS[name], (name, x[worst])


@pytest.mark.skipif(not EXTENDED, reason="needs a long double with more bits than double")
@pytest.mark.parametrize("name", DOUBLE_BOUNDS)
@pytest.mark.parametrize("machine", BOUNDED, ids=lambda m: m.name)
def test_double_precision_keeps_its_bound(name: str, machine):
    x = double_inputs()
    if machine is not host():
        x = x[::7]
    with np.errstate(invalid="ignore"):
        exact = reference(name, x.astype(np.longdouble))
    distance = ulp_distance(ArrayMath(machine, name, "double", machine.lanes(64))(x), exact)
    worst = int(np.argmax(distance))
    assert distance[worst] <= DOUBLE_BOUNDS[name], (name, x[worst])


def erf_in_decimal(x: float) -> Decimal:
    """The Taylor series with 60 digits."""
    value = Decimal(x)
    total, term, n = Decimal(0), value, 0
    while abs(term) > abs(value) * Decimal(10) ** -55 or n < 2:
        total += term / (2 * n + 1)
        n += 1
        term = -term * value * value / n
    return total * 2 / Decimal("3.14159265358979323846264338327950288419716939937510582097494").sqrt()


def test_double_precision_error_function_keeps_its_bound():
    generator = np.random.default_rng(8)
    x = np.concatenate([generator.uniform(-5.9, 5.9, 500), generator.uniform(-1.1, 1.1, 200), [1e-300, -1e-10]])
    result = ArrayMath(host(), "erf", "double", 1)(x)
    with localcontext() as context:
        context.prec = 60
        for argument, value in zip(x, result, strict=True):
            error = abs(Decimal(float(value)) - erf_in_decimal(float(argument)))
            assert error <= Decimal("1.5") * Decimal(float(np.spacing(abs(value)))), argument


@pytest.mark.parametrize("element", ["float", "double"])
def test_power_keeps_its_bound(element: str):
    generator = np.random.default_rng(9)
    x = np.concatenate([np.exp(generator.uniform(-80, 80, 60_000)), 1 + generator.uniform(-1e-3, 1e-3, 30_000)])
    y = np.concatenate([generator.uniform(-9, 9, 60_000), generator.uniform(-1e5, 1e5, 30_000)])
    power = ArrayMath(host(), "pow", element, host().lanes(64))
    x, y = x.astype(power.dtype), y.astype(power.dtype)
    wide = np.float64 if element == "float" else np.longdouble
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    assert ulp_distance(power(x, y), exact).max() <= 1.5


def c_power(x: float, y: float) -> float:
    """`math.pow` is C's, but raises where C gives infinity (a pole, or too large) or NaN."""
    odd = y.is_integer() and y % 2 == 1
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError) as error:
        if x < 0 and not y.is_integer():
            return NAN
        assert x == 0 or isinstance(error, OverflowError)
        return math.copysign(INF, x) if odd else INF


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("machine", runnable_machines(), ids=lambda m: m.name)
def test_power_of_special_values_is_that_of_c(machine, element: str):
    values = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, INF, -INF, NAN, 2.0**24, 2.0**53, 2.0**53 - 1]
    power = ArrayMath(machine, "pow", element, 4)
    x, y = (grid.ravel().astype(power.dtype) for grid in np.meshgrid(values, values))
    result = power(x, y)
    for a, b, got in zip(x, y, result, strict=True):
        expected = c_power(float(a), float(b))
        assert ulp_distance(np.array([got]), np.array([expected], np.float64))[0] <= 1, (a, b, got, expected)
        assert np.isnan(expected) or np.signbit(got) == np.signbit(expected), (a, b, got)


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("name", SINGLE_BOUNDS)
def test_special_values_give_what_numpy_gives(name: str, element: str):
    function = ArrayMath(host(), name, element, 2)
    x = SPECIALS.astype(function.dtype)
    with np.errstate(all="ignore"):
        expected = reference(name, x.astype(np.float64)).astype(function.dtype)
    result = function(x)
    for argument, got, want in zip(x, result, expected, strict=True):
        if np.isnan(want) or np.isinf(want) or want == 0:
            assert np.array_equal(got, want, equal_nan=True), argument
            assert np.isnan(want) or np.signbit(got) == np.signbit(want), argument


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("name", ELEMENTARY)
def test_bits_do_not_depend_on_the_width(name: str, element: str):
    widths = [ArrayMath(host(), name, element, lanes) for lanes in few((1, 8, 16, 2), 2)]
    x = np.random.default_rng(10).integers(0, 1 << 64, 4096, dtype=np.uint64).view(widths[0].dtype)[:4096]
    operands = (x, np.roll(x, 1)) if name == "pow" else (x,)
    results = [function(*operands) for function in widths]
    for other in results[1:]:
        same = (results[0] == other) & (np.signbit(results[0]) == np.signbit(other))
        assert (same | (np.isnan(results[0]) & np.isnan(other))).all()


def test_rounding_goes_to_even():
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 4503599627370495.5])
    np.testing.assert_array_equal(ArrayMath(host(), "round", "double", 2)(halves), np.rint(halves))


def test_coefficients_are_those_the_tool_computes():
    tool = Path(__file__).parents[5] / "tools" / "fit_math.py"
    written = subprocess.run([sys.executable, tool], check=True, capture_output=True, text=True).stdout
    assert Path(math_coefficients.__file__).read_text() == written


def test_every_variant_compiles_without_outside_calls():
    machine = MACHINES["aarch64"]
    module = ModuleText(machine.triple)
    functions = KernelFunctions(module, machine)
    for name in ELEMENTARY:
        for dtype in (F32, F64):
            functions.defined(elementary(name, dtype), 4)
    text = module.text().replace("define internal", "define dso_local")
    assert len(build_image([text], machine).symbols) >= 2 * len(ELEMENTARY)
