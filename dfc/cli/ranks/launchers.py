"""What the environment says of who started this process: as which rank of how many.

Knows the variables of MPICH and its relatives (PMI), Open MPI, PMIx, MVAPICH, Cray's PALS and Slurm. Assumes that a
launcher sets them for the processes it starts. Guarantees that a shell which a scheduler has merely given to somebody
counts as no rank when ranks are to be started from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dfc.deferred.dataclasses import dataclass
from dfc_runtime.distributed.launch.processes import LAUNCHERS
from dfc_runtime.distributed.launch.record_files import JOB_VARIABLE


@dataclass(frozen=True, slots=True)
class Launched:
    """A process of a launcher; -1 is what it has not said."""

    rank: int
    size: int


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Which process of a launcher this is; None if there was none, or one that says nothing."""
    rank = size = -1
    for rank_name, size_name in LAUNCHERS:
        own, all_ = _number(environment.get(rank_name)), _number(environment.get(size_name))
        if rank_name.startswith("SLURM") and all_ < 2:
            continue  # a script or a shell in an allocation has a number, too
        rank, size = (own if rank < 0 else rank), (all_ if size < 0 else size)
    return Launched(rank, size) if rank >= 0 or size >= 0 else None


def is_rank(*, starts_ranks: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is one rank of several, or was started by a supervisor. A single process that is asked to
    start ranks is none: schedulers give such variables to shells."""
    if JOB_VARIABLE in environment:
        return True
    launcher = launched(environment)
    return launcher is not None and not (starts_ranks and launcher.size in (-1, 1))


def separated(size: int, environment: Mapping[str, str] = os.environ) -> str:
    """What is to be told, by the first process, if the launcher has started more processes than MPI connects: each
    would think that it is alone. "" if that is not so."""
    launcher = launched(environment)
    if launcher is None or launcher.size <= 1 or size == launcher.size:
        return ""
    text = f"{launcher.size} processes were started, but MPI connects {size} of them"
    return f"{text}\n  start them with the launcher of the MPI that mpi4py uses; srun wants --mpi=pmi2 or --mpi=pmix"


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else -1
