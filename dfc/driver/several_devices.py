"""A task that works on several devices: from its graph and the lines about it to one program made of one a device.

    graph of a task --place_on_devices--> devices --split_by_device--> a graph for each, proved to fit together
    each of them: --fuse .. link--> an ordinary bundle   --> one image that holds them, and a plan

It is a use of the stages `place`, `partition` and `bundle` (`OneTask`, a distribution); the stages between them see
parts like any others.

Assumes the graph as the passes, or the partition by tasks, leave it. Guarantees a program like any other: entries,
state, faults and host calls of the undivided one, with numbers through all devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dfc.bundle.target import CodeImage, Lowered, lacking, load_target
from dfc.bundle.writing import Bundle, write
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.task_devices import Device
from dfc.distribute.partition import RankRole
from dfc.distribute.partition.devices import DeviceParts, split_by_device
from dfc.distribute.pipelines.refused import refused_queues
from dfc.distribute.place import Costs
from dfc.distribute.place.devices import DeviceConstraints, OnDevices, needs_host, place_on_devices
from dfc.driver import pipeline
from dfc.driver.pipeline import Context, Divided, Linked, OneRank, Part, Undivided
from dfc.ir import walk
from dfc.ir.dims import ZERO
from dfc.ir.graph import Entry, Graph
from dfc.ir.measured import bounds_in
from dfc.ir.options import CompileOptions, is_gpu_variant
from dfc.kernels.program import EntryProgram, EntrySignature, HostCall, Program
from dfc.kernels.program import walk as steps_of
from dfc.lower.signatures import signature
from dfc_runtime.formats.manifest import MIXED
from dfc_runtime.mixed.plan import NOT_OUTSIDE

GPU_TARGET = "cuda"


@dataclass(frozen=True, slots=True)
class _Part:
    """What was made of one device's graph: its program and its bundle."""

    device: Device
    program: Program
    code: bytes
    compilers: Mapping[str, str]


def on_devices(role: RankRole, graph: Graph, resolution: Resolution, costs: Costs | None = None) -> OnDevices | None:
    """The devices of what one role has, if it works on several; None if all of it is on one."""
    devices = resolution.devices.in_play(role.job, role.task)
    lacks = _lacks(is_for_gpu=devices[0].kind == "gpu")
    if len(devices) == 1 and not needs_host(graph, lacks):
        return None
    with_job = resolution.devices.with_job
    names = [*graph.resources, *(node.name for entry in walk.entries(graph) for node in walk.nodes(entry.block))]
    resolved_constraints = {
        name: resolved for name in names if (resolved := resolution.constraint_on(name)) is not None
    }
    groups = {name: group.members[0] for name in names if (group := resolution.group(name)) is not None}
    allowed = {
        name: resolution.devices.allowed(with_job(resolved.constraint), role.job, role.task)
        for name, resolved in resolved_constraints.items()
    }
    colocated_with = {slot: owner for slot, owner in _slots(graph, resolution) if owner in allowed}
    allowed |= {slot: allowed[owner] for slot, owner in colocated_with.items()}
    return place_on_devices(graph, DeviceConstraints(devices, allowed, groups, lacks, colocated_with), costs)


def _slots(graph: Graph, resolution: Resolution) -> Iterator[tuple[str, str]]:
    """What an optimiser keeps for a variable, with that variable, if no line says as much of it itself."""
    best = resolution.lines.best
    for name in graph.resources:
        owner = name.partition("[")[2].partition("]")[0]
        if owner in best and (name not in best or best[name].specificity < best[owner].specificity):
            yield name, owner


@dataclass(frozen=True, slots=True)
class OnSeveral(Undivided):
    """A graph of a task, with what is on which of its devices."""

    placed: OnDevices

    def text(self) -> str:
        """The graph, and before it where state is."""
        lines = (f"# {name}: {device}\n" for name, device in self.placed.state.items())
        return f"{''.join(lines)}{Undivided.text(self)}"


class OneTask:
    """The distribution of a program that no deployment file is about, for a GPU: what that has no kernel for is done by
    the processors; so it is with the target `mixed`, of programs that are compiled again, in any case."""

    def __init__(self, options: CompileOptions) -> None:
        self._options = options

    def separate(self, graph: Graph) -> Graph:
        return graph

    def replicate(self, graph: Graph) -> Undivided:
        if refused := list(refused_queues(graph, "on GPUs")):
            raise CompileError(refused)
        return Undivided(graph)

    def shard(self, form: Undivided) -> Undivided:
        return form

    def place(self, form: Undivided) -> Undivided:
        """Devices for the nodes, where one does not do for all."""
        lacks = _lacks(is_for_gpu=True)
        if self._options.target == GPU_TARGET and not needs_host(form.graph, lacks):
            return form
        placed = place_on_devices(form.graph, DeviceConstraints((Device("gpu", 0),), lacking=lacks))
        return OnSeveral(form.graph, placed)

    def partition(self, form: Undivided, context: Context) -> Divided[Graph]:
        if not isinstance(form, OnSeveral):
            return OneRank().partition(form, context)
        joint = Joint.of(form.graph, form.placed)
        return Divided(joint.parts("", context.options), _JointAssembly(joint))


@dataclass(frozen=True, slots=True)
class _JointAssembly:
    """The bundle of a program on several devices of one task."""

    joint: Joint

    def bundle(self, parts: Sequence[Part[Linked]], context: Context) -> Bundle:
        whole = self.joint.joined(parts)
        settings = self.joint.graph.settings
        return write(
            whole.program,
            whole.lowered,
            context.text,
            settings,
            context.diagnostics,
            context.modules,
            notes=context.notes,
        )


@dataclass(frozen=True, slots=True)
class Joint:
    """The graph of a task and its parts by device."""

    graph: Graph
    split: DeviceParts

    @staticmethod
    def of(graph: Graph, placed: OnDevices) -> Joint:
        """A graph cut by devices; the proof that no device waits for ever comes with it."""
        return Joint(graph, split_by_device(graph, placed))

    def parts(self, role: str, options: CompileOptions) -> tuple[Part[Graph], ...]:
        """The parts to compile, under the name of the role that they belong to, if there are roles."""
        others = replace(options, target="cpu") if options.target in (GPU_TARGET, MIXED) else options
        prefix = f"{role}/" if role else ""
        return tuple(
            Part(f"{prefix}{device.kind}{device.number}", part, options_on(device, others), part)
            for device, part in self.split.graphs.items()
        )

    def joined(self, parts: Sequence[Part[Linked]]) -> Linked:
        """One program of the linked parts, in their order."""
        joined_parts: list[_Part] = []
        for device, part in zip(self.split.graphs, parts, strict=True):
            program, lowered = part.form.program, part.form.lowered
            code = write(program, lowered, "", part.graph.settings).to_bytes()
            joined_parts.append(_Part(device, program, code, lowered.compilers))
        return Linked(*_joined(self.graph, self.split, joined_parts))


def lower_on_devices(graph: Graph, placed: OnDevices, options: CompileOptions) -> tuple[Program, Lowered]:
    """The program of a task, and what the targets of its devices make of it."""
    joint = Joint.of(graph, placed)
    divided = Divided(joint.parts("", options), _JointAssembly(joint))
    linked: Divided[Linked] = pipeline.run(divided, Context(options), "fuse", "link")
    whole = joint.joined(linked.parts)
    return whole.program, whole.lowered


def options_on(device: Device, options: CompileOptions) -> CompileOptions:
    """The options for what is on a device: the variants that are asked for are of processors and GPUs."""
    isas, on_gpu = options.target_options.isas, device.kind == "gpu"
    fitting = tuple(name for name in isas if is_gpu_variant(name) is on_gpu)
    target = GPU_TARGET if on_gpu else options.target
    return replace(options, target=target, target_options=replace(options.target_options, isas=fitting))


def _lacks(*, is_for_gpu: bool) -> Mapping[str, str]:
    """What a GPU has no kernel for, and why."""
    return lacking(load_target(GPU_TARGET)) if is_for_gpu else {}


def _joined(graph: Graph, split: DeviceParts, parts: Sequence[_Part]) -> tuple[Program, Lowered]:
    """One program whose image holds those of the devices; its steps say no more than where host calls are."""
    whole = Program(graph.name, resources=dict(graph.resources))
    devices: list[dict[str, object]] = []
    asked: dict[str, list[int]] = {}
    offset = 0
    for part in parts:
        sites = _sites(part, split, whole, asked)
        devices.append(
            {
                "kind": part.device.kind,
                "number": part.device.number,
                "offset": offset,
                "size": len(part.code),
                "faults": len(whole.faults),
                "sites": sites,
            }
        )
        whole.faults += part.program.faults
        offset += len(part.code)
    entries: list[dict[str, object]] = []
    for name, entry in _entries(graph).items():
        entry_signature = signature(entry)
        whole.signatures.append(entry_signature)
        whole.entries.append(_entry(name, entry, entry_signature, parts, asked.get(name, ())))
        entries.append(_entry_plan(name, entry_signature, whole.entries[-1], parts))
    symbols = {f"entry_{number}_0": 0 for number in range(len(entries))}
    image = CodeImage(MIXED, b"".join(part.code for part in parts), symbols, ())
    compilers = {name: version for part in parts for name, version in part.compilers.items()}
    notes = {MIXED: {"devices": devices, "entries": entries}}
    return whole, Lowered(MIXED, (image,), b"", (), notes, compilers=compilers)


def _entries(graph: Graph) -> dict[str, Entry]:
    """Entries and tests by their names in the parts."""
    return {**graph.entries, **{f"test {name}": test for name, test in graph.tests.items()}}


def _sites(part: _Part, split: DeviceParts, whole: Program, asked: dict[str, list[int]]) -> list[int]:
    """The number of each host call of a part among those of the whole; `asked` gets them by entry."""
    sites: list[int] = []
    entry_of = {step.site: entry.name for entry in part.program.entries for step in _host_calls(entry)}
    inner = set(split.inner)
    for number, site in enumerate(part.program.sites):
        if dict(site.attributes).get("key") in inner:
            sites.append(NOT_OUTSIDE)
        else:
            sites.append(whole.host_site(site))
            asked.setdefault(entry_of[number], []).append(sites[-1])
    return sites


def _host_calls(entry: EntryProgram) -> Sequence[HostCall]:
    return [step for step in steps_of(entry.steps) if isinstance(step, HostCall)]


def _entry(
    name: str, entry: Entry, signature: EntrySignature, parts: Sequence[_Part], sites: Sequence[int]
) -> EntryProgram:
    """An entry that its parts carry out. Its memory is that of all of them together."""
    arena = largest = ZERO
    for part in parts:
        for own in part.program.entries:
            if own.name == name:
                arena, largest = arena + own.arena, largest + own.largest_live
    steps = tuple(HostCall(site, (), ()) for site in sites)
    measured = tuple(bounds_in(entry.block).items())
    return EntryProgram(signature.name, [], steps, (), (), signature.dims, arena, largest, measured=measured)


def _entry_plan(name: str, signature: EntrySignature, entry: EntryProgram, parts: Sequence[_Part]) -> dict[str, object]:
    known = [symbol for symbol, _ in entry.measured]
    plans: list[Mapping[str, object]] = []
    for number, part in enumerate(parts):
        names = [each.name for each in part.program.entries]
        if name not in names:
            continue
        index = names.index(name)
        own, program = part.program.signatures[index], part.program.entries[index]
        plans.append(
            {
                "device": number,
                "entry": index,
                "arguments": [signature.parameter_names.index(each) for each in own.parameter_names],
                "results": [signature.result_names.index(each) for each in own.result_names],
                "measured": [known.index(symbol) for symbol, _ in program.measured],
            }
        )
    return {
        "arguments": len(signature.parameter_names),
        "results": len(signature.result_names),
        "dims": len(signature.dims),
        "measured": len(known),
        "parts": plans,
    }
