"""Takes a placed graph apart: entries for each role, the edges between them, and who takes part in what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dfc.distribute.deployment.placement import Placement
from dfc.distribute.partition.build import RoleBlock
from dfc.distribute.partition.checkpoints import Steps
from dfc.distribute.partition.model import Edge, EntryParts, RankGraphs, RankRole, first_task, roles_of
from dfc.distribute.partition.needs import Needs, block_of_values, needs_of
from dfc.ir.dims import Symbol
from dfc.ir.graph import Entry, Graph, Node, ResourceKind, Value
from dfc.ir.names import NameSet
from dfc.ir.types import TensorType

INIT = "init"


def partition(
    graph: Graph,
    placement: Placement,
    steps: Steps | None = None,
    pieces: Mapping[str, Collection[str]] | None = None,
    taken: Collection[str] = (),
) -> RankGraphs:
    """A graph for each role; `steps` are the entries that only save or restore, `pieces` the results of which
    every task has a part, by entry. Tests stay behind: they are for the undivided program. `taken` are keys of messages
    that the graph has already."""
    roles = roles_of(placement.tasks, [*placement.state.values(), *placement.nodes.values(), placement.default_site])
    parts = RankGraphs(placement.tasks, outer=frozenset(taken))
    for role in roles:
        here = {name: r for name, r in graph.resources.items() if role.runs(placement.state[name])}
        parts.graphs[role] = Graph(graph.name, here, settings=graph.settings, source=graph.source)
    for entry in graph.entries.values():
        _entry(entry, placement, roles, parts, (pieces or {}).get(entry.name, ()))
    for name, each in (steps or {}).items():
        parts.entries[name] = EntryParts((), {step.feed: () for step in each}, {}, each)
    return parts


def _entry(
    entry: Entry, placement: Placement, roles: Sequence[RankRole], parts: RankGraphs, pieces: Collection[str]
) -> None:
    needs = needs_of(entry, placement, roles, pieces)
    keys = NameSet(parts.outer)
    edges, sends = _edges(entry, needs, roles, keys)
    deals = _deals(needs, roles, keys)
    parts.edges += [*edges.values(), *deals.values()]
    blocks = block_of_values(entry.block)
    outputs = [value for value in entry.block.outputs if not value.is_token]
    feeds = [value for value in entry.block.parameters if not value.is_token]
    taking_part = needs.taking_part()
    if entry.name == INIT:  # starting over empties all queues, also those of tasks without variables
        taking_part = tuple(role for role in roles if role in taking_part or _has_queues(parts.graphs[role]))
    for role in taking_part:
        taken = [n for n, value in enumerate(feeds) if role in needs.feeds.get(value, ())]
        result_numbers = [n for n, giving in enumerate(needs.results) if role in giving]
        builder = RoleBlock(role, needs, blocks, edges, sends[role], deals, parts.graphs[role].resources)
        block = builder.build(entry.block, [feeds[n] for n in taken], [outputs[n] for n in result_numbers])
        parts.graphs[role].entries[entry.name] = replace(
            entry,
            block=block,
            parameter_names=tuple(entry.parameter_names[n] for n in taken),
            result_names=tuple(entry.result_names[n] for n in result_numbers),
            parameter_docs=tuple(entry.parameter_docs[n] for n in taken if n < len(entry.parameter_docs)),
            dim_feeds=_undecided(entry, [feeds[n] for n in taken]),
            unnamed_result=False,
        )
    if entry.is_runner:
        return  # nobody calls it
    named = zip(entry.parameter_names, feeds, strict=True)
    parts.entries[entry.name] = EntryParts(
        taking_part,
        {name: tuple(r for r in roles if r in needs.feeds.get(value, ())) for name, value in named},
        {
            name: first_task(needs.sites[value] or placement.default_site)
            for name, value in zip(entry.result_names, outputs, strict=True)
        },
    )


def _has_queues(graph: Graph) -> bool:
    return any(each.kind is ResourceKind.QUEUE for each in graph.resources.values())


def _undecided(entry: Entry, feeds: Sequence[Value]) -> tuple[Symbol, ...]:
    """The sizes that no axis of these feeds is by itself: the call has to say them."""
    axes = {axis.symbol for value in feeds if isinstance(value.type, TensorType) for axis in value.type.shape}
    return tuple(symbol for symbol in entry.dims if symbol not in axes)


def _edges(
    entry: Entry, needs: Needs, roles: Sequence[RankRole], keys: NameSet
) -> tuple[dict[Value, Edge], dict[RankRole, set[Value]]]:
    """One edge for each value that crosses, in a fixed order, and which role sends which values."""
    edges: dict[Value, Edge] = {}
    sends: dict[RankRole, set[Value]] = {role: set() for role in roles}
    for value in sorted(needs.crossing, key=lambda v: v.name):
        site = needs.sites[value]
        assert site is not None, value
        span = value.node.span if value.node is not None else entry.span
        key = keys.fresh(value.name if value.name.startswith(f"{entry.name}/") else f"{entry.name}/{value.name}")
        edges[value] = Edge(key, first_task(site), _destinations(roles, needs.crossing[value]), value.name, span)
        speaker = next(r for r in roles if r.runs(site) and r.task in (None, site.task or 0))
        sends[speaker].add(value)
    return edges, sends


def _deals(needs: Needs, roles: Sequence[RankRole], keys: NameSet) -> dict[Node, Edge]:
    """An edge for the rows of each batch that tasks share out, by the node that has what each of them gets."""
    edges: dict[Node, Edge] = {}
    for node in sorted(needs.dealt, key=lambda each: each.name):
        site = needs.sites[node.operands[0]]
        assert site is not None, node
        name = node.operands[0].name
        edges[node] = Edge(
            keys.fresh(node.name), first_task(site), _destinations(roles, needs.dealt[node]), name, node.span
        )
    return edges


def _destinations(roles: Sequence[RankRole], wanting: set[RankRole]) -> tuple[str, ...]:
    """The jobs and tasks a value goes to. What all other tasks of a job want, its tasks with a role of their own have,
    or want as well."""
    jobs = {role.job for role in wanting if role.task is None}
    destinations = [role.job if role.task is None else f"{role.job}:{role.task}" for role in roles if role in wanting]
    return tuple(name for name in destinations if ":" not in name or name.split(":")[0] not in jobs)
