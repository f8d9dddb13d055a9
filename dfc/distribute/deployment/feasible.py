"""Whether any device of the jobs satisfies a constraint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.constraints import asked_by, where_text, words_of
from dfc.distribute.deployment.devices import count_of
from dfc.distribute.deployment.model import Colocate, Constraint, Deployment, Job, PlaceStatement, Shard
from dfc.distribute.deployment.resolution import ResolvedConstraint

MOST_FOLLOWERS = 3


class Feasible:
    """Checks constraints against the jobs of a deployment; each line is blamed once."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._reported: set[int] = set()

    def check(self, resolved: ResolvedConstraint, links: Sequence[Colocate]) -> Iterator[Diagnostic]:
        """The message for a constraint that nothing satisfies; `links` are the lines that make others follow."""
        asked = resolved.constraint
        statements = [each for each in resolved.causes if isinstance(each, PlaceStatement | Shard)]
        cause = next((each for each in statements if asked_by(each).device is not None), statements[-1])
        if cause.span.start in self._reported:
            return
        possible = [job for job in self.deployment.jobs.values() if asked.job in (None, job.name)]
        if not any(_satisfies(job, asked) for job in possible):
            self._reported.add(cause.span.start)
            yield self._nobody(resolved, cause, statements, possible, links)

    def _nobody(
        self,
        resolved: ResolvedConstraint,
        cause: PlaceStatement | Shard,
        statements: Sequence[PlaceStatement | Shard],
        possible: Sequence[Job],
        links: Sequence[Colocate],
    ) -> Diagnostic:
        asked = resolved.constraint
        what = _device_text(asked)
        whose = f"device of job `{asked.job}`" if asked.job is not None else "device of any job"
        secondary = [_what_it_has(job, asked) for job in possible[:MOST_FOLLOWERS]]
        secondary += [(words_of(each), f"asks for `{asked_by(each)}`") for each in statements if each is not cause]
        for link in links[:MOST_FOLLOWERS]:
            follower = link.glob if "*" in link.glob else link.glob.replace(".", "/").rpartition("/")[2]
            keyword = Span(link.span.file, link.span.start, link.span.start + len("colocate"))
            secondary.append((keyword, f"and `{follower}` would follow it"))
        own = asked_by(cause)
        label = f"asks for `{own}`"
        if own.device is not None:
            label = f"asks for {_device_text(own)}" + (f" in `{own.job}`" if own.job is not None else "")
        title = f"no {whose} is {what}"
        if asked.task is not None and all(asked.task >= job.tasks for job in possible):
            title = f"{_job_text(asked)} has no task {asked.task}"
        elif asked.task is not None:
            title = f"task {asked.task} of {_job_text(asked)} has no {_device_text(asked).removeprefix('a ')}"
        helps = _remedies(asked, cause, statements, possible)
        return error("E0802", title, words_of(cause), label, secondary=secondary, helps=helps)


def _remedies(
    asked: Constraint,
    cause: PlaceStatement | Shard,
    statements: Sequence[PlaceStatement | Shard],
    possible: Sequence[Job],
) -> list[Help]:
    """The line without the device that it asks for, and the job with it; each only if that is all that is missing."""
    there = asked.task is None or any(asked.task < job.tasks for job in possible)
    helps: list[Help] = []
    if there and not any(asked_by(each).device is not None for each in statements if each is not cause):
        helps = _without_device(cause)
    if there and len(possible) == 1 and asked.device is not None:
        helps.append(_with_device(possible[0], asked.device, (asked.number or 0) + 1, "or " if helps else ""))
    return helps


def _with_device(job: Job, kind: str, count: int, start: str) -> Help:
    """The line of a job with so many devices of a kind, and all else as it was."""
    setting, settings = f"{kind} = {count}", [each.span for each in job.settings]
    known = next((each.span for each in job.settings if each.name == kind), None)
    change = Edit(job.span.after(), f", {setting}" if settings else f" with {setting}")
    if known is not None:
        change = Edit(known, setting)
    text, span = job.span.text, change.span
    line = text[: span.start - job.span.start] + change.text + text[span.end - job.span.start :]
    return editing(f"{start}give the job {kind}s: `{' '.join(line.split())}`", [change])


def _satisfies(job: Job, asked: Constraint) -> bool:
    if asked.task is not None and asked.task >= job.tasks:
        return False
    return asked.device is None or count_of(job, asked.device) > (asked.number or 0)


def _device_text(asked: Constraint) -> str:
    if asked.device is None:
        return "there"
    return f"a {asked.device}" if asked.number is None else f"{asked.device} {asked.number}"


def _job_text(asked: Constraint) -> str:
    return "a job" if asked.job is None else f"job `{asked.job}`"


def _what_it_has(job: Job, asked: Constraint) -> tuple[Span, str]:
    """Where a job says what its tasks have, and what is missing there."""
    spans = [each.span for each in job.settings]
    span = spans[0].to(spans[-1]) if spans else job.span
    if job.gpus == 0 and asked.device == "gpu":
        return span, f"`{job.name}` has only cpus"
    gpus = f" and {_count(job.gpus, 'gpu')}" if job.gpus else ""
    return span, f"`{job.name}` has {_count(job.tasks, 'task')}, each with {_count(job.cpus, 'cpu')}{gpus}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _without_device(cause: PlaceStatement | Shard) -> list[Help]:
    """The line without the device that it asks for."""
    if not isinstance(cause, PlaceStatement) or cause.where.device is None:
        return []
    rest = where_text(replace(cause.where, device=None, number=None))
    return [replacing(f'place "{cause.glob}" on {rest}', cause.where.span, rest)]
