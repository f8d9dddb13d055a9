"""Native scans have the bits of the order that kernels state, run by NumPy, over lengths at every edge of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BF16, F16, F32, F64, I32, DType
from dfc.kernels.body import Affine, Load, Mask
from dfc.kernels.form import LoopKernel, Stage, Store
from tests.support.kernel_arrays import run_loops
from tests.support.programs import KernelMaker, Runner, axis_index
from tests.support.sweeping import few
from tests.targets.cpu.test_lower_ordered import scan
from tests.targets.cpu.test_reduction_order import numbers

LENGTHS = {1: (0, 1, 2, 8, 9, 31, 32, 33, 63, 64, 65, 100, 1000), 0: (0, 1, 2, 45)}
"""Of what is scanned: rows, columns."""
START = {"add": 0.0, "mul": 1.0, "minimum": np.inf, "maximum": -np.inf}


def prefixes(
    function: str,
    dtype: DType,
    axes: tuple[int, int],
    *,
    element_first: bool,
    fixed: Mapping[int, int] | None = None,
) -> LoopKernel:
    """All prefixes of x * y along kernel axis 1."""
    k = KernelMaker(2, fixed)
    element = k.body.apply("mul", k.load(dtype, *axes), k.load(dtype, 1))
    out = k.operand(dtype, k.over(*axes), "update")
    start = START[function] if dtype.is_float else {"add": 0, "mul": 1, "minimum": 9, "maximum": -9}[function]
    before = tuple(Affine(((a, 1),), dim(-1) if a == 1 else dim(0)) for a in axes)
    mask = Mask(((axes.index(1), 1),), k.body.number(start, dtype))
    previous = k.body.append(Load(out, before, mask), (), dtype)
    total = k.body.apply(function, *((element, previous) if element_first else (previous, element)))
    return k.loops(1, Stage((1,), k.take_body(), (), (Store(out, axis_index(*axes), total),)), ordered=True)


def arrays_for(dtype: DType, shape: tuple[int, int], axis: int) -> list[np.ndarray]:
    """With zeros of both signs, and a NaN in the last row."""
    if not dtype.is_float:
        draw = np.random.default_rng(5)
        return [draw.integers(-9, 9, s).astype(dtype.numpy) for s in (shape, (shape[axis],), shape)]
    x, y = numbers(dtype, shape), np.sign(numbers(dtype, (shape[axis],)))
    if shape[axis] > 40:
        x[(-1, 37) if axis == 1 else (37, -1)] = np.nan
    return [x, y, np.zeros(shape, dtype.numpy)]


def wanted(kernel: LoopKernel, arrays: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    copies = [array.copy() for array in arrays]
    run_loops(kernel, copies, {Symbol(f"d{number}"): size for number, size in enumerate(sizes)})
    return copies[-1]


@pytest.mark.parametrize("dtype", few([F32, F64, F16, BF16, I32], 3), ids=str)
@pytest.mark.parametrize("axis", [1, 0])
def test_rows_and_columns(dtype: DType, axis: int) -> None:
    axes = (0, 1) if axis == 1 else (1, 0)
    ways = few(product(START, (False, True)), 3)
    runner = Runner([prefixes(name, dtype, axes, element_first=swapped) for name, swapped in ways])
    for length in LENGTHS[axis]:
        shape = (3, length) if axis == 1 else (length, 3)
        arrays = arrays_for(dtype, shape, axis)
        for number, kernel in enumerate(runner.kernels):
            assert isinstance(kernel, LoopKernel)
            expected = wanted(kernel, arrays, [3, length])
            for threads in (1, 2):
                given = [array.copy() for array in arrays]
                assert runner.run(number, given, [3, length], threads=threads) == 0
                np.testing.assert_array_equal(given[-1].view(np.uint8), expected.view(np.uint8), f"{number} {length}")


def test_rows_of_known_length() -> None:
    lengths = (2, 3, 5, 16, 17, 33, 70)
    kernels = [prefixes("add", F32, (0, 1), element_first=False, fixed={1: length}) for length in lengths]
    runner = Runner(kernels)
    for number, length in enumerate(lengths):
        arrays = arrays_for(F32, (3, length), 1)
        expected = wanted(kernels[number], arrays, [3])
        assert runner.run(number, arrays, [3]) == 0
        assert arrays[-1].tobytes() == expected.tobytes()


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3"])
def test_narrower_vectors_have_the_same_bits(isa: str) -> None:
    runner = Runner([scan((0, 1)), scan((1, 0))], isa=isa)
    for length in (1, 33, 100):
        for number, shape in enumerate(((3, length), (length, 3))):
            arrays = [numbers(F32, shape), np.zeros(shape, np.float32)]
            expected = wanted(scan((0, 1) if number == 0 else (1, 0)), arrays, [3, length])
            assert runner.run(number, arrays, [3, length]) == 0
            assert arrays[-1].tobytes() == expected.tobytes()


def test_a_row_is_not_added_one_by_one() -> None:
    """Prefixes of segments and a carry: this is what tells the order from NumPy's."""
    x = numbers(F32, (1, 1000))
    expected = wanted(scan((0, 1)), [x, np.zeros_like(x)], [1, 1000])
    assert expected.tobytes() != np.cumsum(x, 1, dtype=np.float32).tobytes()
    np.testing.assert_allclose(expected, np.cumsum(x, 1, dtype=np.float64), rtol=1e-4, atol=1e-2)
