"""The simulated device sees what a real one would punish, or leave open: so tests on it mean something."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dfc_runtime.graphs.device import FROM_DEVICE, ON_DEVICE, TO_DEVICE
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_memory import DeviceError

KERNELS = """# kernel one: f32 f32; 0 sizes
def one(a, b, error):
    b[thread()] = f32(a[thread()] + f32(1.0))
# kernel wide: f32; 0 sizes
def wide(a, error):
    store4_f32(a, 0, f32(1.0), f32(2.0), f32(3.0), f32(4.0))
"""


@pytest.fixture
def device() -> Iterator[SimulatedDevice]:
    made = SimulatedDevice()
    with made.current():
        yield made


class Nodes:
    """Kernels of the text over buffers of 4 numbers; the first buffer is written."""

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device
        self.one, self.wide = device.load(KERNELS.encode(), ["one", "wide"])
        self.graph = device.graph()
        self.buffers = [device.allocate(16) for _ in range(3)]
        self.error = device.allocate(32)
        for address, size in ((self.buffers[0], 16), (self.error, 32)):
            device.copy_in(address, np.zeros(size, np.uint8).ctypes.data, size)

    def add(self, source: int, target: int, *after: object) -> object:
        arguments = [self.buffers[source], self.buffers[target], self.error]
        return self.graph.kernel(self.one, 1, 4, arguments, after)

    def run(self) -> None:
        self.graph.instantiate().launch()
        self.device.synchronise()

    def value(self, buffer: int) -> float:
        found = np.zeros(4, np.float32)
        self.device.copy_out(found.ctypes.data, self.buffers[buffer], 16)
        return float(found[0])


def refused(run: Callable[[], object], match: str) -> None:
    with pytest.raises(DeviceError, match=match):
        run()


def test_nodes_run_after_those_they_come_after(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    first = nodes.add(0, 1)
    second = nodes.add(1, 2, first)
    nodes.add(2, 0, second)
    nodes.run()
    assert [nodes.value(number) for number in range(3)] == [3, 1, 2]


def test_nodes_without_an_edge_that_share_bytes_are_a_race(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    nodes.add(0, 1)
    nodes.add(0, 1)
    refused(nodes.run, "race")


def test_readers_are_no_race(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    nodes.add(0, 1)
    nodes.add(0, 2)
    nodes.run()
    assert nodes.value(1) == nodes.value(2) == 1


def test_memory_that_nobody_wrote_is_not_read(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    nodes.add(1, 2)
    refused(nodes.run, "nobody has written")


def test_copies_carry_on_what_was_never_written(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    copied = nodes.graph.copy(ON_DEVICE, nodes.buffers[2], nodes.buffers[1], 16, [])
    nodes.add(2, 0, copied)
    refused(nodes.run, "nobody has written")


def test_freed_memory_is_gone(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    nodes.add(0, 1)
    device.free(nodes.buffers[1])
    refused(nodes.run, "outside")
    refused(lambda: device.free(nodes.buffers[1]), "nothing was allocated")


def test_accesses_outside_are_seen(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    nodes.graph.kernel(nodes.one, 1, 5, [*nodes.buffers[:2], nodes.error], [])
    refused(nodes.run, "is outside")


def test_wide_accesses_are_aligned(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    block = device.allocate(64)
    nodes.graph.kernel(nodes.wide, 1, 1, [block + 16, nodes.error], [])
    nodes.run()
    nodes.graph.kernel(nodes.wide, 1, 1, [block + 8, nodes.error], [nodes.graph.nodes[0]])
    refused(nodes.run, "an access of 16 bytes")


@pytest.mark.parametrize(("blocks", "threads"), [(0, 4), (1, 0), (1, 2048), (1 << 31, 4)])
def test_launches_have_blocks_and_threads(device: SimulatedDevice, blocks: int, threads: int) -> None:
    nodes = Nodes(device)
    refused(lambda: nodes.graph.kernel(nodes.one, blocks, threads, [], []), "a launch of")


def test_launches_wait_until_somebody_does(device: SimulatedDevice) -> None:
    """Memory of the host that changes too early shows."""
    pinned = device.allocate_pinned(16)
    target = device.allocate(16)
    graph = device.graph()
    graph.copy(TO_DEVICE, target, pinned, 16, [])
    graph.instantiate().launch()
    ctypes.memset(pinned, 7, 16)
    device.synchronise()
    assert device.memory_of.read(target, 16) == bytes([7] * 16)


def test_graphs_copy_from_and_to_pinned_memory_alone(device: SimulatedDevice) -> None:
    usual = np.zeros(16, np.uint8)
    target = device.allocate(16)
    for direction, ends in ((TO_DEVICE, (target, usual.ctypes.data)), (FROM_DEVICE, (usual.ctypes.data, target))):
        graph = device.graph()
        graph.copy(direction, *ends, 16, [])
        graph.instantiate().launch()
        refused(device.synchronise, "no pinned memory")


def test_nodes_inside_of_conditional_ones_do_not_change(device: SimulatedDevice) -> None:
    nodes = Nodes(device)
    _, body = nodes.graph.conditional(nodes.graph.handle(), [], loop=False)
    inner = body.kernel(nodes.one, 1, 4, [], [])
    refused(lambda: nodes.graph.instantiate().set_arguments(inner, []), "inside of a conditional")


def test_the_device_must_be_the_current_one(device: SimulatedDevice) -> None:
    other = SimulatedDevice()
    refused(lambda: other.allocate(4), "not the current one")
