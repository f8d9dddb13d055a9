"""Drivers on a simulated device: what they refuse, what they give back, and state that two of them share."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tests.support.device_training import TRAIN, batch, bits, trainer
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import interpreted, open_driver, program_of


def test_a_bundle_whose_parts_do_not_belong_together_is_refused() -> None:
    lowered = interpreted(program_of(TRAIN))
    with pytest.raises(ValueError, match="unknown state"):
        open_driver(lowered, SimulatedDevice(), {})
    lowered.notes["plan"]["kernels"][0]["name"] = "other"
    with pytest.raises(ValueError, match="lacks the kernel other"):
        open_driver(lowered, SimulatedDevice(), {"w": np.ones((4, 3), np.float32), "steps": np.zeros(1, np.int64)})


def test_closing_gives_all_memory_back() -> None:
    run = trainer()
    x, y = batch(3)
    run.call("train", [x, y, np.float32(0.1)], {"B": 3})
    kept = run.driver.memory.allocate(64)
    run.driver.close()
    run.driver.close()
    assert not run.device.closed, "an array of a caller is still there"
    run.driver.memory.free(kept)
    assert run.device.closed and run.device.memory_of.used == 0 and not run.device.pinned


def test_a_driver_that_nobody_has_gives_its_memory_back() -> None:
    run = trainer()
    x, y = batch(3)
    run.call("train", [x, y, np.float32(0.1)], {"B": 3})
    device = run.device
    del run
    gc.collect()
    assert device.closed and device.memory_of.used == 0


def test_a_driver_beside_another_works_on_its_state() -> None:
    run = trainer()
    lowered = interpreted(program_of(TRAIN))
    second = open_driver(lowered, run.device, run.state, state_owner=run.driver)
    x, y = batch(2)
    slots = np.array([x.ctypes.data, y.ctypes.data, bits(0.1), 0, 2, 0], np.uint64)
    assert second.entry(0).call(slots.ctypes.data) == 0
    run.call("train", [x, y, np.float32(0.1)], {"B": 2})
    assert run.state["steps"] == 2
    run.driver.close()
    assert run.device.closed and run.device.memory_of.used == 0, "with all that works on its state"
    second.close()
