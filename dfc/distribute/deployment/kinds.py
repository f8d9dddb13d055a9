"""On what each task works: its processors, its GPUs, or several of them.

    place "**" on worker any gpu       all tasks of `worker` work on their first GPU
    place "table" on worker any cpu    and what is about `table` on their processors
    place "head.*" on worker gpu 1     and this on their second GPU

The devices of a task are those that its lines name. If they name one, all of the task is there; if they name several,
what no line gives a device is where placement finds it best. A task of which no line says anything of the kind works
on its processors. Assumes constraints that some device satisfies. Guarantees that a line which wants on a GPU what the
host does is a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import alone, replacing
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.constraints import where_text, words_of
from dfc.distribute.deployment.devices import count_of
from dfc.distribute.deployment.model import Constraint, Job, Place
from dfc.distribute.deployment.resolution import Ruling
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ops.effects.effects import is_host_call


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
    span: Span

    def is_about(self, task: int | None) -> bool:
        return self.task is None or self.task == task


@dataclass
class Devices:
    """The lines with devices, by job."""

    jobs: Mapping[str, Job]
    asks: dict[str, list[_Ask]] = field(default_factory=dict[str, list[_Ask]])

    def of(self, job: str, task: int | None) -> Device:
        """What a role works on, first of all: a task of a job, or all of them that have no role of their own."""
        return self.in_play(job, task)[0]

    def in_play(self, job: str, task: int | None) -> tuple[Device, ...]:
        """All devices of a role, GPUs first. `any gpu` names the first one where no line names one by its number."""
        asks = [ask for ask in self.asks.get(job, ()) if ask.is_about(task)]
        gpus = {ask.number for ask in asks if ask.kind == "gpu" and ask.number is not None}
        if not gpus and any(ask.kind == "gpu" for ask in asks):
            gpus = {0}
        found = tuple(Device("gpu", number) for number in sorted(gpus))
        return found if found and all(ask.kind == "gpu" for ask in asks) else (*found, ON_CPU)

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
            yield asked.job, _Ask(asked.task, asked.device, asked.number, words_of(cause))


def on_the_host(rulings: Mapping[str, Ruling], graph: Graph) -> Iterator[Diagnostic]:
    """A message for each line that names something the host does, and wants it on a GPU. Lines with stars mean the rest
    of what they match."""
    done_there = {
        node.name: node for entry in graph.entries.values() for node in walk.nodes(entry.block) if is_host_call(node)
    }
    for name, ruling in rulings.items():
        for cause in ruling.causes if name in done_there else ():
            if isinstance(cause, Place) and cause.where.device == "gpu" and "*" not in cause.glob:
                title = f"`{cause.glob}` cannot be on a gpu: it is done by the host"
                second = [(done_there[name].span, f"`{done_there[name].op}` is no work for a gpu")]
                words = "or leave the line out: the values it needs are sent there"
                rest = where_text(replace(cause.where, device="cpu", number=None))
                moved = replacing(f'place "{cause.glob}" on {rest}', cause.where.span, rest)
                helps = [moved, replacing(words, alone(cause.span), "")]
                yield error("E0811", title, words_of(cause), "a gpu here", secondary=second, helps=helps)
