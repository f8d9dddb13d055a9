"""The nodes of one graph, as data: what they run, on which memory, and after which others.

Assumes parts of a segment (`segments`), and places of all buffers. Guarantees that nodes are listed in the order of the
program, that each comes after all nodes whose memory it shares (`ordering`), and that steps which may fail come after
each other: the first fault in the order of the program is the one that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.graphs import control
from dfc_runtime.graphs.arena import Memory, Scratch
from dfc_runtime.graphs.device import FROM_DEVICE, ON_DEVICE, TO_DEVICE, Function
from dfc_runtime.graphs.library_calls import (
    LaunchLibrary,
    LibraryCall,
    LibraryNode,
    Operand,
    choose,
    kernel_sizes,
    launch_operands,
)
from dfc_runtime.graphs.memory_layout import (
    ERROR_VALUES,
    ITEM,
    LINE,
    BufferAddresses,
    Slot,
    Tensor,
    bytes_of,
    number,
    virtual,
)
from dfc_runtime.graphs.ordering import Access, Ordering, merged
from dfc_runtime.plans.plan import KernelPlan, Plan
from dfc_runtime.plans.segments import FeedsIn, Fetch, Fill, Part, ResultsOut
from dfc_runtime.plans.steps import Check, Copy, For, HostCall, If, Launch, Measure, While, walk

_HANDLES = 1 << 200  # beyond all memory, also that of callers

ZEROED = 4096
"""Bytes at the start of a workspace that are zero when a kernel begins (`kernel_text.ZEROED`)."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A conditional node, to the kernels that decide about it: it comes after them like a reader after a writer."""

    number: int

    def access(self, *, writes: bool) -> Access:
        return Access(_HANDLES + self.number, _HANDLES + self.number + 1, writes)


Argument = int | Slot | Handle


@dataclass(slots=True)
class KernelNode:
    function: Function
    blocks: int
    threads: int
    arguments: tuple[Argument, ...]
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class CopyNode:
    direction: str
    target: int | Slot
    source: int | Slot
    size: int
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class ClearNode:
    target: int
    size: int
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class ConditionalNode:
    handle: Handle
    loop: bool
    body: list[GraphNode]
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])


GraphNode = KernelNode | CopyNode | ClearNode | ConditionalNode | LibraryNode


@dataclass(slots=True)
class NodeList:
    """Nodes that know what they come after."""

    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    ordering: Ordering = field(default_factory=Ordering)

    def add(self, node: GraphNode) -> None:
        node.after = self.ordering.add(node.accesses)
        self.nodes.append(node)


@dataclass(frozen=True, slots=True)
class Code:
    """The kernels of a program, those of the device by name, and the libraries that may be used, in their order."""

    plan: Plan
    kernels: Sequence[Function]
    control: Mapping[str, Function]
    libraries: Sequence[LaunchLibrary] = ()


class NodeMaker:
    """Makes the nodes of one segment for known sizes."""

    def __init__(
        self, code: Code, addresses: BufferAddresses, sizes: Mapping[str, int], memory: Memory, *, may_fail: bool
    ) -> None:
        self._code, self._addresses, self._sizes, self._memory = code, addresses, sizes, memory
        self._entry = addresses.entry
        self._may_fail = may_fail
        self._handles = 0
        self._scratch = Scratch()
        self._calls: dict[int, LibraryCall] = {}

    def make(self, parts: Sequence[Part]) -> list[GraphNode]:
        """The nodes of a whole segment. Scratch memory is found first, so that it does not move afterwards."""
        plan, steps = self._code.plan, [step for step in reversed(walk(parts)) if isinstance(step, Launch)]
        self._calls = choose(steps, plan.kernels, self._code.libraries, self._operand, self._sizes)
        needs = [self._workspace(step) for step in steps]
        if any(needs):
            self._scratch = Scratch.of(needs, self._memory)
        return self._nodes(parts)

    def _workspace(self, step: Launch) -> int:
        call = self._calls.get(id(step))
        if call is not None:
            return call.workspace
        return number(self._code.plan.kernels[step.kernel].workspace, kernel_sizes(step, self._sizes))

    def _nodes(self, parts: Sequence[Part]) -> list[GraphNode]:
        here = NodeList()
        for part in parts:
            match part:
                case Launch():
                    self._launch(here, part)
                case Copy():
                    self._copy(here, part)
                case Check():
                    self._check(here, part)
                case If():
                    self._if(here, part)
                case While():
                    self._while(here, part)
                case For():
                    self._for(here, part)
                case FeedsIn():
                    self._feeds_in(here)
                case ResultsOut():
                    self._results_out(here)
                case Fetch() | Fill():
                    self._exchange(here, part)
                case HostCall() | Measure():
                    raise AssertionError("the host runs it")
        return here.nodes

    # --- where things are

    def _bytes(self, buffer: int) -> int:
        return bytes_of(self._entry.buffers[buffer], self._sizes)

    def _at(self, buffer: int) -> int | Slot:
        return self._addresses.find(buffer, self._bytes(buffer), self._sizes)

    def _operand(self, buffer: int) -> Operand:
        return Operand(
            self._entry.buffers[buffer].type, self._at(buffer), self._bytes(buffer), self._is_visible(buffer)
        )

    def _access(self, buffer: int, *, writes: bool = False) -> Access:
        return access(self._at(buffer), self._bytes(buffer), writes=writes)

    def _fault(self, *, writes: bool = False) -> Access:
        """What tells that something failed."""
        return Access(self._addresses.error, self._addresses.error + ERROR_VALUES, writes)

    def _cleared(self) -> Access:
        """The error block was cleared for this call: all that a guard needs if nobody sees what the kernel writes."""
        return Access(self._addresses.unwritten, self._addresses.unwritten + 8, writes=False)

    def _is_visible(self, buffer: int) -> bool:
        """Whether it is seen outside of the call even if that fails."""
        return self._entry.buffers[buffer].role == "resource" or isinstance(self._at(buffer), Slot)

    # --- steps

    def _launch(self, here: NodeList, step: Launch) -> None:
        sizes, call = kernel_sizes(step, self._sizes), self._calls.get(id(step))
        if call is None:
            self._kernel(here, step.kernel, [self._operand(b) for b in step.buffers], sizes)
            return
        operands = launch_operands(step, self._operand)
        address, size = self._scratch.take(call.workspace)
        used = [operands[one].access(writes=writes) for one, writes in call.uses]
        here.add(LibraryNode(call, address, [*used, Access(address, address + size, writes=True)]))
        if call.finish is not None:
            finish, product = call.finish
            own = replace(product, address=address)
            finish_operands = [operands[one] if one >= 0 else own for one in finish.operands]
            after = {f"d{n}": number(one, sizes) for n, one in enumerate(finish.sizes)}
            self._kernel(here, finish.kernel, finish_operands, after)

    def _kernel(self, here: NodeList, which: int, operands: Sequence[Operand], sizes: Mapping[str, int]) -> None:
        kernel = self._code.plan.kernels[which]
        points = number(kernel.points, sizes)
        if not points:
            return
        accesses = [one.access(writes=how != "read") for one, how in zip(operands, kernel.access, strict=True)]
        arguments: list[Argument] = [*(one.address for one in operands), *sizes.values()]
        if kernel.workspace.constant != 0:
            address, size = self._scratch.take(number(kernel.workspace, sizes))
            arguments.append(address)
            accesses.append(Access(address, address + size, writes=True))
            cleared = Access(address, address + min(ZEROED, size), writes=True)
            if size:
                here.add(ClearNode(address, min(ZEROED, size), [cleared]))
        accesses += self._guards(kernel, operands)
        arguments.append(self._addresses.error)
        blocks = max(1, min(-(-points // kernel.per_block), kernel.most))
        here.add(KernelNode(self._code.kernels[which], blocks, kernel.threads, tuple(arguments), accesses))

    def _guards(self, kernel: KernelPlan, operands: Sequence[Operand]) -> Iterable[Access]:
        if kernel.faults:
            yield self._fault(writes=True)
        elif kernel.guarded:
            written = (one for one, how in zip(operands, kernel.access, strict=True) if how != "read")
            yield self._fault() if any(one.visible for one in written) else self._cleared()

    def _copy(self, here: NodeList, step: Copy) -> None:
        size = self._bytes(step.source)
        if size != self._bytes(step.target):
            raise ValueError(f"a copy of {size} bytes goes to {self._bytes(step.target)}")
        source, target = self._at(step.source), self._at(step.target)
        if not size or source == target:
            return
        accesses = [self._access(step.source), self._access(step.target, writes=True)]
        if not self._may_fail or not self._is_visible(step.target):
            here.add(CopyNode(ON_DEVICE, target, source, size, accesses))
            return
        lane = control.COPY_THREADS * control.COPY_STEP
        blocks = min(-(-size // lane), control.COPY_BLOCKS)
        arguments = (target, source, size, self._addresses.error)
        function = self._code.control[control.COPY]
        here.add(KernelNode(function, blocks, control.COPY_THREADS, arguments, [*accesses, self._fault()]))

    def _single(self, here: NodeList, name: str, arguments: tuple[Argument, ...], accesses: list[Access]) -> None:
        here.add(KernelNode(self._code.control[name], 1, 1, arguments, accesses))

    def _check(self, here: NodeList, step: Check) -> None:
        arguments = (self._at(step.condition), self._addresses.error, step.fault + 1)
        self._single(here, control.CHECK, arguments, [self._access(step.condition), self._fault(writes=True)])

    def _handle(self) -> Handle:
        self._handles += 1
        return Handle(self._handles)

    def _decide(self, here: NodeList, handle: Handle, condition: int, expected: int) -> None:
        arguments = (handle, self._at(condition), expected, self._addresses.error)
        accesses = [self._access(condition), self._fault(), handle.access(writes=True)]
        self._single(here, control.SET, arguments, accesses)

    def _if(self, here: NodeList, step: If) -> None:
        bodies = [(expected, self._nodes(steps)) for expected, steps in ((1, step.then), (0, step.otherwise))]
        branches = [(self._handle(), expected, body) for expected, body in bodies if body]
        for handle, expected, _ in branches:
            self._decide(here, handle, step.condition, expected)
        for handle, _, body in branches:
            here.add(conditional(handle, body, loop=False))

    def _while(self, here: NodeList, step: While) -> None:
        handle = self._handle()
        for node in self._nodes(step.condition):
            here.add(node)
        self._decide(here, handle, step.test, 1)
        inner = NodeList()
        for node in self._nodes((*step.body, *step.condition)):
            inner.add(node)
        self._decide(inner, handle, step.test, 1)
        here.add(conditional(handle, inner.nodes, loop=True))

    def _for(self, here: NodeList, step: For) -> None:
        handle, kind = self._handle(), self._entry.buffers[step.index].type
        counter = self._addresses.regions.block.address + self._addresses.layout.counters[step.counter]
        index, error = self._at(step.index), self._addresses.error
        changed = [Access(counter, counter + ITEM, writes=True), self._access(step.index, writes=True)]
        changed += [self._fault(), handle.access(writes=True)]
        start, stop = self._at(step.start), self._at(step.stop)
        ends = [self._access(step.start), self._access(step.stop)]
        self._single(here, control.BEGIN + kind, (handle, start, stop, counter, index, error), [*ends, *changed])
        inner = NodeList()
        for node in self._nodes(step.body):
            inner.add(node)
        self._single(inner, control.NEXT + kind, (handle, counter, index, error), changed)
        here.add(conditional(handle, inner.nodes, loop=True))

    # --- the host

    def _feeds_in(self, here: NodeList) -> None:
        layout, block = self._addresses.layout, self._addresses.regions.block.address
        first = Access(block, block + layout.feeds_end, writes=True)
        here.add(CopyNode(TO_DEVICE, block, self._addresses.regions.pinned, layout.feeds_end, [first]))
        for each in layout.large_feeds:
            here.add(self._moved(each, TO_DEVICE, each.room))
        for each in layout.copied_feeds:
            inside, slot = block + each.offset, Slot(each.slot)
            accesses = [access(inside, each.room, writes=True), access(slot, each.room, writes=False)]
            if each.room:
                here.add(CopyNode(ON_DEVICE, inside, slot, each.room, accesses))

    def _moved(self, tensor: Tensor, direction: str, size: int) -> CopyNode:
        inside = self._addresses.regions.block.address + tensor.offset
        outside = self._addresses.regions.pinned + tensor.offset
        to_device = direction == TO_DEVICE
        target, source = (inside, outside) if to_device else (outside, inside)
        return CopyNode(direction, target, source, size, [access(inside, size, writes=to_device)])

    def _results_out(self, here: NodeList) -> None:
        addresses, layout = self._addresses, self._addresses.layout
        block, pinned = addresses.regions.block.address, addresses.regions.pinned
        size = layout.results_end - layout.error
        both = [access(addresses.error, size, writes=False)]
        for each in layout.large_results:
            if bytes_of(each.buffer, self._sizes):
                here.add(self._moved(each, FROM_DEVICE, bytes_of(each.buffer, self._sizes)))
        for each in layout.copied_results:
            inside, slot, room = block + each.offset, Slot(each.slot), bytes_of(each.buffer, self._sizes)
            accesses = [access(inside, room, writes=False), access(slot, room, writes=True)]
            if room:
                here.add(CopyNode(ON_DEVICE, slot, inside, room, accesses))
        here.add(CopyNode(FROM_DEVICE, pinned + layout.error, addresses.error, size, both))

    def _exchange(self, here: NodeList, part: Fetch | Fill) -> None:
        for buffer in part.buffers:
            size = self._bytes(buffer)
            inside, outside = self._at(buffer), self._memory.exchange(buffer, size)
            if not size:
                continue
            if isinstance(part, Fill):
                accesses = [self._access(buffer, writes=True)]
                here.add(CopyNode(TO_DEVICE, inside, outside, size, accesses))
            else:
                here.add(CopyNode(FROM_DEVICE, outside, inside, size, [self._access(buffer)]))
        if isinstance(part, Fetch):
            outside = self._addresses.regions.pinned + self._addresses.layout.error
            here.add(CopyNode(FROM_DEVICE, outside, self._addresses.error, LINE, [self._fault()]))


def access(address: int | Slot, size: int, *, writes: bool) -> Access:
    start = virtual(address) if isinstance(address, Slot) else address
    return Access(start, start + size, writes)


def conditional(handle: Handle, body: list[GraphNode], *, loop: bool) -> ConditionalNode:
    inside = merged(each for node in body for each in node.accesses)
    return ConditionalNode(handle, loop, body, [*inside, handle.access(writes=False)])
