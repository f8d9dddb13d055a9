"""Replicated entries on other numbers of ranks than a deployment file has: what `dfc place --simulate` predicts.

Assumes a distributed program. Guarantees a `FeedError` that says why where nothing can be predicted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.simulate import DEFAULT, Job, Network, StepPrediction, network_of, simulated
from dfc.driver.many_ranks import DistributedProgram
from dfc_runtime.errors import FeedError, FileError
from dfc_runtime.formats.source import read_text

MOST_RANKS = 100_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """So many ranks in all, on a network; `file` is where that is from, "" for the table of rates."""

    ranks: int
    network: Network = DEFAULT
    file: str = ""


def read_network(path: str | os.PathLike[str]) -> Network:
    """The network in a file; a `FileError` if it is none."""
    try:
        return network_of(read_text(Path(path)))
    except ValueError as problem:
        raise FileError(f"{path} is no description of a network: {problem}", code="E0909") from None


def predictions(distributed: DistributedProgram, scenarios: Sequence[Scenario]) -> list[StepPrediction]:
    """A step of each entry in blocks, in each scenario: entry by entry."""
    name = distributed.deployment.source.name
    if not distributed.replicated:
        raise _unpredictable(
            f'{name} replicates no entry with `mode = "sync"`, `"staged"` or `"mirrored"`; others are not predicted'
        )
    if distributed.divided.sharded:
        rows = min(distributed.divided.sharded)
        raise _unpredictable(f"`{rows}` is divided by rows in {name}, and what rows cost on their way is not modelled")
    return [
        simulated(
            distributed.divided.graph.entries[entry],
            distributed.placed.entries[entry],
            replication,
            _jobs(distributed, replication.job, scenario.ranks),
            distributed.known,
            scenario.network,
        )
        for entry, replication in distributed.replicated.items()
        for scenario in scenarios
    ]


def _jobs(distributed: DistributedProgram, replicated: str, ranks: int) -> Mapping[str, Job]:
    """The tasks of each job, where all ranks that other jobs leave are those of the replicated one."""
    tasks = {job.name: job.tasks for job in distributed.deployment.jobs.values()}
    others = sum(tasks.values()) - tasks[replicated]
    if not others < ranks <= MOST_RANKS:
        few = f"{others + 1:,}" if others else "1"
        reason = f" (`{replicated}` needs one beside the {others} of other jobs)" if others else ""
        raise _unpredictable(f"ranks={ranks} is no number of ranks from {few} to {MOST_RANKS:,}{reason}")
    tasks[replicated] = ranks - others
    jobs: dict[str, Job] = {}
    first = 0
    for name, count in tasks.items():
        jobs[name] = Job(first, count)
        first += count
    return jobs


def _unpredictable(reason: str) -> FeedError:
    return FeedError(f"--simulate: {reason}", code="E0901")
