"""Programs for a GPU without a deployment file, of which an op has no kernel there: the processors do the rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_runtime.calls.device_arrays import DeviceArray
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.driver import ON_DEVICE
from dfc_runtime.errors import CheckpointError, DfcError, FeedError, RunError
from dfc_target_cuda.target import SIMULATOR, CudaTarget
from tests.support.cuda_simulator import simulation
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_runtime import simulated_devices

PROGRAM = """dfg 1

param w: f32[8] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry step[B](x: f32[B, 8], pick: i64) -> (y: f32[B], top: f32) {
  let order = exp(x * w)
  let y = sum(order * order, axis = 1)
  w += 0.25 * mean(order, axis = 0)
  seen += B
  return y, y[pick]
}

readonly entry scaled[B](x: f32[B, 8]) -> (y: f32[B, 8]) {
  return x * w
}

entry keep(path: string) {
  checkpoint.save(path, program)
}

entry again(path: string) {
  checkpoint.restore(path, program)
}
"""
X = np.random.default_rng(3).normal(size=(3, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[SimulatedDevice]]]:
    monkeypatch.setattr(CudaTarget, "lacks", {"exp": "for a test"}, raising=False)
    lock = threading.Lock()

    def alone(*launch: Any) -> None:
        with lock:
            simulation.simulate(*launch)

    with simulated_devices(2, launch=alone) as opened:
        yield opened


def on_gpu(text: str = PROGRAM, **options: Any) -> Any:
    return dfc.loads(dfc.compile(text=text, target="cuda", variants=[SIMULATOR]).to_bytes(), **options)


def native() -> Any:
    return dfc.loads(dfc.compile(text=PROGRAM).to_bytes(), threads=1)


def test_it_computes_what_the_processor_computes(devices: list[list[SimulatedDevice]]) -> None:
    model, beside = on_gpu(), native()
    assert model.manifest.driver == "mixed"
    for pick in (0, 2, 1):
        found, wanted = model.step(X, pick), beside.step(X, pick)
        np.testing.assert_allclose(found.y, wanted.y, rtol=1e-5)
        np.testing.assert_allclose(found.top, wanted.top, rtol=1e-5)
    np.testing.assert_allclose(model.state["w"], beside.state["w"], rtol=1e-5)
    assert model.state["seen"] == 9 and [len(opened) for opened in devices] == [1, 0]
    assert devices[0][0].counts.kernels > 0


def test_one_of_which_all_has_a_kernel_is_on_the_gpu_alone() -> None:
    model = on_gpu(PROGRAM.replace("exp(x * w)", "tanh(x * w)"))
    assert model.manifest.driver == "cuda"


def test_the_device_may_be_another_one(devices: list[list[SimulatedDevice]]) -> None:
    on_gpu(device=1).step(X, 0)
    assert [len(opened) for opened in devices] == [0, 1]


def test_a_fault_has_its_line_and_the_program_goes_on() -> None:
    model = on_gpu()
    with pytest.raises(RunError, match="index 3") as problem:
        model.step(X, 3)
    assert problem.value.line == 11
    assert model.step(X, 1).y.shape == (3,)


def test_it_saves_and_restores_by_entries_of_its_own(tmp_path: Path) -> None:
    model, other = on_gpu(), native()
    model.step(X, 0)
    model.keep(str(tmp_path / "here"))
    other.restore(tmp_path / "here")
    np.testing.assert_array_equal(other.state["w"], model.state["w"])
    other.state["w"] = np.arange(8, dtype=np.float32)
    other.keep(str(tmp_path / "there"))
    model.again(str(tmp_path / "there"))
    np.testing.assert_array_equal(model.scaled(X).y, X * np.arange(8, dtype=np.float32))
    with pytest.raises(CheckpointError):
        model.again(str(tmp_path / "nowhere"))


def test_parts_of_it_run_on_its_state() -> None:
    model, beside = on_gpu(), native()
    model.step(X, 0)
    beside.step(X, 0)
    found = model.run("step/order", {"x": X})
    np.testing.assert_allclose(found, beside.run("step/order", {"x": X}), rtol=1e-5)
    np.testing.assert_allclose(model.run("step/y", {"step/order": found}), (found**2).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("text", [PROGRAM, PROGRAM.replace("exp(x * w", "exp(x")])
def test_arrays_of_its_gpu_are_taken_wherever_they_are_needed(text: str, devices: list[list[SimulatedDevice]]) -> None:
    """In the second program the processors are the first to need it."""
    model, beside = on_gpu(text), dfc.loads(dfc.compile(text=text).to_bytes(), threads=1)
    there = DeviceArray(model.state._memory, X.shape, X.dtype)
    devices[0][0].memory_of.write(there.slot & ~ON_DEVICE, X.tobytes())
    np.testing.assert_allclose(model.scaled(there).y, beside.scaled(X).y, rtol=1e-6)
    np.testing.assert_allclose(model.step(there, 1).y, beside.step(X, 1).y, rtol=1e-5)


def test_results_cannot_be_left_on_a_device() -> None:
    with pytest.raises(FeedError, match="several devices"):
        on_gpu(results="device")


def test_checks_of_finite_values_are_made_on_both() -> None:
    model = on_gpu(check_finite=True)
    bad = X.copy()
    bad[1, 2] = np.nan
    with pytest.raises(DfcError) as problem:
        model.step(bad, 0)
    assert problem.value.code == "E0910"


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError])
def test_what_a_handler_raises_ends_the_call_on_all_devices(problem: type[BaseException]) -> None:
    """The GPU waits for a value from the processors, which comes after what is printed there."""
    text = """dfg 1

var b: f32[4] = 1

entry f(x: f32) -> (y: f32) {
  debug.print("{}", x)
  let more = sum(exp(b * 0.0) * x)
  b += more
  return more
}
"""
    told: list[float] = []

    def tell(request: HostRequest) -> None:
        told.append(float(request.inputs[0].item()))
        if told[-1] == 2.0:
            raise problem("enough")

    model = on_gpu(text, handlers={"debug_print": tell})
    assert model.f(1.0).y == 4.0
    with pytest.raises(problem, match="enough"):
        model.f(2.0)
    np.testing.assert_array_equal(model.state["b"], np.full(4, 5.0))
    assert model.f(3.0).y == 12.0 and told == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(model.state["b"], np.full(4, 17.0))


def test_a_trace_has_the_kernels_of_each_device_in_a_row_of_its_own(tmp_path: Path) -> None:
    options = CompileOptions(target="cuda", timed=True, target_options=TargetOptions((SIMULATOR,)))
    data = compile_source(SourceFile("model.dfg", PROGRAM), options).to_bytes()
    model = dfc.loads(data, trace=tmp_path / "trace.json")
    plain = on_gpu()
    np.testing.assert_array_equal(model.step(X, 0).y, plain.step(X, 0).y)
    model.close()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {each["name"]: each["tid"] for each in events if each.get("cat") == "kernel" and "step" in each["name"]}
    assert rows.pop("step/order") not in rows.values() and len(set(rows.values())) == 1, rows


def test_a_closed_program_keeps_its_state_and_gives_memory_back(devices: list[list[SimulatedDevice]]) -> None:
    model = on_gpu()
    model.step(X, 0)
    before = np.array(model.state["w"])
    model.close()
    np.testing.assert_array_equal(model.state["w"], before)
    assert devices[0][0].closed and devices[0][0].memory_of.used == 0
