"""What a driver needs of a device: memory, copies, code, and graphs of nodes with explicit dependencies.

Assumes one caller at a time. Guarantees of an implementation: addresses are multiples of 256 bytes; whatever cannot be
done is an error of `dfc_runtime.devices`; the nodes of a graph run after the nodes they are said to come after,
and in no other order; a graph that was launched has done its work after `synchronise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Function = object
"""A kernel that is loaded, as the device knows it."""

Node = object
"""A node of a graph, as the device knows it."""

TO_DEVICE, FROM_DEVICE, ON_DEVICE = "to", "from", "on"
"""Directions of copies; memory of the host is pinned memory of the same device."""


class NotTaken(Exception):
    """The driver does not take recorded work; the message says why. Nothing is damaged."""


class Executable(Protocol):
    """A graph that can be launched, any number of times."""

    def set_arguments(self, node: Node, arguments: Sequence[int]) -> None:
        """Other arguments for a kernel node, from the next launch on. Nodes inside of conditional ones are not
        changed."""
        ...

    def set_copy(self, node: Node, target: int, source: int) -> None:
        """Other addresses for a copy node."""
        ...

    def set_recorded(self, node: Node, record: Callable[[int], None]) -> bool:
        """Other work for a node of recorded work; False if the graph has to be built again for it."""
        ...

    def launch(self) -> None:
        """Begins to run it, after whatever was launched before."""
        ...

    def close(self) -> None: ...


class Graph(Protocol):
    """A graph under construction, or the body of a conditional node."""

    def kernel(
        self, function: Function, blocks: int, threads: int, arguments: Sequence[int], after: Sequence[Node]
    ) -> Node:
        """Runs a kernel; each argument has 8 bytes."""
        ...

    def copy(self, direction: str, target: int, source: int, size: int, after: Sequence[Node]) -> Node: ...

    def clear(self, target: int, size: int, after: Sequence[Node]) -> Node:
        """Fills device memory with zeros."""
        ...

    def recorded(self, record: Callable[[int], None], after: Sequence[Node]) -> Node:
        """Runs what `record` queues on the stream that it is given, in one node; `NotTaken` if the driver refuses."""
        ...

    def discard(self) -> None:
        """Gives back a graph of which nothing was made."""
        ...

    def handle(self) -> int:
        """The number by which a kernel says whether a conditional node of this graph runs; no, unless it does."""
        ...

    def conditional(self, handle: int, after: Sequence[Node], *, loop: bool) -> tuple[Node, Graph]:
        """A node whose body runs once, or as long as the kernels in it say so; and the body, to be filled."""
        ...

    def instantiate(self) -> Executable:
        """`NotTaken`: the driver refuses a graph with recorded work, perhaps because of that."""
        ...


class Device(Protocol):
    """One device. Everything of it is called with `current` entered."""

    @property
    def conditional_nodes(self) -> bool:
        """Whether graphs can have them; if not, the host runs loops and branches."""
        ...

    @property
    def stream_handle(self) -> int:
        """The stream on which graphs run, as libraries hand streams to each other."""
        ...

    def wait(self, stream: int) -> None:
        """What is launched later begins after what is queued on that stream now."""
        ...

    def current(self) -> AbstractContextManager[object]:
        """Makes it the device of this thread for a while."""
        ...

    def allocate(self, size: int) -> int: ...

    def free(self, address: int) -> None: ...

    def allocate_pinned(self, size: int) -> int:
        """Memory of the host that the device copies from and to without a detour."""
        ...

    def free_pinned(self, address: int) -> None: ...

    def copy_in(self, target: int, source: int, size: int) -> None:
        """From any memory of the host to the device, done on return."""
        ...

    def copy_out(self, target: int, source: int, size: int) -> None: ...

    def load(self, image: bytes, names: Sequence[str]) -> list[Function]:
        """The kernels of these names in an image; `ValueError` if it is none or lacks one."""
        ...

    def graph(self) -> Graph: ...

    def synchronise(self) -> None:
        """Waits until all that was launched is done."""
        ...

    def memory(self) -> tuple[int, int]:
        """Bytes free, bytes in all."""
        ...

    def close(self) -> None: ...
