"""How a bundle is distributed over ranks, as `dfc inspect` prints it: jobs and roles, state, entries, messages, parts.

Assumes the cluster section of a checked manifest. Guarantees one line for each role, piece of state, entry, message and
part.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc_runtime.errors import counted
from dfc_runtime.formats.cluster import Cluster, ClusterEdge, ClusterEntry, ClusterMemory, ClusterRole

INDENT = "  "


def described(cluster: Cluster) -> str:
    """The jobs: `ps 1 + worker 2 = 3 ranks`."""
    total = sum(job.tasks for job in cluster.jobs)
    terms = " + ".join(f"{job.name} {job.tasks}" for job in cluster.jobs)
    return f"{terms} = {total} rank{'' if total == 1 else 's'}"


def cluster_lines(cluster: Cluster) -> Iterator[str]:
    """All that is said about ranks."""
    yield f"ranks: {described(cluster)}"
    elastic = [job.name for job in cluster.jobs if job.elastic]
    if elastic:
        yield f"{INDENT}another number at start: {', '.join(f'--job {name}=N' for name in elastic)}"
    for role in cluster.roles:
        yield f"{INDENT}{role.name} runs in {_tasks(role)}"
    yield from _state(cluster)
    yield "how calls are spread"
    for entry in cluster.entries:
        yield from _entry(entry, [edge for edge in cluster.edges if edge.key.startswith(f"{entry.name}/")])
        yield from _memory([each for each in cluster.memory if each.entry == entry.name])
    if cluster.parts:
        yield "compiled ahead"
    for part in cluster.parts:
        yield f"{INDENT}{part}"
    if cluster.checkpoint is not None:
        policy = cluster.checkpoint
        every = counted(policy.steps, "step") if policy.steps else f"{policy.seconds:g} s"
        yield f"{INDENT}saved every {every} to {policy.folder}, {policy.keep} are kept"


def _tasks(role: ClusterRole) -> str:
    if not role.tasks:
        return f"the tasks of {role.job}"
    return f"{role.job} task {', '.join(map(str, role.tasks))}"


def _state(cluster: Cluster) -> Iterator[str]:
    if not cluster.state:
        return
    yield "where state lies"
    width = max(len(each.name) for each in cluster.state)
    for each in cluster.state:
        if each.rule:
            where = f"rows (axis {each.axis}) in all tasks of {each.site}, by {each.rule}"
        elif ":" in each.site:
            where = each.site.replace(":", " task ")
        else:
            where = f"a copy in every task of {each.site}"
        yield f"{INDENT}{each.name:<{width}}  {where}"


def _entry(entry: ClusterEntry, edges: list[ClusterEdge]) -> Iterator[str]:
    if entry.steps:
        for step in entry.steps:
            yield f"{INDENT}{entry.name}: {step.kind}s {len(step.state)} pieces of state, from all ranks at once"
        return
    yield f"{INDENT}{entry.name}: {', '.join(entry.roles) or 'no task'}{_split_text(entry)}"
    for edge in edges:
        ends = f" -> {', '.join(edge.destinations)}" if edge.kind == "value" else f": {_KINDS[edge.kind]}"
        yield f"{INDENT * 3}{edge.source}{ends}  {edge.name}  ({edge.location})"


def _memory(memory: list[ClusterMemory]) -> Iterator[str]:
    """What each role needs for an entry, and would need if nothing was received later than it can be."""
    for each in memory:
        early = "" if each.early in (None, each.delayed) else f"; {each.early} if all was received at the start"
        yield f"{INDENT * 3}{each.role} needs {counted(each.delayed, 'byte')}{early}"


_KINDS = {"combination": "blocks are combined", "rows": "rows travel", "updates": "steps update state"}


def _split_text(entry: ClusterEntry) -> str:
    """What is cut into blocks."""
    if not entry.blocks:
        return ""
    parts = [each.name for each in entry.feeds if each.split_axis >= 0]
    parts += [each.name for each in entry.results if each.in_blocks]
    if not parts:  # no feed and no result is: what comes out of a queue is
        return f"; batches of {entry.split} in {counted(entry.blocks, 'block')} over {entry.replicated_over}"
    return f"; {entry.split} in {counted(entry.blocks, 'block')} over {entry.replicated_over} (cut: {', '.join(parts)})"
