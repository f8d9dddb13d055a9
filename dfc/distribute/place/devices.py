"""devices: a device of its task for each node and all state of a program that works on several of them.

    place "net.*" on worker gpu 0        reads of `net` at gpu 0, the product beside them
    place "table" on worker any cpu      the row is picked where lines or a simulated run want it

The second step of placement, for one task: what is in it was decided before. Guarantees that state and all that touches
it are on one device, that what the host does (prints, summaries, messages) and what a GPU has no kernel for is on the
processors, and that each decision carries its reason. Pure: the same graph, constraints and costs give the same
devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.distribute.place.cost import OVERHEAD, Costs
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Graph, Node, Value
from dfc.ops.attributes import AssignAttributes, DrawAttributes, HostAttributes, ResourceAttributes
from dfc.ops.effects.effects import effect, is_host_call
from dfc.ops.lowering.views import Movement, movement_of
from dfc.ops.record import Effect

GPU_OVERHEAD = 5e-6
GPU_TIMES_FASTER = 100
"""What a GPU makes of work besides the start of a kernel, beside one core."""
RECOMPUTABLE = (Movement.REORDERED, Movement.REPEATED)
LINE = "its line says so"
LINK_LATENCY = 12e-6
LINK_RATE = 10e9
"""A value that goes from device to device takes `LINK_LATENCY` seconds and one for each `LINK_RATE` bytes."""


@dataclass(frozen=True, slots=True)
class DeviceConstraints:
    """What a task has, GPUs first, and what its lines allow: devices by full name of state and of nodes, the group of
    each name that shares a device with others, the ops that a GPU has no kernel for, with the reasons, and which
    variable state is `colocated_with` for its sake."""

    devices: tuple[Device, ...]
    allowed: Mapping[str, tuple[Device, ...]] = field(default_factory=dict[str, tuple[Device, ...]])
    together: Mapping[str, str] = field(default_factory=dict[str, str])
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])
    colocated_with: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, name: str) -> tuple[Device, ...]:
        return self.allowed.get(name, self.devices)


@dataclass(frozen=True, slots=True)
class DeviceDecision:
    """Where something went, and why. `alternatives` say of the devices that were compared when the node would have
    ended there, in words or seconds. What `floats` is on each device that needs it."""

    name: str
    device: Device
    reason: str
    alternatives: tuple[tuple[Device, float | str], ...] = ()
    floats: bool = False


@dataclass(frozen=True, slots=True)
class OnDevices:
    """The devices of all state and nodes of a graph, and the decisions behind them, by entry ("" for state) and name.
    Nodes that are not mentioned float: each device that needs their values makes them."""

    devices: tuple[Device, ...]
    state: Mapping[str, Device]
    nodes: Mapping[Node, Device]
    decisions: Mapping[str, Mapping[str, DeviceDecision]]


def place_on_devices(graph: Graph, constraints: DeviceConstraints, costs: Costs | None = None) -> OnDevices:
    """Devices for all of a graph. Devices are `constraints.devices`, and the processors if anything has to be there."""
    decisions = {"": {name: _of_state(name, constraints) for name in graph.resources}}
    state = {name: decision.device for name, decision in decisions[""].items()}
    nodes: dict[Node, Device] = {}
    for entry in walk.entries(graph):
        run = _Run(entry, constraints, state, (costs or Costs()).of_entry(entry.name))
        run.run()
        nodes |= run.nodes
        decisions[entry.name] = run.decisions
    needs_host = ON_CPU in nodes.values() and ON_CPU not in constraints.devices
    return OnDevices((*constraints.devices, *([ON_CPU] if needs_host else [])), state, nodes, decisions)


def needs_host(graph: Graph, lacking: Mapping[str, str]) -> bool:
    """Whether anything in a graph has no kernel on a GPU, what the host does left out."""
    return any(node.op in lacking for entry in walk.entries(graph) for node in walk.nodes(entry.block))


def _of_state(name: str, constraints: DeviceConstraints) -> DeviceDecision:
    """Lines decide alone, so that a part of the program has its state where the program has it."""
    allowed = constraints.of(name)
    if name in constraints.allowed and len(allowed) < len(constraints.devices):
        return DeviceDecision(
            name,
            allowed[0],
            f"beside `{constraints.colocated_with[name]}`" if name in constraints.colocated_with else LINE,
        )
    others = tuple((each, "named by no line of it") for each in constraints.devices[1:])
    return DeviceDecision(name, constraints.devices[0], "the first device that lines name", others)


class _Run:
    """A simulated run of one entry on the devices of a task."""

    def __init__(self, entry: Entry, constraints: DeviceConstraints, state: Mapping[str, Device], costs: Costs) -> None:
        self._entry = entry
        self._constraints = constraints
        self._state = state
        self._costs = costs
        self._free = dict.fromkeys((*constraints.devices, ON_CPU), 0.0)
        self._ready: dict[Value, tuple[Device | None, float]] = {}
        self._feeds = frozenset(entry.block.parameters)
        self._around: dict[Node, Device] = {}
        self._changed_by = _changes(entry.block)
        self._block_outputs = {v for block in walk.blocks(entry.block) for v in block.outputs}
        self._groups = {
            constraints.together[name]: device for name, device in state.items() if name in constraints.together
        }
        self.nodes: dict[Node, Device] = {}
        self.decisions: dict[str, DeviceDecision] = {}

    def run(self) -> None:
        for value in self._entry.block.parameters:
            self._ready[value] = (ON_CPU, 0.0)
        self._go_through(self._entry.block)

    def _go_through(self, block: Block) -> None:
        """Places the nodes of a block in their order, those in regions after the node they are in."""
        pending = [iter(block.nodes)]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
            elif self._floats(node):
                known = [self._ready.get(value, (None, 0.0)) for value in node.operands]
                self._ready.update(dict.fromkeys(node.results, known[0] if known else (None, 0.0)))
                self._let_float(node)
            else:
                device, finish = self._place(node)
                for region in reversed(node.regions):
                    self._ready.update(dict.fromkeys(region.parameters, (device, finish)))
                    self._around.update(dict.fromkeys(region.nodes, device))
                    pending.append(iter(region.nodes))

    def _floats(self, node: Node) -> bool:
        """Whether each device makes the value by itself: constants, what is made of them alone, and the same elements
        in another order, which are no more to send than those they are made of."""
        if node.regions or effect(node) is not Effect.PURE or node.op in self._constraints.lacking:
            return False
        if movement_of(node) in RECOMPUTABLE:
            return not any(value in self._block_outputs for value in node.results)
        return all(self._ready.get(value, (ON_CPU, 0.0))[0] is None for value in node.operands)

    def _place(self, node: Node) -> tuple[Device, float]:
        device, reason, others = self._choose(node)
        _, finish = self._times(node, device)
        self._free[device] = finish
        self._groups.setdefault(self._constraints.together.get(node.name, node.name), device)
        for value in node.results:
            self._ready[value] = (device, finish)
        self._note(node, device, reason, others)
        return device, finish

    def _note(
        self, node: Node, device: Device, reason: str, others: tuple[tuple[Device, float | str], ...] = ()
    ) -> None:
        self.nodes[node] = device
        self.decisions.setdefault(node.name, DeviceDecision(node.name, device, reason, others))

    def _let_float(self, node: Node) -> None:
        first = self._constraints.devices[0]
        decision = DeviceDecision(node.name, first, "made where it is needed", floats=True)
        self.decisions.setdefault(node.name, decision)

    def _tied(self, node: Node) -> tuple[Device, str] | None:
        """Where a node has to be, whatever lines say of values, and why."""
        own = state_of(node)
        if own is not None and not node.regions:
            return self._state[own], f"with its state `{own}`"
        if is_host_call(node) or isinstance(node.attributes, HostAttributes):
            return ON_CPU, f"the host does `{node.op}`"
        if node.op in self._constraints.lacking:
            return ON_CPU, f"gpu: no kernel for `{node.op}`, {self._constraints.lacking[node.op]}"
        return None

    def _choose(self, node: Node) -> tuple[Device, str, tuple[tuple[Device, float | str], ...]]:
        tied = self._tied(node)
        if tied is not None:
            return *tied, ()
        group = self._constraints.together.get(node.name, "")
        if group in self._groups:
            return self._groups[group], f"together with `{group}`", ()
        allowed = self._constraints.of(node.name)
        if len(allowed) == 1 and len(self._constraints.devices) > 1:
            return allowed[0], LINE, ()
        if len(allowed) == 1:
            return allowed[0], "all that has a kernel there", ()
        possible = self._possible(node, allowed)
        compared = [(device, self._times(node, device)[1]) for device in possible]
        chosen = min(compared, key=lambda each: each[1])[0]
        left_out = [(device, "nothing that it uses is there") for device in allowed if device not in possible]
        reason = "finished first here" if len(possible) > 1 else "beside what it uses"
        return chosen, reason, (*compared, *left_out)

    def _possible(self, node: Node, allowed: tuple[Device, ...]) -> tuple[Device, ...]:
        """The devices that have made something that the node uses, or hold state that it changes; where there is none,
        that of the region it is in, else the GPUs. So feeds, which are on the host, draw nothing there: a size that is
        not known yet counts as a small one."""
        near = {self._ready[v][0] for v in walk.inputs(node) if v in self._ready and v not in self._feeds}
        near |= {self._state[name] for v in node.results for name in self._changed_by.get(v, ())}
        candidates = tuple(device for device in allowed if device in near)
        if candidates:
            return candidates
        around = self._around.get(node)
        if around is not None and around in allowed:
            return (around,)
        return tuple(device for device in allowed if device.kind == "gpu") or allowed

    def _times(self, node: Node, device: Device) -> tuple[float, float]:
        """When a node would start and finish on a device, in seconds from the begin of the call."""
        arrived = max((self._arrival(value, device) for value in walk.inputs(node)), default=0.0)
        start = max(arrived, self._free[device])
        return start, start + seconds_on(self._costs, node, device)

    def _arrival(self, value: Value, device: Device) -> float:
        source, time = self._ready.get(value, (None, 0.0))
        if source is None or source == device or value.is_token:
            return time
        return time + LINK_LATENCY + self._costs.bytes_of(value) / LINK_RATE


def seconds_on(costs: Costs, node: Node, device: Device) -> float:
    """How long a node takes on a device, by the table of rates or as it was measured."""
    seconds = costs.seconds(node)
    if device.kind == "cpu" or node.name in costs.measured or not seconds:
        return seconds
    return GPU_OVERHEAD + max(seconds - OVERHEAD, 0.0) / GPU_TIMES_FASTER


def _changes(block: Block) -> dict[Value, list[str]]:
    """The state that each value is written to."""
    changes: dict[Value, list[str]] = {}
    for node in walk.nodes(block):
        if isinstance(node.attributes, AssignAttributes):
            for value in node.operands:
                changes.setdefault(value, []).append(node.attributes.resource)
    return changes


def state_of(node: Node) -> str | None:
    """The state that a node reads, writes or draws from."""
    match node.attributes:
        case ResourceAttributes(name) | AssignAttributes(name) | DrawAttributes(name):
            return name
        case _:
            return None
