"""The graph of one task as one graph for each of its devices: partition once more, with devices for tasks.

    entry step(x: f32[4]) {                   gpu0                                 cpu0
      let y: f32[4] = exp(x)   # gpu 0   ->     let y: f32[4] = exp(x)               let y: f32[4] = graph.recv(..)
      let z: f32[4] = sin(y)   # cpu            graph.send(y, "y", ..)               let z: f32[4] = sin(y)
    }

A pure function of graph and devices. A device counts as a job of one task, whose name no job of a user can have.
Messages to and from other tasks stay what they are, on the processors, under keys that the new ones differ from; so
whoever runs the parts tells both apart by `inner`. Guarantees what `partition` does, and that `check_parts` has proved
that no device waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, error
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.distribute.partition.check_parts import check_parts
from dfc.distribute.partition.checkpoints import KINDS
from dfc.distribute.partition.model import RankRole
from dfc.distribute.partition.split import partition
from dfc.distribute.place.devices import OnDevices
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph
from dfc.ops.attributes import HostAttributes
from dfc.ops.effects.communication import CombinedAttributes, ContributeAttributes, RecvAttributes, SendAttributes
from dfc.ops.effects.routing import RouteAttributes, RoutedAttributes


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """A graph for each device that has anything, GPUs first, and the keys of the messages between them."""

    graphs: Mapping[Device, Graph]
    inner: tuple[str, ...]


def job_of(device: Device) -> str:
    """The name of a device as a job."""
    return f"@{device.kind}{device.number}"


def split_by_device(graph: Graph, on_devices: OnDevices) -> DeviceParts:
    """The parts of a graph. Tests are entries here, told by their flag."""
    entries = {**graph.entries, **{f"test {name}": test for name, test in graph.tests.items()}}
    apart = {name: entry for name, entry in entries.items() if _is_checkpoint(entry)}
    distributed = replace(graph, entries={name: e for name, e in entries.items() if name not in apart}, tests={})
    sites = {device: TaskSite(job_of(device), 0) for device in on_devices.devices}
    placement = Placement(
        {job_of(device): 1 for device in on_devices.devices},
        {name: sites[device] for name, device in on_devices.state.items()},
        {node: sites[device] for node, device in on_devices.nodes.items()},
        sites[on_devices.devices[0]],
    )
    parts = partition(distributed, placement, taken=_keys(graph))
    check_parts(parts)
    roles = {device: RankRole(job_of(device), 0) for device in on_devices.devices}
    graphs = {device: parts.graphs[role] for device, role in roles.items() if role in parts.graphs}
    if apart:
        there = graphs.get(ON_CPU, Graph(graph.name, settings=graph.settings, source=graph.source))
        graphs[ON_CPU] = _with_checkpoints(there, graph, apart)
    kept = {device: each for device, each in graphs.items() if each.entries or each.resources}
    return DeviceParts(kept, tuple(edge.key for edge in parts.edges))


def _is_checkpoint(entry: Entry) -> bool:
    """Whether an entry saves or restores: that is work of the host with all state, between calls. `CompileError` if it
    does anything else."""
    checkpoint_nodes = [node for node in walk.nodes(entry.block) if node.op in KINDS]
    others = [node for node in entry.block.nodes if node.op not in KINDS]
    if checkpoint_nodes and (others or any(not value.is_token for value in entry.block.outputs)):
        title = "in a task on several devices an entry that saves or restores does nothing else"
        second = [(others[0].span, f"`{entry.name}` also does this")] if others else []
        helps = ["let an entry do nothing but this"]
        raise CompileError([error("E1001", title, checkpoint_nodes[0].span, secondary=second, helps=helps)])
    return bool(checkpoint_nodes)


def _with_checkpoints(part: Graph, whole: Graph, apart: Mapping[str, Entry]) -> Graph:
    """The part of the processors with entries that save and restore, whole, and the state they name."""
    named = {
        name
        for entry in apart.values()
        for node in walk.nodes(entry.block)
        if isinstance(node.attributes, HostAttributes)
        for name in node.attributes.resources
    }
    required = named | part.resources.keys()
    resources = {name: resource for name, resource in whole.resources.items() if name in required}
    return replace(part, resources=resources, entries={**part.entries, **apart})


def _keys(graph: Graph) -> frozenset[str]:
    """The keys of all messages with other tasks."""
    keys: set[str] = set()
    for entry in walk.entries(graph):
        for node in walk.nodes(entry.block):
            match node.attributes:
                case SendAttributes(key) | RecvAttributes(key) | ContributeAttributes(key) | CombinedAttributes(key):
                    keys.add(key)
                case RouteAttributes(key) | RoutedAttributes(key):
                    keys.add(key)
                case _:
                    pass
    return frozenset(keys)
