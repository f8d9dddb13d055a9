"""Products by cuBLASLt on the device: what it makes is what the kernels make, but for the order of sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from dfc.ir.options import TargetOptions
from dfc_driver_cuda import libcuda
from dfc_target_cuda.target import CudaTarget
from tests.support.simulated_programs import SimulatedRun, program_of
from tests.targets.cuda.test_split_products import ADDED, ATTENTION, GUARDED, LOOP, TRAIN, numbers

FACTORS = """
readonly entry f[M, K, N](x: f64[M, K], w: f64[K, N], b: f64[N]) -> (y: f64[M, N]) {
  let x = x as TYPE
  let w = w as TYPE
  let b = b as TYPE
  return (ENDING) as f64
}
"""
CLOSE = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-5, "f64": 1e-12}
"""Roundings of factors and results, in parts of the largest result."""


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sends all products to the library, or none, and cuts all of them."""
    device = libcuda.open_device(0)
    found = device.matrix_library
    device.close()
    if found is None:
        pytest.skip("cuBLASLt is not installed")
    monkeypatch.setattr("dfc_target_cuda.libraries.splitting.ever_pays", lambda *_, **__: True)
    return lambda wanted: monkeypatch.setenv("DFC_CUBLASLT", wanted)


def called(
    text: str, arguments: list[Any], sizes: Mapping[str, int], state: Mapping[str, np.ndarray], architecture: str
) -> tuple[list[np.ndarray], dict[str, np.ndarray], dict[str, str]]:
    """Results and state after two calls, and who made the products."""
    run = SimulatedRun(
        program_of(text),
        state,
        libcuda.open_device(0),
        lambda program: CudaTarget().lower(program, TargetOptions((architecture,))),
    )
    (entry,) = (one.name for one in run.program.entries if one.name != "init")
    try:
        run.call(entry, arguments, sizes)
        results = run.call(entry, arguments, sizes)
        return results, {name: array.copy() for name, array in run.state.items()}, run.driver.products
    finally:
        run.driver.close()


def check(
    everywhere: Callable[[str], None],
    text: str,
    arguments: list[Any],
    sizes: Mapping[str, int],
    state: Mapping[str, np.ndarray],
    architecture: str,
    near: float = 1e-4,
) -> None:
    everywhere("all")
    results, after, told = called(text, arguments, sizes, state, architecture)
    assert told and all(who.startswith("cuBLASLt") for who in told.values()), told
    everywhere("0")
    expected, expected_after, told = called(text, arguments, sizes, state, architecture)
    assert not told
    pairs = [*zip(results, expected, strict=True), *((after[name], expected_after[name]) for name in after)]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=near * max(float(np.abs(wanted).max(initial=0)), 1e-3))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 128, 32), (257, 300, 129), (1024, 512, 768)])
@pytest.mark.parametrize(
    "ending", ["x @ w", "x @ w + b", "-(x @ w)", "tanh(x @ w + b)", "transpose(transpose(w) @ transpose(x))"]
)
@pytest.mark.parametrize("dtype", CLOSE)
def test_shapes_types_and_what_follows(
    everywhere: Callable[[str], None], dtype: str, ending: str, shape: tuple[int, int, int], architecture: str
) -> None:
    m, k, n = shape
    text = FACTORS.replace("TYPE", dtype).replace("ENDING", ending)
    given = [numbers(m, k).astype(np.float64), numbers(k, n).astype(np.float64), numbers(n).astype(np.float64)]
    check(everywhere, text, given, {"M": m, "K": k, "N": n}, {}, architecture, CLOSE[dtype])


@pytest.mark.parametrize("ending", ["", "0.5 * ", "exp"])
@pytest.mark.parametrize("batch", [2, 16])
def test_heads(everywhere: Callable[[str], None], ending: str, batch: int, architecture: str) -> None:
    text = ATTENTION.replace("ENDING", ending)
    check(everywhere, text, [numbers(batch, 5, 3, 4), numbers(batch, 5, 3, 4)], {"B": batch}, {}, architecture)


def test_updates_sums_and_loops(everywhere: Callable[[str], None], architecture: str) -> None:
    check(
        everywhere,
        TRAIN,
        [numbers(5, 6), numbers(5, 4), np.float32(0.1)],
        {"B": 5},
        {"w": numbers(6, 4)},
        architecture,
    )
    state = {"total": np.ones((4, 3), np.float32)}
    check(everywhere, ADDED, [numbers(5, 4), numbers(5, 3), numbers(4, 3)], {"B": 5}, state, architecture)
    check(everywhere, LOOP, [numbers(2, 4), numbers(4, 4), np.int64(3)], {"B": 2}, {}, architecture)
    kept = {"w": np.ones((4, 3), np.float32), "kept": np.zeros((2, 3), np.float32)}
    check(everywhere, GUARDED, [np.array([1, 5], np.int32), numbers(6, 4)], {}, kept, architecture)


def test_the_same_product_has_the_same_bits(everywhere: Callable[[str], None], architecture: str) -> None:
    everywhere("all")
    text = FACTORS.replace("TYPE", "f32").replace("ENDING", "tanh(x @ w + b)")
    given = [
        numbers(300, 5000).astype(np.float64),
        numbers(5000, 64).astype(np.float64),
        numbers(64).astype(np.float64),
    ]
    sizes = {"M": 300, "K": 5000, "N": 64}
    first, second = (called(text, given, sizes, {}, architecture)[0][0] for _ in range(2))
    assert first.tobytes() == second.tobytes()
