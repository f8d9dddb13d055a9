"""Programs on a simulated GPU through the whole of the runtime: what a caller sees is what the processor gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime.calls.device_arrays import DeviceArray
from dfc_runtime.errors import BundleError, RunError
from dfc_target_cuda.target import SIMULATOR
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_runtime import simulated, simulated_devices

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 3], rate: f32) -> (loss: f32) {
  let loss = mean(square(x @ w - y))
  w -= rate * grad(loss, w)
  seen += B
  return loss
}

readonly entry scores[B](x: f32[B, 4]) -> (s: f32[B, 3], best: i32[B]) {
  let s = x @ w
  return s, argmax(s, axis = 1)
}

readonly entry pick(table: f32[3], id: i64) -> f32 {
  return table[id]
}

entry save(path: string) {
  checkpoint.save(path, program)
}

entry restore(path: string) {
  checkpoint.restore(path, program)
}
"""
DOUBLE = "dfg 1\n\nreadonly entry double(x: f32[3]) -> f32[3] {\n  return 2 * x\n}\n"
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(5, 4)).astype(np.float32)
Y = RANDOM.normal(size=(5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[list[SimulatedDevice]]:
    """What is opened, in its order."""
    with simulated_devices() as (opened,):
        yield opened


def gpu_bundle(text: str, **options: object) -> bytes:
    return dfc.compile(text=text, target="cuda", variants=[SIMULATOR], **options).to_bytes()


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return gpu_bundle(PROGRAM)


@pytest.fixture
def model(bundle: bytes) -> dfc_runtime.Module:
    return dfc_runtime.loads(bundle)


def on_cpu() -> dfc_runtime.Module:
    return dfc.loads(dfc.compile(text=PROGRAM).to_bytes())


def test_training_goes_as_on_the_processor(model: dfc_runtime.Module) -> None:
    other = on_cpu()
    np.testing.assert_array_equal(model.state["w"], other.state["w"])  # initialised by the same random numbers
    for _ in range(3):
        np.testing.assert_allclose(model.train(X, Y, 0.1).loss, other.train(X, Y, 0.1).loss, rtol=1e-5)
    np.testing.assert_allclose(model.state["w"], other.state["w"], rtol=1e-4, atol=1e-6)
    assert model.state["seen"] == 15


def test_a_fault_names_the_line(model: dfc_runtime.Module) -> None:
    with pytest.raises(RunError, match="index 3 is out of range for axis of size 3"):
        model.pick(np.ones(3, "f4"), 3)
    assert model.pick(np.ones(3, "f4"), 2) == 1


def test_checkpoints_of_one_target_are_read_by_the_other(model: dfc_runtime.Module, tmp_path: Path) -> None:
    model.train(X, Y, 0.1)
    dfc_runtime.Module.save(model, tmp_path / "gpu")
    model.entries["save"](str(tmp_path / "entry"))
    other = on_cpu()
    for folder in ("gpu", "entry"):
        dfc_runtime.Module.restore(other, tmp_path / folder)
        np.testing.assert_array_equal(other.state["w"], model.state["w"])
    kept = model.state["w"]
    model.train(X, Y, 0.1)
    model.entries["restore"](str(tmp_path / "entry"))
    np.testing.assert_array_equal(model.state["w"], kept)
    assert model.train(X, Y, 0.1).loss > 0


def test_results_that_stay_are_fed_again(bundle: bytes) -> None:
    model = dfc_runtime.loads(bundle, results="device")
    s, best = model.scores(X)
    assert isinstance(s, DeviceArray)
    expected = on_cpu().scores(X)
    np.testing.assert_allclose(s.to_host(), expected.s, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(best.to_host(), expected.best)
    first = model.train(X, s, 0.1).loss  # what it says itself: nothing to learn
    assert first == pytest.approx(0, abs=1e-6)


def test_a_part_works_on_the_state_of_the_module(model: dfc_runtime.Module) -> None:
    model.train(X, Y, 0.1)
    s = model.run("scores/s", {"scores/x": X})
    np.testing.assert_array_equal(s, model.scores(X).s)


def test_a_closed_program_has_given_its_memory_back(model: dfc_runtime.Module, gpu: list[SimulatedDevice]) -> None:
    model.train(X, Y, 0.1)
    last = model.state["w"]
    model.close()
    np.testing.assert_array_equal(model.state["w"], last)
    device = gpu[-1]
    assert device.closed and device.memory_of.used == 0


def test_values_that_are_not_finite_are_found(tmp_path: Path) -> None:
    text = "dfg 1\n\nvar s: f32 = 1\n\nentry f(x: f32[3]) -> (y: f32[3]) {\n  s := s * 2\n  return log(x)\n}\n"
    model = dfc_runtime.loads(gpu_bundle(text, check_finite=True))
    model.f(np.ones(3, "f4"))
    with pytest.raises(RunError) as caught:
        model.f(np.array([1, -1, 1], "f4"))
    assert caught.value.code == "E0910"
    assert model.state["s"] == 2  # as before the call


def test_feeds_on_the_device_are_explained_when_they_are_not_finite() -> None:
    text = "dfg 1\n\nentry f(x: f32[3]) -> (y: f32[3]) {\n  return log(x)\n}\n"
    model = dfc_runtime.loads(gpu_bundle(text, check_finite=True), results="device")
    zeros = model.f(np.ones(3, "f4")).y
    with pytest.raises(RunError) as there:
        model.f(zeros)
    other = dfc.loads(dfc.compile(text=text, check_finite=True).to_bytes())
    other.f(np.ones(3, "f4"))
    with pytest.raises(RunError) as here:
        other.f(np.zeros(3, "f4"))
    assert there.value.message == here.value.message and "`f/y`[0] is -inf" in here.value.message


def test_lines_for_debugging_come_from_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    model = simulated('entry f(x: f32[3]) {\n  debug.print("y = {}", x * 2)\n}\n')
    model.f(np.ones(3, "f4"))
    assert "y = [2. 2. 2.]" in capsys.readouterr().err


def test_a_bundle_without_code_for_the_device_is_refused() -> None:
    made = dfc.compile(text=DOUBLE, target="cuda", variants=["sm_120"]).to_bytes()
    with pytest.raises(BundleError) as caught:
        dfc_runtime.loads(made)
    assert caught.value.code == "E0924"
    assert "code for sm_120, compute_120, and this GPU is sm_90: compile it with --arch sm_90" in caught.value.message
