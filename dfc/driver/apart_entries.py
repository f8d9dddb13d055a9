"""Entries that were taken apart, on the way through placement and partition: computed on any task of a job, updated on
the one task where all their state lies.

Assumes a graph behind all passes whose entries know what they are parts of (`Entry.apart`). Guarantees that a role has
the computation, or the update, and callers the entry of the author.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, error
from dfc.distribute.deployment.model import Replicate, TaskSite
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.partition import RankGraphs
from dfc.distribute.partition.model import first_task
from dfc.distribute.pipelines.connected import pipelines
from dfc.distribute.place import PlacementConstraints
from dfc.distribute.place.state import used_state
from dfc.distribute.replicate import Piece, Replication
from dfc.distribute.separate import split_axes, splits_queues
from dfc.ir import walk
from dfc.ir.dims import ONE, Symbol
from dfc.ir.graph import Apart, Entry, Graph, Value
from dfc_runtime.formats.cluster import ClusterUpdate


@dataclass(frozen=True, slots=True)
class ApartEntry:
    """What a cluster needs to know of such an entry: how it is cut, and where and how it is updated."""

    replication: Replication
    update: ClusterUpdate


def _apart(graph: Graph) -> Iterator[tuple[Entry, Apart]]:
    return ((entry, entry.apart) for entry in graph.entries.values() if entry.apart is not None)


def with_owners(constraints: PlacementConstraints, graph: Graph, resolution: Resolution) -> PlacementConstraints:
    """Constraints that keep each update, and the state it is about, on one task, and computations on all of the job."""
    fixed: dict[str, TaskSite] = dict(constraints.fixed)
    because = dict(constraints.because)
    for entry, apart in _apart(graph):
        statement, update = resolution.replications[entry.name], graph.entries[apart.update]
        state = sorted({*used_state(update), *apart.variables})
        owner = _owner(state, constraints, resolution, statement)
        fixed.update(dict.fromkeys(state, owner))
        fixed.update((node.name, owner) for node in walk.nodes(update.block))
        because.update((node.name, "beside the state that it updates") for node in walk.nodes(update.block))
        fixed.update((node.name, TaskSite(statement.job)) for node in walk.nodes(entry.block))
        because.update((node.name, "each task takes its own steps") for node in walk.nodes(entry.block))
        if apart.take:
            taking = graph.entries[apart.take]
            fixed.update(dict.fromkeys(_pipeline(taking, graph, owner, constraints, statement), owner))
            fixed.update((node.name, owner) for node in walk.nodes(taking.block))
            because.update((node.name, "beside the state that steps update") for node in walk.nodes(taking.block))
    return replace(constraints, fixed=fixed, because=because)


def _pipeline(
    taking: Entry, graph: Graph, owner: TaskSite, constraints: PlacementConstraints, statement: Replicate
) -> list[str]:
    """The state of the pipelines that steps take from, which is where their updates are."""
    used = used_state(taking)
    names = [name for each in pipelines(graph) if not used.isdisjoint(each.state) for name in each.state]
    for name in names:
        asked = constraints.state.get(name)
        if asked is None or asked.job is None or (asked.job == owner.job and asked.task in (None, owner.task)):
            continue
        title = f"steps of `{statement.entry}` take from the pipeline of `{name}`, which is not where they are applied"
        remedy = f'place "{name}" on {owner.job} task {owner.task or 0}'
        span, secondary = statement.setting_span("mode"), [(asked.span, f"`{name}` is placed here")]
        helps = [f"place it with the state that `{statement.entry}` updates: `{remedy}`"]
        raise CompileError([error("E1001", title, span, secondary=secondary, helps=helps)])
    return names


def _owner(
    state: list[str], constraints: PlacementConstraints, resolution: Resolution, statement: Replicate
) -> TaskSite:
    """The one task that state is placed on by the deployment file, else the first one of another job."""
    asked = [each for name in state if (each := constraints.state.get(name)) is not None and each.job is not None]
    numbers = {each.job: each.task for each in asked if each.task is not None}
    tasks = {
        TaskSite(each.job, numbers.get(each.job, 0) if each.task is None else each.task): each
        for each in asked
        if each.job is not None
    }
    others = [job for job in constraints.tasks if job != statement.job]
    span = statement.setting_span("mode")
    if any(name in resolution.shards for name in state) or len(tasks) > 1:
        title = f"the state that `{statement.entry}` reads or updates lies on several tasks"
        secondary = [(each.span, "some of it is here") for each in tasks.values()]
        helps = [f'place it on one task, which the mode `{statement.mode}` needs: `place "NAME" on ps task 0`']
        raise CompileError([error("E1001", title, span, secondary=secondary, helps=helps)])
    owner = next(iter(tasks), TaskSite(others[0], 0) if others else TaskSite(statement.job, 0))
    if owner.job != statement.job:
        return owner
    title = f"a task of `{statement.job}` would both compute steps of `{statement.entry}` and update its state"
    secondary = [(each.span, "the state lies here") for each in tasks.values()]
    helps = [
        f'write `job ps tasks 1`, and `place "NAME" on ps` for state: the mode `{statement.mode}` needs a task for it'
    ]
    raise CompileError([error("E1001", title, span, secondary=secondary, helps=helps)])


def pieces(graph: Graph) -> dict[str, frozenset[str]]:
    """The results of which every task has its own, by entry."""
    return {entry.name: frozenset(entry.result_names) for entry, _ in _apart(graph)}


def rejoined(parts: RankGraphs, graph: Graph, resolution: Resolution) -> dict[str, ApartEntry]:
    """Makes the entries of the author of those that `parts` have, and says how they are divided."""
    joined: dict[str, ApartEntry] = {}
    for entry, apart in _apart(graph):
        statement, whole = resolution.replications[entry.name], apart.whole
        computing, updating = parts.entries[entry.name], parts.entries.pop(apart.update)
        (owner,) = updating.roles
        if apart.take:
            parts.entries.pop(apart.take)
        own = [role for role in computing.roles if role.job == statement.job]
        for role in computing.roles:  # what is handed on as it is fed could be anywhere
            if role not in own:
                del parts.graphs[role].entries[entry.name]
        parts.entries[entry.name] = replace(
            computing,
            roles=tuple(role for role in parts.graphs if role in (*own, owner)),
            feeds={name: tuple(r for r in computing.feeds[name] if r in own) for name in whole.parameter_names},
            results={name: computing.results[name] for name in whole.result_names},
        )
        left = set(parts.graphs[own[0]].entries[entry.name].parameter_names)
        first = len(whole.parameter_names) + len(apart.taken)
        fed = zip(entry.parameter_names[first:], apart.variables, strict=True)
        variables = tuple(variable for name, variable in fed if name in left)  # what a gradient has no use for is gone
        site = first_task(TaskSite(owner.job, owner.task))
        update = ClusterUpdate(
            statement.mode,
            apart.update,
            site,
            variables,
            statement.combine,
            statement.bound,
            statement.backups,
            apart.handed,
            apart.take,
            tuple(name for name in apart.taken if name in left),
        )
        joined[entry.name] = ApartEntry(_replication(whole, statement), update)
    return joined


def _replication(whole: Entry, statement: Replicate) -> Replication:
    """How the batch is cut: each block is that of one step."""
    count, first = Symbol("NB"), Symbol("FIRST")
    if splits_queues(whole, statement):
        queues, name = statement.split, whole.name
        return Replication(name, statement.job, statement.blocks, Symbol("B"), count, first, {}, {}, (), (), queues)
    symbol = next(each for each in whole.dims if str(each) == statement.split)

    def split(names: tuple[str, ...], values: tuple[Value, ...]) -> Mapping[str, Piece]:
        return {name: Piece(axis, ONE) for name, axis in split_axes(names, values, symbol).items()}

    feeds, results = (
        split(whole.parameter_names, whole.block.parameters),
        split(whole.result_names, whole.block.outputs),
    )
    return Replication(whole.name, statement.job, statement.blocks, symbol, count, first, feeds, results, ())
