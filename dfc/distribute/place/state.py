"""Where state goes: what the deployment file says, copies where an entry is replicated, else distributed by size.

State that several tasks may hold goes, largest first, to the task that holds the least so far (Graham's rule of longest
processing time: the fullest task holds at most 4/3 - 1/(3m) of the best possible). Names that belong together move as
one. Assumes constraints whose jobs and tasks exist. Guarantees a site for all state, or a `PlacementError` with numbers
where the memory of the tasks is too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dfc.distribute.deployment.model import Constraint, TaskSite
from dfc.distribute.pipelines.connected import state_of
from dfc.distribute.place.cost import state_bytes
from dfc.distribute.place.model import Decision, PlacementConstraints, PlacementError
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph
from dfc.ops.attributes import HostAttributes


def place_state(graph: Graph, constraints: PlacementConstraints) -> list[Decision]:
    """A decision for all state, in the order of its declaration."""
    copies = _replicated_state(graph, constraints)
    decided: dict[str, Decision] = {}
    groups = sorted(_groups(graph, constraints), key=lambda names: (-_size(graph, names), names))
    held: dict[TaskSite, int] = dict.fromkeys(constraints.tasks_in_order, 0)
    for names in groups:
        site, reason, compared = _site(graph, constraints, names, copies, held)
        for name in names:
            decided[name] = Decision(name, site, reason, alternatives=compared)
        for task in held:
            if task.job == site.job and site.task in (None, task.task):
                held[task] += _size(graph, names)
    _check_memory(constraints, held)
    return [decided[name] for name in graph.resources]


def _site(
    graph: Graph,
    constraints: PlacementConstraints,
    names: Sequence[str],
    copies: Mapping[str, str],
    held: Mapping[TaskSite, int],
) -> tuple[TaskSite, str, tuple[tuple[TaskSite, float], ...]]:
    """The site of a group, the reason, and how much each possible task would hold."""
    divided = next((constraints.fixed[name] for name in names if name in constraints.fixed), None)
    if divided is not None:
        rows = f"its rows lie in every task of `{divided.job}`"
        return divided, rows if divided.task is None else "it is updated there, by steps of other tasks", ()
    constraint = _constraint(constraints, names)
    job = next((copies[name] for name in names if name in copies), None)
    asked = constraint.job if constraint is not None else None
    if not constraints.pipelines.isdisjoint(names):
        task = constraint.task if constraint is not None and constraint.task is not None else 0
        reason = f"line {constraint.span.line} says so" if constraint is not None and asked else "no line says where"
        return TaskSite(asked or job or next(iter(constraints.tasks)), task), f"a pipeline is on one task: {reason}", ()
    if constraint is not None and asked is not None and constraint.task is not None:
        return TaskSite(asked, constraint.task), f"line {constraint.span.line} says so", ()
    if asked is not None and asked in constraints.replicated.values() and job in (None, asked):
        return TaskSite(asked), f"a copy in every task of `{asked}`: it is replicated", ()
    if asked is None and job is not None:
        return TaskSite(job), f"a copy in every task of `{job}`: entries replicated there use it", ()
    possible = [task for task in held if asked in (None, task.job)]
    size = _size(graph, names)
    compared = tuple((task, float(held[task] + size)) for task in possible)
    chosen = min(possible, key=lambda task: held[task])
    where = f"of `{asked}` (line {constraint.span.line})" if constraint is not None and asked is not None else ""
    return chosen, f"the task {where} that holds the least".replace("  ", " "), compared


def _constraint(constraints: PlacementConstraints, names: Iterable[str]) -> Constraint | None:
    matching = [constraints.state[name] for name in names if name in constraints.state]
    return max(matching, key=lambda c: (c.job is not None, c.task is not None), default=None)


def _replicated_state(graph: Graph, constraints: PlacementConstraints) -> dict[str, str]:
    """The job of each piece of state that an entry replicated there uses, directly or with what uses it."""
    jobs: dict[str, str] = {}
    for name, job in constraints.replicated.items():
        for resource in used_state(graph.entries[name]):
            jobs.setdefault(resource, job)
    return jobs


def used_state(entry: Entry) -> frozenset[str]:
    """The state an entry reads, writes or draws from."""
    used: set[str] = set()
    for node in walk.nodes(entry.block):
        name = state_of(node)
        if name is not None:
            used.add(name)
        elif isinstance(node.attributes, HostAttributes):
            used.update(node.attributes.resources)
    return frozenset(used)


def _groups(graph: Graph, constraints: PlacementConstraints) -> list[tuple[str, ...]]:
    """State that shares a site, as tuples of names."""
    groups: dict[str, list[str]] = {}
    for name in graph.resources:
        groups.setdefault(constraints.together.get(name, f"{name} alone"), []).append(name)
    return sorted(tuple(sorted(group)) for group in groups.values())


def _size(graph: Graph, names: Iterable[str]) -> int:
    return sum(state_bytes(graph.resources[name].type) for name in names)


def _check_memory(constraints: PlacementConstraints, held: Mapping[TaskSite, int]) -> None:
    for task, size in held.items():
        limit = constraints.memory.get(task.job, 0)
        if limit and size > limit:
            raise PlacementError(task.job, f"`{task}` would hold {size:,} bytes of state, but has {limit:,}")
