"""Parts of entries on many ranks: those that a deployment file lists, precompiled, and those that a rank asks for.

    step "train/loss" from "images", "labels"

A part is distributed like the whole program, with all state where that has it: what is replicated is cut into the same
blocks, so that a value has the same bits. Where nothing that is fed has the dimension that is cut, a part runs once.
Assumes the graph as the front end makes it, and a deployment file that was resolved for it. Guarantees parts that run
on any number of tasks that the whole program runs on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from dfc.bundle.cluster_writing import elastic_jobs
from dfc.bundle.writing import Bundle
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import IN_STEP, Replicate, Step, TaskSite
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.replicate.padded import Padded, padded
from dfc.distribute.replicate.short import CannotPadError
from dfc.distribute.separate import together
from dfc.driver import many_ranks as cluster
from dfc.driver import pipeline
from dfc.driver.many_ranks import DistributedProgram, ManyRanks
from dfc.driver.pipeline import Context
from dfc.driver.selection import Selection, select
from dfc.ir.graph import Entry, Graph
from dfc.ir.options import CompileOptions
from dfc.ir.types import TokenType
from dfc_runtime.errors import FeedError
from dfc_runtime.formats.cluster import PartFeed, PrecompiledPart


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a part has to agree with: the program as the front end made it, what the deployment file means, where state
    lies, and the jobs that may have another number of tasks at start."""

    built: Graph
    resolution: Resolution
    state_sites: Mapping[str, TaskSite]
    elastic: Collection[str]


def surroundings(built: Graph, distributed: DistributedProgram) -> Surroundings:
    """Those of a distributed program."""
    elastic = elastic_jobs(distributed.parts, distributed.divided)
    return Surroundings(built, distributed.resolution, distributed.placed.placement.state, elastic)


def compiled(part: Selection, around: Surroundings, options: CompileOptions) -> Bundle:
    """The bundle of a part, for many ranks and without texts."""
    graph, resolution = _fitted(part, around)
    return pipeline.run(graph, Context(options, _distribution(resolution, around)), "prune")


def _distribution(resolution: Resolution, around: Surroundings) -> ManyRanks:
    return ManyRanks(resolution, state_sites=around.state_sites, elastic=around.elastic)


def compiled_padded(name: str, around: Surroundings, options: CompileOptions) -> tuple[Bundle, Padded]:
    """The bundle of a replicated entry for batches that are filled up to whole blocks, and what the run side has to
    fill up; raises `CompileError`."""
    built, entry = around.built, around.built.entries[name]
    statement = around.resolution.replications[name]
    if statement.mode not in IN_STEP:
        title = f"a short batch is not filled up in the mode `{statement.mode}`"
        raise CompileError([error("E0913", title, entry.span, notes=["`--last drop` leaves the short batch out"])])
    used = {value.type.resource for value in entry.block.parameters if isinstance(value.type, TokenType)}
    resources = {each: replace(r, initial=None) for each, r in built.resources.items() if each in used}
    single = replace(built, resources=resources, entries={name: entry}, tests={})
    graph, resolution = _fitted(Selection(single, name, {}, (), ()), around)
    statement = resolution.replications[name]
    symbol = next(each for each in entry.dims if str(each) == statement.split)
    try:
        padding = padded(pipeline.optimise(graph, options), name, symbol, statement.blocks)
    except CannotPadError as problem:
        raise CompileError([_not_padded(entry, problem)]) from None
    pipeline.check(padding.graph, "padded")
    unchecked = {each.entry: replace(each, is_checked=False) for each in resolution.replications.values()}
    resolution = replace(resolution, replications=unchecked)
    context = Context(options, _distribution(resolution, around))
    return pipeline.run(padding.graph, context, "replicate"), padding


def _not_padded(entry: Entry, problem: CannotPadError) -> Diagnostic:
    span = entry.span if problem.span.is_nowhere else problem.span
    return error(
        "E0913",
        f"a short batch of `{entry.name}` cannot be filled up, because rows might be mixed with those behind",
        span,
        label=problem.reason,
        notes=["`--last drop` leaves the short batch out; one that is a multiple of the blocks runs as it is"],
    )


def precompiled_parts(around: Surroundings, options: CompileOptions) -> list[tuple[PrecompiledPart, Bundle]]:
    """The parts that the deployment file lists; raises `CompileError` with what is wrong with any of them."""
    precompiled: list[tuple[PrecompiledPart, Bundle]] = []
    mistakes: list[Diagnostic] = []
    for step in around.resolution.deployment.steps:
        try:
            part = _selected(around.built, step)
            precompiled.append((described(part), compiled(part, around, options)))
        except CompileError as failure:
            mistakes += failure.diagnostics
    if mistakes:
        raise CompileError(mistakes)
    return precompiled


def step_mistakes(built: Graph, source: SourceFile) -> list[Diagnostic]:
    """What is wrong with the parts that a deployment file lists, if it is right otherwise."""
    built, resolution = cluster.separated(built, source)
    built = together(built)
    around = Surroundings(built, resolution, {}, ())
    mistakes: list[Diagnostic] = []
    for step in around.resolution.deployment.steps:
        try:
            graph, resolution = _fitted(_selected(built, step), around)
            mistakes += [each for each in cluster.mistakes_by(resolution, pipeline.optimise(graph)) if each.is_error]
        except CompileError as failure:
            mistakes += failure.diagnostics
    return mistakes


def _selected(built: Graph, step: Step) -> Selection:
    try:
        part = select(built, list(dict.fromkeys(step.fetches)), list(dict.fromkeys(step.feeds)))
    except FeedError as problem:
        raise CompileError([error("E0814", problem.message, step.span)]) from None
    problem = _sizes_problem(part)
    if problem:
        raise CompileError([error("E0814", problem, step.span)])
    return part


def _sizes_problem(part: Selection) -> str:
    """What is wrong with the sizes that a part is fed: it needs just those that no shape decides."""
    entry = part.graph.entries[part.entry]
    needed = {str(symbol) for symbol in entry.dim_feeds}
    fed = {*part.feeds.values()} - {*entry.parameter_names}
    if needed - fed:
        return f"`{part.fetched[0][0]}` needs the size {', '.join(sorted(needed - fed))}, which no feed decides"
    if fed - needed:
        return f"the shapes of what is fed decide {', '.join(sorted(fed - needed))}, if anything needs it"
    return ""


def described(part: Selection) -> PrecompiledPart:
    """What a bundle says of a part."""
    feeds = (PartFeed(names, part.feeds[names[0]]) for names in part.fed)
    return PrecompiledPart(part.fetched, tuple(feeds))


def _fitted(part: Selection, around: Surroundings) -> tuple[Graph, Resolution]:
    """The graph of a part, and what the deployment file says of it."""
    whole = around.resolution
    graph = _with_owners(part.graph, around.built, whole)
    entry = graph.entries[part.entry]
    jobs = {  # with a second task there is a program for any number of them
        name: replace(job, tasks=max(job.tasks, 2)) if name in around.elastic else job
        for name, job in whole.deployment.jobs.items()
    }
    resolution = replace(
        whole,
        deployment=replace(whole.deployment, jobs=jobs),
        shards={name: each for name, each in whole.shards.items() if name in graph.resources},
        replications={name: each for name, each in whole.replications.items() if _is_replicated(entry, each)},
    )
    return graph, resolution


def _with_owners(graph: Graph, built: Graph, resolution: Resolution) -> Graph:
    """A graph that has a slot of a divided variable, or what is colocated with one, has that variable, too: it says how
    the slot is divided, and that nothing else can be where all its rows are."""
    slots = {name for name in resolution.shards if any(f"[{name}]" in each for each in graph.resources)}
    owners = slots | {name for name in resolution.shards if resolution.group(name) is not None}
    required = {*graph.resources, *owners}
    if required == graph.resources.keys():
        return graph
    resources = {name: replace(r, initial=None) for name, r in built.resources.items() if name in required}
    return replace(graph, resources=resources)


def _is_replicated(entry: Entry, statement: Replicate) -> bool:
    """Whether there is anything to be cut: a size that is given by name, or not at all, cuts no feed."""
    if statement.entry != entry.name or statement.mode not in IN_STEP:
        return statement.entry == entry.name
    return any(str(symbol) == statement.split for symbol in entry.dims if symbol not in entry.dim_feeds)
