"""Convolutions of programs by a library, on a simulated device: which go through it, what is left out, who else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import dfc_runtime
from dfc.driver.api import compile_source
from dfc.ir.options import TargetOptions
from dfc.lower.threads.schedule import SIMULATED
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.libraries import cudnn_backend
from dfc_driver_cuda.libraries import cudnn_constants as c
from dfc_driver_cuda.libraries.convolutions import packed, zeros_around
from dfc_driver_cuda.libraries.native import LibraryError
from dfc_runtime.graphs.memory_layout import DEVICE_BIT
from dfc_runtime.plans.convolutions import ConvolutionPlan
from dfc_runtime.plans.plan import read_plan
from dfc_runtime.plans.steps import Launch
from dfc_target_cuda.target import SIMULATOR
from tests.dfc.kernels.matching.test_convolutions import FORMS, WHAT, numbers, text_of
from tests.dfc.kernels.matching.test_random_convolutions import random_program
from tests.runtime.graphs.test_executor import Arrays
from tests.support import simulated_programs
from tests.support.distributed_samples import observed
from tests.support.kernel_interpreter import run
from tests.support.simulated_cublaslt import SimulatedCublasLt
from tests.support.simulated_cudnn import Engine, SimulatedCudnn
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, program_of
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import few
from tests.targets.cuda.test_samples import SMALLER, on_processor

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
"""Sums of at most a few hundred products of about 1, in f32."""

HALF = {"rtol": 2e-2, "atol": 2e-2}


def with_convolutions(
    library: SimulatedCudnn, products: SimulatedCublasLt | None = None, **more: Any
) -> SimulatedDevice:
    """A device whose programs use it."""
    library.device = SimulatedDevice(convolutions=library, library=products, **more)
    if products is not None:
        products.device = library.device
    return library.device


def wanted(text: str, feeds: list[Any], sizes: dict[str, int], state: dict[str, Any] | None = None) -> list[Any]:
    return run(program_of(text), "f", feeds, state, sizes).results


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("form", few(FORMS, 5))
def test_every_form_goes_through_the_library(form: str, what: str) -> None:
    x, w, y, _ = FORMS[form]
    feeds, text = [numbers(f"B, {x}", 2), numbers(w, 2), numbers(f"B, {y}", 2)], text_of(form, what)
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(text), {}, with_convolutions(library))
    found = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found[0], wanted(text, feeds, {"B": 2})[0], **CLOSE)
    if (form, what) == ("uneven zeros", "data"):
        assert (library.ran, device_run.device.counts.kernels) == ([what], 1), "zeros are cut off afterwards"
    else:
        assert (library.ran, device_run.device.counts.kernels) == ([what], 0)
    assert set(device_run.driver.convolutions.values()) == {"cuDNN 9.28.1"}


CONVOLVED = "readonly entry f[B](x: {0}[B, 5, 5, 2], w: {0}[3, 3, 2, 3], b: {0}[3]) -> (y: {0}[B, 5, 5, 3]) {{"
KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bias", ["", " + b"])
def test_every_element_type(dtype: str, bias: str) -> None:
    """Short sums are rounded before the bias is added: a kernel does that."""
    text = CONVOLVED.format(dtype) + f" return conv2d(x, w, pad = 1){bias} }}"
    feeds = [numbers(one, 2).astype(KINDS[dtype]) for one in ("B, 5, 5, 2", "3, 3, 2, 3", "3")]
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(text), {}, with_convolutions(library))
    (found,) = device_run.call("f", feeds, {"B": 2})
    close = CLOSE if dtype in ("f32", "f64") else HALF
    np.testing.assert_allclose(found.astype(float), wanted(text, feeds, {"B": 2})[0].astype(float), **close)
    assert (library.ran, device_run.device.counts.kernels) == (["forward"], int(bool(bias) and close is HALF))


def test_a_residual_and_a_bias_in_one() -> None:
    text = """readonly entry f[B](x: f32[B, 5, 5, 2], w: f32[3, 3, 2, 3], b: f32[3], r: f32[B, 5, 5, 3])
      -> (y: f32[B, 5, 5, 3]) { return r + (conv2d(x, w, pad = 1) + b) }"""
    feeds = [numbers(one, 2) for one in ("B, 5, 5, 2", "3, 3, 2, 3", "3", "B, 5, 5, 3")]
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(text), {}, with_convolutions(library))
    (found,) = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found, wanted(text, feeds, {"B": 2})[0], **CLOSE)
    assert (library.ran, device_run.device.counts.kernels) == (["forward"], 0)


LARGE = """readonly entry f[B](x: f32[B, 4, 4, 2], w: f32[3, 3, 2, 3], b: f32[3]) -> (y: f32[B, 4, 4, 3]) {
  return relu(conv2d(x, w, pad = 1) * b) }"""


def test_a_kernel_goes_on_with_sums() -> None:
    feeds = [numbers(one, 2) for one in ("B, 4, 4, 2", "3, 3, 2, 3", "3")]
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(LARGE), {}, with_convolutions(library))
    assert [one.makes_sums for one in planned(device_run)] == [True]
    (found,) = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found, wanted(LARGE, feeds, {"B": 2})[0], **CLOSE)
    assert (library.ran, device_run.device.counts.kernels) == (["forward"], 1)
    assert set(device_run.driver.convolutions.values()) == {"cuDNN 9.28.1, and a kernel after it"}


def test_sums_that_take_too_much_memory_stay_with_their_kernel() -> None:
    library, feeds = SimulatedCudnn(), [numbers(one, 2) for one in ("B, 4, 4, 2", "3, 3, 2, 3", "3")]
    device = with_convolutions(library)
    with mock.patch.object(device, "memory", return_value=(1 << 20, 16 * 100)):
        device_run = SimulatedRun(program_of(LARGE), {}, device)
    (found,) = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found, wanted(LARGE, feeds, {"B": 2})[0], **CLOSE)
    (who,) = device_run.driver.convolutions.values()
    assert not library.ran and "take too much memory" in who


def planned(device_run: SimulatedRun) -> list[ConvolutionPlan]:
    """The convolutions in the plan."""
    plan = read_plan(device_run.lowered.notes["plan"])
    launches = [step for step in plan.entries[0].steps if isinstance(step, Launch)]
    return [one.convolution for one in launches if one.convolution is not None]


TRAINED = """
var w: f32[3, 3, 2, 4] = 0
var v: f32[3, 3, 4, 2] = 0
entry f[B](x: f32[B, 6, 6, 2]) -> (loss: f32) {
  let loss = mean(square(conv2d(relu(conv2d(x, w, pad = 1)), v, stride = 2, pad = 1)))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  return loss
}"""


def trained(device: SimulatedDevice, steps: int = 2) -> SimulatedRun:
    """Steps that agree with the interpreter's."""
    state = {"w": numbers("3, 3, 2, 4", 2), "v": numbers("3, 3, 4, 2", 2)}
    other = {name: np.array(one) for name, one in state.items()}
    device_run = SimulatedRun(program_of(TRAINED), state, device)
    for step in range(steps):
        x = numbers("B, 6, 6, 2", 2) + np.float32(step)
        (loss,) = device_run.call("f", [x], {"B": 2})
        (expected,) = wanted(TRAINED, [x], {"B": 2}, other)
        np.testing.assert_allclose(loss, expected, **CLOSE)
    for name, one in other.items():
        np.testing.assert_allclose(device_run.state[name], one, **CLOSE)
    return device_run


def test_training_goes_through_the_library() -> None:
    library = SimulatedCudnn()
    device_run = trained(with_convolutions(library))
    assert sorted(library.ran) == sorted(["data", "forward", "forward", "weights", "weights"] * 2)
    assert library.asked == 5 * 2, "each of five shapes in one call: for the number of engines, and for them"
    without = trained(SimulatedDevice())
    assert device_run.device.counts.kernels == without.device.counts.kernels, "one goes on with each of the sums"


def test_what_the_library_does_not_make_a_kernel_makes_without_a_copy() -> None:
    library, products = SimulatedCudnn({c.BEST: []}), SimulatedCublasLt()
    device_run = SimulatedRun(program_of(ADDRESSED), {}, with_convolutions(library, products))
    feeds = [numbers("B, 4, 4, 2", 2), numbers("3, 3, 2, 4", 2)]
    (found,) = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found, wanted(ADDRESSED, feeds, {"B": 2})[0], **CLOSE)
    assert (products.products, device_run.device.counts.kernels) == (0, 1), "no library multiplies windows"


def by_kernels(library: SimulatedCudnn, reason: str, **more: Any) -> None:
    """Kernels make the convolutions, right, and it is told why."""
    device_run = trained(with_convolutions(library, **more))
    assert not library.ran
    told = device_run.driver.convolutions
    assert told and all("of the program, because " in who and reason in who for who in told.values()), told
    device_run.driver.close()


def test_no_engine_leaves_convolutions_to_kernels() -> None:
    by_kernels(SimulatedCudnn({c.BEST: [Engine(notes=(c.NONDETERMINISTIC,))]}), "offers no engine")


def test_a_call_that_fails_leaves_convolutions_to_kernels() -> None:
    library = SimulatedCudnn()
    library.fails["cudnnBackendExecute"] = 5000
    by_kernels(library, "cudnnBackendExecute of cuDNN ends with STATUS_5000")


def test_a_driver_that_takes_no_recorded_work_leaves_convolutions_to_kernels() -> None:
    by_kernels(SimulatedCudnn(), "this driver takes no recorded work", takes_recorded=False)


def test_a_library_that_does_not_start_leaves_all_convolutions_to_kernels() -> None:
    library = SimulatedCudnn()
    library.fails["cudnnCreate"] = 1001
    by_kernels(library, "cudnnCreate of cuDNN ends with STATUS_1001")


def test_a_refusal_of_one_convolution_leaves_it_to_its_kernel() -> None:
    text = """readonly entry f[B](x: f32[B, 4, 4, 2], w: f32[3, 3, 2, 3], dy: f32[B, 4, 4, 3])
      -> (y: f32[B, 4, 4, 3], dw: f32[3, 3, 2, 3]) {
        let y = conv2d(x, w, pad = 1)
        return y, grad(sum(y * dy), w) }"""
    feeds = [numbers(one, 2) for one in ("B, 4, 4, 2", "3, 3, 2, 3", "B, 4, 4, 3")]
    for kind, others in (("forward", ["weights"]), ("weights", ["forward"]), ("", ["forward", "weights"])):
        library = SimulatedCudnn()
        library.refused_kind = kind
        device_run = SimulatedRun(program_of(text), {}, with_convolutions(library))
        found = device_run.call("f", feeds, {"B": 2})
        for one, other in zip(found, wanted(text, feeds, {"B": 2}), strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)
        assert sorted(library.ran) == others
        assert device_run.device.counts.kernels == bool(kind)


ADDRESSED = """readonly entry f[B](x: f32[B, 4, 4, 2], w: f32[3, 3, 2, 4]) -> (y: f32[B, 4, 4, 4]) {
  return conv2d(x, w, pad = 1) }"""


def test_other_addresses_change_the_node_alone() -> None:
    library = SimulatedCudnn()
    there = Arrays(SimulatedRun(program_of(ADDRESSED), {}, with_convolutions(library)))
    for size in (1, 2):
        x, w = numbers("B, 4, 4, 2", 2) * size, numbers("3, 3, 2, 4", 2)
        target = there.memory.allocate(2 * 4 * 4 * 4 * 4)
        there.call(there.put(x, 16) | DEVICE_BIT, there.put(w) | DEVICE_BIT, target | DEVICE_BIT, 2)
        found = there.get(target, 128).reshape(2, 4, 4, 4)
        np.testing.assert_allclose(found, wanted(ADDRESSED, [x, w], {"B": 2})[0], **CLOSE)
    assert library.ran == ["forward"] * 2 and library.device.counts.graphs == 1


def test_an_empty_batch_is_not_asked_for() -> None:
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(ADDRESSED), {}, with_convolutions(library))
    (found,) = device_run.call("f", [np.zeros((0, 4, 4, 2), np.float32), numbers("3, 3, 2, 4", 2)], {"B": 0})
    assert found.shape == (0, 4, 4, 4) and not library.asked


GUARDED = """
var kept: f32[2, 4, 4, 3] = 0
entry f(ids: i32[2], x: f32[6, 4, 4, 2], w: f32[3, 3, 2, 3]) -> (y: f32) {
  let made = conv2d(x[ids], w, pad = 1)
  kept := made
  return sum(made)
}"""


def test_what_is_seen_after_a_fault_is_left_to_kernels() -> None:
    library = SimulatedCudnn()
    state = {"kept": np.zeros((2, 4, 4, 3), np.float32)}
    device_run = SimulatedRun(program_of(GUARDED), state, with_convolutions(library))
    x, w = numbers("6, 4, 4, 2", 2), numbers("3, 3, 2, 3", 2)
    device_run.call("f", [np.array([1, 5], np.int32), x, w])
    kept = np.array(device_run.state["kept"])
    assert kept.any()
    code, _ = device_run.attempt("f", [np.array([1, 6], np.int32), 2 * x, w])
    assert code == 1
    np.testing.assert_array_equal(device_run.state["kept"], kept)


def test_handles_are_given_back() -> None:
    library = SimulatedCudnn()
    device_run = trained(with_convolutions(library), 1)
    assert library.open
    device_run.driver.close()
    assert not library.open


def test_the_library_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimulatedCudnn()
    monkeypatch.setattr(cudnn_backend, "find_library", lambda: found)
    monkeypatch.delenv("DFC_CUDNN", raising=False)
    assert cudnn_backend.offered() is found
    monkeypatch.setenv("DFC_CUDNN", "0")
    assert cudnn_backend.offered() is None


def test_a_library_that_lacks_another_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device(SimulatedDevice):
        @property
        def convolution_library(self) -> Any:
            raise LibraryError("cuDNN is installed, but not libcublasLt.so.13, which it needs")

        @convolution_library.setter
        def convolution_library(self, _: Any) -> None: ...

    device_run = trained(Device())
    (who,) = device_run.driver.convolutions.values()
    assert "libcublasLt.so.13" in who


def test_f32_may_be_rounded_only_where_it_was_asked_for() -> None:
    found: list[bool] = []
    for tf32 in (False, True):
        with mock.patch.object(simulated_programs, "SIMULATED", replace(SIMULATED, tf32=tf32)):
            found += [one.is_rounding for one in planned(SimulatedRun(program_of(ADDRESSED)))]
    assert found == [False, True]


def test_what_windows_leave_out_at_the_start_is_not_looked_at() -> None:
    text = """readonly entry f[B](x: f32[B, 7, 6, 2], w: f32[3, 3, 2, 3]) -> (y: f32[B, 3, 2, 3]) {
      return conv2d(x[:, 2:, 1:], w, stride = [1, 2]) }"""
    feeds = [numbers(one, 2) for one in ("B, 7, 6, 2", "3, 3, 2, 3")]
    library = SimulatedCudnn()
    device_run = SimulatedRun(program_of(text), {}, with_convolutions(library))
    (found,) = device_run.call("f", feeds, {"B": 2})
    np.testing.assert_allclose(found, wanted(text, feeds, {"B": 2})[0], **CLOSE)
    assert (library.ran, device_run.device.counts.kernels) == (["forward"], 0)


@pytest.mark.parametrize("seed", few(range(0, 40, 4), 5))
def test_random_programs_mean_the_same(seed: int) -> None:
    text, feeds = random_program(seed)
    device_run = SimulatedRun(program_of(text), {}, with_convolutions(SimulatedCudnn()))
    for one, other in zip(device_run.call("f", feeds), wanted(text, feeds, {}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("forward", (8, 3, 1, 1, 1, 8), (1, 1, 8, 0)),
        ("forward", (8, 3, 2, 1, 0, 4), (0, 1, 8, 0)),
        ("forward", (9, 2, 3, 1, 0, 3), (0, 0, 9, 0)),
        ("forward", (9, 2, 2, 1, -1, 4), (0, 0, 8, 1)),
        ("forward", (9, 3, 1, 1, 1, 4), (1, 0, 5, 0)),
        ("data", (8, 3, 2, 1, 0, 4), (0, 1, 8, 0)),
        ("data", (9, 2, 3, 1, 0, 3), (0, 0, 9, 0)),
        ("weights", (7, 2, 1, 3, 1, 6), (1, 1, 7, 0)),
    ],
)
def test_zeros_are_as_many_as_windows_need(kind: str, given: tuple[int, ...], expected: tuple[int, ...]) -> None:
    found = zeros_around(kind, *given)
    assert (found.low, found.high, found.size, found.start) == expected


@pytest.mark.parametrize("given", [(9, 3, 1, 1, 1, 4), (9, 2, 2, 1, -1, 4)])
def test_a_gradient_of_an_image_that_windows_leave_out_is_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="image"):
        zeros_around("data", *given)


def test_axes_of_one_element_lie_between_the_others() -> None:
    assert packed((1, 4, 6, 5), (1, 1, 20, 4)) == (120, 1, 20, 4)
    assert packed((2, 4, 1, 5), (20, 1, 1, 4)) == (20, 1, 20, 4)
    assert packed((6, 4, 1, 1), (1, 6, 1, 1)) == (1, 6, 24, 24)
    assert packed((2, 4, 6, 5), (120, 30, 5, 1)) == (120, 30, 5, 1)


@pytest.mark.parametrize("name", few(["convnet", "02_convnet_batchnorm"], 1))
def test_training_steps_of_samples_give_what_they_give_on_the_processor(name: str) -> None:
    """Two convolutions forward, the gradients of their weights and of the second one's image; two more to evaluate."""
    sample, library = SMALLER[name], SimulatedCudnn()
    expected = on_processor(sample)
    options = replace(sample.options, target="cuda", target_options=TargetOptions((SIMULATOR,)))
    data = compile_source(sample.source, options).to_bytes()
    with (
        simulated_devices(),
        mock.patch.object(libcuda, "open_device", lambda number: with_convolutions(library)),
    ):
        found = observed(sample, dfc_runtime.loads(data))
    pairs = [*zip(found.results, expected.results, strict=True)]
    pairs += [(found.state[each], value) for each, value in expected.state.items()]
    for one, other in pairs:
        largest = float(np.max(np.abs(other.astype(np.float64)), initial=0.1))
        np.testing.assert_allclose(one, other, rtol=0, atol=sample.near * largest)
    assert sorted(library.ran) == ["data", *["forward"] * 4, "weights", "weights"]
