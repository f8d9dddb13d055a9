"""A partitioned program as one bundle: signatures and edges in the manifest, a whole bundle for each role beside it.

Assumes parts that fit together, and a bundle for each of their roles. Guarantees equal bytes for equal input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dfc.backend.bundle import Bundle, signature_entry, state_entry, text_tensors
from dfc.backend.formulas import Names, formula, name_symbols
from dfc.backend.lower import signature
from dfc.deployment.model import Deployment
from dfc.deployment.placement import Placement
from dfc.diagnostics import Diagnostic
from dfc.ir.graph import Graph
from dfc.passes.partition import Parts, Role
from dfc.passes.replicate import Piece, Replication
from dfc.passes.shard import RowEdge, Sharded, Spreading
from dfc.version import __version__
from dfc_runtime.formats.cluster import (
    ONE,
    ROLE,
    CheckpointPolicy,
    CheckpointStep,
    Cluster,
    ClusterEdge,
    ClusterEntry,
    ClusterJob,
    ClusterRole,
    ClusterState,
    FeedPart,
    ResultPart,
)
from dfc_runtime.formats.manifest import Manifest
from dfc_runtime.formats.tensors import NewTensor
from dfc_runtime.formulas import Formula

Replications = Mapping[str, Replication]


def write_cluster(
    whole: Graph,
    deployment: Deployment,
    parts: Parts,
    replicated: Replications,
    divided: Spreading,
    inner: Mapping[Role, Bundle],
    placement: Placement,
    texts: tuple[str, Mapping[str, str]],
    diagnostics: Iterable[Diagnostic],
) -> Bundle:
    """The bundle around the bundles of the roles. `whole` has the signatures that callers see; `texts` are the source
    and the imported files by path."""
    drivers = {bundle.manifest.driver for bundle in inner.values()}
    manifest = Manifest(
        version=__version__,
        name=whole.name,
        driver=sorted(drivers)[0] if drivers else "cpu",
        settings=dict(whole.settings),
        entries=tuple(signature_entry(signature(entry)) for entry in whole.entries.values()),
        state=tuple(state_entry(resource) for resource in whole.resources.values()),
        faults=(),
        images=(),
        constant_offsets=(),
        cluster=_cluster(whole, deployment, parts, replicated, divided, placement),
    )
    roles = [_role(role, bundle) for role, bundle in inner.items()]
    return Bundle(manifest, (*roles, *text_tensors(*texts)), tuple(diagnostics))


def _role(role: Role, bundle: Bundle) -> NewTensor:
    data = bundle.to_bytes()
    return NewTensor(ROLE + role.name, "U8", (len(data),), data)


def _cluster(
    whole: Graph,
    deployment: Deployment,
    parts: Parts,
    replicated: Replications,
    divided: Spreading,
    placement: Placement,
) -> Cluster:
    policy = deployment.checkpoint
    owners = frozenset(each.division.job for each in divided.sharded.values())
    return Cluster(
        jobs=tuple(ClusterJob(job, count, _is_elastic(job, parts, owners)) for job, count in parts.tasks.items()),
        roles=tuple(_cluster_role(role) for role in parts.graphs),
        edges=_edges(parts, replicated, divided),
        entries=tuple(_entry(name, whole, parts, replicated) for name in parts.entries),
        state=tuple(_state(name, str(site), divided.sharded.get(name)) for name, site in placement.state.items()),
        compressed=tuple((each.source, each.destination) for each in deployment.compressions),
        checkpoint=CheckpointPolicy(policy.seconds, policy.steps, policy.folder, policy.keep) if policy else None,
    )


def _cluster_role(role: Role) -> ClusterRole:
    return ClusterRole(role.name, role.job, () if role.task is None else (role.task,))


def _is_elastic(job: str, parts: Parts, divided: frozenset[str]) -> bool:
    """Whether nothing names a task of the job by number, but its first one, and no state is divided over it."""
    numbered = [role.task for role in parts.graphs if role.job == job and role.task is not None]
    return job not in divided and all(number == 0 for number in numbered)


def _state(name: str, site: str, sharded: Sharded | None) -> ClusterState:
    return (
        ClusterState(name, site) if sharded is None else ClusterState(name, site, sharded.division.rule, sharded.axis)
    )


def _edges(parts: Parts, replicated: Replications, divided: Spreading) -> tuple[ClusterEdge, ...]:
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


def _entry(name: str, whole: Graph, parts: Parts, replicated: Replications) -> ClusterEntry:
    spread = parts.entries[name]
    cut = replicated.get(name)
    names = name_symbols(whole.entries[name].dims)
    feeds: Mapping[str, Piece] = cut.feeds if cut is not None else {}
    results: Mapping[str, Piece] = cut.results if cut is not None else {}
    return ClusterEntry(
        name=name,
        roles=tuple(role.name for role in spread.roles),
        replicated_over=cut.job if cut is not None else "",
        split=str(cut.symbol) if cut is not None else "",
        blocks=cut.blocks if cut is not None else 0,
        feeds=tuple(
            FeedPart(feed, tuple(role.name for role in roles), *_piece(feeds.get(feed), names))
            for feed, roles in spread.feeds.items()
        ),
        results=tuple(
            ResultPart(
                result,
                source.partition(":")[0] if result in results else source,
                *_piece(results.get(result), names),
            )
            for result, source in spread.results.items()
        ),
        steps=tuple(CheckpointStep(step.kind, step.feed, step.state) for step in spread.steps),
        **({"count": str(cut.count), "first": str(cut.first)} if cut is not None else {}),
    )


def _piece(piece: Piece | None, names: Names) -> tuple[int, Formula]:
    """The axis that is cut, -1 for none, and the runs along it."""
    return (-1, ONE) if piece is None else (piece.axis, formula(piece.outer, names))
