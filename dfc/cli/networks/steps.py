"""How the steps of workers go together, as the options of the guide's script say, and as modes of a deployment file.

    --staged_vars               "staged": gradients are taken at the variables of the step before
    --nocross_replica_sync      "async": each worker takes steps of its own, and waits for no other
    --backup_workers 1          "backup": of each step all gradients but so many are waited for
    none of them                "sync": a step ends when the gradients of all are in

Workers without a common step, and those that need not be waited for, gain nothing where each call is one step: there a
call has several, as many for each worker.
"""

from __future__ import annotations

import math

import click

from dfc.cli.networks.jobs import Jobs
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.errors import UnsupportedError, counted

MOST_IN_A_CALL = 10
"""Steps of a worker. A call is fed all of their images at once."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A mode of replication; so many `backups` are not waited for; so many steps of each worker `in_a_call`."""

    mode: str = "sync"
    backups: int = 0
    in_a_call: int = 1

    @property
    def is_at_owner(self) -> bool:
        """Whether one parameter server has all state, and updates it as gradients come."""
        return self.mode in ("async", "backup")

    @property
    def title(self) -> str:
        """What is said of it in a title."""
        counts = f", {counted(self.in_a_call, 'step')} a call" if self.is_at_owner else ""
        backups = f" {self.backups}" if self.backups else ""
        return "" if self.mode == "sync" else f" ({self.mode}{backups}{counts})"

    def settings(self, devices: int) -> str:
        """Those of `replicate`."""
        backups = f", backups = {self.backups}" if self.backups else ""
        blocks = devices * self.in_a_call
        return f'mode = "{self.mode}", split = "B", combine = "mean"{backups}, blocks = {blocks}'


def steps_of(*, is_staged: bool, is_synchronous: bool, backups: int, count: int, warm_up: int) -> Steps:
    """The options as a mode, for `count` steps behind `warm_up`. `UsageError` for what excludes each other."""
    words = ["--staged_vars"] * is_staged + ["--nocross_replica_sync"] * (not is_synchronous)
    words += ["--backup_workers"] * (backups > 0)
    if len(words) > 1:
        raise click.UsageError(f"{words[0]} and {words[1]} exclude each other: leave one of them out")
    if not words:
        return Steps()
    if is_staged:
        return Steps("staged")
    common = math.gcd(count, warm_up)
    in_a_call = max(each for each in range(1, MOST_IN_A_CALL + 1) if common % each == 0)
    return Steps("backup" if backups else "async", backups, in_a_call)


def check_steps(steps: Steps, mode: str, jobs: Jobs) -> None:
    """`UsageError` for ways to place variables that the steps do not go with, `UnsupportedError` for GPUs."""
    if steps.mode == "staged" and mode in ("independent", "distributed_replicated"):
        text = "nothing is sent that could be late" if mode == "independent" else "workers have copies of their own"
        raise click.UsageError(f"--staged_vars with --variable_update {mode}: {text}")
    if not steps.is_at_owner:
        return
    option = "--backup_workers" if steps.backups else "--nocross_replica_sync"
    if mode != "parameter_server" or len(jobs.servers) != 1:
        text = "one parameter server has all variables, and updates them as gradients come"
        remedy = "--variable_update parameter_server, with one host in --ps_hosts"
        raise click.UsageError(f"{option}: {text}; it goes with {remedy}")
    if steps.backups >= jobs.devices:
        text = f"of {counted(jobs.devices, 'worker')} one at least is waited for"
        raise click.UsageError(f"--backup_workers {steps.backups}: {text}")
    if jobs.gpus:
        raise UnsupportedError(f"{option} with --num_gpus: in this version workers are processors there", code="E1001")
