"""One meaning on every machine: the elementary functions run by NumPy and as code of this processor."""

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.functions.interpret_function import run
from dfc.kernels.terms import function
from dfc.lower.legalise.elementary import BINARY, ELEMENTARY, elementary
from dfc.lower.legalise.exponential import exp_of_negative
from dfc.lower.legalise.meaning import meaning
from tests.support.cpu_code import runnable_machines
from tests.support.cpu_math import ArrayMath

ELEMENTS = {F32: "float", F64: "double"}
FUSED = [machine for machine in runnable_machines() if machine.fused_multiply_add]


def samples(dtype: DType) -> np.ndarray:
    """Special values, bit patterns, and numbers where functions do something."""
    random, limits, bits = np.random.default_rng(12), np.finfo(dtype.numpy), f"u{dtype.size}"
    special = [0.0, -0.0, 1, -1, 0.5, 2, -3, np.inf, -np.inf, np.nan, limits.max, limits.tiny, 2.0**20, -1e30, 88.7]
    patterns = random.integers(0, np.iinfo(bits).max, 400, dtype=bits).view(dtype.numpy)
    usual = [random.standard_normal(400) * 3, random.uniform(-1e3, 1e3, 200), random.uniform(2**19, 2**40, 100)]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(special), patterns, *usual]).astype(dtype.numpy)


@pytest.mark.skipif(not FUSED, reason="the last bits are others without fused multiply-add")
@pytest.mark.parametrize("machine", FUSED, ids=lambda machine: machine.name)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_machine_code_has_the_bits_of_the_interpreter(name: str, dtype: DType, machine) -> None:
    x = samples(dtype)
    operands = (x, np.random.default_rng(13).permutation(x)) if name in BINARY else (x,)
    found = ArrayMath(machine, name, ELEMENTS[dtype], machine.lanes(8 * dtype.size))(*operands)
    (expected,) = run(elementary(name, dtype), *operands)
    bits = f"u{dtype.size}"
    same = (found.view(bits) == expected.view(bits)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), [operand[~same][:3] for operand in operands]


@pytest.mark.parametrize(("dtype", "low"), [(F32, -104.0), (F64, -746.0)], ids=str)
def test_exp_of_negative_numbers_has_the_bits_of_exp(dtype: DType, low: float) -> None:
    usual = -np.random.default_rng(14).exponential(3, 4000)
    x = np.concatenate([np.linspace(low, 0, 4000), usual, [0.0, -0.0, np.nan]]).astype(dtype.numpy)
    (found,) = run(function("exp_of_negative", exp_of_negative, dtype), x)
    (expected,) = run(elementary("exp", dtype), x)
    assert np.isnan(found[-1]) and found[:-1].tolist() == expected[:-1].tolist()
    assert (found[0], (found[:4000] < np.finfo(dtype.numpy).tiny).sum() > 100) == (0, True)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_exp_of_what_is_not_positive_has_the_bits_of_exp(dtype: DType) -> None:
    x = -abs(samples(dtype))
    (result,) = run(meaning("exp_of_nonpositive", [dtype], dtype), x)
    (expected,) = run(elementary("exp", dtype), x)
    np.testing.assert_array_equal(result, expected)
    assert (result == 0).sum() > 100 and ((result > 0) & (result < 1)).sum() > 100
