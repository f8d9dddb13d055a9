"""Running a request: in this process, as one of several ranks, or by starting them.

Assumes a request whose arguments go together. Guarantees that rank 0 alone prints, once.
"""

from __future__ import annotations

import socket
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import dfc_runtime
from dfc.cli.networks.jobs import HERE, elsewhere
from dfc.cli.networks.programs import Programs, read_programs
from dfc.cli.networks.request import Request
from dfc.cli.networks.timing import Summary, Timing, as_json, as_text, measure
from dfc.cli.ranks.launch import Launch, supervise
from dfc.cli.ranks.process import follow, watched
from dfc.cli.reports.runs import updates_of
from dfc.cli.saving import Plan
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc.cli.networks.batches import Batch
    from dfc_runtime import Module
    from dfc_runtime.distributed.launch.records import SupervisorLink

SILENCE = 30.0
"""Seconds after which a rank that says nothing counts as dead."""


def alone(request: Request) -> int:
    """The one rank there is."""
    request.check_machine()
    programs = request.compiled()
    if request.deployment():
        module = load_on(programs.network, Network(1).comm(0), threads=request.threads)
    else:
        module = dfc_runtime.loads(programs.network, threads=request.threads)
    try:
        _print(request, [_timing(request, programs, module, 0)])
    finally:
        module.close()
    return 0


def own_names() -> list[str]:
    """How this machine may be called in a list of hosts."""
    return [HERE, "127.0.0.1", "[::1]", socket.gethostname(), socket.getfqdn()]


def start(request: Request, words: list[str]) -> int:
    """Compiles, and starts all ranks on this machine."""
    others = elsewhere([each.host for each in request.jobs.processes], own_names())
    if others:
        text = f"{', '.join(others)}: not this machine, and ranks are started here"
        raise click.UsageError(f"{text}\n  --dry-run prints the mpiexec that starts them there")
    request.check_machine()
    with tempfile.TemporaryDirectory() as folder:
        request.compiled().write(Path(folder))
        launch = Launch(request.ranks, 0, 0, SILENCE)
        return supervise(launch, [*words, f"--bundles={folder}"], Plan(), claims=False)


def as_one_of(
    request: Request, bundles: str | None, own: int | None, comm: MPI.Intracomm, records: SupervisorLink
) -> int:
    """One of the ranks."""
    if comm.size != request.ranks:
        raise click.UsageError(f"these hosts are {counted(request.ranks, 'rank')}, and {comm.size} were started")
    if own not in (None, comm.rank):
        raise click.UsageError(f"--job_name and --task_index are rank {own}, and this is rank {comm.rank}")
    programs = read_programs(Path(bundles)) if bundles is not None else _compiled_once(request, comm)
    if request.is_apart or request.ranks == 1:
        return _apart(request, programs, comm)
    module = load_on(programs.network, comm, threads=request.threads)
    assert isinstance(module, ClusterModule)
    with watched(module, records):
        if module.rank:
            return follow(module)
        try:
            _print(request, [_timing(request, programs, module, 0)])
        finally:
            module.close()
    return 0


def _compiled_once(request: Request, comm: MPI.Intracomm) -> Programs:
    """The bundles, compiled by rank 0 for all. If that fails, all end, and rank 0 says why."""
    programs: Programs | Exception | None = None
    if comm.rank == 0:
        try:
            programs = request.compiled()
        except Exception as problem:
            comm.bcast(problem)
            raise
    received = comm.bcast(programs)
    if isinstance(received, Exception):
        raise received
    return cast(Programs, received)


def _apart(request: Request, programs: Programs, comm: MPI.Intracomm) -> int:
    """Ranks that train at the same time, each by itself."""
    module = dfc_runtime.loads(programs.network, threads=request.threads)
    try:
        comm.Barrier()
        timings = comm.gather(_timing(request, programs, module, comm.rank))
    finally:
        module.close()
    if timings is not None:
        _print(request, timings)
    return 0


def _timing(request: Request, programs: Programs, module: Module | ClusterModule, rank: int) -> Timing:
    train = module.entries["train"].function

    def step(batch: Batch) -> float:
        return float(cast(Any, train(x=batch[0], labels=batch[1])).loss)

    steps = request.steps
    with programs.change(request.threads) as change, closing(request.batches(rank, change)) as calls:
        timing = measure(step, calls, request.warm_up, request.count, steps.in_a_call)
    devices = request.jobs.devices
    used = timing.images * (devices - steps.backups) // devices  # gradients of the others count for nothing
    return replace(timing, images=used, updates=updates_of(module, "train"))


def _print(request: Request, timings: list[Timing]) -> None:
    summary = Summary(timings, request.jobs.devices)
    click.echo(as_json(request.facts, summary) if request.as_json else as_text(request.title, summary))
