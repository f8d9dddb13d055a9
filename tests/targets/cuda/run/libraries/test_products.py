"""Products of programs by a library, on a simulated device: which go through it, when addresses change, who else."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.options import TargetOptions
from dfc_driver_cuda import libcuda
from dfc_runtime.graphs.memory_layout import DEVICE_BIT
from dfc_runtime.plans.plan import read_plan
from dfc_target_cuda.target import CudaTarget
from tests.runtime.graphs.test_executor import Arrays
from tests.support.simulated_cublaslt import SimulatedCublasLt, with_library
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, interpreted, program_of
from tests.support.sweeping import few
from tests.targets.cuda.test_programs import agree

LAYERS = """
var w: f32[5, 4] = 0
var b: f32[4] = 0
var v: f32[4, 3] = 0
readonly entry predict[B](x: f32[B, 5]) -> (y: f32[B, 3]) { return (x @ w + b) @ v }
"""
MULTIPLY = "readonly entry multiply[B](x: f32[B, 8], w: f32[8, 4]) -> (y: f32[B, 4]) { return x @ w }"
BATCHED = "readonly entry multiply[N, B](x: f32[N, B, 6], w: f32[N, 6, 5]) -> (y: f32[N, B, 5]) { return x @ w }"
STATE = {
    "w": np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4),
    "b": np.arange(4, dtype=np.float32),
    "v": np.linspace(2, -1, 12, dtype=np.float32).reshape(4, 3),
}
ROUNDING = 1e-5
"""Sums of at most eight numbers of about 1, in f32."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def predicted(x: np.ndarray) -> np.ndarray:
    return (x @ STATE["w"] + STATE["b"]) @ STATE["v"]


def test_products_and_what_is_added_to_rows_go_through_the_library() -> None:
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(LAYERS), STATE, with_library(library))
    for size in (3, 7, 3):
        run.device.counts.clear()
        x = numbers(size, 5)
        (y,) = run.call("predict", [x], {"B": size})
        np.testing.assert_allclose(y, predicted(x), rtol=ROUNDING, atol=ROUNDING)
        assert (run.device.counts.kernels, run.device.counts.launches) == (0, 1)
    assert library.products == 6
    assert set(run.driver.products.values()) == {"cuBLASLt 13.10.1"}
    assert any("d0=7" in where for where in run.driver.products)


def test_batches_go_through_the_library() -> None:
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(BATCHED), {}, with_library(library))
    x, w = numbers(3, 2, 6), numbers(3, 6, 5)
    (y,) = run.call("multiply", [x, w], {"N": 3, "B": 2})
    np.testing.assert_allclose(y, x @ w, rtol=ROUNDING, atol=ROUNDING)
    assert (library.products, run.device.counts.kernels) == (1, 0)


def test_without_the_library_kernels_make_products() -> None:
    run = SimulatedRun(program_of(LAYERS), STATE)
    x = numbers(3, 5)
    (y,) = run.call("predict", [x], {"B": 3})
    np.testing.assert_allclose(y, predicted(x), rtol=ROUNDING, atol=ROUNDING)
    assert run.device.counts.kernels == 2 and not run.driver.products


def with_addresses(device: SimulatedDevice, library: SimulatedCublasLt) -> SimulatedDevice:
    """Calls with other memory of the caller each time; the device that they ran on."""
    there = Arrays(SimulatedRun(program_of(MULTIPLY), {}, device))
    for size in (1, 2, 3):
        x, w = numbers(4, 8) * size, numbers(8, 4)
        target = there.memory.allocate(64)
        there.call(there.put(x, 16) | DEVICE_BIT, there.put(w) | DEVICE_BIT, target | DEVICE_BIT, 4)
        np.testing.assert_allclose(there.get(target, 16).reshape(4, 4), x @ w, rtol=ROUNDING, atol=ROUNDING * size)
    assert library.products == 3
    return device


def test_other_addresses_change_the_node_alone() -> None:
    library = SimulatedCublasLt()
    device = with_addresses(with_library(library), library)
    assert (device.counts.graphs, device.counts.updates) == (1, 2)
    assert len(library.named("cublasLtMatmulAlgoGetHeuristic")) == 1, "the algorithm is for all multiples of 16"


def test_a_graph_is_built_again_where_the_driver_changes_no_such_node() -> None:
    library = SimulatedCublasLt()
    device = with_addresses(with_library(library, changes_recorded=False), library)
    assert (device.counts.graphs, device.counts.updates) == (3, 0)


def by_kernels(library: SimulatedCublasLt, reason: str, *, takes_recorded: bool = True) -> None:
    """Kernels make the products, right, and it is told why."""
    run = SimulatedRun(program_of(LAYERS), STATE, with_library(library, takes_recorded=takes_recorded))
    x = numbers(3, 5)
    for _ in range(2):
        (y,) = run.call("predict", [x], {"B": 3})
        np.testing.assert_allclose(y, predicted(x), rtol=ROUNDING, atol=ROUNDING)
    assert (run.device.counts.kernels, library.products, run.device.counts.graphs) == (4, 0, 1)
    told = run.driver.products
    assert told and all(who.startswith("the kernel of the program, because ") for who in told.values())
    assert all(reason in who for who in told.values())
    run.driver.close()


def test_no_algorithm_leaves_the_product_to_its_kernel() -> None:
    by_kernels(SimulatedCublasLt(offers=0), "no algorithm for this shape")


def test_a_call_that_fails_leaves_the_product_to_its_kernel() -> None:
    library = SimulatedCublasLt()
    library.fails["cublasLtMatmul"] = 15
    by_kernels(library, "cublasLtMatmul of cuBLASLt ends with status 15")


def test_a_driver_that_takes_no_recorded_work_leaves_products_to_kernels() -> None:
    by_kernels(SimulatedCublasLt(), "this driver takes no recorded work", takes_recorded=False)


def test_a_library_that_does_not_start_leaves_all_products_to_kernels() -> None:
    library = SimulatedCublasLt()
    library.fails["cublasLtCreate"] = 1
    by_kernels(library, "cublasLtCreate of cuBLASLt ends with status 1")


def test_what_fails_with_new_addresses_goes_on_with_the_kernel() -> None:
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(MULTIPLY), {}, with_library(library))
    there = Arrays(run)
    x, w = numbers(4, 8), numbers(8, 4)
    for status in (0, 15):
        library.fails = {"cublasLtMatmul": status} if status else {}
        target = there.memory.allocate(64)
        there.call(there.put(x) | DEVICE_BIT, there.put(w) | DEVICE_BIT, target | DEVICE_BIT, 4)
        np.testing.assert_allclose(there.get(target, 16).reshape(4, 4), x @ w, rtol=ROUNDING, atol=ROUNDING)
    assert (library.products, run.device.counts.kernels, run.device.counts.graphs) == (1, 1, 2)


def test_no_rows_and_empty_sums_are_not_asked_for() -> None:
    library = SimulatedCublasLt()
    text = "readonly entry f[B, K](x: f32[B, K], w: f32[K, 4]) -> (y: f32[B, 4]) { return x @ w }"
    run = SimulatedRun(program_of(text), {}, with_library(library))
    (y,) = run.call("f", [numbers(2, 0), numbers(0, 4)], {"B": 2, "K": 0})
    assert not y.any() and y.shape == (2, 4)
    (y,) = run.call("f", [numbers(0, 3), numbers(3, 4)], {"B": 0, "K": 3})
    assert y.shape == (0, 4) and not library.named("cublasLtMatmulAlgoGetHeuristic")


GUARDED = """
var w: f32[4, 3] = 1
var kept: f32[2, 3] = 0
entry f(ids: i32[2], x: f32[6, 4]) -> (y: f32[2, 3]) {
  let rows = x[ids]
  let made = rows @ w
  kept := made
  return made @ transpose(w) @ w
}
"""


def test_what_is_seen_after_a_fault_is_left_to_the_kernel() -> None:
    library = SimulatedCublasLt()
    state = {"w": np.ones((4, 3), np.float32), "kept": np.zeros((2, 3), np.float32)}
    run = SimulatedRun(program_of(GUARDED), state, with_library(library))
    x = numbers(6, 4)
    run.call("f", [np.array([1, 5], np.int32), x], {})
    expected = x[[1, 5]] @ state["w"]
    np.testing.assert_allclose(run.state["kept"], expected, rtol=ROUNDING, atol=ROUNDING)
    code, _ = run.attempt("f", [np.array([1, 6], np.int32), 2 * x], {})
    assert code == 1
    np.testing.assert_allclose(run.state["kept"], expected, rtol=ROUNDING, atol=ROUNDING)
    told = run.driver.products
    assert "the kernel of the program, because it runs after what may fail, and is seen then" in told.values()
    assert library.products == 4, "what nobody sees after a fault, two in each call"


@pytest.mark.parametrize("architecture", ["sm_80", "sm_80+tf32"])
def test_plans_say_which_products_may_round_their_factors(architecture: str) -> None:
    lowered = CudaTarget().lower(program_of(MULTIPLY), TargetOptions((architecture,), listing="kernels"))
    (product,) = (kernel.product for kernel in read_plan(lowered.notes["plan"]).kernels)
    assert product is not None and product.is_rounding == architecture.endswith("+tf32")


def test_handles_are_given_back() -> None:
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(LAYERS), STATE, with_library(library))
    run.call("predict", [numbers(3, 5)], {"B": 3})
    assert library.open
    run.driver.close()
    assert not library.open


def test_the_library_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimulatedCublasLt()
    monkeypatch.setattr(libcuda, "find_library", lambda: found)
    device = object.__new__(libcuda.CudaDevice)
    monkeypatch.delenv("DFC_CUBLASLT", raising=False)
    assert device.matrix_library is found
    monkeypatch.setenv("DFC_CUBLASLT", "0")
    assert device.matrix_library is None


WITH_PRODUCTS = (63, 115, 123, 131, 133, 190, 253, 255, 275, 286, 310, 344, 361, 433, 485, 543)
"""Seeds of random programs with a product that nothing is fused into; guarded in some."""


@pytest.mark.parametrize("conditional_nodes", [True, False])
def test_random_programs_mean_the_same_with_the_library(conditional_nodes: bool) -> None:
    made = 0
    for seed in few(WITH_PRODUCTS, 5):
        library = SimulatedCublasLt()
        agree(seed, 24, interpreted, device=with_library(library, conditional_nodes=conditional_nodes))
        made += library.products
    assert made


def test_products_that_run_at_the_same_time_have_workspaces_of_their_own() -> None:
    text = """
readonly entry f[B](x: f32[B, 6], w: f32[6, 5], v: f32[6, 4]) -> (y: f32[B, 5], z: f32[B, 4], s: f32[B, 5]) {
  let y = x @ w
  return y, x @ v, exp(y)
}"""
    library = SimulatedCublasLt()
    run = SimulatedRun(program_of(text), {}, with_library(library))
    x, w, v = numbers(3, 6), numbers(6, 5), numbers(6, 4)
    y, z, s = run.call("f", [x, w, v], {"B": 3})
    for found, wanted in ((y, x @ w), (z, x @ v), (s, np.exp(x @ w))):
        np.testing.assert_allclose(found, wanted, rtol=10 * ROUNDING, atol=ROUNDING)
    used = {call["workspace"] for call in library.matmuls}
    assert len(used) == len(library.matmuls) == library.products > 0
