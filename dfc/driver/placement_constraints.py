"""What a deployment asks of the placement of one graph: constraints by name, and those that blocks and rows imply.

Assumes a graph as all passes, `replicate` and `shard` leave it. Guarantees that lines that ask for what cannot be are a
`CompileError` with all its messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.distribute.deployment.pipelines import line_of
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.pipelines.connected import pipelines
from dfc.distribute.place import PlacementConstraints
from dfc.distribute.place.blocks import strays
from dfc.distribute.replicate import Replication
from dfc.distribute.shard import ShardedGraph
from dfc.ir import walk
from dfc.ir.graph import Graph


def constraints_of(graph: Graph, resolution: Resolution) -> PlacementConstraints:
    """What the deployment asks of the names of an optimised graph."""
    jobs, with_job = resolution.deployment.jobs, resolution.devices.with_job
    nodes = {node.name for _, block in walk.graph_blocks(graph) for node in walk.nodes(block)}
    names = (*graph.resources, *sorted(nodes))
    asked = {name: resolved for name in names if (resolved := resolution.constraint_on(name))}
    together = {name: group.members[0] for name in names if (group := resolution.group(name))}
    connected = pipelines(graph)
    for pipeline in connected:
        together = _as_one(together, pipeline.state)
        if line := line_of(resolution, pipeline):
            asked.update(dict.fromkeys(pipeline.state, line))
    return PlacementConstraints(
        {job.name: job.tasks for job in jobs.values()},
        {job.name: job.memory for job in jobs.values()},
        {name: with_job(resolved.constraint) for name, resolved in asked.items() if name in graph.resources},
        {name: with_job(resolved.constraint) for name, resolved in asked.items() if name not in graph.resources},
        together,
        {name: each.job for name, each in resolution.replications.items() if name in graph.entries},
        pipelines=frozenset(name for pipeline in connected for name in pipeline.state),
    )


def _as_one(together: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Groups in which these names are in one, with all that are in one with any of them."""
    groups = {together[name] for name in names if name in together}
    joined = {name: names[0] if group in groups else group for name, group in together.items()}
    return {**joined, **dict.fromkeys(names, names[0])}


def with_fixed(
    constraints: PlacementConstraints, divided: ShardedGraph, replicated: Mapping[str, Replication]
) -> PlacementConstraints:
    """Constraints that know what is cut into blocks, where sharded state lies, and what is colocated with it. Nothing
    is together with all its tasks: what is done with its rows is done where they are asked for."""
    counts = {name: replication.count for name, replication in replicated.items()}
    owners = {name: state.division.site for name, state in divided.sharded.items()}
    groups = {group for name, group in constraints.together.items() if name in owners}
    together = {name: group for name, group in constraints.together.items() if group not in groups}
    values = {
        name: constraint
        for name, constraint in constraints.values.items()
        if constraints.together.get(name) not in groups
    }
    fixed = {**divided.sites, **owners}
    return replace(constraints, fixed=fixed, together=together, values=values, counts=counts)


def check_blocks(graph: Graph, constraints: PlacementConstraints) -> None:
    """Refuses lines that want in one place what every task does for its own blocks."""
    mistakes: dict[int, Diagnostic] = {}
    for entry in graph.entries.values():
        for node in strays(entry, constraints):
            constraint, job = constraints.values[node.name], constraints.replicated[entry.name]
            message = error(
                "E0802",
                f"`{node.name}` is computed in blocks by all tasks of `{job}`, so that it cannot be placed elsewhere",
                constraint.span,
                secondary=[(node.span, "this works on the examples of a block")],
                helps=[replacing(f"leave it with the others, on `{job}`", constraint.span, job)],
            )
            mistakes.setdefault(constraint.span.start, message)
    if mistakes:
        raise CompileError(list(mistakes.values()))
