"""What placement decided about a program, as data for people: each decision with its lines, and how good it is.

Assumes a distributed program. Guarantees plain data: what `dfc place` prints, as a table or as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dfc.bundle.target import kernel_forms
from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.globs import Glob
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.task_devices import Device
from dfc.distribute.partition.early import with_early_receives
from dfc.distribute.place import Decision
from dfc.distribute.place.balance import Load, loads
from dfc.distribute.place.cost import nodes_inside
from dfc.distribute.place.devices import DeviceDecision
from dfc.distribute.place.state import used_state
from dfc.distribute.place.timeline import Timeline, timeline
from dfc.driver.many_ranks import DistributedProgram
from dfc.ir.dims import Dim
from dfc.lower.program import lower_graph
from dfc.ops.attributes import AssignAttributes, DrawAttributes, ResourceAttributes


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. `device` is that of its task where it is; `entry` is "" for state; `lines` are those of the
    deployment file that it follows from. `alternatives` are sites with what was compared: bytes held for state, seconds
    for nodes. `on_device` is the decision for this device in a task that works on several."""

    entry: str
    name: str
    site: TaskSite
    device: Device
    reason: str
    lines: tuple[int, ...]
    start: float
    finish: float
    alternatives: tuple[tuple[TaskSite, float], ...]
    on_device: DeviceDecision | None = None


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    name: str
    rows: tuple[Row, ...]
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Peak:
    """Working memory of an entry in one role, in bytes: with each receive right before its first use, and with all of
    them at the start."""

    role: str
    entry: str
    delayed: Dim
    early: Dim


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """What the tasks of a role work on, and the lines that say so; none where no line speaks of devices."""

    role: str
    devices: tuple[Device, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about one placement. `devices` are those of jobs that have GPUs."""

    deployment: str
    devices: tuple[DeviceRow, ...]
    state: tuple[Row, ...]
    loads: tuple[Load, ...]
    entries: tuple[PlacedEntry, ...]
    peaks: tuple[Peak, ...]


def report(distributed: DistributedProgram, only: str | None = None, *, plans_memory: bool = False) -> Report:
    """The report, with the memory of each role if that is to be planned, too. With `only`, it has just the rows whose
    name the glob matches; the sums are of all."""
    deployment = distributed.deployment
    tasks = [TaskSite(job.name, number) for job in deployment.jobs.values() for number in range(job.tasks)]
    memory = {job.name: job.memory for job in deployment.jobs.values()}
    counts = {job.name: job.tasks for job in deployment.jobs.values()}
    placed = distributed.placed
    entries = [
        PlacedEntry(name, tuple(_rows(distributed, decisions, name, only)), timeline(decisions, tasks))
        for name, decisions in placed.entries.items()
    ]
    return Report(
        deployment.source.name,
        tuple(_devices(distributed)),
        tuple(_rows(distributed, placed.state, "", only)),
        tuple(loads(distributed.divided.graph, placed.state, counts, memory)),  # tables as each owner has them
        tuple(entries),
        tuple(_peaks(distributed)) if plans_memory else (),
    )


def _devices(distributed: DistributedProgram) -> Iterator[DeviceRow]:
    devices = distributed.resolution.devices
    for role in distributed.parts.graphs:
        if distributed.deployment.jobs[role.job].gpus:
            several = distributed.devices.get(role)
            in_play = several.devices if several is not None else devices.in_play(role.job, role.task)
            lines = sorted({span.line for span in devices.because(role.job, role.task)})
            yield DeviceRow(role.name, in_play, tuple(lines))


def _peaks(distributed: DistributedProgram) -> Iterator[Peak]:
    """Entries of each role that receive anything."""
    for role, graph in distributed.parts.graphs.items():
        early = with_early_receives(graph)
        if any(early.entries[name] is not entry for name, entry in graph.entries.items()):
            forms = kernel_forms("cpu")
            delayed = lower_graph(graph, forms=forms).entries
            for one, other in zip(delayed, lower_graph(early, forms=forms).entries, strict=True):
                if early.entries[one.name] is not graph.entries[one.name]:
                    yield Peak(role.name, one.name, one.arena, other.arena)


def _rows(
    distributed: DistributedProgram, decisions: Sequence[Decision], entry: str, only: str | None
) -> Iterator[Row]:
    glob = Glob(only or "**")
    for outer in decisions:
        for each in (outer, *_inside(distributed, outer)):
            if glob.matches(each.name):
                lines = tuple(sorted(set(_lines(distributed, each, entry))))
                device, chosen = _device(distributed, each, entry)
                yield Row(
                    entry,
                    each.name,
                    each.site,
                    device,
                    each.reason,
                    lines,
                    each.start,
                    each.finish,
                    each.alternatives,
                    chosen,
                )


def _device(distributed: DistributedProgram, decision: Decision, entry: str) -> tuple[Device, DeviceDecision | None]:
    """The device of a task that something is on, and the decision for it where there are several."""
    site = decision.site
    role = next(
        (each for each in distributed.parts.graphs if each.runs(site) and each.task in (None, site.task or 0)), None
    )
    several = distributed.devices.get(role) if role is not None else None
    if several is None:
        return distributed.resolution.devices.of(site.job, site.task), None
    chosen = several.decisions.get(entry, {}).get(decision.name)
    return (several.devices[0] if chosen is None else chosen.device), chosen


def _inside(distributed: DistributedProgram, outer: Decision) -> Iterator[Decision]:
    """What is in the regions of a node and has a place of its own; its time is that of the whole."""
    sites = distributed.placed.placement.nodes
    for node in nodes_inside(outer.node)[1:] if outer.node is not None else ():
        if node in sites:
            yield replace(
                outer, name=node.name, site=sites[node], reason=f"in `{outer.name}`", alternatives=(), node=node
            )


def _lines(distributed: DistributedProgram, decision: Decision, entry: str) -> Iterator[int]:
    """Numbers of the lines that a decision follows from."""
    resolution = distributed.resolution
    state = _state_of(decision)
    yield from _lines_about(resolution, state or decision.name)
    if decision.site.task is not None:
        return
    touched = state or ("" if entry else decision.name)
    for statement in resolution.replications.values():
        if statement.job != decision.site.job:
            continue
        if statement.entry == entry or touched in used_state(distributed.whole.entries[statement.entry]):
            yield statement.span.line


def _lines_about(resolution: Resolution, name: str) -> Iterator[int]:
    group = resolution.group(name)
    resolved = resolution.constraint_on(name)
    if group is not None:
        yield from (link.span.line for link in group.links)
    if resolved is not None:
        yield from (cause.span.line for cause in resolved.causes)


def _state_of(decision: Decision) -> str:
    """The state that a node reads or writes, "" if it does not."""
    match decision.node.attributes if decision.node is not None else None:
        case ResourceAttributes(name) | AssignAttributes(name) | DrawAttributes(name):
            return name
        case _:
            return ""
