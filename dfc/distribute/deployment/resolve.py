"""A deployment and a program to what holds for every state and value.

Assumes a graph as the front end makes it, with the names the author gave. Guarantees a resolution only if every line
has a meaning, no two lines contradict each other, and every constraint can be satisfied by some device; and otherwise a
message with each line that has part in the mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.distribute.deployment.entries import check_entries
from dfc.distribute.deployment.groups import Joining, check_leaders
from dfc.distribute.deployment.kinds import devices_of, on_the_host
from dfc.distribute.deployment.lines import Lines
from dfc.distribute.deployment.model import Compress, Deployment
from dfc.distribute.deployment.names import Names
from dfc.distribute.deployment.pipelines import check_pipelines
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.sharding import check_shards
from dfc.distribute.deployment.steps import check_steps
from dfc.ir.graph import Graph


def resolve(deployment: Deployment, graph: Graph) -> tuple[Resolution | None, list[Diagnostic]]:
    """What the deployment says about the program, or None if it has mistakes; and all messages in their order."""
    problem = _other_program(deployment, graph)
    if problem is not None:
        return None, [problem]
    lines = Lines(deployment, Names(graph))
    problems = list(lines.match())
    joining = Joining(lines)
    problems += joining.join()
    resolved_constraints = [
        *joining.resolved_constraints.values(),
        *(each.resolved for each in joining.groups.values() if each.resolved),
    ]
    devices = devices_of(resolved_constraints, deployment.jobs)
    problems += on_the_host(joining.resolved_constraints, graph)
    problems += check_shards(deployment, graph)
    problems += check_entries(deployment, graph)
    problems += check_pipelines(lines, joining.groups, graph)
    problems += _repeated_compressions(deployment)
    problems += check_steps(lines)
    problems.sort(key=lambda each: each.span.start)
    if any(each.is_error for each in problems):
        return None, problems
    resolution = Resolution(
        deployment,
        lines,
        joining.resolved_constraints,
        joining.groups,
        {each.name: each for each in deployment.shards},
        {each.entry: each for each in deployment.replications},
        {(each.source, each.destination): each for each in deployment.compressions},
        devices,
    )
    return resolution, problems


def wrong_names(deployment: Deployment, graph: Graph) -> list[Diagnostic]:
    """What is wrong with the names of a deployment that has other mistakes, so that all are reported at once."""
    problem = _other_program(deployment, graph)
    if problem is not None:
        return [problem]
    lines = Lines(deployment, Names(graph))
    return [*lines.match(), *check_leaders(lines), *check_entries(deployment, graph), *check_steps(lines)]


def _other_program(deployment: Deployment, graph: Graph) -> Diagnostic | None:
    """A program that came as text has no name to compare; a file that names none has its message already."""
    if not deployment.program:
        return None
    stem = deployment.program.rpartition("/")[2].removesuffix(".dfg")
    if graph.name == stem or graph.name.startswith("<"):
        return None
    title = f"this deployment is for {deployment.program}, not for {graph.name}.dfg"
    words = f'write `deploy 1 for "{graph.name}.dfg"`, if it fits that program'
    helps = [replacing(words, deployment.program_span, f'"{graph.name}.dfg"')]
    return error("E0809", title, deployment.program_span, helps=helps)


def _repeated_compressions(deployment: Deployment) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str], Compress] = {}
    for each in deployment.compressions:
        key = (each.source, each.destination)
        if key in seen:
            title = f"what goes from `{each.source}` to `{each.destination}` is compressed twice"
            yield error("E0804", title, each.span, secondary=[(seen[key].span, "the first line")])
        seen.setdefault(key, each)
