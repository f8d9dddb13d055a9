"""What a deployment file says of pipelines: where each of them is, and what cannot be.

The state of a pipeline is on one task, so of all lines about any of it the most specific one holds for all. Lines that
name state of it in full have to agree. Assumes lines that match something. Guarantees a message for each pipeline that
would be on several tasks, also beside rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.distribute.deployment.constraints import contradict, words_of
from dfc.distribute.deployment.lines import Lines
from dfc.distribute.deployment.model import Colocate, Deployment, PlaceStatement
from dfc.distribute.deployment.resolution import Group, Resolution, ResolvedConstraint
from dfc.distribute.pipelines.connected import Pipeline, pipelines, written_state
from dfc.ir.graph import Graph


def line_of(resolution: Resolution, pipeline: Pipeline) -> ResolvedConstraint | None:
    """What holds for all state of a pipeline."""
    best = resolution.lines.best
    named = [name for name in pipeline.state if name in best and resolution.constraint_on(name) is not None]
    if not named:
        return None
    return resolution.constraint_on(max(named, key=lambda name: best[name].specificity))


def check_pipelines(lines: Lines, groups: Mapping[str, Group], graph: Graph) -> Iterator[Diagnostic]:
    """Messages about what cannot be of what runners use; `groups` by name of each member, as `Resolution` has them."""
    for pipeline in pipelines(graph):
        yield from _apart(lines, groups, graph, pipeline)
        yield from _colocated_with_rows(lines, groups, pipeline)
        yield from _divided(lines.deployment, pipeline)
        yield from _copied(lines.deployment, graph, pipeline)


def _apart(lines: Lines, groups: Mapping[str, Group], graph: Graph, pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Lines that name state of one pipeline, or what is joined with some, and want it in two places."""
    named: list[tuple[str, PlaceStatement, tuple[Colocate, ...]]] = []
    for name in pipeline.state:
        group = groups.get(name)
        for member in (name,) if group is None else group.members:
            placements = lines.best[member].placements() if member in lines.best else []
            links = () if group is None or member == name else group.links
            named += [(member, line, links) for line in placements if "*" not in line.glob]
    for name, line, links in named[1:]:
        first, other, joined = named[0]
        is_reported = first in groups and groups[first] is groups.get(name)  # two lines about one group
        if not is_reported and contradict(other, line):
            title = f"`{first}` and `{name}` have to be on one task, but are placed apart"
            secondary = [(words_of(other), f"`{first}` is placed here")]
            secondary += [(link.span, "joined by this line") for link in dict.fromkeys((*joined, *links))]
            secondary += [(graph.entries[each].span, "this runner uses them") for each in pipeline.runners[:1]]
            label = f"`{name}` is placed here"
            yield error("E0804", title, words_of(line), label, secondary=secondary, helps=["delete one of the lines"])
            return


def _colocated_with_rows(lines: Lines, groups: Mapping[str, Group], pipeline: Pipeline) -> Iterator[Diagnostic]:
    """State of a pipeline that is to be where something is that every task of a job has rows of."""
    shards = {each.name: each for each in lines.deployment.shards if each.name not in pipeline.state}
    for name in pipeline.state:
        group = groups.get(name)
        divided = None if group is None else next((each for each in group.members if each in shards), None)
        if group is None or divided is None:
            continue
        placements = lines.best[name].placements() if name in lines.best else []
        if any(contradict(line, shards[divided]) for line in placements):
            continue  # an error of the group already
        title = f"`{name}` is on one task, and cannot be where the rows of `{divided}` are"
        secondary = [(shards[divided].span, f"each task of `{shards[divided].job}` has some of them")]
        first, *others = group.links
        secondary += [(link.span, "joined by this line, too") for link in others]
        helps = [f'name a task: `place "{name}" on {shards[divided].job} task 0`']
        yield error("E0804", title, first.span, "joined by this line", secondary=secondary, helps=helps)
        return


def _divided(deployment: Deployment, pipeline: Pipeline) -> Iterator[Diagnostic]:
    for shard in deployment.shards:
        if shard.name in pipeline.state and pipeline.runners:
            title = f"`{shard.name}` is used by the runner `{pipeline.runners[0]}`, so that it cannot be sharded yet"
            yield error(NOT_SUPPORTED_YET, title, shard.name_span, "a runner is on one task, with all that it uses")
        elif shard.name in pipeline.state:
            title = f"`{shard.name}` is on one task, and cannot be sharded"
            yield error(NOT_SUPPORTED_YET, title, shard.name_span)


def _copied(deployment: Deployment, graph: Graph, pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Variables that every task of a job trains, and a runner uses."""
    for statement in deployment.replications:
        entry = graph.entries.get(statement.entry)
        written = written_state(entry) if entry is not None else frozenset[str]()
        for name in pipeline.state:
            resource = graph.resources[name]
            if name in written and resource.trained:
                title = f"`{name}` would be on one task, with the runner `{pipeline.runners[0]}` that uses it"
                secondary = [(resource.span, "declared here"), (statement.entry_span, "every task has a copy of it")]
                span = graph.entries[pipeline.runners[0]].span
                yield error(NOT_SUPPORTED_YET, title, span, secondary=secondary)
