"""From a bundle for many ranks to a module on each of them.

Assumes that all ranks load the same bundle. Guarantees that a number of ranks which does not fit is reported by rank 0
alone: the others end in silence, so that it can say so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from dfc_runtime.calls.handlers.answers import Answers
from dfc_runtime.calls.hosts import Handler
from dfc_runtime.calls.memory import memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.bundle_checks import check_part, check_precompiled, plans_of
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.part_sources import part_sources
from dfc_runtime.distributed.calls.parts import ClusterParts, Loader
from dfc_runtime.distributed.calls.rank import Rank
from dfc_runtime.distributed.launch import records
from dfc_runtime.distributed.launch.watching import noting_kernels
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.tracing import Tracer, answer_ready
from dfc_runtime.distributed.transport.comm import Comm
from dfc_runtime.distributed.transport.waiting import Waiting, deadline
from dfc_runtime.errors import DfcError, RankCountError, UnsupportedError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.cluster import ROLE, ClusterRole
from dfc_runtime.kinds import require_kind
from dfc_runtime.module import Module, runners_of
from dfc_runtime.observe.destinations import Destination
from dfc_runtime.observe.tracing import Recorder
from dfc_runtime.one_rank import THREADS_VARIABLE, Answering, Stated, load_alone, load_role, usable_threads

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.transport.mpi import MpiComm

Source = str | os.PathLike[str] | bytes


def load_on(
    source: Source,
    comm: Comm | MPI.Intracomm,
    *,
    jobs: Mapping[str, int] | None = None,
    seconds: float | None = None,
    threads: int | None = None,
    limit: int | None = None,
    initialise: bool = True,
    handlers: Mapping[str, Handler] | None = None,
    summaries: Destination | None = None,
    check_finite: bool = False,
    trace: str | os.PathLike[str] | None = None,
    device: int | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
) -> ClusterModule | Module:
    """The program on this rank; called on all of them. `jobs` says how many tasks a job has, where it is not what is
    written; `seconds` is the longest that anything is waited for; `trace` is where the trace of all ranks goes;
    `device` is the GPU of this rank, where its task works on one and it is not to be its own of the machine's. `data`
    says which files readers of records read, wherever these are."""
    end = as_comm(comm)
    if jobs is not None:
        require_kind(jobs, Mapping, 'jobs says how many tasks each job has, as in {"worker": 2}')
    with bundles.opened(source) as bundle:
        topology = _topology(bundle, end, jobs)
        if topology is None:
            stated, answering = Stated(threads, limit, device, "host"), Answering(handlers, summaries, trace, data)
            return load_alone(source, stated, answering, initialise=initialise, check_finite=check_finite)
        if check_finite:
            raise UnsupportedError(
                "a program for many ranks has these checks if it was compiled with them", code="E1001"
            )
        waiting = Waiting(end, deadline(seconds), topology.name)
        waiting.on_silent = records.heard
        recorder = None if trace is None else Recorder()
        folder = Answering(None, None, None).folder_of(source)
        options = _LoadOptions(threads, limit, handlers or {}, summaries, recorder, device, folder, data or {})
        rank, module = _load_or_report(bundle, topology, waiting, options)
    module.start(initialise=initialise)
    if trace is not None and recorder is not None:
        Tracer(recorder, rank, module, trace).start()
    return module


def as_comm(comm: Comm | MPI.Intracomm) -> Comm:
    """Ours for one of mpi4py."""
    if not type(comm).__module__.startswith("mpi4py"):
        if not hasattr(comm, "neighbours"):
            require_kind(comm, (), "comm is a communicator of mpi4py, such as MPI.COMM_WORLD")
        return cast(Comm, comm)
    from dfc_runtime.distributed.transport.mpi import MpiComm  # mpi4py starts MPI when it is imported

    wrapped: MpiComm = MpiComm(cast("MPI.Intracomm", comm))
    return wrapped


def _topology(bundle: OpenBundle, comm: Comm, jobs: Mapping[str, int] | None) -> Topology | None:
    """Which rank is what; None for an ordinary program on one rank."""
    name, cluster = bundle.manifest.name, bundle.manifest.cluster
    try:
        if cluster is None:
            if comm.size > 1 or jobs:
                text = f"{name} was compiled for one rank, but there are {comm.size}"
                raise RankCountError(f"{text}\n  compile it with a deployment file: --deploy FILE", code="E0912")
            return None
        topology = Topology(cluster, jobs)
        topology.check_size(comm.size, name)
    except RankCountError:
        if comm.rank == 0:
            raise
        raise SystemExit(0) from None
    return topology


@dataclass(frozen=True, slots=True)
class _LoadOptions:
    """What the caller of `load` asks of each rank's own program."""

    threads: int | None
    limit: int | None
    handlers: Mapping[str, Handler]
    summaries: Destination | None
    recorder: Recorder | None
    device: int | None
    folder: str
    data: Mapping[str, str | os.PathLike[str]]

    def answers(
        self, handlers: Mapping[str, Handler], waiting: Waiting, bundle: OpenBundle, role: ClusterRole
    ) -> Answers:
        """How the requests of a role's program are answered."""
        own = _data_of(bundle, role, self.data) if self.data else {}
        return Answers(self.answering(handlers, waiting), self.summaries, None, self.folder, own)

    def answering(self, handlers: Mapping[str, Handler], waiting: Waiting) -> Mapping[str, Handler]:
        """The handlers of a program: those of its messages, and the caller's."""
        merged: Mapping[str, Handler] = {**handlers, **self.handlers}
        return noting_kernels(merged if self.recorder is None else self.recorder.handlers(merged), waiting)


def _load_or_report(
    bundle: OpenBundle, topology: Topology, waiting: Waiting, options: _LoadOptions
) -> tuple[Rank, ClusterModule]:
    """This rank's part. If it cannot be loaded, all ranks are told why: they would wait for this one."""
    try:
        return _loaded(bundle, topology, waiting, options)
    except DfcError as problem:
        waiting.broadcast_failure(problem)
        raise
    except (ValueError, OverflowError) as problem:
        refused = bundles.damaged(bundle.source.name, str(problem))
        waiting.broadcast_failure(refused)
        raise refused from None


def _loaded(
    bundle: OpenBundle, topology: Topology, waiting: Waiting, options: _LoadOptions
) -> tuple[Rank, ClusterModule]:
    manifest = bundle.manifest
    edges = Edges(topology, waiting)
    role = topology.by_rank[waiting.comm.rank].role
    inner = None
    plans = plans_of(manifest, topology)
    if role is not None:
        task = topology.by_rank[waiting.comm.rank]
        threads, near = _threads(options.threads, waiting.comm), waiting.comm.neighbour
        inner = load_role(
            bundle.read(ROLE + role.name),
            threads,
            options.limit,
            options.answers(edges.handlers, waiting, bundle, role),
            options.device,
            near,
            lambda own: check_part(manifest, own, topology, task, plans),
        )
        _answer_at_queues(inner, waiting)
    rank = Rank(topology, waiting, edges, plans, inner, {})
    check_precompiled(bundle)
    for plan in plans:
        rank.own_part(plan)
    answer_ready(rank, is_traced=options.recorder is not None)
    limit = memory_limit(options.limit)
    loader = Loader(limit, lambda handlers: options.answering(handlers, waiting))
    parts = ClusterParts(rank, part_sources(bundle), loader)
    return rank, ClusterModule(manifest, rank, parts, limit, bundle.header.metadata["manifest_sha256"])


def _answer_at_queues(inner: Module, waiting: Waiting) -> None:
    """Has a rank that waits for a queue hear what others say, and answer, as in any other wait."""
    runners = runners_of(inner)
    if runners is None:
        return

    def look(waits: str) -> None:
        before, waiting.doing = waiting.doing, f"{waiting.doing}, and {waits}"
        try:
            waiting.looked()
            waiting.look()
        finally:
            waiting.doing = before

    runners.watch_waits(look)


def _data_of(
    bundle: OpenBundle, role: ClusterRole, data: Mapping[str, str | os.PathLike[str]]
) -> Mapping[str, str | os.PathLike[str]]:
    """What of it is for readers of this role; `FeedError` if some is for none at all."""
    from dfc_runtime.calls.handlers.readers import check_names, reader_names  # most programs read no records

    cluster = bundle.manifest.cluster
    assert cluster is not None
    readers: dict[str, set[str]] = {}
    for each in cluster.roles:
        with bundles.opened(bundle.read(ROLE + each.name)) as inner:
            readers[each.name] = reader_names(inner.manifest)
    check_names(data, set[str]().union(*readers.values()))
    return {name: pattern for name, pattern in data.items() if name in readers[role.name]}


def _threads(stated: int | None, comm: Comm) -> int | None:
    """Threads for this rank: unless they are stated, the ranks of a machine share its processors."""
    if stated is not None or os.environ.get(THREADS_VARIABLE, "").strip():
        return stated
    return max(1, usable_threads() // comm.neighbours)
