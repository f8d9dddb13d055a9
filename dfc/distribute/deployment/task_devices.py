"""The devices of the tasks of a job: its processors, its GPUs, or several of them, as the lines of the file name them.

Assumes constraints that some device satisfies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.devices import count_of
from dfc.distribute.deployment.model import Constraint, Job


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a task: `number` counts those of its kind."""

    kind: str = "cpu"
    number: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind} {self.number}"


ON_CPU = Device()


@dataclass(frozen=True, slots=True)
class Ask:
    """A line that names a device for tasks of a job; `number` is None for any of its kind."""

    task: int | None
    kind: str
    number: int | None
    span: Span

    def is_about(self, task: int | None) -> bool:
        return self.task is None or self.task == task


@dataclass
class Devices:
    """The lines with devices, by job."""

    jobs: Mapping[str, Job]
    asks: dict[str, list[Ask]] = field(default_factory=dict[str, list[Ask]])

    def of(self, job: str, task: int | None) -> Device:
        """What a role works on, first of all: a task of a job, or all of them that have no role of their own."""
        return self.in_play(job, task)[0]

    def in_play(self, job: str, task: int | None) -> tuple[Device, ...]:
        """All devices of a role, GPUs first. `any gpu` names the first one where no line names one by its number."""
        asks = [ask for ask in self.asks.get(job, ()) if ask.is_about(task)]
        gpus = {ask.number for ask in asks if ask.kind == "gpu" and ask.number is not None}
        if not gpus and any(ask.kind == "gpu" for ask in asks):
            gpus = {0}
        devices = tuple(Device("gpu", number) for number in sorted(gpus))
        return devices if devices and all(ask.kind == "gpu" for ask in asks) else (*devices, ON_CPU)

    def allowed(self, asked: Constraint, job: str, task: int | None) -> tuple[Device, ...]:
        """Those of the devices in play that a constraint allows to what it is about; all, if that is other tasks."""
        devices = self.in_play(job, task)
        if asked.device is None or asked.job not in (None, job) or asked.task not in (None, task):
            return devices
        if asked.device == "cpu":
            return (ON_CPU,)
        return tuple(each for each in devices if each.kind == "gpu" and asked.number in (None, each.number))

    def because(self, job: str, task: int | None) -> list[Span]:
        """The places of the lines behind that."""
        return [ask.span for ask in self.asks.get(job, ()) if ask.is_about(task)]

    def with_job(self, asked: Constraint) -> Constraint:
        """A constraint with the job it comes to: one that names a device alone is about the first job whose tasks have
        such a GPU, or of which nothing is on a GPU."""
        if asked.job is not None or asked.device is None:
            return asked
        on_gpus = {job for job, asks in self.asks.items() if any(ask.kind == "gpu" for ask in asks)}
        if asked.device == "gpu":
            having = [job.name for job in self.jobs.values() if count_of(job, "gpu") > (asked.number or 0)]
        else:
            having = [name for name in self.jobs if name not in on_gpus] or list(self.jobs) if on_gpus else []
        return replace(asked, job=having[0]) if having else asked
