"""Row blocks on processors: bits of the kernels apart, on any number of threads, at odd sizes, masks and halves."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.form import ROW_BLOCKS, RowBlockKernel
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from tests.support.attention import attention, gradients
from tests.support.building import graph_of
from tests.support.native_run import NativeRun
from tests.support.sweeping import few

PLAIN = "affinity"
CAUSAL = "select((iota(i32[N])[:, new] >= iota(i32[M])[new, :])[new, :, :], affinity, -1e9)"
SHAPES = [(2, 7, 7, 8), (1, 1, 1, 1), (3, 1, 9, 5), (2, 9, 1, 3), (2, 130, 67, 16), (1, 300, 515, 24), (1, 40, 2100, 8)]
SHAPES += [(1, 45, 150, 64)]  # as wide as a tile of few columns, with rows left over and more depth than the near cache


def text(mask: str, dtype: str = "f32") -> str:
    """An entry for attention and one for its gradients."""
    shapes = f"q: {dtype}[H, N, D], k: {dtype}[H, M, D], v: {dtype}[H, M, D]"
    return f"""dfg 1
fn mixed[H, N, M, D]({shapes}) -> {dtype}[H, N, D] {{
  let affinity = einsum("hnd,hmd->hnm", q, k) * rsqrt(D as {dtype})
  return einsum("hnm,hmd->hnd", softmax({mask}), v)
}}
readonly entry forward[H, N, M, D]({shapes}) -> {dtype}[H, N, D] {{
  return mixed(q, k, v)
}}
readonly entry backward[H, N, M, D]({shapes}, g: {dtype}[H, N, D])
    -> (a: {dtype}[H, N, D], b: {dtype}[H, M, D], c: {dtype}[H, M, D]) {{
  let a, b, c = grad(sum(mixed(q, k, v) * g), [q, k, v])
  return a, b, c
}}
"""


@cache  # the same program has the same code
def lowered(mask: str = PLAIN, dtype: str = "f32", *, joined: bool = True) -> Program:
    program = lower_graph(optimise(graph_of(text(mask, dtype))), forms=[ROW_BLOCKS] if joined else [])
    assert any(isinstance(kernel, RowBlockKernel) for kernel in program.kernels) == joined
    return program


def feeds(shape: tuple[int, int, int, int], dtype: Any = np.float32) -> tuple[list[Any], dict[str, int]]:
    h, n, m, d = shape
    generator = np.random.default_rng(11)
    shapes = ((h, n, d), (h, m, d), (h, m, d), (h, n, d))
    return [generator.standard_normal(each).astype(dtype) for each in shapes], dict(zip("HNMD", shape, strict=True))


def results(run: NativeRun, arrays: list[Any], sizes: dict[str, int]) -> list[Any]:
    return [*run.call("forward", arrays[:3], sizes), *run.call("backward", arrays, sizes)]


def expected(arrays: list[Any], mask: Any = None) -> list[Any]:
    return [attention(*arrays[:3], mask), *gradients(*arrays, mask)]


def same(first: list[Any], second: list[Any]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("mask", [PLAIN, CAUSAL], ids=["plain", "causal"])
def test_values_are_those_of_the_definition_and_bits_those_of_kernels_apart(mask: str) -> None:
    runs = [NativeRun(lowered(mask), {}, threads) for threads in (1, 2, 8)]
    apart = NativeRun(lowered(mask, joined=False), {})
    for shape in SHAPES:
        arrays, sizes = feeds(shape)
        allowed = np.tri(shape[1], shape[2], dtype=bool) if mask == CAUSAL else None
        first, *others = (results(run, arrays, sizes) for run in runs)
        assert all(same(first, other) for other in others), shape
        for value, wanted in zip(first, expected(arrays, allowed), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-5 * np.abs(wanted).max(initial=1.0))
        if min(shape) > 4:  # shorter products may be made along the depth, one way round or the other
            assert same(first, results(apart, arrays, sizes)), shape


@pytest.mark.parametrize("isa", few(["x86-64-v3", "x86-64-v2", "x86-64-v4"], 1))
def test_instruction_sets(isa: str) -> None:
    arrays, sizes = feeds((2, 37, 53, 10))
    for value, wanted in zip(results(NativeRun(lowered(), {}, 2, isa), arrays, sizes), expected(arrays), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-5)


def test_no_rows_give_gradients_of_zero() -> None:
    run = NativeRun(lowered(), {}, 2)
    arrays, sizes = feeds((2, 0, 5, 3))
    _, _, to_k, to_v = results(run, arrays, sizes)
    assert to_k.shape == to_v.shape == (2, 5, 3) and not to_k.any() and not to_v.any()
    arrays, sizes = feeds((0, 4, 4, 4))
    assert all(each.size == 0 for each in results(run, arrays, sizes))


def test_f64() -> None:
    arrays, sizes = feeds((2, 33, 47, 32), np.float64)
    for value, wanted in zip(
        results(NativeRun(lowered(dtype="f64"), {}, 2), arrays, sizes), expected(arrays), strict=True
    ):
        np.testing.assert_allclose(value, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", few(["f16", "bf16"], 1))
def test_halves(dtype: str) -> None:
    """Scores are rounded to halves where the program says so, as in kernels apart."""
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float16
    arrays, sizes = feeds((2, 70, 90, 16), kind)
    apart = NativeRun(lowered(dtype=dtype, joined=False), {}, 1)
    joined = [NativeRun(lowered(dtype=dtype), {}, threads) for threads in (1, 2)]
    first, second = (results(run, arrays, sizes) for run in joined)
    assert same(first, second) and same(first, results(apart, arrays, sizes))


def test_a_row_that_is_too_long_for_a_thread_lies_in_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dfc.kernels.row_blocks", "dfc_target_cpu.product.row_blocks"):
        monkeypatch.setattr(f"{module}.PANEL_BYTES", 1 << 10)
    arrays, sizes = feeds((2, 19, 700, 8))
    short, short_sizes = feeds((2, 50, 20, 8))
    run = NativeRun(lowered(), {}, 2)
    for each, known in ((arrays, sizes), (short, short_sizes)):
        for value, wanted in zip(results(run, each, known), expected(each), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-5)
