"""A program and its deployment file as one bundle for many ranks: the phases behind the passes, in order.

    graph --resolve--> what holds for each name --replicate--> block loops
    --shard--> rows --place--> sites --partition--> role graphs
    --check_parts--> proof --fuse, schedule, memory, target--> a bundle a role --> the cluster bundle around them

Assumes the graph as the front end makes it, for names, and as all passes leave it, for everything else. Guarantees that
every mistake of the deployment file is a `CompileError` with all its messages, and that each role's graph is verified.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dfc.bundle.cluster_writing import Extras, write_cluster
from dfc.bundle.writing import Bundle, write
from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import Deployment, Site
from dfc.distribute.deployment.parse import parse_partly
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.resolve import resolve, wrong_names
from dfc.distribute.partition import Parts, partition
from dfc.distribute.partition.check_parts import check_parts
from dfc.distribute.partition.checkpoints import Steps, set_apart
from dfc.distribute.partition.model import Role
from dfc.distribute.place import Costs, Placed, PlacementError, Wishes, place
from dfc.distribute.place.blocks import names_in_blocks, strays
from dfc.distribute.place.devices import OnDevices
from dfc.distribute.replicate import Replication, replicate
from dfc.distribute.shard import Caller, Spreading, picked_ahead, row_uses, shard, sharded_state
from dfc.driver import pipeline
from dfc.driver.role_memory import check_memory, early_memory
from dfc.driver.several_devices import lower_on_devices, on_devices, options_on
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph
from dfc.ir.options import CompileOptions
from dfc_runtime.devices import NOTE as DEVICE_NOTE


@dataclass(frozen=True, slots=True)
class Spread:
    """A program that was placed and partitioned. `whole` is the graph as the passes left it, `replicated` what was cut
    into blocks, by entry; `resolution` has the lines behind the placement, `devices` what is where in the roles that
    work on several."""

    deployment: Deployment
    resolution: Resolution
    whole: Graph
    replicated: Mapping[str, Replication]
    divided: Spreading
    placed: Placed
    parts: Parts
    devices: Mapping[Role, OnDevices]
    diagnostics: tuple[Diagnostic, ...]


def spread(built: Graph, whole: Graph, source: SourceFile, costs: Costs | None = None) -> Spread:
    """Places and partitions an optimised graph. `built` is the graph it came from, with the names of the author."""
    _, resolution, remarks = _resolved(built, source)
    return spread_by(resolution, whole, costs, remarks)


def spread_by(
    resolution: Resolution,
    whole: Graph,
    costs: Costs | None = None,
    remarks: tuple[Diagnostic, ...] = (),
    homes: Mapping[str, Site] | None = None,
    elastic: Collection[str] = (),
) -> Spread:
    """Likewise, by what a deployment file was found to mean. `homes` are the sites of state that lies somewhere
    already; `elastic` jobs may have any number of tasks."""
    deployment = resolution.deployment
    graph, replicated, divided, steps = _cut(whole, resolution)
    wishes = _fixed(wishes_of(graph, resolution), divided, replicated)
    wishes = replace(wishes, fixed={**(homes or {}), **wishes.fixed}, elastic=elastic)
    _check_blocks(graph, wishes)
    known = _with_counts(costs or Costs(), replicated, deployment, graph)
    try:
        placed = place(graph, wishes, known)
    except PlacementError as problem:
        raise CompileError([_unplaceable(deployment, problem)]) from problem
    with pipeline.guarded("partition", 0, graph):
        parts = partition(graph, placed.placement, steps, _pieces(replicated, divided))
        for role, part in parts.graphs.items():
            pipeline.check(part, f"partition of {role.name}")
        check_parts(parts)
    try:
        check_memory(parts.graphs, deployment.jobs, replicated, known)
    except PlacementError as problem:
        raise CompileError([_unplaceable(deployment, problem)]) from problem
    found = {role: on_devices(role, part, resolution, costs) for role, part in parts.graphs.items()}
    devices = {role: each for role, each in found.items() if each is not None}
    remarks = (*remarks, *(each for cut in replicated.values() for each in cut.remarks))
    return Spread(deployment, resolution, whole, replicated, divided, placed, parts, devices, remarks)


def _pieces(replicated: Mapping[str, Replication], divided: Spreading) -> dict[str, frozenset[str]]:
    """The results of which every task has a part, by entry: blocks of a batch, or rows."""
    names = {*replicated, *divided.results}
    return {
        name: frozenset(replicated[name].results if name in replicated else ()) | {*divided.results.get(name, ())}
        for name in names
    }


def _cut(whole: Graph, resolution: Resolution) -> tuple[Graph, dict[str, Replication], Spreading, Steps]:
    """The graph in blocks and by rows, what was cut, and the entries that only save or restore."""
    graph, replicated = whole, dict[str, Replication]()
    jobs = resolution.deployment.jobs
    sharded = sharded_state(whole, resolution.shards, {job.name: job.tasks for job in jobs.values()})
    graph = picked_ahead(graph, sharded)
    for name, statement in resolution.replications.items():
        if statement.mode == "sync":
            graph, replicated[name] = replicate(graph, statement, lambda entry: row_uses(entry, sharded))
    graph, steps = set_apart(graph)
    callers = {name: _caller(entry, resolution, replicated) for name, entry in graph.entries.items()}
    divided = shard(graph, sharded, callers)
    return divided.graph, replicated, divided, steps


def _caller(entry: Entry, resolution: Resolution, replicated: Mapping[str, Replication]) -> Caller:
    """Where an entry uses rows: where it is replicated, else where the first of its nodes is that a line speaks of."""
    statement, cut = resolution.replications.get(entry.name), replicated.get(entry.name)
    if statement is not None:
        return Caller(Site(statement.job), cut.count, cut.blocks) if cut is not None else Caller(Site(statement.job))
    copied = {each.job for each in resolution.replications.values()}
    for node in entry.block.nodes:
        ruling = None if node.op in ("read", "assign") else resolution.ruling(node.name)
        if ruling is not None and ruling.constraint.job is not None and resolution.group(node.name) is None:
            job, task = ruling.constraint.job, ruling.constraint.task
            return Caller(Site(job, task if task is not None or job in copied else 0))
    first = next(iter(resolution.deployment.jobs))
    return Caller(Site(first, None if first in copied else 0))


def _fixed(wishes: Wishes, divided: Spreading, replicated: Mapping[str, Replication]) -> Wishes:
    """Wishes that know what is cut into blocks, where divided state lies, and what has to be beside it. Nothing is
    together with all its tasks: what is done with its rows is done where they are asked for."""
    counts = {name: cut.count for name, cut in replicated.items()}
    owners = {name: state.division.site for name, state in divided.sharded.items()}
    groups = {group for name, group in wishes.together.items() if name in owners}
    together = {name: group for name, group in wishes.together.items() if group not in groups}
    values = {name: wish for name, wish in wishes.values.items() if wishes.together.get(name) not in groups}
    fixed = {**divided.sites, **owners}
    return replace(wishes, fixed=fixed, together=together, values=values, counts=counts)


def _check_blocks(graph: Graph, wishes: Wishes) -> None:
    """Refuses lines that want in one place what every task does for its own blocks."""
    found: dict[int, Diagnostic] = {}
    for entry in graph.entries.values():
        for node in strays(entry, wishes):
            wish, job = wishes.values[node.name], wishes.replicated[entry.name]
            message = error(
                "E0802",
                f"`{node.name}` is computed in blocks by all tasks of `{job}`, so that it cannot be placed elsewhere",
                wish.span,
                secondary=[(node.span, "this works on the examples of a block")],
                helps=[replacing(f"leave it with the others, on `{job}`", wish.span, job)],
            )
            found.setdefault(wish.span.start, message)
    if found:
        raise CompileError(list(found.values()))


def _with_counts(costs: Costs, replicated: Mapping[str, Replication], deployment: Deployment, graph: Graph) -> Costs:
    """Costs that know how many blocks each task has, as the jobs are written, and how large a block is: what was
    measured with other blocks, or with none, takes as much longer or less long as these are larger or smaller."""
    counts = {each.count: -(-each.blocks // deployment.jobs[each.job].tasks) for each in replicated.values()}
    own = {
        name: {each.symbol: max(costs.sizes[each.symbol] // each.blocks, 1)}
        for name, each in replicated.items()
        if each.symbol in costs.sizes
    }
    measured = dict(costs.measured)
    for name, cut in replicated.items():
        for each in names_in_blocks(graph.entries[name], cut.count) & measured.keys():
            measured[each] *= costs.blocks.get(name, 1) / cut.blocks
    return replace(costs, sizes={**counts, **costs.sizes}, own=own, measured=measured)


def replication_mistakes(built: Graph, source: SourceFile) -> tuple[Diagnostic, ...]:
    """What only the optimised graph shows of a deployment file that is right otherwise."""
    return mistakes_by(resolution_of(built, source), pipeline.optimise(built))


def mistakes_by(resolution: Resolution, whole: Graph) -> tuple[Diagnostic, ...]:
    """What is wrong with an optimised graph, or a part of one, by what a deployment file was found to mean."""
    deployment = resolution.deployment
    try:
        graph, replicated, divided, _ = _cut(whole, resolution)
        wishes = _fixed(wishes_of(graph, resolution), divided, replicated)
        _check_blocks(graph, wishes)
        if any(job.memory for job in deployment.jobs.values()):
            spread_by(resolution, whole)
    except CompileError as failure:
        return failure.diagnostics
    except PlacementError as problem:
        return (_unplaceable(deployment, problem),)
    return tuple(each for cut in replicated.values() for each in cut.remarks)


def resolution_of(built: Graph, source: SourceFile) -> Resolution:
    """What a deployment file means for a program; raises `CompileError`."""
    return _resolved(built, source)[1]


def _resolved(built: Graph, source: SourceFile) -> tuple[Deployment, Resolution, tuple[Diagnostic, ...]]:
    deployment, found = parse_partly(source)
    if any(each.is_error for each in found):
        raise CompileError(sorted([*found, *wrong_names(deployment, built)], key=lambda each: each.span.start))
    resolution, more = resolve(deployment, built)
    if resolution is None:
        raise CompileError([*found, *more])
    return deployment, resolution, (*found, *more)


def wishes_of(graph: Graph, resolution: Resolution) -> Wishes:
    """What the deployment asks of the names of an optimised graph."""
    jobs, settled = resolution.deployment.jobs, resolution.devices.settled
    nodes = {node.name for _, block in walk.graph_blocks(graph) for node in walk.nodes(block)}
    asked = {name: ruling for name in (*graph.resources, *sorted(nodes)) if (ruling := resolution.ruling(name))}
    together = {name: group for name in (*graph.resources, *sorted(nodes)) if (group := resolution.group(name))}
    return Wishes(
        {job.name: job.tasks for job in jobs.values()},
        {job.name: job.memory for job in jobs.values()},
        {name: settled(ruling.constraint) for name, ruling in asked.items() if name in graph.resources},
        {name: settled(ruling.constraint) for name, ruling in asked.items() if name not in graph.resources},
        {name: group.members[0] for name, group in together.items()},
        {name: each.job for name, each in resolution.replications.items() if name in graph.entries},
    )


def _unplaceable(deployment: Deployment, problem: PlacementError) -> Diagnostic:
    job = deployment.jobs.get(problem.name)
    span = job.span if job is not None else deployment.source.span(0, 0)
    return error("E0813", str(problem), span, helps=["give the job more memory, or more tasks"])


def compile_cluster(
    spread_: Spread, options: CompileOptions, extras: Extras, warnings: Sequence[Diagnostic] = ()
) -> Bundle:
    """The bundle of a program that was spread. One that is no part of another says what delaying receives saves."""
    if extras.has_deployment:
        extras = replace(extras, early=early_memory(spread_.parts.graphs))
    inner = {role: _role_bundle(graph, options, spread_, role) for role, graph in spread_.parts.graphs.items()}
    return write_cluster(
        spread_.whole,
        spread_.deployment,
        spread_.parts,
        spread_.replicated,
        spread_.divided,
        inner,
        spread_.placed.placement,
        extras,
        (*warnings, *spread_.diagnostics),
    )


def _role_bundle(graph: Graph, options: CompileOptions, spread_: Spread, role: Role) -> Bundle:
    """The program of one role as a bundle by itself, without its text, which the bundle around it has. One that works
    on GPUs says which of its task is its first, and how many each task has."""
    device, several = spread_.resolution.devices.of(role.job, role.task), spread_.devices.get(role)
    if several is not None:
        program, lowered = lower_on_devices(graph, several, options)
    else:
        program, lowered = pipeline.lower(graph, options_on(device, options))
    if device.kind == "gpu":
        note = [0 if several is not None else device.number, spread_.deployment.jobs[role.job].gpus]
        lowered = replace(lowered, notes={**lowered.notes, DEVICE_NOTE: note})
    return write(program, lowered, "", graph.settings)


__all__ = ["Extras", "Spread", "compile_cluster", "options_on", "spread", "spread_by", "wishes_of"]
