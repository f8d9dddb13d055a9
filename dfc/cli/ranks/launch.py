"""Runs on many ranks, seen from outside: started under a supervisor, as many as fit, with batches that can be cut.

A process is a rank if an MPI launcher or a supervisor has started it (`launchers`); what it does then is in
`process`. Assumes nothing of MPI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dfc.cli.bundles import cluster_of
from dfc.cli.running import Feeds, Schedule, batching_of
from dfc.cli.saving import Plan
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.checkpoints import store
from dfc_runtime.errors import DfcError, FeedError, RankError, counted
from dfc_runtime.formats.manifest import Entry

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.distributed.calls.short_batches import ShortBatches

FITS = "DFC_FIT_JOBS"


@dataclass(frozen=True, slots=True)
class Launch:
    """How many ranks to start, how often again, with how many at least; seconds of silence that count as death."""

    ranks: int
    restarts: int
    least: int
    silence: float


def supervise(launch: Launch, arguments: Sequence[str], plan: Plan, *, claims: bool) -> int:
    """Starts ranks with this command line of `dfc`, sees to them, and gives the exit code of the job. `plan` says where
    its checkpoints lie; if it `claims` the folder, other runs that save there end."""
    # Ranks themselves, and runs on one rank, supervise nobody.
    from dfc_runtime.distributed.launch.coordinator import Policy
    from dfc_runtime.distributed.launch.supervisor import Job, supervise

    policy = Policy(launch.ranks, launch.restarts, launch.least, launch.silence)
    environment = {FITS: "1"} if launch.least else {}
    deaths: list[str] = []

    def log(text: str) -> None:
        deaths.append(text)
        click.echo(f"dfc: {text}", err=True)

    job = Job(["dfc", *arguments], policy, plan.folder if claims else None, environment)
    code = supervise(job, log, lambda text: click.echo(text, err=True, nl=False))
    if code == RankError.exit_code and deaths:
        click.echo(f"  {_next(launch, plan)}", err=True)
    return code


def _next(launch: Launch, plan: Plan) -> str:
    """What to type after a rank has died for the last time: of the options that help, those that were not given."""
    again = "" if launch.restarts else "; with --max-restarts N it does so by itself"
    if plan.folder is not None and plan.folder.is_dir() and not store.holds_nothing(plan.folder):
        return f"the same command goes on from the newest checkpoint in {plan.folder}{again}"
    if plan.folder is None:
        return f"nothing was saved: the same command starts over{again}; --state DIR and --save-every N save on the way"
    text = f"nothing was saved in {plan.folder} yet: the same command starts over{again}"
    return text if plan.saves_on_the_way else f"{text}; --save-every N saves on the way"


def fitting_counts(path: str, asked: Mapping[str, int], size: int) -> Mapping[str, int]:
    """How many tasks the jobs have: as asked; and where a supervisor may go on with fewer ranks, the one job whose
    number is free gets what there is."""
    cluster = cluster_of(path)
    if cluster is None or FITS not in os.environ:
        return asked
    free = [job.name for job in cluster.jobs if job.elastic]
    if len(free) != 1:
        return asked
    others = sum(asked.get(job.name, job.tasks) for job in cluster.jobs if job.name != free[0])
    return {**asked, free[0]: size - others} if size > others else asked


def check_batches(module: ClusterModule, entry: Entry, schedule: Schedule, feed_values: Feeds) -> None:
    """Refuses batches that cannot be cut into the blocks of an entry before the first of them runs."""
    from dfc_runtime.distributed.calls.entry_plan import split_fault  # only programs for ranks are cut

    cluster = module.manifest.cluster
    split = next((each for each in cluster.entries if each.name == entry.name), None) if cluster else None
    if split is None or schedule.batch is None:
        return
    batching = batching_of(entry, feed_values, schedule)
    if batching.dim != split.split:
        return
    reached = schedule.steps is None or schedule.steps >= batching.batches(schedule.batch)
    first, last = min(schedule.batch, batching.total), batching.short(schedule.batch) if reached else 0
    short = module.entries[entry.name].short
    for size in (first, last):
        fault = split_fault(split, size)
        if not fault:
            continue
        is_short = size == last
        if is_short and schedule.last == "pad" and short is not None:
            short.compile()  # what is wrong with it is reported before the first step
            continue
        can_drop = is_short and not split_fault(split, first) and batching.total > schedule.batch
        remedies = ["leave it out of every epoch: --last drop"] if can_drop else []
        if is_short and schedule.last != "pad" and short is not None and _can_fill(short):
            remedies.append("fill it up with rows that count for nothing: --last pad")
        remedy = "\n  " + "\n  or ".join(remedies) if remedies else ""
        reason = fault.partition("\n")[0] if remedies else fault  # which sizes could be cut is no help here
        text = f"{counted(batching.total, 'row')} in batches of {schedule.batch}"
        text += f"{f' leave one of {size}' if is_short else ''}: {reason}"
        raise FeedError(text + remedy, code="E0901", spans=[entry.location])


def _can_fill(short: ShortBatches) -> bool:
    """Whether a short batch can be filled up, here and now."""
    try:
        short.compile()
    except DfcError:
        return False
    return True


def job_counts(pairs: Sequence[str]) -> Mapping[str, int]:
    """`worker=2` as numbers of tasks by job."""
    counts: dict[str, int] = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not equals or not name or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise click.UsageError(f"--job wants NAME=TASKS, such as worker=2, not {pair!r}")
        counts[name] = int(number)
    return counts
