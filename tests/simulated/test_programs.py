"""Whole programs through the runtime: the graphs of the run half, with kernels in the threads of numba's simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_target_cuda.target import SIMULATOR
from tests.simulated.numba_lanes import in_numba
from tests.support.simulated_runtime import native, simulated, simulated_devices

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits.dfg"


def test_a_training_step() -> None:
    """The same bits as with lanes in turn, and the same numbers as the processor's."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((3, 64)).astype(np.float32), rng.integers(0, 10, 3).astype(np.int32)
    data = dfc.compile(DIGITS, target="cuda", variants=[SIMULATOR], settings={"HIDDEN": 2}).to_bytes()
    state: list[dict[str, np.ndarray]] = []
    for options in ({}, {"launch": in_numba}):
        with simulated_devices(**options):
            model = dfc.loads(data)
            model.train(images, labels, 0.1)
            state.append({name: np.asarray(model.state[name]) for name in model.state})
    beside = dfc.loads(dfc.compile(DIGITS, settings={"HIDDEN": 2}).to_bytes(), threads=1)
    beside.train(images, labels, 0.1)
    for name, value in state[0].items():
        assert value.tobytes() == state[1][name].tobytes(), name
        # one step, of sums of at most 64 products that are added in another order
        np.testing.assert_allclose(value, beside.state[name], rtol=1e-5, atol=1e-6)


CONTROL = """
var seen: i64 = 0
entry f[B](x: f32[B, 3], n: i32, flag: bool) -> (y: f32[3], k: i32) {
  let h, k = loop h: f32[3] = zeros(f32[3]), k: i32 = 0 while k < n {
    h = loop g: f32[3] = h for row in x {
      g = if flag { yield g * 0.5 + row } else { yield g - row }
    }
    seen += 1
    k = k + 1
  }
  return h, k
}"""


@pytest.mark.parametrize("conditional_nodes", [True, False])
def test_nested_control_flow_and_no_iterations(conditional_nodes: bool) -> None:
    with simulated_devices(launch=in_numba, conditional_nodes=conditional_nodes):
        model, beside = simulated(CONTROL), native(CONTROL)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for rows, n, flag in ((x, 2, True), (x, 1, False), (x, 0, True), (x[:0], 2, True)):
            for a, b in zip(model.f(rows, n, flag), beside.f(rows, n, flag), strict=True):
                np.testing.assert_array_equal(a, b)
        assert model.state["seen"] == beside.state["seen"] == 5
