"""Nodes as a graph of the device, launched with the addresses of a call.

Assumes nodes of `nodes.NodeMaker`. Guarantees that only the nodes that use an address of the caller change when it
does, and that nothing else is built again, unless the driver asks for it where a library works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.graphs.device import Device, Executable, Graph, Node, NotTaken
from dfc_runtime.graphs.library_calls import LibraryNode, Refused
from dfc_runtime.graphs.memory_layout import Slot
from dfc_runtime.graphs.nodes import (
    Argument,
    ClearNode,
    ConditionalNode,
    CopyNode,
    GraphNode,
    Handle,
    KernelNode,
)

T = TypeVar("T")

Addresses = Mapping[int, int]
"""Device memory of the caller, by slot."""


@dataclass(slots=True)
class _User:
    """A node that uses memory of the caller."""

    node: Node
    source_node: KernelNode | CopyNode | LibraryNode
    slots: tuple[int, ...]


class SegmentGraph:
    """A segment that can be launched. `stamp` tells for which memory it was built. `Refused`: the nodes have to be
    made again, without a product of the library."""

    def __init__(self, device: Device, nodes: Sequence[GraphNode], addresses: Addresses, stamp: int) -> None:
        self.stamp = stamp
        self.nodes = nodes
        self._device = device
        self._users: list[_User] = []
        self._executable: Executable = self._build(addresses)
        self._addresses = dict(addresses)

    def _build(self, addresses: Addresses) -> Executable:
        self._users = []
        graph = self._device.graph()
        try:
            self._emit(graph, self.nodes, {}, addresses, nested=False)
            return graph.instantiate()
        except Refused:
            graph.discard()
            raise
        except NotTaken as problem:
            graph.discard()
            raise _refused(self.nodes, str(problem)) from None

    def launch(self, addresses: Addresses) -> None:
        """Begins to run it; nodes whose addresses are others than last time are changed before."""
        if self._users and addresses != self._addresses:
            self._move(addresses)
            self._addresses = dict(addresses)
        self._executable.launch()

    def _move(self, addresses: Addresses) -> None:
        moved = [user for user in self._users if any(addresses[s] != self._addresses[s] for s in user.slots)]
        if all(self._change(user, addresses) for user in moved):
            return
        rebuilt = self._build(addresses)
        self._device.synchronise()
        self._executable.close()
        self._executable = rebuilt

    def close(self) -> None:
        self._executable.close()

    def _change(self, user: _User, addresses: Addresses) -> bool:
        """Whether the graph can stay."""
        source_node = user.source_node
        match source_node:
            case KernelNode():
                self._executable.set_arguments(user.node, _values(source_node.arguments, {}, addresses))
            case CopyNode():
                target, source = _values((source_node.target, source_node.source), {}, addresses)
                self._executable.set_copy(user.node, target, source)
            case LibraryNode():
                return _taken(
                    source_node, partial(self._executable.set_recorded, user.node, source_node.record(addresses))
                )
        return True

    def _emit(
        self,
        graph: Graph,
        nodes: Sequence[GraphNode],
        handles: Mapping[Handle, int],
        addresses: Addresses,
        *,
        nested: bool,
    ) -> None:
        known = {**handles, **{node.handle: graph.handle() for node in nodes if isinstance(node, ConditionalNode)}}
        emitted: list[Node] = []
        for node in nodes:
            after = [emitted[number] for number in node.after]
            match node:
                case KernelNode():
                    values = _values(node.arguments, known, addresses)
                    emitted.append(graph.kernel(node.function, node.blocks, node.threads, values, after))
                    self._note(emitted[-1], node, node.arguments, nested=nested)
                case CopyNode():
                    ends = (node.target, node.source)
                    target, source = _values(ends, {}, addresses)
                    emitted.append(graph.copy(node.direction, target, source, node.size, after))
                    self._note(emitted[-1], node, ends, nested=nested)
                case LibraryNode():
                    record = node.record(addresses)
                    emitted.append(_taken(node, partial(graph.recorded, record, after)))
                    self._note(emitted[-1], node, node.call.addresses, nested=nested)
                case ClearNode():
                    emitted.append(graph.clear(node.target, node.size, after))
                case ConditionalNode():
                    one, body = graph.conditional(known[node.handle], after, loop=node.loop)
                    emitted.append(one)
                    self._emit(body, node.body, known, addresses, nested=True)

    def _note(
        self,
        node: Node,
        source_node: KernelNode | CopyNode | LibraryNode,
        arguments: Sequence[Argument],
        *,
        nested: bool,
    ) -> None:
        slots = tuple(each.number for each in arguments if isinstance(each, Slot))
        if slots:
            if nested:
                raise ValueError("a conditional node uses memory of the caller")
            self._users.append(_User(node, source_node, slots))


def _refused(nodes: Sequence[GraphNode], reason: str) -> Refused:
    """The driver takes each part, but not the whole: first it is tried without library work in conditional nodes, then
    without any."""
    calls = [node for node in nodes if isinstance(node, LibraryNode)]
    inner: list[LibraryNode] = []
    pending = [each for node in nodes if isinstance(node, ConditionalNode) for each in node.body]
    while pending:
        node = pending.pop()
        if isinstance(node, LibraryNode):
            inner.append(node)
        pending += node.body if isinstance(node, ConditionalNode) else ()
    return [node.refuse(reason) for node in inner or calls][-1]


def _taken(node: LibraryNode, add: Callable[[], T]) -> T:
    """What `add` gives; `Refused` if the driver does not take the node."""
    try:
        return add()
    except NotTaken as problem:
        raise node.refuse(str(problem)) from None


def _values(arguments: Sequence[Argument], handles: Mapping[Handle, int], addresses: Addresses) -> list[int]:
    return [
        each if isinstance(each, int) else addresses[each.number] if isinstance(each, Slot) else handles[each]
        for each in arguments
    ]
