"""Whether what a deployment wants to divide can be divided."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.distribute.deployment.model import Deployment, Shard
from dfc.ir.graph import Graph, Resource, ResourceKind
from dfc_runtime.errors import counted


def check_shards(deployment: Deployment, graph: Graph) -> Iterator[Diagnostic]:
    """A message for each line that divides no array of state, or divides one again."""
    seen: dict[str, Shard] = {}
    for shard in deployment.shards:
        resource = graph.resources.get(shard.name)
        if resource is not None:
            yield from _check(shard, resource, deployment)
        elif any(shard.name == name for name in graph.bound):
            title = f"`{shard.name}` is a value, and only state can be sharded"
            helps = [f'to keep it where some state is, write `colocate "{shard.name}" with "..."`']
            yield error("E0807", title, shard.name_span, helps=helps)
        elif "*" in shard.name:
            yield error("E0807", "a line shards one variable, without globs", shard.name_span)
        if shard.name in seen:
            title = f"`{shard.name}` is sharded twice"
            yield error("E0804", title, shard.span, secondary=[(seen[shard.name].span, "the first line")])
        seen.setdefault(shard.name, shard)


def _check(shard: Shard, resource: Resource, deployment: Deployment) -> Iterator[Diagnostic]:
    declared = [(resource.span, "declared here")]
    if resource.kind is ResourceKind.RNG:
        yield error("E0807", f"`{shard.name}` is a generator of random numbers: it has no rows", shard.name_span)
        return
    shape = resource.type.shape
    rank = len(shape)
    if not 0 <= shard.axis < rank:
        known = "a single number" if rank == 0 else f"{resource.type}: its axes are 0 to {rank - 1}"
        title = f"`{shard.name}` has no axis {str(shard.axis)[:20]}"
        yield error("E0807", title, shard.span, f"it is {known}", secondary=declared)
        return
    tasks = deployment.jobs[shard.job].tasks
    size = shape[shard.axis].constant
    if size is not None and size < tasks:
        length = counted(size, "element")
        title = f"axis {shard.axis} of `{shard.name}` has {length}, too few for {tasks} tasks"
        job = [(deployment.jobs[shard.job].span, f"{tasks} tasks")]
        yield error("E0807", title, shard.span, secondary=[*declared, *job])
