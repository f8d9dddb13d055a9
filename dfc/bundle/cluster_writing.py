"""A partitioned program as one bundle: signatures and edges in the manifest, a whole bundle for each role beside it.

Assumes parts that fit together, and a bundle for each of their roles. Guarantees equal bytes for equal input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePath

from dfc.bundle.formulas import Names, formula, name_symbols
from dfc.bundle.writing import Bundle, signature_entry, state_entry, text_tensor, text_tensors
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic
from dfc.distribute.deployment.model import Deployment
from dfc.distribute.deployment.placement import Placement
from dfc.distribute.partition import RankGraphs, RankRole
from dfc.distribute.replicate import Piece, Replication
from dfc.distribute.shard import ResultRows, RowEdge, Sharded, ShardedGraph
from dfc.ir.graph import Graph
from dfc.ir.measured import bounds_in
from dfc.lower.refills import with_queue_plans
from dfc.lower.signatures import signature
from dfc.version import __version__
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import manifest_writing, seal
from dfc_runtime.formats.cluster import (
    DEPLOYMENT,
    ONE,
    PART,
    ROLE,
    UPDATES,
    CheckpointPolicy,
    CheckpointStep,
    Cluster,
    ClusterEdge,
    ClusterEntry,
    ClusterJob,
    ClusterMemory,
    ClusterRole,
    ClusterState,
    ClusterUpdate,
    CombineCheck,
    FeedPart,
    PrecompiledPart,
    ResultPart,
)
from dfc_runtime.formats.manifest import MIXED, Manifest
from dfc_runtime.formats.tensors import NewTensor

Replications = Mapping[str, Replication]


@dataclass(frozen=True, slots=True)
class Extras:
    """What a bundle holds besides the roles: the text of the program and of imported files by path, that of the
    deployment file unless the bundle is itself a part of another one, and precompiled parts of entries.
    `checks` are for the first calls of entries; `early` is the memory of entries by role, with all that they receive
    received at the start."""

    source: str = ""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    has_deployment: bool = False
    precompiled: Sequence[tuple[PrecompiledPart, Bundle]] = ()
    checks: Mapping[str, CombineCheck] = field(default_factory=dict[str, CombineCheck])
    early: Mapping[tuple[str, str], Formula] = field(default_factory=dict[tuple[str, str], Formula])
    notes: Mapping[str, object] = field(default_factory=dict[str, object])


def write_cluster(
    whole: Graph,
    deployment: Deployment,
    parts: RankGraphs,
    replicated: Replications,
    apart: Mapping[str, tuple[Replication, ClusterUpdate]],
    divided: ShardedGraph,
    inner: Mapping[RankRole, Bundle],
    placement: Placement,
    extras: Extras,
    diagnostics: Iterable[Diagnostic],
) -> Bundle:
    """The bundle around the bundles of the roles. `whole` has the signatures that callers see."""
    divisions = {**replicated, **{name: replication for name, (replication, _) in apart.items()}}
    cluster = _with_updates(_cluster(whole, deployment, parts, divisions, divided, placement), whole, apart)
    texts = text_tensors(extras.source, extras.modules)
    if extras.has_deployment:
        cluster = replace(cluster, deployment=PurePath(deployment.source.name).name)
        texts.append(text_tensor(DEPLOYMENT, deployment.source.text))
    called = [each for each in whole.entries.values() if not each.is_runner]
    drivers = {bundle.manifest.driver for bundle in inner.values()} - {MIXED}
    manifest = Manifest(
        version=__version__,
        name=whole.name,
        driver=sorted(drivers)[0] if drivers else "cpu",
        settings=dict(whole.settings),
        entries=tuple(signature_entry(signature(e), bounds_in(e.block)) for e in called),
        state=tuple(state_entry(resource) for resource in with_queue_plans(whole).values()),
        faults=(),
        images=(),
        compilers={name: version for bundle in inner.values() for name, version in bundle.manifest.compilers.items()},
        constant_offsets=(),
        notes=dict(extras.notes),
        cluster=replace(
            cluster,
            entries=tuple(replace(each, check=extras.checks.get(each.name)) for each in cluster.entries),
            parts=tuple(part for part, _ in extras.precompiled),
            memory=tuple(_memory(inner, extras.early, apart)),
        ),
    )
    note = {seal.PROGRAM: seal.program(manifest_writing.to_json(manifest))}
    inside = [_tensor(ROLE + role.name, _with_notes(bundle, note)) for role, bundle in inner.items()]
    inside += [_tensor(f"{PART}{number}", bundle) for number, (_, bundle) in enumerate(extras.precompiled)]
    return Bundle(manifest, (*inside, *texts), tuple(diagnostics))


def _with_updates(cluster: Cluster, whole: Graph, apart: Mapping[str, tuple[Replication, ClusterUpdate]]) -> Cluster:
    """The section with entries whose replicas take steps of their own. Each task of the job gives results."""
    entries = [
        replace(each, update=apart[each.name][1], results=tuple(_of_all(each, result) for result in each.results))
        if each.name in apart
        else each
        for each in cluster.entries
    ]
    edges = [
        ClusterEdge(each.updates, UPDATES, each.replicated_over, (update.owner,), each.name, str(span))
        for each in entries
        if (update := each.update) is not None
        for span in (whole.entries[each.name].span,)
    ]
    ordered = sorted([*cluster.edges, *edges], key=lambda edge: edge.key)
    return replace(cluster, entries=tuple(entries), edges=tuple(ordered))


def _of_all(entry: ClusterEntry, result: ResultPart) -> ResultPart:
    return replace(result, source=entry.replicated_over)


def _with_notes(bundle: Bundle, notes: Mapping[str, object]) -> Bundle:
    return replace(bundle, manifest=replace(bundle.manifest, notes={**bundle.manifest.notes, **notes}))


def _memory(
    inner: Mapping[RankRole, Bundle],
    early: Mapping[tuple[str, str], Formula],
    apart: Mapping[str, tuple[Replication, ClusterUpdate]],
) -> Iterator[ClusterMemory]:
    """Working memory of all entries in all roles, that of updates as their entries'; takes for steps, which need
    but what they draw, are left out."""
    updated = {update.entry: name for name, (_, update) in apart.items()}
    takes = {update.take for _, update in apart.values()}
    for role, bundle in inner.items():
        for entry in (each for each in bundle.manifest.entries if not each.is_runner and each.name not in takes):
            name = updated.get(entry.name, entry.name)
            yield ClusterMemory(role.name, name, entry.arena, early.get((role.name, entry.name)))


def _tensor(name: str, bundle: Bundle) -> NewTensor:
    data = bundle.to_bytes()
    return NewTensor(name, "U8", (len(data),), data)


def _cluster(
    whole: Graph,
    deployment: Deployment,
    parts: RankGraphs,
    replicated: Replications,
    divided: ShardedGraph,
    placement: Placement,
) -> Cluster:
    policy = deployment.checkpoint
    elastic = elastic_jobs(parts, divided)
    return Cluster(
        jobs=tuple(ClusterJob(job, count, job in elastic) for job, count in parts.tasks.items()),
        roles=tuple(_cluster_role(role) for role in parts.graphs),
        edges=_edges(parts, replicated, divided),
        entries=tuple(_entry(name, whole, parts, replicated, divided) for name in parts.entries),
        state=tuple(_state(name, str(site), divided.sharded.get(name)) for name, site in placement.state.items()),
        compressed=tuple((each.source, each.destination) for each in deployment.compressions),
        checkpoint=CheckpointPolicy(policy.seconds, policy.steps, policy.folder, policy.keep) if policy else None,
    )


def _cluster_role(role: RankRole) -> ClusterRole:
    return ClusterRole(role.name, role.job, () if role.task is None else (role.task,))


def elastic_jobs(parts: RankGraphs, divided: ShardedGraph) -> frozenset[str]:
    """The jobs that may have another number of tasks at start: nothing names a task of them by number, but their first
    one, and no state is divided over them."""
    owners = {each.division.job for each in divided.sharded.values()}
    numbered = {role.job for role in parts.graphs if role.task}
    return frozenset(parts.tasks) - owners - numbered


def _state(name: str, site: str, sharded: Sharded | None) -> ClusterState:
    return (
        ClusterState(name, site) if sharded is None else ClusterState(name, site, sharded.division.rule, sharded.axis)
    )


def _edges(parts: RankGraphs, replicated: Replications, divided: ShardedGraph) -> tuple[ClusterEdge, ...]:
    """Messages of values, combinations and rows, in the order of their keys."""
    values = [ClusterEdge(e.key, "value", e.source, e.destinations, e.name, str(e.span)) for e in parts.edges]
    combined = [
        ClusterEdge(c.key, "combination", each.job, (each.job,), c.name, str(c.span))
        for each in replicated.values()
        for c in each.combinations
    ]
    rows = [_row_edge(edge, "rows") for edge in divided.edges]
    rows += [_row_edge(edge, "combination") for edge in divided.combined]
    return tuple(sorted([*values, *combined, *rows], key=lambda edge: edge.key))


def _row_edge(edge: RowEdge, kind: str) -> ClusterEdge:
    return ClusterEdge(edge.key, kind, edge.source, edge.destinations, edge.name, str(edge.span))


def _entry(name: str, whole: Graph, parts: RankGraphs, replicated: Replications, divided: ShardedGraph) -> ClusterEntry:
    entry_roles = parts.entries[name]
    replication = replicated.get(name)
    names = name_symbols(whole.entries[name].dims)
    feeds: Mapping[str, Piece] = replication.feeds if replication is not None else {}
    pieces: Mapping[str, Piece] = replication.results if replication is not None else {}
    rows = divided.results.get(name, {})
    blocks = ("NB", "FIRST") if replication is None else (str(replication.count), str(replication.first))
    return ClusterEntry(
        name=name,
        roles=tuple(role.name for role in entry_roles.roles),
        replicated_over=replication.job if replication is not None else "",
        split=(replication.queues or str(replication.symbol)) if replication is not None else "",
        blocks=replication.blocks if replication is not None else 0,
        feeds=tuple(
            FeedPart(feed, tuple(role.name for role in roles), *_piece(feeds.get(feed), names))
            for feed, roles in entry_roles.feeds.items()
        ),
        results=tuple(
            _result(result, source, pieces.get(result), rows.get(result), names)
            for result, source in entry_roles.results.items()
        ),
        steps=tuple(CheckpointStep(step.kind, step.feed, step.state) for step in entry_roles.steps),
        count=blocks[0],
        first=blocks[1],
    )


def _result(name: str, source: str, piece: Piece | None, rows: ResultRows | None, names: Names) -> ResultPart:
    """From one task, or from all of a job: blocks of a batch, or rows."""
    if rows is not None:
        return ResultPart(name, rows.division.job, rows.axis, rule=rows.division.rule)
    return ResultPart(name, source.partition(":")[0] if piece is not None else source, *_piece(piece, names))


def _piece(piece: Piece | None, names: Names) -> tuple[int, Formula]:
    """The axis that is cut, -1 for none, and the runs along it."""
    return (-1, ONE) if piece is None else (piece.axis, formula(piece.outer, names))
