"""Whether code is asked for that no task of a deployment would run.

    --arch sm_90 --isa x86-64-v3       GPUs and processors: each task takes those that are for what it works on

Assumes lines that agree on what each task works on. Guarantees that a variant which would be left out is a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.distribute.deployment.model import Deployment
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.task_devices import Devices
from dfc.ir.options import is_gpu_variant

Task = tuple[str, int | None]
"""A job and the number of a task of it, or all of its tasks that are not listed by themselves."""


def check_variants(asked: Sequence[str], tasks: Collection[Task], resolution: Resolution) -> None:
    """Raises `CompileError` if code is asked for which no task would run."""
    unused = list(_unused(asked, tasks, resolution.devices, resolution.deployment))
    if unused:
        raise CompileError(unused)


def _unused(
    asked: Sequence[str], tasks: Iterable[Task], devices: Devices, deployment: Deployment
) -> Iterator[Diagnostic]:
    """A message for the GPUs that are asked for where nothing is on one, and likewise for processors."""
    in_play = {kind for job, task in tasks for kind in _kinds(devices, job, task)}
    first = next(iter(deployment.jobs.values()))
    gpus = [name for name in asked if is_gpu_variant(name)]
    others = [name for name in asked if not is_gpu_variant(name)]
    if gpus and "gpu" not in in_play:
        having = next((each for each in deployment.jobs.values() if each.gpus), first)
        line = f'place "**" on {having.name} any gpu'
        action = f"put work on a GPU: `{line}`" if having.gpus else f"put work on a GPU: `with gpu = 1`, and `{line}`"
        yield error(
            "E0815",
            f"code for {', '.join(gpus)} is asked for, and no line puts anything on a GPU",
            having.span,
            "all tasks work on their processors",
            helps=["leave `--arch` out", action],
        )
    if others and "cpu" not in in_play:
        yield error(
            "E0815",
            f"code for {', '.join(others)} is asked for, and all tasks work on GPUs",
            first.span,
            "no code of this program runs on a processor",
            helps=["leave `--isa` out: GPUs are named by `--arch`"],
        )


def _kinds(devices: Devices, job: str, task: int | None) -> set[str]:
    """The kinds of devices that a task works on. Where it has several, processors do what the host does."""
    in_play = devices.in_play(job, task)
    return {device.kind for device in in_play} | ({"cpu"} if len(in_play) > 1 else set())
