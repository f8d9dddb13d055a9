"""Scatters, sorts and searches of floats with ties, NaN and zeros of both signs: processor and simulated device have
the bits of one order, written down here once more in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dfc.ir.dtypes import I32
from dfc.lower.threads.schedule import SIMULATED
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_texts import run_text
from tests.support.programs import Runner
from tests.support.simulated_runtime import native, simulated, simulated_devices
from tests.support.sweeping import few
from tests.targets.cpu.test_lower_ordered import scatter

Floats = NDArray[np.floating]
ROWS, LENGTH = 3, 37

SORT = """
readonly entry run(x: TYPE[3, 37]) -> (up: TYPE[3, 37], down: TYPE[3, 37], places: i32[3, 37]) {
  return sort(x), sort(x, descending = true), argsort(x)
}
"""
TOP = """
readonly entry run(x: TYPE[3, 37]) -> (values: TYPE[3, K], places: i32[3, K]) {
  return top_k(x, K)
}
"""
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def awkward(kind: type[np.floating], shape: tuple[int, ...]) -> Floats:
    """Few different values, so that most have an equal one; of these that differ in their bits zeros, NaN excepted."""
    draw = np.random.default_rng(11)
    values = draw.choice(np.array([-np.inf, -1.5, -0.0, 0.0, 0.1, 0.3, 2.0, np.nan]), shape)
    return values.astype(kind)


def both(text: str, kind: str, *arrays: NDArray[Any]) -> list[list[NDArray[Any]]]:
    """The results on the processor, and on a device."""
    text = text.replace("TYPE", kind)
    with simulated_devices():
        modules = [native(text), simulated(text)]
        results: list[Any] = [module.run(*arrays) for module in modules]
    return [[np.asarray(one) for one in result] for result in results]


def positions(x: Floats, *, descending: bool = False) -> NDArray[np.int32]:
    """Where the elements of each row stand in a stable order in which NaN is the largest."""

    def rank(value: float) -> tuple[bool, float]:
        is_nan = value != value
        return is_nan != descending, 0.0 if is_nan else -value if descending else value

    return np.array([sorted(range(len(row)), key=lambda i: rank(float(row[i]))) for row in x], np.int32)


def same(results: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> None:
    for one, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one), np.signbit(wanted))


def test_a_scatter_adds_in_the_order_of_its_ids() -> None:
    """Of the kernel alone."""
    draw = np.random.default_rng(3)
    ids = draw.integers(-5, 5, LENGTH).astype(np.int32)
    rows = (draw.standard_normal((LENGTH, ROWS)) * np.exp2(draw.integers(-8, 8, (LENGTH, ROWS)))).astype(np.float32)
    rows[7, 2] = np.nan
    expected = np.zeros((5, ROWS), np.float32)
    for one, row in zip(ids, rows, strict=True):
        expected[one] += row
    kernel, sizes, outs = scatter(I32, True), [ROWS, LENGTH, 5], [np.zeros_like(expected) for _ in range(2)]
    assert Runner([kernel]).run(0, [ids, rows, outs[0]], sizes) == 0
    run_text(write_kernel(kernel, "k0", SIMULATED, guarded=True), [ids, rows, outs[1]], sizes)
    for out in outs:
        same([out], [expected])


@pytest.mark.parametrize("kind", TYPES)
def test_equal_values_keep_their_order_when_sorted(kind: str) -> None:
    x = awkward(TYPES[kind], (ROWS, LENGTH))
    up, down = positions(x), positions(x, descending=True)
    expected = [np.take_along_axis(x, up, 1), np.take_along_axis(x, down, 1), up]
    for results in both(SORT, kind, x):
        same(results, expected)


@pytest.mark.parametrize(("kind", "count"), few([*product(TYPES, (3, 20))], 3))
def test_of_equal_values_the_first_are_at_the_top(kind: str, count: int) -> None:
    """Their places, that is; of zeros the value may be the one of another sign, the same one on both."""
    x = awkward(TYPES[kind], (ROWS, LENGTH))
    chosen = positions(x, descending=True)[:, :count]
    on_processor, on_device = both(TOP.replace("K", str(count)), kind, x)
    same(on_device, on_processor)
    for one, expected in zip(on_processor, (np.take_along_axis(x, chosen, 1), chosen), strict=True):
        np.testing.assert_array_equal(one, expected)
