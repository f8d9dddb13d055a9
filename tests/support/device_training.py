"""A step of training on a simulated device, for tests of what calls and drivers do there."""

from __future__ import annotations

import numpy as np

from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, program_of

TRAIN = """
var w: f32[4, 3] = 0
var steps: i64 = 0
entry train[B](x: f32[B, 4], y: f32[B, 3], rate: f32) -> (loss: f32) {
  let loss = mean(square(x @ w - y))
  w -= rate * grad(loss, w)
  steps += 1
  return loss
}
"""


def trainer(device: SimulatedDevice | None = None) -> SimulatedRun:
    state = {"w": np.ones((4, 3), np.float32), "steps": np.int64(0)}
    return SimulatedRun(program_of(TRAIN), state, device)


def batch(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    return [rng.normal(size=(size, n)).astype(np.float32) for n in (4, 3)]


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))
