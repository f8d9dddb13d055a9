"""Bands of row blocks on processors: bits of the kernels apart, also where a check fails, and no work beyond."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.bands.band import row_band
from dfc.kernels.bands.steps import UNDERFLOW
from dfc.kernels.form import ROW_BLOCKS, RowBlockKernel
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from tests.support.attention import attention, gradients
from tests.support.building import graph_of
from tests.support.native_run import NativeRun
from tests.support.sweeping import few

MASKS = {
    "causal": ("iota(i32[N])[:, new] >= iota(i32[M])[new, :]", "-1e9"),
    "moved": ("iota(i32[N])[:, new] - 100 >= iota(i32[M])[new, :]", "-1e30"),
    "never 0": ("iota(i32[N])[:, new] > iota(i32[M])[new, :]", "-2"),
}
SHAPES = [(2, 290, 290, 16), (1, 40, 515, 24), (3, 300, 67, 8), (1, 70, 70, 5)]


def text(mask: str, dtype: str = "f32", *, dropped: bool = False) -> str:
    """An entry for attention and one for its gradients."""
    shapes = f"q: {dtype}[H, N, D], k: {dtype}[H, M, D], v: {dtype}[H, M, D]"
    seen, otherwise = MASKS[mask]
    then = "let used = dropout(weights, 0.25, dice, training = true)" if dropped else "let used = weights"
    return f"""dfg 1
from std.nn import dropout
var dice: rng = philox(seed = 3)
proc mixed[H, N, M, D]({shapes}) -> {dtype}[H, N, D] {{
  let affinity = einsum("hnd,hmd->hnm", q, k) * rsqrt(D as {dtype})
  let weights = softmax(select(({seen})[new, :, :], affinity, {otherwise}))
  {then}
  return einsum("hnm,hmd->hnd", used, v)
}}
entry forward[H, N, M, D]({shapes}) -> {dtype}[H, N, D] {{
  let y = mixed(q, k, v)
  return y
}}
entry backward[H, N, M, D]({shapes}, g: {dtype}[H, N, D])
    -> (a: {dtype}[H, N, D], b: {dtype}[H, M, D], c: {dtype}[H, M, D]) {{
  let y = mixed(q, k, v)
  let a, b, c = grad(sum(y * g), [q, k, v])
  return a, b, c
}}
"""


@cache  # the same program has the same code
def lowered(mask: str, dtype: str = "f32", *, joined: bool = True, dropped: bool = False) -> Program:
    program = lower_graph(optimise(graph_of(text(mask, dtype, dropped=dropped))), forms=[ROW_BLOCKS] if joined else [])
    kernels = [kernel for kernel in program.kernels if isinstance(kernel, RowBlockKernel)]
    bands = [row_band(kernel) is not None for kernel in kernels]
    assert bool(kernels) == joined and (not joined or any(bands) if dtype == "bf16" else all(bands))
    return program


class PoisonedRun(NativeRun):
    """A run whose results are not 0 before it, so that what is not written shows."""

    @staticmethod
    def _result(buffer: Any, dims: Any) -> Any:
        return np.full(tuple(d.evaluate(dims) for d in buffer.shape), 77, buffer.dtype.numpy)


def started(program: Program, threads: int, isa: str = "") -> NativeRun:
    return PoisonedRun(program, {"dice": np.array([1, 2, 3, 0], np.uint64)}, threads, isa)


def feeds(shape: tuple[int, int, int, int], dtype: Any = np.float32) -> tuple[list[Any], dict[str, int]]:
    h, n, m, d = shape
    generator = np.random.default_rng(11)
    shapes = ((h, n, d), (h, m, d), (h, m, d), (h, n, d))
    return [generator.standard_normal(each).astype(dtype) for each in shapes], dict(zip("HNMD", shape, strict=True))


def results(run: NativeRun, arrays: list[Any], sizes: dict[str, int]) -> list[Any]:
    return [*run.call("forward", arrays[:3], sizes), *run.call("backward", arrays, sizes)]


def same(first: list[Any], second: list[Any]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def seen(mask: str, n: int, m: int) -> Any:
    return np.tri(n, m, {"causal": 0, "moved": -100, "never 0": -1}[mask], dtype=bool)


@pytest.mark.parametrize("mask", MASKS)
def test_bits_are_those_of_kernels_apart(mask: str) -> None:
    """Where weights beyond the mask are not 0, a block takes all columns after all."""
    runs = [started(lowered(mask), threads) for threads in (1, 2, 8)]
    apart = started(lowered(mask, joined=False), 2)
    for shape in SHAPES:
        arrays, sizes = feeds(shape)
        expected = results(apart, arrays, sizes)
        assert all(same(results(run, arrays, sizes), expected) for run in runs), shape


@pytest.mark.parametrize("isa", few(["x86-64-v2", "x86-64-v3", "x86-64-v4"], 1))
def test_values_are_those_of_the_definition(isa: str) -> None:
    run = started(lowered("causal"), 2, isa)
    arrays, sizes = feeds((2, 150, 150, 8))
    mask = seen("causal", 150, 150)
    expected = [attention(*arrays[:3], mask), *gradients(*arrays, mask)]
    for value, one in zip(results(run, arrays, sizes), expected, strict=True):
        np.testing.assert_allclose(value, one, rtol=2e-4, atol=2e-5 * np.abs(one).max())


@pytest.mark.parametrize("dtype", ["f64", "bf16"])
def test_other_types(dtype: str) -> None:
    """Gradients of halves keep their weights in memory, and have no band."""
    import ml_dtypes

    arrays, sizes = feeds((2, 140, 140, 8), np.float64 if dtype == "f64" else ml_dtypes.bfloat16)
    expected = results(started(lowered("causal", dtype, joined=False), 1), arrays, sizes)
    assert same(results(started(lowered("causal", dtype), 2), arrays, sizes), expected)


@pytest.mark.parametrize("dtype", UNDERFLOW)
def test_exponentials_underflow_where_checks_say(dtype: str) -> None:
    program = lower_graph(
        optimise(graph_of(f"dfg 1\nreadonly entry e[N](x: {dtype}[N]) -> {dtype}[N] {{ return exp(x) }}"))
    )
    low = np.array([1, 1.01, 2, 100, np.inf]) * UNDERFLOW[dtype]
    (values,) = NativeRun(program, {}).call("e", [low.astype(program.entries[0].buffers[0].dtype.numpy)], {"N": 5})
    assert not values.astype(np.float64).any()


def test_scores_below_the_mask_and_no_numbers_take_all_columns() -> None:
    arrays, sizes = feeds((1, 200, 200, 8))
    run, apart = started(lowered("causal"), 2), started(lowered("causal", joined=False), 2)
    q, k, v, g = arrays
    q[0, 40:50], k[...] = np.abs(q[0, 40:50]) * np.float32(-1e10), np.abs(k)
    q[0, 90, 3] = np.nan
    q[0, 130, 0] = np.inf
    for value, one in zip(run.call("forward", [q, k, v], sizes), apart.call("forward", [q, k, v], sizes), strict=True):
        np.testing.assert_array_equal(value, one)
        assert np.isnan(one[0, 90]).all() and np.isfinite(one[0, :40]).all()
    q[0, 90, 3], q[0, 130, 0] = 0, 0
    assert same(results(run, [q, k, v, g], sizes), results(apart, [q, k, v, g], sizes))


def test_what_is_beyond_is_not_read() -> None:
    arrays, sizes = feeds((1, 256, 256, 8))
    run = started(lowered("causal"), 2)
    clean = results(run, arrays, sizes)
    for array in arrays[1:3]:
        array[0, 200:] = np.nan
    y, to_q, *_ = results(run, arrays, sizes)
    assert np.isnan(y[0, 200:]).all()
    for value, one in ((y, clean[0]), (to_q, clean[1])):
        assert value[0, :128].tobytes() == one[0, :128].tobytes()


def test_rows_that_see_nothing_see_all() -> None:
    arrays, sizes = feeds((1, 300, 300, 8))
    value = started(lowered("moved"), 2).call("forward", arrays[:3], sizes)[0]
    np.testing.assert_allclose(value[0, :100], np.broadcast_to(arrays[2].mean(1), (100, 8)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", few(["never 0", "causal"], 1))
def test_dropout_draws_what_kernels_apart_draw(mask: str) -> None:
    arrays, sizes = feeds((2, 150, 150, 8))
    expected = results(started(lowered(mask, joined=False, dropped=True), 1), arrays, sizes)
    for threads in (1, 2, 8):
        assert same(results(started(lowered(mask, dropped=True), threads), arrays, sizes), expected)
    dropped = attention(*arrays[:3], seen(mask, 150, 150))
    assert np.abs(expected[0] - dropped).max() > 0.1
