"""Calls of one entry: feeds in, one launch for each segment, results out.

Assumes a plan that was read, and that one call runs at a time. Guarantees that graphs are built once for each
combination of sizes (the least recently used are dropped beyond `MOST_SESSIONS` combinations), that an entry without
host work takes one launch and one wait, and that after a fault nothing is written to results.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import BundleError
from dfc_runtime.graphs.arena import Memory
from dfc_runtime.graphs.device import Device
from dfc_runtime.graphs.library_calls import Refused
from dfc_runtime.graphs.memory_layout import (
    COPIED,
    DEVICE_BIT,
    DIRECT,
    HOST,
    SLOT,
    BlockLayout,
    BufferAddresses,
    Region,
    Regions,
    number,
    slot_buffers,
    slot_of,
)
from dfc_runtime.graphs.nodes import Code, NodeMaker
from dfc_runtime.graphs.segment_graphs import SegmentGraph
from dfc_runtime.graphs.sessions import Session
from dfc_runtime.plans.plan import SIGNED, EntryPlan
from dfc_runtime.plans.segments import (
    Action,
    Branch,
    Count,
    Repeat,
    Segment,
    arrange,
    inside_conditions,
)
from dfc_runtime.plans.steps import Check, HostCall, Launch, Measure, Step, walk

MOST_SESSIONS = 32
MOST_GRAPHS = 64
"""Graphs that are kept for one combination of sizes; more than one for each segment where sizes are measured."""

DIRECT_ALIGNMENT = 16
NOWHERE: dict[int, int] = {}
STALE = -1
"""The stamp of no memory."""

NO_SITE = -1
"""What stands for a site when a host call failed."""

Fault = tuple[int, tuple[int, ...]]


@dataclass(slots=True)
class Loaded:
    """A program on its device."""

    device: Device
    memory: Memory
    code: Code
    constants: Region
    state: Mapping[str, Region]
    host: Callable[[int, int], None] | None


class Stopped(Exception):
    """The call ends here, with this fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class EntryRun:
    """One entry of a loaded program."""

    def __init__(self, loaded: Loaded, number_: int) -> None:
        self._loaded = loaded
        self._entry: EntryPlan = loaded.code.plan.entries[number_]
        entry = self._entry
        self._actions = arrange(entry, conditional_nodes=loaded.device.conditional_nodes)
        self._may_fail = any(_can_fail(step, loaded.code) for step in walk(entry.steps))
        self._slots = entry.arguments + entry.results
        self._words = ctypes.c_uint64 * (self._slots + len(entry.dims) + 1 + len(entry.measured))
        self._dims_end = self._slots + len(entry.dims)
        self._all_on_host = (HOST,) * self._slots
        self._tensors = [slot for slot, buffer in slot_buffers(entry).items() if not buffer.scalar]
        inner = inside_conditions(self._actions)
        self._inner = {
            slot_of(entry, entry.buffers[b]) for b in inner if entry.buffers[b].role in ("argument", "result")
        }
        self._sessions: OrderedDict[tuple[tuple[int, ...], tuple[int, ...]], Session] = OrderedDict()
        self.fault: Fault = (NO_SITE, ())

    def call(self, slots: int) -> int:
        """Runs it on the slots at this address: 0 when it is done, 1 after a fault, which `fault` tells."""
        device = self._loaded.device
        with device.current():
            words: list[int] = self._words.from_address(slots)[:]
            modes, addresses = self._modes(words)
            session = self._session(tuple(words[self._slots : self._dims_end]), modes)
            session.feed(slots, words)
            try:
                sizes = self._run(session, addresses)
            except Stopped as stopped:
                device.synchronise()
                self.fault = stopped.fault
                return 1
            except BaseException:
                device.synchronise()  # nothing runs when memory is used for the next call
                raise
            session.answer(slots, words, sizes)
            if self._entry.measured:
                self._report_sizes(slots, sizes)
            return 0

    def _run(self, session: Session, addresses: Mapping[int, int]) -> Mapping[str, int]:
        """All sizes afterwards. The only segment of an entry without host work is launched without more ado."""
        whole = session.whole
        if whole is None or whole.stamp != self._loaded.memory.stamp or not _launched(whole, addresses):
            run = _Run(self._loaded, self, session, addresses)
            run.actions(self._actions)
            return run.sizes
        self._loaded.device.synchronise()
        fault = session.fault()
        if fault is not None:
            raise Stopped(fault)
        return session.sizes

    def forget(self) -> None:
        """Drops all graphs."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _modes(self, words: Sequence[int]) -> tuple[tuple[int, ...], dict[int, int]]:
        """Where the tensors of the caller are, and the addresses of those on the device."""
        for slot in self._tensors:
            if words[slot] & DEVICE_BIT:
                break
        else:
            return self._all_on_host, NOWHERE
        modes = [HOST] * self._slots
        addresses: dict[int, int] = {}
        for slot in self._tensors:
            word = words[slot]
            if word & DEVICE_BIT:
                addresses[slot] = word & ~DEVICE_BIT
                is_direct = addresses[slot] % DIRECT_ALIGNMENT == 0 and slot not in self._inner
                modes[slot] = DIRECT if is_direct else COPIED
        return tuple(modes), addresses

    def _session(self, dims: tuple[int, ...], modes: tuple[int, ...]) -> Session:
        key = dims, modes
        session = self._sessions.get(key)
        if session is not None and session.stamp == self._loaded.memory.stamp:
            self._sessions.move_to_end(key)
            return session
        if session is not None:
            del self._sessions[key]
            session.close()
        if len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)[1].close()
        with _Damaged():
            session = self._sessions[key] = self._new_session(dims, modes)
        return session

    def _new_session(self, dims: tuple[int, ...], modes: tuple[int, ...]) -> Session:
        entry, loaded = self._entry, self._loaded
        sizes = dict(zip(entry.dims, dims, strict=True))
        layout = BlockLayout(entry, sizes, modes)
        arena = number(entry.arena, sizes)
        memory = loaded.memory
        memory.reserve(arena, layout.size, layout.mirrored)
        regions = Regions(
            block=Region(memory.block.address, layout.size),
            pinned=memory.pinned.address,
            arena=Region(memory.arena.address, arena),
            constants=loaded.constants,
            state=loaded.state,
        )
        return Session(BufferAddresses(layout, regions), sizes, memory.stamp)

    def _report_sizes(self, slots: int, sizes: Mapping[str, int]) -> None:
        """Sizes that were found out go to their slots."""
        first = slots + SLOT * (self._slots + len(self._entry.dims) + 1)
        for index, (name, _) in enumerate(self._entry.measured):
            if name in sizes:
                ctypes.c_int64.from_address(first + SLOT * index).value = sizes[name]

    def launch(
        self, session: Session, segment: Segment, sizes: Mapping[str, int], addresses: Mapping[int, int]
    ) -> None:
        """Begins to run a segment. What a library refuses is left to its kernel from then on, so this ends."""
        while True:
            try:
                graph = self._graph(session, segment, sizes, addresses)
            except Refused:
                continue
            if _launched(graph, addresses):
                return

    def _graph(
        self, session: Session, segment: Segment, sizes: Mapping[str, int], addresses: Mapping[int, int]
    ) -> SegmentGraph:
        """The graph of a segment, built when there is none for these sizes."""
        loaded = self._loaded
        key = segment.number, tuple(sizes.get(name, -1) for name, _ in self._entry.measured)
        graph = session.graphs.get(key)
        if graph is not None and graph.stamp == loaded.memory.stamp:
            return graph
        if graph is not None:
            del session.graphs[key]
            graph.close()
        if len(session.graphs) >= MOST_GRAPHS:
            loaded.device.synchronise()
            session.graphs.popitem(last=False)[1].close()
        with _Damaged():
            maker = NodeMaker(loaded.code, session.addresses, sizes, loaded.memory, may_fail=self._may_fail)
            nodes = maker.make(segment.parts)
            graph = SegmentGraph(loaded.device, nodes, addresses, loaded.memory.stamp)
        session.graphs[key] = graph
        session.whole = graph if len(self._actions) == 1 else None
        session.stamp = loaded.memory.stamp
        return graph


def _launched(graph: SegmentGraph, addresses: Mapping[int, int]) -> bool:
    """False: a library does not go on with these addresses, and the graph is stale."""
    try:
        graph.launch(addresses)
    except Refused:
        graph.stamp = STALE
        return False
    return True


class _Damaged:
    """Turns what a damaged plan leads to into an error of one line."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, ValueError):
            raise BundleError(f"the plan of the bundle does not fit the call: {problem}", code="E0906") from None


class _Run:
    """One call."""

    def __init__(self, loaded: Loaded, entry: EntryRun, session: Session, addresses: Mapping[int, int]) -> None:
        self._loaded, self._entry, self._session, self._addresses = loaded, entry, session, addresses
        self.sizes = dict(session.sizes)
        self._pending = False

    def actions(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Segment():
                    self._segment(action)
                case HostCall():
                    self._host_call(action)
                case Measure():
                    self._measure(action)
                case Branch():
                    self.actions(action.then if self._truth(action.condition) else action.otherwise)
                case Repeat():
                    self.actions(action.condition)
                    while self._truth(action.test):
                        self.actions(action.body)
                        self.actions(action.condition)
                case Count():
                    for index in range(self._integer(action.start), self._integer(action.stop)):
                        self._set_integer(action.index, index)
                        self.actions(action.body)

    def _segment(self, segment: Segment) -> None:
        self._entry.launch(self._session, segment, self.sizes, self._addresses)
        self._pending = True
        if segment.waits:
            self._wait()
            self._check()

    def _wait(self) -> None:
        """Until the host may look at pinned memory, and change it."""
        if self._pending:
            self._loaded.device.synchronise()
            self._pending = False

    def _check(self) -> None:
        fault = self._session.fault()
        if fault is not None:
            raise Stopped(fault)

    def _address(self, buffer: int) -> int:
        """Where the host exchanges a buffer with the device."""
        size = self._session.addresses.size(buffer, self.sizes)
        return self._loaded.memory.exchange(buffer, size)

    def _truth(self, buffer: int) -> bool:
        return ctypes.c_uint8.from_address(self._address(buffer)).value != 0

    def _integer(self, buffer: int) -> int:
        plan = self._session.addresses.entry.buffers[buffer]
        size = number(plan.bytes, self.sizes)
        data = ctypes.string_at(self._address(buffer), size)
        return int.from_bytes(data, "little", signed=plan.type in SIGNED)

    def _set_integer(self, buffer: int, value: int) -> None:
        self._wait()
        plan = self._session.addresses.entry.buffers[buffer]
        data = value.to_bytes(number(plan.bytes, self.sizes), "little", signed=plan.type in SIGNED)
        ctypes.memmove(self._address(buffer), data, len(data))

    def _measure(self, step: Measure) -> None:
        with _Damaged():
            most = number(step.most, self.sizes)
        count = self._integer(step.source)
        if not 0 <= count <= most:
            raise Stopped((step.fault, (count, most)))
        self.sizes[step.symbol] = count

    def _host_call(self, step: HostCall) -> None:
        """The frame is as `dfc_runtime.driver` says."""
        self._wait()
        with _Damaged():
            extents = [number(each, self.sizes) for each in step.extents]
        operands = [self._address(buffer) for buffer in (*step.inputs, *step.outputs)]
        frame = (ctypes.c_int64 * (1 + len(operands) + len(extents)))(1, *operands, *extents)
        if self._loaded.host is not None:
            self._loaded.host(step.site, ctypes.addressof(frame))
        if frame[0]:
            raise Stopped((NO_SITE, ()))


def _can_fail(step: Step, code: Code) -> bool:
    """Whether it may report a fault while the device runs."""
    return isinstance(step, Check) or (isinstance(step, Launch) and code.plan.kernels[step.kernel].faults)
