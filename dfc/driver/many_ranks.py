"""A program and its deployment file as one bundle for many ranks: what the stages from `replicate` to `partition`, and
`bundle`, do with it (`ManyRanks`, a distribution).

    graph --replicate--> block loops --shard--> rows --place--> sites --partition--> role graphs, proved to fit
    each of them: --fuse .. link--> an ordinary bundle --> the cluster bundle around them

Assumes the graph as the front end makes it, for names, and as all passes leave it, for everything else. Guarantees that
every mistake of the deployment file is a `CompileError` with all its messages, and that each role's graph is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from dfc.bundle.cluster_writing import Extras, write_cluster
from dfc.bundle.writing import Bundle, write
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import APART, IN_STEP, Deployment, TaskSite
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.resolve import resolve, wrong_names
from dfc.distribute.deployment.syntax.parse import parse_partly
from dfc.distribute.partition import RankGraphs, partition
from dfc.distribute.partition.check_parts import check_parts
from dfc.distribute.partition.checkpoints import Steps, set_apart
from dfc.distribute.partition.model import RankRole
from dfc.distribute.pipelines.completion import with_completions
from dfc.distribute.pipelines.refused import refused_queues
from dfc.distribute.place import Costs, Placed, PlacementConstraints, PlacementError, place
from dfc.distribute.place.blocks import names_in_blocks
from dfc.distribute.place.devices import OnDevices
from dfc.distribute.replicate import Replication, replicate
from dfc.distribute.separate import mirror_variables, stage_variables, take_apart, together
from dfc.distribute.shard import Caller, Sharded, ShardedGraph, hoist_gathers, row_uses, shard, sharded_state
from dfc.driver import pipeline
from dfc.driver.apart_entries import ApartEntry, pieces, rejoined, with_owners
from dfc.driver.pipeline import Context, Divided, Linked, Part, Undivided
from dfc.driver.placement_constraints import check_blocks, constraints_of, with_fixed
from dfc.driver.role_memory import check_memory, early_memory
from dfc.driver.several_devices import Joint, on_devices, options_on
from dfc.ir.graph import Entry, Graph
from dfc.lower.lowering_cache import LoweringCache
from dfc_runtime.devices import NOTE as DEVICE_NOTE


@dataclass(frozen=True, slots=True)
class DistributedProgram:
    """A program that was placed and partitioned. `whole` is the graph as the passes left it, `replicated` what was cut
    into blocks, `apart` what was taken apart, by entry; `resolution`: lines behind the placement; `devices`: what is
    where in roles of several; `known`: the costs that it was placed by."""

    deployment: Deployment
    resolution: Resolution
    whole: Graph
    replicated: Mapping[str, Replication]
    apart: Mapping[str, ApartEntry]
    divided: ShardedGraph
    placed: Placed
    parts: RankGraphs
    devices: Mapping[RankRole, OnDevices]
    diagnostics: tuple[Diagnostic, ...]
    known: Costs


@dataclass(frozen=True, slots=True)
class Replicated(Undivided):
    """A graph whose replicated entries are loops over blocks. `whole` is the graph as the passes left it; `sharded` is
    the state that will be divided by rows; `costs` are those that were measured or said."""

    whole: Graph
    replicated: Mapping[str, Replication]
    sharded: Mapping[str, Sharded]
    costs: Costs | None


@dataclass(frozen=True, slots=True)
class Rows(Replicated):
    """Likewise, with rows at their owners, and the entries that only save or restore set apart."""

    divided: ShardedGraph
    steps: Steps


@dataclass(frozen=True, slots=True)
class Located(Rows):
    """Likewise, with a task, or all of a job, for each node and piece of state."""

    placed: Placed
    known: Costs

    def text(self) -> str:
        """The graph, and before it where state is and why."""
        state = (f"# {each.name}: {each.site}, {each.reason}\n" for each in self.placed.state)
        return f"{''.join(state)}{Undivided.text(self)}"

    def verify(self, stage: str) -> None:
        Undivided.verify(self, stage)
        placement = self.placed.placement
        for name in self.graph.resources:
            site = placement.state.get(name)
            if site is None or site.job not in placement.tasks or (site.task or 0) >= placement.tasks[site.job]:
                raise PlacementError(name, f"{name} is on no task that there is")


@dataclass(frozen=True, slots=True)
class ManyRanks:
    """The distribution that a deployment file asks for. `remarks` are warnings about the file; `costs` says what is
    known of the costs of an optimised graph. `state_sites` are the sites of state that lies somewhere already;
    `elastic` jobs may have any number of tasks."""

    resolution: Resolution
    remarks: tuple[Diagnostic, ...] = ()
    costs: Callable[[Graph], Costs | None] = lambda _: None
    state_sites: Mapping[str, TaskSite] = field(default_factory=dict[str, TaskSite])
    elastic: Collection[str] = ()

    def separate(self, graph: Graph) -> Graph:
        """Variables of the last step, or copies of them, beside those of this one, in entries that want both;
        computations and updates by themselves in those without a common step."""
        statements = self.resolution.replications.values()
        if staged := [each for each in statements if each.mode == "staged"]:
            graph = stage_variables(graph, staged)
        if mirrored := [each for each in statements if each.mode == "mirrored"]:
            graph = mirror_variables(graph, mirrored)
        apart = [each for each in statements if each.mode in APART]
        return take_apart(graph, apart) if apart else graph

    def replicate(self, graph: Graph) -> Replicated:
        """Block loops, one replicated entry after the other."""
        whole, replicated = graph, dict[str, Replication]()
        jobs = self.resolution.deployment.jobs
        sharded = sharded_state(whole, self.resolution.shards, {job.name: job.tasks for job in jobs.values()})
        graph = hoist_gathers(graph, sharded)
        for name, statement in self.resolution.replications.items():
            if statement.mode in IN_STEP:
                graph, replicated[name] = replicate(graph, statement, lambda entry: row_uses(entry, sharded))
        return Replicated(graph, whole, replicated, sharded, self.costs(whole))

    def shard(self, form: Undivided) -> Rows:
        """Rows of divided state at their owners."""
        assert isinstance(form, Replicated)
        graph, steps = set_apart(with_completions(form.graph))
        callers = {name: _caller(entry, self.resolution, form.replicated) for name, entry in graph.entries.items()}
        divided = shard(graph, form.sharded, callers)
        return Rows(divided.graph, form.whole, form.replicated, form.sharded, form.costs, divided, steps)

    def place(self, form: Undivided) -> Located:
        """Sites for state and nodes; raises `CompileError` for what cannot be placed."""
        assert isinstance(form, Rows)
        deployment = self.resolution.deployment
        constraints = self.constraints(form)
        constraints = replace(constraints, fixed={**self.state_sites, **constraints.fixed}, elastic=self.elastic)
        known = _with_counts(form.costs or Costs(), form.replicated, deployment, form.graph)
        try:
            placed = place(form.graph, constraints, known)
        except PlacementError as problem:
            raise CompileError([_unplaceable(deployment, problem)]) from problem
        return Located(
            form.graph,
            form.whole,
            form.replicated,
            form.sharded,
            form.costs,
            form.divided,
            form.steps,
            placed,
            known,
        )

    def constraints(self, form: Rows) -> PlacementConstraints:
        """What the deployment asks of a graph in blocks and rows; raises `CompileError` for lines that ask for what
        cannot be."""
        constraints = with_fixed(constraints_of(form.graph, self.resolution), form.divided, form.replicated)
        constraints = with_owners(constraints, form.graph, self.resolution)
        check_blocks(form.graph, constraints)
        return constraints

    def partition(self, form: Undivided, context: Context) -> Divided[Graph]:
        """A graph for each role, and for each device of a role that works on several."""
        distributed = self.partitioned(form, context.lowered)
        joints = {
            role: Joint.of(distributed.parts.graphs[role], several) for role, several in distributed.devices.items()
        }
        parts: list[Part[Graph]] = []
        for role, graph in distributed.parts.graphs.items():
            if role in joints:
                parts += joints[role].parts(role.name, context.options)
            else:
                device = self.resolution.devices.of(role.job, role.task)
                parts.append(Part(role.name, graph, options_on(device, context.options), graph))
        return Divided(tuple(parts), ClusterAssembly(distributed, joints))

    def partitioned(self, form: Undivided, cache: LoweringCache | None = None) -> DistributedProgram:
        """A graph for each role, proved not to wait for ever, within the memory of its job; what had to be made of
        graphs to know that is kept in `cache`."""
        assert isinstance(form, Located)
        deployment, graph, replicated = self.resolution.deployment, form.graph, form.replicated
        parts = partition(graph, form.placed.placement, form.steps, _pieces(replicated, form.divided) | pieces(graph))
        check_parts(parts)
        on_gpus = (
            part for role, part in parts.graphs.items() if self.resolution.devices.of(role.job, role.task).kind == "gpu"
        )
        if refused := [each for part in on_gpus for each in refused_queues(part, "on GPUs")]:
            raise CompileError(refused)
        apart = rejoined(parts, graph, self.resolution)
        try:
            check_memory(parts.graphs, deployment.jobs, replicated, form.known, cache or LoweringCache())
        except PlacementError as problem:
            raise CompileError([_unplaceable(deployment, problem)]) from problem
        by_role = {role: on_devices(role, part, self.resolution, form.costs) for role, part in parts.graphs.items()}
        devices = {role: each for role, each in by_role.items() if each is not None}
        remarks = (*self.remarks, *(each for replication in replicated.values() for each in replication.remarks))
        return DistributedProgram(
            deployment,
            self.resolution,
            together(form.whole),
            replicated,
            apart,
            form.divided,
            form.placed,
            parts,
            devices,
            remarks,
            form.known,
        )


def distribute(built: Graph, whole: Graph, source: SourceFile, costs: Costs | None = None) -> DistributedProgram:
    """Places and partitions an optimised graph, for whoever looks at that. `built` is the graph it came from, with the
    names of the author."""
    distribution = deployed(built, source, lambda _: costs)
    located: Located = pipeline.run(whole, Context(distribution=distribution), "replicate", "place")
    with pipeline.guarded("partition", 0, whole):
        partitioned = distribution.partitioned(located)
    for role, part in partitioned.parts.graphs.items():
        pipeline.check(part, f"partition of {role.name}")
    return partitioned


def deployed(built: Graph, source: SourceFile, costs: Callable[[Graph], Costs | None] = lambda _: None) -> ManyRanks:
    """The distribution that a deployment file asks for; `built` is the graph as it was elaborated."""
    _, resolution, remarks = _resolved(built, source)
    return ManyRanks(resolution, remarks, costs)


def _pieces(replicated: Mapping[str, Replication], divided: ShardedGraph) -> dict[str, frozenset[str]]:
    """The results of which every task has a part, by entry: blocks of a batch, or rows."""
    names = {*replicated, *divided.results}
    return {
        name: frozenset(replicated[name].results if name in replicated else ()) | {*divided.results.get(name, ())}
        for name in names
    }


def _caller(entry: Entry, resolution: Resolution, replicated: Mapping[str, Replication]) -> Caller:
    """Where an entry uses rows: where it is replicated, else where the first of its nodes is that a line speaks of."""
    statement, replication = resolution.replications.get(entry.name), replicated.get(entry.name)
    if statement is not None:
        return (
            Caller(TaskSite(statement.job), replication.count, replication.blocks)
            if replication is not None
            else Caller(TaskSite(statement.job))
        )
    copied = {each.job for each in resolution.replications.values()}
    for node in entry.block.nodes:
        constraint = None if node.op in ("read", "assign") else resolution.constraint_on(node.name)
        if constraint is not None and constraint.constraint.job is not None and resolution.group(node.name) is None:
            job, task = constraint.constraint.job, constraint.constraint.task
            return Caller(TaskSite(job, task if task is not None or job in copied else 0))
    first = next(iter(resolution.deployment.jobs))
    return Caller(TaskSite(first, None if first in copied else 0))


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
    for name, replication in replicated.items():
        for each in names_in_blocks(graph.entries[name], replication.count) & measured.keys():
            measured[each] *= costs.blocks.get(name, 1) / replication.blocks
    return replace(costs, sizes={**counts, **costs.sizes}, own=own, measured=measured)


def replication_mistakes(built: Graph, source: SourceFile) -> tuple[Diagnostic, ...]:
    """What only the optimised graph shows of a deployment file that is right otherwise."""
    try:
        built, resolution = separated(built, source)
    except CompileError as failure:
        return failure.diagnostics
    return mistakes_by(resolution, pipeline.optimise(built))


def mistakes_by(resolution: Resolution, whole: Graph) -> tuple[Diagnostic, ...]:
    """What is wrong with an optimised graph, or a part of one, by what a deployment file was found to mean."""
    deployment, distribution = resolution.deployment, ManyRanks(resolution)
    try:
        rows = distribution.shard(distribution.replicate(whole))
        distribution.constraints(rows)
        if any(job.memory for job in deployment.jobs.values()):
            distribution.partitioned(distribution.place(rows))
    except CompileError as failure:
        return failure.diagnostics
    except PlacementError as problem:
        return (_unplaceable(deployment, problem),)
    return tuple(each for replication in rows.replicated.values() for each in replication.remarks)


def separated(built: Graph, source: SourceFile) -> tuple[Graph, Resolution]:
    """A program as the front end made it behind the stage `separate`, and what the deployment file means for it; raises
    `CompileError`."""
    resolution = resolution_of(built, source)
    return ManyRanks(resolution).separate(built), resolution


def resolution_of(built: Graph, source: SourceFile) -> Resolution:
    """What a deployment file means for a program; raises `CompileError`."""
    return _resolved(built, source)[1]


def _resolved(built: Graph, source: SourceFile) -> tuple[Deployment, Resolution, tuple[Diagnostic, ...]]:
    deployment, diagnostics = parse_partly(source)
    if any(each.is_error for each in diagnostics):
        raise CompileError(sorted([*diagnostics, *wrong_names(deployment, built)], key=lambda each: each.span.start))
    resolution, more = resolve(deployment, built)
    if resolution is None:
        raise CompileError([*diagnostics, *more])
    return deployment, resolution, (*diagnostics, *more)


def _unplaceable(deployment: Deployment, problem: PlacementError) -> Diagnostic:
    job = deployment.jobs.get(problem.name)
    span = job.span if job is not None else deployment.source.span(0, 0)
    return error("E0813", str(problem), span, helps=["give the job more memory, or more tasks"])


@dataclass(frozen=True, slots=True)
class ClusterAssembly:
    """The bundle around the bundles of the roles. `extras` are what it holds besides them; one that is no part of
    another says what delaying receives saves."""

    distributed: DistributedProgram
    joints: Mapping[RankRole, Joint]
    extras: Extras = field(default_factory=Extras)

    def bundle(self, parts: Sequence[Part[Linked]], context: Context) -> Bundle:
        extras, distributed = self.extras, self.distributed
        if extras.has_deployment:
            extras = replace(extras, early=early_memory(distributed.parts.graphs))
        return write_cluster(
            distributed.whole,
            distributed.deployment,
            distributed.parts,
            distributed.replicated,
            {name: (each.replication, each.update) for name, each in distributed.apart.items()},
            distributed.divided,
            dict(self._inner(parts)),
            distributed.placed.placement,
            extras,
            (*context.diagnostics, *distributed.diagnostics),
        )

    def _inner(self, parts: Sequence[Part[Linked]]) -> Iterator[tuple[RankRole, Bundle]]:
        """The program of each role as a bundle by itself, without its text, which the bundle around it has. One that
        works on GPUs says which of its task is its first, and how many each task has."""
        pending = iter(parts)
        for role, graph in self.distributed.parts.graphs.items():
            joint = self.joints.get(role)
            own = [next(pending) for _ in (joint.split.graphs if joint is not None else (role,))]
            linked = joint.joined(own) if joint is not None else own[0].form
            device = self.distributed.resolution.devices.of(role.job, role.task)
            lowered = linked.lowered
            if device.kind == "gpu":
                note = [0 if joint is not None else device.number, self.distributed.deployment.jobs[role.job].gpus]
                lowered = replace(lowered, notes={**lowered.notes, DEVICE_NOTE: note})
            yield role, write(linked.program, lowered, "", graph.settings)


__all__ = [
    "ClusterAssembly",
    "DistributedProgram",
    "Extras",
    "ManyRanks",
    "constraints_of",
    "deployed",
    "distribute",
    "options_on",
]
