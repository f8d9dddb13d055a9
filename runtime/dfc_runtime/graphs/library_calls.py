"""Launches that a library makes in place of a kernel of the program: what a graph needs to know of one.

    kernel                ->    work of the library
    kernel                ->    work of the library, then a smaller kernel that takes its numbers on

Each library has its own way to choose; what it chose looks alike here. Assumes that what a library
queues touches the operands that it says, and its workspace, and nothing else. Guarantees nothing of the library: a call
that it refuses after all is `Refused`, and the kernel of the program is launched from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Protocol

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.graphs.memory_layout import Slot, number, virtual
from dfc_runtime.graphs.ordering import Access
from dfc_runtime.plans.plan import KernelPlan
from dfc_runtime.plans.products import SUMS, FinishPlan
from dfc_runtime.plans.steps import Launch

Record = Callable[[int], None]
"""Queues work on the stream of this handle."""


class Refused(Exception):
    """The library, or the driver, does not take a call after all: the kernel of the program is to make it."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Memory that a launch is given: the type of its elements, where it lies, how many bytes it has now. `visible`: it
    is seen outside of the call even if that fails."""

    type: str
    address: int | Slot
    size: int
    visible: bool = False

    def access(self, *, writes: bool) -> Access:
        start = virtual(self.address) if isinstance(self.address, Slot) else self.address
        return Access(start, start + self.size, writes)

    def overlaps(self, other: Operand) -> bool:
        mine, theirs = self.access(writes=False), other.access(writes=False)
        return mine.start < theirs.end and theirs.start < mine.end


Find = Callable[[int], Operand]
"""The memory of a buffer now."""


class LibraryCall(Protocol):
    """What a library is to do in place of one launch."""

    @property
    def addresses(self) -> tuple[int | Slot, ...]:
        """Where the memory is that it works on."""
        ...

    @property
    def uses(self) -> tuple[tuple[int, bool], ...]:
        """The operands of the launch that it touches, by number, each with whether it writes there."""
        ...

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory, at a multiple of 256."""
        ...

    @property
    def finish(self) -> tuple[FinishPlan, Operand] | None:
        """The kernel that comes after it, and what it takes on, with a place counted from the scratch memory."""
        ...

    def queue(self, starts: Sequence[int], workspace: int, stream: int) -> None:
        """Queues the work on a stream, with these addresses for its places; `Refused` if the library refuses."""
        ...

    def refuse(self, reason: str) -> Refused:
        """Never again like this."""
        ...


class LaunchLibrary(Protocol):
    """A library, for one program on one device."""

    def choose(self, step: Launch, kernel: KernelPlan, find: Find, sizes: Mapping[str, int]) -> LibraryCall | None:
        """How it makes what a launch of this kernel does; None: the kernel does it. `sizes` are those of the entry."""
        ...


def choose(
    steps: Sequence[Launch],
    kernels: Sequence[KernelPlan],
    libraries: Sequence[LaunchLibrary],
    find: Find,
    sizes: Mapping[str, int],
) -> dict[int, LibraryCall]:
    """What libraries do in place of launches of a segment, by identity of the launch: the first that makes one."""
    calls: dict[int, LibraryCall] = {}
    for step in steps:
        for library in libraries:
            call = library.choose(step, kernels[step.kernel], find, sizes)
            if call is not None:
                calls[id(step)] = call
                break
    return calls


def launch_operands(step: Launch, find: Find) -> list[Operand]:
    """The memory of a launch; behind it, that of its convolution."""
    convolved = step.convolution.operands if step.convolution is not None else ()
    return [find(buffer) for buffer in (*step.buffers, *(one for one in convolved if one != SUMS))]


def kernel_sizes(step: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a kernel, for those of the entry."""
    return {f"d{n}": number(size, sizes) for n, size in enumerate(step.sizes)}


@dataclass(slots=True)
class LibraryNode:
    """A call in a graph, with its scratch memory."""

    call: LibraryCall
    workspace: int
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])

    def record(self, addresses: Mapping[int, int]) -> Record:
        """What queues it, for these addresses of the caller."""
        starts = [addresses[one.number] if isinstance(one, Slot) else one for one in self.call.addresses]
        return partial(self.call.queue, starts, self.workspace)

    def refuse(self, reason: str) -> Refused:
        """The driver does not take it."""
        return self.call.refuse(reason)
