"""Products that a library makes apart from what follows: a kernel after it does the rest, the numbers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

import dfc_runtime
from dfc.driver.api import compile_source
from dfc.driver.pipeline import optimise, scheduled
from dfc.elaborate.build import build
from dfc.ir.options import TargetOptions
from dfc.kernels.form import ContractKernel
from dfc.lower.threads.schedule import SIMULATED
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.libraries import product_costs
from dfc_driver_cuda.libraries.cublaslt import TYPES
from dfc_target_cuda.kernels.kernel_code import kernel_code
from dfc_target_cuda.target import SIMULATOR
from tests.support.distributed_samples import ALL, observed
from tests.support.simulated_cublaslt import SimulatedCublasLt, with_library
from tests.support.simulated_programs import SimulatedRun, in_text, interpreted, interpreted_text, program_of
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import few
from tests.targets.cuda.test_programs import agree
from tests.targets.cuda.test_samples import SMALLER, on_processor

ROUNDING = 1e-5
"""Sums of at most ten numbers of about 1, in f32."""

TRAIN = """
var w: f32[6, 4] = 0
entry train[B](x: f32[B, 6], wanted: f32[B, 4], rate: f32) -> (loss: f32) {
  let loss = sum(square(tanh(x @ w) - wanted))
  w -= rate * grad(loss, w)
  return loss
}
"""
ATTENTION = """
readonly entry mixed[B](q: f32[B, 5, 3, 4], k: f32[B, 5, 3, 4]) -> (y: f32[B, 3, 5, 5]) {
  return ENDING(einsum("bihd,bjhd->bhij", q, k))
}
"""


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may go to the library goes, and nothing is too small to be made apart."""
    monkeypatch.setenv("DFC_CUBLASLT", "all")
    monkeypatch.setattr("dfc_target_cuda.libraries.splitting.ever_pays", lambda *_, **__: True)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def both(text: str, entry: str, arguments: list[object], sizes: Mapping[str, int], state: Mapping[str, np.ndarray]):
    """Results and state with the library and without, and the run with it."""
    library = SimulatedCublasLt()
    runs = [SimulatedRun(program_of(text), state, device) for device in (with_library(library), None)]
    results = [run.call(entry, arguments, sizes) for run in runs]
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=ROUNDING, atol=ROUNDING)
    for name, array in runs[0].state.items():
        np.testing.assert_allclose(array, runs[1].state[name], rtol=ROUNDING, atol=ROUNDING)
    return runs[0], library


@pytest.mark.usefixtures("everywhere")
def test_a_training_step_goes_on_with_what_the_library_made() -> None:
    state = {"w": numbers(6, 4)}
    run, library = both(TRAIN, "train", [numbers(5, 6), numbers(5, 4), np.float32(0.1)], {"B": 5}, state)
    assert library.products == 2
    assert set(run.driver.products.values()) == {"cuBLASLt 13.10.1, and a kernel after it"}
    assert run.device.counts.launches == 1


@pytest.mark.usefixtures("everywhere")
def test_kernel_text_goes_on_with_it_too() -> None:
    library = SimulatedCublasLt()
    state = {"w": numbers(6, 4)}
    x, wanted, w = numbers(5, 6).astype(np.float64), numbers(5, 4), numbers(6, 4).astype(np.float64)
    run = SimulatedRun(program_of(TRAIN), state, with_library(library), lower=in_text)
    (loss,) = run.call("train", [x.astype(np.float32), wanted, np.float32(0.125)], {"B": 5})
    made = np.tanh(x @ w)
    np.testing.assert_allclose(loss, np.sum((made - wanted) ** 2), rtol=ROUNDING)
    expected = w - 0.125 * (x.T @ (2 * (made - wanted) * (1 - made**2)))
    np.testing.assert_allclose(run.state["w"], expected, rtol=ROUNDING, atol=ROUNDING)
    assert library.products == 2


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    ("ending", "calls", "after"),
    [
        pytest.param("", 3, 0, id="whole"),
        pytest.param("0.5 * ", 3, 0, id="scaled"),
        pytest.param("exp", 3, 1, id="with a kernel after it"),
    ],
)
@pytest.mark.parametrize("batch", [2, 5])
def test_batches_that_do_not_lie_evenly_are_several_calls(ending: str, calls: int, after: int, batch: int) -> None:
    text = ATTENTION.replace("ENDING", ending)
    run, library = both(text, "mixed", [numbers(batch, 5, 3, 4), numbers(batch, 5, 3, 4)], {"B": batch}, {})
    assert library.products == min(calls, batch), "one for each number of the shorter axis"
    assert run.device.counts.kernels == after


def test_many_calls_for_little_work_are_left_to_the_kernel() -> None:
    text = ATTENTION.replace("ENDING", "")
    run, library = both(text, "mixed", [numbers(2, 5, 3, 4), numbers(2, 5, 3, 4)], {"B": 2}, {})
    assert library.products == 0
    assert all("it takes less time for a product of this size" in who for who in run.driver.products.values())


FOLLOWED = "readonly entry f[M, K, N](x: f32[M, K], w: f32[K, N]) -> (y: f32[M, N]) { return tanh(x @ w) }"


def test_sizes_decide_who_makes_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_costs, "LAUNCH", 100 * 2 * (1 / 25e12 - 1 / 50e12))  # what 100 products save
    monkeypatch.setattr(product_costs, "COPY", 1e30)
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(FOLLOWED), {}, with_library(library))
    for m, k, n, products in ((2, 5, 9, 0), (4, 5, 6, 1), (9, 2, 5, 0), (2, 10, 6, 1)):
        library.products = 0
        x, w = numbers(m, k), numbers(k, n)
        (y,) = run.call("f", [x, w], {"M": m, "K": k, "N": n})
        np.testing.assert_allclose(y, np.tanh(x @ w), rtol=ROUNDING, atol=ROUNDING)
        assert library.products == products, (m, k, n)


def test_sums_that_take_too_much_of_the_memory_stay_in_their_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFC_CUBLASLT", "all")
    monkeypatch.setattr("dfc_driver_cuda.libraries.launches.SHARE", (1 << 28) // (4 * 7 * 6))
    for rows, products in ((7, 1), (8, 0)):
        library = SimulatedCublasLt()
        run = SimulatedRun(program_of(FOLLOWED), {}, with_library(library, capacity=1 << 28))
        run.call("f", [numbers(rows, 3), numbers(3, 6)], {"M": rows, "K": 3, "N": 6})
        assert library.products == products
        assert products or "too much memory" in next(iter(run.driver.products.values()))


GUARDED = """
var w: f32[4, 3] = 1
var kept: f32[2, 3] = 0
entry f(ids: i32[2], x: f32[6, 4]) -> (y: f32[2, 3]) {
  let made = x[ids] @ w
  kept := made
  w += transpose(x[ids]) @ made
  return exp(made)
}
"""


@pytest.mark.usefixtures("everywhere")
def test_what_is_seen_after_a_fault_is_written_by_a_kernel() -> None:
    library = SimulatedCublasLt()
    state = {"w": np.ones((4, 3), np.float32), "kept": np.zeros((2, 3), np.float32)}
    run = SimulatedRun(program_of(GUARDED), state, with_library(library))
    x = numbers(6, 4)
    run.call("f", [np.array([1, 5], np.int32), x], {})
    made = x[[1, 5]] @ state["w"]
    np.testing.assert_allclose(run.state["kept"], made, rtol=ROUNDING, atol=ROUNDING)
    after = state["w"] + x[[1, 5]].T @ made
    np.testing.assert_allclose(run.state["w"], after, rtol=ROUNDING, atol=ROUNDING)
    assert library.products == 2
    code, _ = run.attempt("f", [np.array([1, 6], np.int32), 2 * x], {})
    assert code == 1
    np.testing.assert_allclose(run.state["kept"], made, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(run.state["w"], after, rtol=ROUNDING, atol=ROUNDING)


ADDED = """
var total: f32[4, 3] = 1
entry f[B](x: f32[B, 4], y: f32[B, 3], old: f32[4, 3]) -> (more: f32[4, 3], less: f32[4, 3], left: f32[4, 3]) {
  total += transpose(x) @ y
  return old + transpose(x) @ (4 * y), old - transpose(x) @ (2 * y), transpose(x) @ (3 * y) - old
}
"""


def test_sums_are_added_to_a_matrix_by_the_library() -> None:
    state = {"total": np.ones((4, 3), np.float32)}
    x, y, old = numbers(5, 4), numbers(5, 3), numbers(4, 3)
    run, library = both(ADDED, "f", [x, y, old], {"B": 5}, state)
    np.testing.assert_allclose(run.state["total"], 1 + x.T @ y, rtol=ROUNDING, atol=ROUNDING)
    assert library.products == sum("cuBLASLt" in who for who in run.driver.products.values()) == 4
    scales = {(call["alpha"], call["beta"]) for call in library.matmuls}
    one = {1: b"\0\0\x80?", -1: b"\0\0\x80\xbf"}
    assert scales >= {(one[-1], one[1]), (one[1], one[-1])}


def test_products_of_rounded_factors_go_to_the_library_where_they_are_asked_for() -> None:
    text = "readonly entry f[B](x: f32[B, 8], w: f32[8, 4]) -> (y: f32[B, 4]) { return x @ w }"
    for tf32 in (False, True):
        library = SimulatedCublasLt()
        run = SimulatedRun(program_of(text), {}, with_library(library), lower=partial(interpreted, tf32=tf32))
        x, w = numbers(3, 8), numbers(8, 4)
        (y,) = run.call("f", [x, w], {"B": 3})
        np.testing.assert_allclose(y, x @ w, rtol=1e-2 if tf32 else ROUNDING, atol=1e-2 if tf32 else ROUNDING)
        assert (library.products, library.rounding) == (1, int(tf32))


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("dtype", "close"), [("f16", 2e-3), ("bf16", 2e-2), ("f64", 1e-12)])
@pytest.mark.parametrize("ending", ["", "tanh"])
def test_other_types_of_factors(dtype: str, close: float, ending: str) -> None:
    text = "readonly entry f[B](x: f64[B, 8], w: f64[8, 4]) -> (y: f64[B, 4]) {\n"
    text += f"  return {ending}((x as {dtype}) @ (w as {dtype})) as f64\n}}"
    x, w = numbers(3, 8).astype(np.float64), numbers(8, 4).astype(np.float64)
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(text), {}, with_library(library))
    (y,) = run.call("f", [x, w], {"B": 3})
    expected = np.tanh(x @ w) if ending else x @ w
    np.testing.assert_allclose(y, expected, rtol=close, atol=10 * close)
    assert library.products == 1
    (made,) = library.matmuls
    assert library.layouts[made["d"]].kind == TYPES[dtype], "sums that are rounded first are written so"


LOOP = """
readonly entry f[B](x: f32[B, 4], w: f32[4, 4], n: i64) -> (y: f32[B, 4]) {
  return loop h: f32[B, 4] = x for i in 0..n { h = tanh(h @ w) }
}"""


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("takes_inner", [True, False])
def test_iterations_of_a_loop_use_the_library_where_the_driver_takes_it(takes_inner: bool) -> None:
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(LOOP), {}, with_library(library, takes_inner=takes_inner))
    x, w = numbers(2, 4), numbers(4, 4)
    for rounds in (3, 2):
        (y,) = run.call("f", [x, w, np.int64(rounds)], {"B": 2})
        expected = x
        for _ in range(rounds):
            expected = np.tanh(expected @ w)
        np.testing.assert_allclose(y, expected, rtol=ROUNDING, atol=ROUNDING)
    assert library.products == (5 if takes_inner else 0)
    assert run.device.counts.graphs == 1
    assert takes_inner or any("in conditional nodes" in who for who in run.driver.products.values())


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("conditional_nodes", [True, False])
def test_random_programs_mean_the_same(conditional_nodes: bool) -> None:
    made = 0
    for seed in few(range(60, 260, 5), 12):
        library = SimulatedCublasLt()
        agree(seed, 24, interpreted, device=with_library(library, conditional_nodes=conditional_nodes))
        made += library.products
    assert made


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("name", few(["digits", "01_mlp_digits", "lstm", "transformer", "convnet"], 1))
def test_training_steps_of_samples_give_what_they_give_on_the_processor(name: str) -> None:
    sample, library = SMALLER[name], SimulatedCublasLt()
    expected = on_processor(sample)
    options = replace(sample.options, target="cuda", target_options=TargetOptions((SIMULATOR,)))
    data = compile_source(sample.source, options).to_bytes()
    with simulated_devices(), mock.patch.object(libcuda, "open_device", lambda number: with_library(library)):
        found = observed(sample, dfc_runtime.loads(data))
    pairs = [*zip(found.results, expected.results, strict=True)]
    pairs += [(found.state[each], value) for each, value in expected.state.items()]
    for one, other in pairs:
        largest = float(np.max(np.abs(other.astype(np.float64)), initial=0.1))
        np.testing.assert_allclose(one, other, rtol=0, atol=max(sample.near, 1e-5) * largest)
    assert library.products > 3, "at least those of a step and its gradients"


@pytest.mark.parametrize("name", few(["digits", "convnet", "lstm", "transformer"], 2))
def test_all_products_and_convolutions_of_samples_may_go_to_a_library_but_for_small_ones(name: str) -> None:
    source = ALL[name].source
    code = kernel_code(scheduled(optimise(build(source))), SIMULATED, interpreted_text)
    pairs = [*zip(code.kernels, code.choices, strict=True)]
    chosen = [choice for kernel, choice in pairs if isinstance(kernel, ContractKernel)]
    left = [choice.reason for choice in chosen if choice.product is None and choice.convolution is None]
    assert len(left) < len(chosen) / 2
    assert all(reason.endswith(", and it is too small to be made apart") for reason in left), left
