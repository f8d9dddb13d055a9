"""A device that executes graphs in NumPy: what the run half asks for, done as late and in as odd an order as allowed.

Launches wait until somebody synchronises, so that memory of the host which changes too early shows. Nodes without an
edge between them run in the opposite of the order in which they were added, and if two of them touch the same byte and
one writes, that is an error. See `simulated_memory` for what else is one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dfc_runtime import devices
from dfc_runtime.graphs.device import FROM_DEVICE, ON_DEVICE, TO_DEVICE, NotTaken
from tests.support.cuda_simulator import simulation
from tests.support.simulated_kernels import (
    INTERPRETED,
    Launcher,
    Run,
    control_kernels,
    interpreted_kernels,
    text_kernels,
)
from tests.support.simulated_memory import DeviceError, DeviceMemory, Watch, overlap

RECORDER = 99
"""The stream on which work is recorded."""

_ENTRY = b".visible .entry "


@dataclass
class Counts:
    """What a device was asked to do."""

    launches: int = 0
    graphs: int = 0
    kernels: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copies_in: int = 0
    copies_out: int = 0
    updates: int = 0
    waits: int = 0

    def clear(self) -> None:
        self.__init__()


@dataclass
class SimulatedNode:
    """A node, and what it comes after."""

    what: str
    after: tuple[SimulatedNode, ...]
    run: Callable[[], None]
    details: list[Any] = field(default_factory=list)
    body: SimulatedGraph | None = None


class SimulatedDevice:
    """Implements `dfc_runtime.graphs.device.Device`."""

    def __init__(
        self,
        *,
        conditional_nodes: bool = True,
        capacity: int = 1 << 28,
        warp: int = 4,
        launch: Launcher = simulation.simulate,
        library: Any = None,
        changes_recorded: bool = True,
        takes_recorded: bool = True,
        takes_inner: bool = True,
        convolutions: Any = None,
    ) -> None:
        """`launch` runs kernel text, block by block. `library` makes products, `convolutions` what it says; nodes of
        what they queued are taken, in conditional nodes too, and can be changed later, or not."""
        self.launch, self.warp, self.stream_handle = launch, warp, 77
        self.conditional_nodes = conditional_nodes
        self.matrix_library, self.convolution_library = library, convolutions
        self.changes_recorded, self.takes_recorded, self.takes_inner = changes_recorded, takes_recorded, takes_inner
        self.recording: list[Callable[[], None]] | None = None
        self.memory_of = DeviceMemory(capacity)
        self.pinned: dict[int, np.ndarray] = {}
        self.counts = Counts()
        self.handles: dict[int, int] = {}
        self.queue: list[SimulatedExecutable] = []
        self.waited: list[int] = []
        self.entered = 0
        self.closed = False

    @contextmanager
    def current(self) -> Iterator[None]:
        self.entered += 1
        try:
            yield
        finally:
            self.entered -= 1

    def _check_current(self) -> None:
        if not self.entered or self.closed:
            raise DeviceError("the device is not the current one, or closed")

    def wait(self, stream: int) -> None:
        self._check_current()
        self.waited.append(stream)

    def allocate(self, size: int) -> int:
        self._check_current()
        if self.memory_of.used + size > self.memory_of.capacity:
            free = self.memory_of.capacity - self.memory_of.used
            raise devices.out_of_memory("the program", size, free, self.memory_of.capacity)
        return self.memory_of.allocate(size)

    def free(self, address: int) -> None:
        self._check_current()
        self.synchronise()
        self.memory_of.free(address)

    def allocate_pinned(self, size: int) -> int:
        self._check_current()
        raw = np.full(size + 64, 0xFF, np.uint8)
        address = raw.ctypes.data + -raw.ctypes.data % 64
        self.pinned[address] = raw
        return address

    def free_pinned(self, address: int) -> None:
        self._check_current()
        self.synchronise()
        del self.pinned[address]

    def check_pinned(self, address: int, size: int) -> None:
        for start, raw in self.pinned.items():
            if start <= address and address + size <= start + raw.size - 64:
                return
        raise DeviceError(f"{size} bytes at {address:#x} are no pinned memory")

    def copy_in(self, target: int, source: int, size: int) -> None:
        self._check_current()
        self.synchronise()
        self.memory_of.write(target, ctypes.string_at(source, size))

    def copy_out(self, target: int, source: int, size: int) -> None:
        self._check_current()
        self.synchronise()
        ctypes.memmove(target, self.memory_of.read(source, size), size)

    def load(self, image: bytes, names: Sequence[str]) -> list[Run]:
        self._check_current()
        functions = self._image(image)
        missing = [name for name in names if name not in functions]
        if missing:
            raise ValueError(f"the code lacks the kernel {missing[0]}")
        return [functions[name] for name in names]

    def _image(self, image: bytes) -> Mapping[str, Run]:
        if image.startswith(b".version"):
            present = {line.split(b"(")[0].decode() for line in image.split(_ENTRY)[1:]}
            return {name: run for name, run in control_kernels(self.handles).items() if name in present}
        if image in INTERPRETED:
            kernels, guarded = INTERPRETED[image]
            return interpreted_kernels(kernels, guarded)
        return text_kernels(image.decode(), self.warp, self.launch)

    def graph(self) -> SimulatedGraph:
        self._check_current()
        return SimulatedGraph(self)

    def queue_on(self, stream: int, work: Callable[[], None]) -> None:
        """What a library queues on a stream that is recorded."""
        if stream != RECORDER or self.recording is None:
            raise DeviceError("a library queues work on a stream that nobody records")
        self.recording.append(work)

    def recorded(self, record: Callable[[int], None]) -> list[Callable[[], None]]:
        """What `record` queues."""
        self._check_current()
        self.recording = []
        try:
            record(RECORDER)
            return self.recording
        finally:
            self.recording = None

    def synchronise(self) -> None:
        """Does what was launched."""
        self._check_current()
        self.counts.waits += 1
        while self.queue:
            self.queue.pop(0).execute()

    def memory(self) -> tuple[int, int]:
        return self.memory_of.capacity - self.memory_of.used, self.memory_of.capacity

    def close(self) -> None:
        self.closed = True


class SimulatedGraph:
    """A graph; its nodes are executed as they were added, or changed since."""

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device
        self.nodes: list[SimulatedNode] = []
        self.handles: list[int] = []

    def _add(self, what: str, after: Sequence[SimulatedNode], run: Callable[[], None], *details: Any) -> SimulatedNode:
        if any(each not in self.nodes for each in after):
            raise DeviceError("a node comes after one of another graph")
        if len(set(map(id, after))) != len(after):
            raise DeviceError("a node comes after another one twice")
        node = SimulatedNode(what, tuple(after), run, list(details))
        self.nodes.append(node)
        return node

    def kernel(
        self, function: Run, blocks: int, threads: int, arguments: Sequence[int], after: Sequence[SimulatedNode]
    ) -> SimulatedNode:
        if not 1 <= blocks < 1 << 31 or not 1 <= threads <= 1024:
            raise DeviceError(f"a launch of {blocks} blocks of {threads} threads")

        def run() -> None:
            self.device.counts.kernels += 1
            function(self.device.memory_of, blocks, threads, node.details[0])

        node = self._add("kernel", after, run, list(arguments))
        return node

    def copy(
        self, direction: str, target: int, source: int, size: int, after: Sequence[SimulatedNode]
    ) -> SimulatedNode:
        if size <= 0:
            raise DeviceError("a copy of nothing")

        def run() -> None:
            self._move(direction, node.details[0], node.details[1], size)

        node = self._add("copy", after, run, target, source, direction, size)
        return node

    def _move(self, direction: str, target: int, source: int, size: int) -> None:
        memory, counts = self.device.memory_of, self.device.counts
        if direction == ON_DEVICE:
            memory.move(target, source, size)
        elif direction == TO_DEVICE:
            self.device.check_pinned(source, size)
            memory.write(target, ctypes.string_at(source, size))
            counts.bytes_in, counts.copies_in = counts.bytes_in + size, counts.copies_in + 1
        else:
            assert direction == FROM_DEVICE
            self.device.check_pinned(target, size)
            ctypes.memmove(target, memory.read(source, size), size)
            counts.bytes_out, counts.copies_out = counts.bytes_out + size, counts.copies_out + 1

    def clear(self, target: int, size: int, after: Sequence[SimulatedNode]) -> SimulatedNode:
        return self._add("clear", after, lambda: self.device.memory_of.write(target, bytes(size)))

    def recorded(self, record: Callable[[int], None], after: Sequence[SimulatedNode]) -> SimulatedNode:
        work = self.device.recorded(record)
        if not self.device.takes_recorded:
            raise NotTaken("this driver takes no recorded work")

        def run() -> None:
            for each in node.details[0]:
                each()

        node = self._add("recorded", after, run, work)
        return node

    def discard(self) -> None:
        self.nodes = []

    def handle(self) -> int:
        if not self.device.conditional_nodes:
            raise DeviceError("the driver knows no conditional nodes")
        handle = (1 << 60) + len(self.device.handles)
        self.device.handles[handle] = 0
        self.handles.append(handle)
        return handle

    def conditional(
        self, handle: int, after: Sequence[SimulatedNode], *, loop: bool
    ) -> tuple[SimulatedNode, SimulatedGraph]:
        if handle not in self.handles:
            raise DeviceError("a conditional node has the handle of another graph")
        body = SimulatedGraph(self.device)

        def run() -> None:
            self.device.memory_of.note_read(handle, 1)
            while self.device.handles[handle]:
                body.execute()
                if not loop:
                    break

        node = self._add("while" if loop else "if", after, run)
        node.body = body
        return node, body

    def instantiate(self) -> SimulatedExecutable:
        if not self.device.takes_inner and self._has_inner(nested=False):
            raise NotTaken("this driver takes no recorded work in conditional nodes")
        self.device.counts.graphs += 1
        return SimulatedExecutable(self)

    def _has_inner(self, *, nested: bool) -> bool:
        """Whether there is recorded work in conditional nodes."""
        mine = nested and any(node.what == "recorded" for node in self.nodes)
        return mine or any(node.body is not None and node.body._has_inner(nested=True) for node in self.nodes)

    def execute(self) -> Watch:
        """Runs all nodes once; what they touched together."""
        for handle in self.handles:
            self.device.handles[handle] = 0
        done: list[tuple[SimulatedNode, Watch]] = []
        waiting = list(self.nodes)
        finished: set[int] = set()
        while waiting:
            node = next(n for n in reversed(waiting) if all(id(each) in finished for each in n.after))
            waiting.remove(node)
            done.append((node, self._watched(node)))
            finished.add(id(node))
        _check_races(done)
        total = Watch()
        for _, watch in done:
            total.add(watch)
        return total

    def _watched(self, node: SimulatedNode) -> Watch:
        memory = self.device.memory_of
        outer, memory.watch = memory.watch, Watch()
        try:
            node.run()
            return memory.watch
        finally:
            accesses, memory.watch = memory.watch, outer
            if outer is not None:
                outer.add(accesses)


class SimulatedExecutable:
    """A graph that can be launched; it remembers how it was launched."""

    def __init__(self, graph: SimulatedGraph) -> None:
        self.graph = graph
        self.closed = False

    def set_arguments(self, node: SimulatedNode, arguments: Sequence[int]) -> None:
        self._update(node)
        node.details[0] = list(arguments)

    def set_copy(self, node: SimulatedNode, target: int, source: int) -> None:
        self._update(node)
        node.details[:2] = target, source

    def set_recorded(self, node: SimulatedNode, record: Callable[[int], None]) -> bool:
        work = self.graph.device.recorded(record)
        if not self.graph.device.changes_recorded:
            return False
        self._update(node)
        node.details[0] = work
        return True

    def _update(self, node: SimulatedNode) -> None:
        if node not in self.graph.nodes:
            raise DeviceError("a node inside of a conditional one is changed")
        self.graph.device.counts.updates += 1

    def launch(self) -> None:
        if self.closed:
            raise DeviceError("a graph is launched after it was closed")
        self.graph.device.counts.launches += 1
        self.graph.device.queue.append(self)

    def execute(self) -> None:
        self.graph.execute()

    def close(self) -> None:
        self.closed = True


def _check_races(done: Sequence[tuple[SimulatedNode, Watch]]) -> None:
    """No two nodes without a path between them touch the same byte if one writes."""
    before: dict[int, set[int]] = {}
    for node, _ in done:
        before[id(node)] = {id(each) for each in node.after}.union(*(before[id(each)] for each in node.after))
    for number, (node, watch) in enumerate(done):
        for other, others in done[:number]:
            if id(other) in before[id(node)] or id(node) in before[id(other)]:
                continue
            for mine, theirs in ((watch.writes, others.reads | others.writes), (watch.reads, others.writes)):
                shared = overlap(mine, theirs)
                if shared is not None:
                    raise DeviceError(f"a race: {other.what} and {node.what} both touch {shared:#x}")
