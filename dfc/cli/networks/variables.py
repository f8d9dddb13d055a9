"""Where the variables of a network lie, as the guide's `--variable_update` says, as the text of a deployment file.

    parameter_server        each variable has one owner: a task of `ps`, or the one process there is. Workers get the
                            values for each step and send sums of their gradients
    distributed_replicated  the same, and each worker has copies that it computes from: the owner sends the new values
                            at the end of a step, and not at the start of the next one
    replicated              each worker has all variables, and gradients are summed among all
    independent             each worker has all variables, and nothing is sent

Which steps there are is in `steps`. Assumes jobs that have been checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import click

from dfc.cli.networks.jobs import HERE, Jobs, name_of
from dfc.cli.networks.steps import Steps
from dfc_runtime.errors import UnsupportedError

WITH_SERVERS = ("parameter_server", "distributed_replicated")
MODES = ("parameter_server", "replicated", "distributed_replicated", "independent")


def check(mode: str, jobs: Jobs, local_device: str | None) -> None:
    """`UsageError` for what makes no sense together, `UnsupportedError` for what this version cannot do."""
    if mode == "distributed_replicated" and not jobs.servers:
        text = "--variable_update distributed_replicated keeps copies of variables that lie in servers"
        raise click.UsageError(f"{text}: add --ps_hosts, or use replicated, which needs none")
    if mode not in WITH_SERVERS and jobs.servers:
        raise click.UsageError(f"--variable_update {mode} has no parameter servers: leave --ps_hosts out")
    if mode == "parameter_server" and jobs.devices > 1 and not jobs.servers:
        text = f"--variable_update parameter_server on {jobs.devices} devices needs somewhere for the variables"
        workers = f" --worker_hosts {HERE}" if jobs.workers == (HERE,) else ""  # servers want them to be named
        raise click.UsageError(f"{text}: add --ps_hosts {name_of(jobs.workers[0])}{workers}")
    if jobs.servers and not jobs.workers:
        text = f"nobody would compute: add --worker_hosts {name_of(jobs.servers[0])}"
        raise click.UsageError(f"--ps_hosts without --worker_hosts: {text}")
    if local_device == "gpu" and not jobs.gpus:
        raise click.UsageError("--local_parameter_device gpu, and --num_gpus is 0")
    if local_device == "gpu" and jobs.servers:
        text = "--local_parameter_device gpu with --ps_hosts: in this version parameter servers are processors"
        raise UnsupportedError(text, code="E1001")
    if local_device == "cpu" and jobs.gpus and mode == "parameter_server" and not jobs.servers:
        text = "--local_parameter_device cpu on one GPU would fetch all variables anew for each step"
        raise UnsupportedError(f"{text}, which this version cannot do\n  use gpu", code="E1001")


def deployment(mode: str, steps: Steps, jobs: Jobs, program: str, sizes: Mapping[str, int]) -> str:
    """The deployment file, "" where each rank runs the program by itself. `sizes` has the bytes of each variable."""
    if mode == "independent" or (len(jobs.processes) == 1 and steps.mode == "sync"):
        return ""
    on_gpus = " with gpu = 1" if jobs.gpus else ""
    lines = [f'deploy 1 for "{program}"', ""]
    if jobs.servers:
        lines.append(f"job ps     tasks {len(jobs.servers)}")
    lines += [f"job worker tasks {jobs.devices}{on_gpus}", ""]
    if not steps.is_at_owner:  # else all state is on the one server
        lines.append(f'place "**" on worker{" any gpu" if jobs.gpus else ""}')
        lines += [f'place "{name}" on ps task {task}' for name, task in owners(sizes, len(jobs.servers)).items()]
        lines.append("")
    if mode == "distributed_replicated":
        steps = replace(steps, mode="mirrored")
    return "\n".join([*lines, f"replicate train over worker with {steps.settings(jobs.devices)}", ""])


def owners(sizes: Mapping[str, int], servers: int) -> Mapping[str, int]:
    """Which server has which variable: the largest first, each to the one with the fewest bytes so far."""
    if not servers:
        return {}
    held, owner = [0] * servers, dict[str, int]()
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        owner[name] = held.index(min(held))
        held[owner[name]] += sizes[name]
    return {name: owner[name] for name in sizes}
