"""On what each task works: its processors, or one of its GPUs.

    place "**" on worker any gpu       all tasks of `worker` work on their first GPU
    place "table" on ps task 0 gpu 1   task 0 of `ps` works on its second one

All that a task computes and holds is on one device: what no line gives a device follows the lines that do, and a task
of which no line says anything of the kind works on its processors. Assumes constraints that some device satisfies.
Guarantees that lines which want two devices in one task are one message that shows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dfc.deployment.constraints import words_of
from dfc.deployment.devices import count_of
from dfc.deployment.model import Constraint, Job, Place
from dfc.deployment.resolution import Ruling
from dfc.diagnostics import Diagnostic, error
from dfc.source import Span


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a task: `number` counts those of its kind."""

    kind: str = "cpu"
    number: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind} {self.number}"


ON_CPU = Device()


@dataclass(frozen=True, slots=True)
class _Ask:
    """A line that names a device for tasks of a job; `number` is None for any of its kind."""

    task: int | None
    kind: str
    number: int | None
    glob: str
    span: Span

    def meets(self, other: _Ask) -> bool:
        """Whether some task is meant by both."""
        return self.task is None or other.task is None or self.task == other.task

    def agrees(self, other: _Ask) -> bool:
        return self.kind == other.kind and (self.kind == "cpu" or (self.number or 0) == (other.number or 0))

    def __str__(self) -> str:
        return f"a {self.kind}" if self.number is None else f"{self.kind} {self.number}"


@dataclass
class Devices:
    """The lines with devices, by job."""

    jobs: Mapping[str, Job]
    asks: dict[str, list[_Ask]] = field(default_factory=dict[str, list[_Ask]])

    def of(self, job: str, task: int | None) -> Device:
        """What a role works on: a task of a job, or all of them that have no role of their own."""
        ask = self._ask(job, task)
        return ON_CPU if ask is None or ask.kind == "cpu" else Device(ask.kind, ask.number or 0)

    def because(self, job: str, task: int | None) -> Span | None:
        """The place of the line behind that; None where no line says anything."""
        ask = self._ask(job, task)
        return None if ask is None else ask.span

    def _ask(self, job: str, task: int | None) -> _Ask | None:
        return next((ask for ask in self.asks.get(job, ()) if ask.task is None or ask.task == task), None)

    def settled(self, asked: Constraint) -> Constraint:
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

    def clashes(self) -> Iterator[Diagnostic]:
        """A message for each line that wants another device than one before it in the same task."""
        for job, asks in self.asks.items():
            for number, ask in enumerate(asks):
                other = next((each for each in asks[:number] if each.meets(ask) and not each.agrees(ask)), None)
                if other is not None:
                    yield _clash(job, other, ask)


def devices_of(rulings: Iterable[Ruling], jobs: Mapping[str, Job]) -> Devices:
    """What the lines that hold say of devices, in the order of the file; GPUs first, which say where they are not."""
    known = list(rulings)
    made = Devices(jobs)
    for kind in ("gpu", "cpu"):
        asks = [pair for ruling in known if ruling.constraint.device == kind for pair in _asks(made, ruling)]
        for job, ask in sorted(asks, key=lambda pair: pair[1].span.start):
            if ask not in made.asks.setdefault(job, []):
                made.asks[job].append(ask)
    return made


def _asks(devices: Devices, ruling: Ruling) -> Iterator[tuple[str, _Ask]]:
    """The lines behind a ruling that name a device."""
    asked = devices.settled(ruling.constraint)
    for cause in ruling.causes:
        if isinstance(cause, Place) and cause.where.device is not None and asked.job and asked.device:
            yield asked.job, _Ask(asked.task, asked.device, asked.number, cause.glob, words_of(cause))


def _clash(job: str, first: _Ask, second: _Ask) -> Diagnostic:
    title = f"a task of `{job}` would need {first} and {second} at once"
    notes = ["in this version all of a task is on one device"]
    helps = [f'give it a job of its own: `job other tasks 1`, and `place "{second.glob}" on other`']
    label = f"{second} here"
    return error(
        "E0811", title, second.span, label, secondary=[(first.span, f"{first} here")], notes=notes, helps=helps
    )
