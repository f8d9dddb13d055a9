"""Random programs with each feed and result where chance puts it: on the host, on the device, there unaligned."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.transforms.expand import expand
from dfc_runtime.graphs.memory_layout import DEVICE_BIT
from tests.support.lowering import close
from tests.support.random_programs import Generator
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun
from tests.support.sweeping import few


class Placed:
    """Calls of the first entry with tensors in places of their own each time."""

    def __init__(self, run: SimulatedRun, batch: int, seed: int) -> None:
        self.run, self.chance = run, random.Random(seed)
        self.entry = run.program.entries[0]
        self.dims = dict.fromkeys(self.entry.dims, batch)

    def _address(self, array: np.ndarray) -> int:
        """Of memory on the device for it, or 0: it stays on the host."""
        if not array.shape or not array.nbytes or self.chance.random() < 0.3:
            return 0
        return self.run.driver.memory.allocate(array.nbytes + 16) + self.chance.choice((0, 8))

    def _word(self, array: np.ndarray, address: int) -> int:
        if address:
            return address | DEVICE_BIT
        return array.ctypes.data if array.shape else int.from_bytes(array.tobytes(), "little")

    def call(self, feeds: list[np.ndarray]) -> list[np.ndarray]:
        buffers = [self.entry.buffers[number] for number in self.entry.results]
        shapes = [tuple(d.evaluate(self.dims) for d in buffer.shape) for buffer in buffers]
        results = [np.zeros(shape, b.dtype.numpy) for shape, b in zip(shapes, buffers, strict=True)]
        places = [self._address(array) for array in (*feeds, *results)]
        for array, address in zip(feeds, places, strict=False):
            if address:
                with self.run.device.current():
                    self.run.device.copy_in(address, array.ctypes.data, array.nbytes)
        words = [self._word(array, place) for array, place in zip((*feeds, *results), places, strict=True)]
        slots = np.array([*words, *self.dims.values(), 0], np.uint64)
        assert self.run.driver.entry(0).call(slots.ctypes.data) == 0
        for number, (array, address) in enumerate(zip(results, places[len(feeds) :], strict=True), len(feeds)):
            if address:
                self.run.driver.memory.copy_out(address, array)
            elif not array.shape:
                array[...] = slots[number : number + 1].view(np.uint8)[: array.itemsize].view(array.dtype)[0]
        return results


def check(seed: int, *, conditional_nodes: bool) -> None:
    case = Generator(seed, 20).program()
    (name,) = case.graph.entries
    feeds: Mapping[str, Any] = {key: np.array(value, order="C") for key, value in case.feeds.items()}
    device = SimulatedDevice(conditional_nodes=conditional_nodes)
    run = SimulatedRun(lower_graph(expand(case.graph)), case.state, device)
    placed, state = Placed(run, case.batch, seed), dict(case.state)
    for _ in range(3):
        with np.errstate(all="ignore"):
            expected = evaluate(case.graph, name, feeds, state)
        close(placed.call([feeds[key] for key in case.graph.entries[name].parameter_names]), expected.results)
        state = {key: np.array(value) for key, value in expected.state.items()}
    run.driver.memory.pull(list(run.state))
    for key, value in state.items():
        close([run.state[key]], [value])


@pytest.mark.parametrize("seed", few(range(20), 10))
def test_tensors_anywhere_mean_the_same(seed: int) -> None:
    check(seed, conditional_nodes=True)


@pytest.mark.parametrize("seed", few(range(20, 30), 5))
def test_tensors_anywhere_mean_the_same_where_the_host_runs_loops(seed: int) -> None:
    check(seed, conditional_nodes=False)
