"""Programs on many ranks, in one process: from two texts to modules, one for each rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from textwrap import dedent

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Faults, Network
from tests.support.ranks import outcomes_on

Work = Callable[[ClusterModule], object]


@cache
def cluster_bundle(program: str, deployment: str) -> bytes:
    """The bundle of a program that is deployed. `deployment` has no first line."""
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{dedent(deployment)}')
    return compile_source(SourceFile("model.dfg", dedent(program)), CompileOptions(), deploy).to_bytes()


@cache
def _alone(program: str) -> bytes:
    return dfc.compile(text=program).to_bytes()


def undivided(program: str, **options: object) -> dfc.Module:
    """The program on one rank, in its first state; compiled once."""
    return dfc.loads(_alone(program), **options)


def outcomes_of(
    data: bytes,
    size: int,
    work: Work,
    follow: Work | None = None,
    *,
    jobs: Mapping[str, int] | None = None,
    seconds: float = 100,
    faults: Faults | None = None,
    eager: int = 0,
) -> list[object]:
    """What each rank returned, or the error it ended with: rank 0 of `work`, the others of `follow`, or they serve."""

    def run(comm):
        module = load_on(data, comm, jobs=jobs, seconds=seconds, threads=1)
        try:
            if comm.rank == 0:
                return work(module)
            return follow(module) if follow is not None else module.serve()
        finally:
            module.close()

    return outcomes_on(Network(size, faults, eager=eager), run)


def on_cluster(data: bytes, size: int, work: Work, follow: Work | None = None, **options: object) -> object:
    """What rank 0 returned; the first error of any rank is raised."""
    outcomes = outcomes_of(data, size, work, follow, **options)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes[0]
