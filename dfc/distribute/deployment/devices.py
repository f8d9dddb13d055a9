"""Constraints on devices from words and from names in parts.

    ps task 3 any gpu       /job:ps/task:3/device:gpu:*
    worker gpu 0            /job:worker/device:gpu:0
    any cpu                 /device:cpu:*

Guarantees that a constraint names a job and numbers that the file has, or that there is a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.distribute.deployment.model import Constraint, Job
from dfc.distribute.deployment.syntax.statements import DeviceWords, WhereWords, Word
from dfc.syntax.reader.literals import DIGIT_LIMIT

KINDS = ("cpu", "gpu")
PARTS = ("job", "task", "device")
PATH_FORM = "/job:NAME/task:NUMBER/device:KIND:NUMBER"


def constraint_of(words: WhereWords, jobs: Mapping[str, Job], problems: list[Diagnostic]) -> Constraint | None:
    """What the words ask for, or None after a message."""
    count = len(problems)
    if words.path is not None:
        asked = _from_path(words.path, words.span, problems)
    else:
        asked = _from_words(words, jobs, problems)
    if asked is None or len(problems) > count:
        return None
    problem = _unknown_job(asked, words, jobs) or _out_of_range(asked, jobs)
    if problem is not None:
        problems.append(problem)
        return None
    return asked


def unknown_job(name: str, span: Span, jobs: Mapping[str, Job]) -> Diagnostic:
    """The message for a job that is not declared."""
    label = did_you_mean(closest(name, jobs))
    notes = [f"the jobs are {listed(jobs)}"] if jobs else []
    return error("E0805", f"there is no job `{name}`", span, label, notes=notes)


def _from_words(words: WhereWords, jobs: Mapping[str, Job], problems: list[Diagnostic]) -> Constraint | None:
    job = None if words.name is None else words.name.text
    device = words.device
    if words.name is not None and job not in jobs and words.task is None and device is None and job in KINDS:
        return Constraint(None, None, job, None, words.span)  # a kind of device alone
    if device is not None and not _is_kind(device, words, jobs, problems):
        return None
    return Constraint(
        job,
        None if words.task is None else words.task.number,
        None if device is None else device.kind.text,
        None if device is None or device.number is None else device.number.number,
        words.span,
    )


def _is_kind(device: DeviceWords, words: WhereWords, jobs: Mapping[str, Job], problems: list[Diagnostic]) -> bool:
    kind = device.kind.text
    if kind in KINDS:
        return True
    helps: list[Help] = []
    if kind in jobs and device.number is not None and words.name is None:
        task = f"{kind} task {device.number.number}"
        helps = [replacing(f"for one task of a job, write `{task}`", device.span, task)]
    label = did_you_mean(closest(kind, KINDS))
    notes = ["the kinds are cpu and gpu"]
    problems.append(error("E0182", f"`{kind}` is no kind of device", device.kind.span, label, notes=notes, helps=helps))
    return False


def _from_path(path: Word, span: Span, problems: list[Diagnostic]) -> Constraint | None:
    """`/job:ps/task:3/device:gpu:0`: each part at most once, in this order, none of them needed by itself."""
    path_parts: dict[str, str] = {}
    pieces = path.text.split("/")
    wrong = "it begins with `/`" if pieces[0] else "it has no parts" if pieces[1:] in ([], [""]) else ""
    for piece in pieces[1:]:
        part, _, rest = piece.partition(":")
        wrong = wrong or _wrong_part(part, rest, path_parts)
        path_parts[part] = rest
    if wrong:
        title = f'"{path.text}" is no device name'
        problems.append(
            error("E0182", title, span, wrong, notes=[f"the form is {PATH_FORM}; any part may be left out"])
        )
        return None
    kind, _, number = path_parts.get("device", "").partition(":")
    task = path_parts.get("task")
    return Constraint(
        path_parts.get("job"),
        None if task is None or task == "*" else int(task),
        kind or None,
        int(number) if number.isdigit() else None,
        span,
    )


def _wrong_part(part: str, rest: str, path_parts: Mapping[str, str]) -> str:
    """What is wrong with one part, behind those that were found already."""
    if part not in PARTS:
        near = closest(part, PARTS)
        return f"`{part}` is none of job, task and device" + (f"; {did_you_mean(near)}" if near else "")
    if part in path_parts:
        return f"`{part}` is given twice"
    if any(PARTS.index(each) > PARTS.index(part) for each in path_parts):
        return "the order is job, task, device"
    if part == "job":
        return "" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest) else "a job has a name: `/job:ps`"
    if part == "task":
        return "" if _is_number(rest) else "a task has a number: `/task:3`"
    kind, colon, number = rest.partition(":")
    if kind not in KINDS:
        return "the kinds are cpu and gpu: `/device:gpu:0`"
    return "" if _is_number(number) or not colon else "a device has a number, or `*`: `/device:gpu:0`"


def _is_number(text: str) -> bool:
    return text == "*" or (text.isascii() and text.isdigit() and len(text) <= DIGIT_LIMIT)


def _unknown_job(asked: Constraint, words: WhereWords, jobs: Mapping[str, Job]) -> Diagnostic | None:
    if asked.job is None or asked.job in jobs:
        return None
    span = words.span if words.name is None else words.name.span
    if words.task is not None or words.device is not None or words.path is not None:
        return unknown_job(asked.job, span, jobs)
    title = f"`{asked.job}` is neither a job nor a kind of device"
    label = did_you_mean(closest(asked.job, [*jobs, *KINDS]))
    return error("E0805", title, span, label, notes=[f"the jobs are {listed(jobs)}"] if jobs else [])


def _out_of_range(asked: Constraint, jobs: Mapping[str, Job]) -> Diagnostic | None:
    """A task or a device that no job it could belong to has; that a job has none of a kind is for the resolver."""
    possible = [job for job in jobs.values() if asked.job in (None, job.name)]
    if not possible:
        return None
    tasks = max(job.tasks for job in possible)
    if asked.task is not None and asked.task >= tasks:
        return _no_such("task", asked.task, tasks, asked, max(possible, key=lambda job: job.tasks))
    if asked.device is None or asked.number is None:
        return None
    largest = max(possible, key=lambda job: count_of(job, asked.device))
    count = count_of(largest, asked.device)
    return _no_such(asked.device, asked.number, count, asked, largest) if 0 < count <= asked.number else None


def count_of(job: Job, kind: str | None) -> int:
    """How many devices of a kind each task of a job has."""
    return job.gpus if kind == "gpu" else job.cpus


def _no_such(what: str, number: int, count: int, asked: Constraint, job: Job) -> Diagnostic:
    have = f"{count} {what}{'' if count == 1 else 's'}"
    per_task = "" if what == "task" else " in each task"
    range_ = "0" if count == 1 else f"0 to {count - 1}"
    title = f"there is no {what} {str(number)[:20]}"
    job_span = job.span
    label = f"`{job.name}` has {have}{per_task}"
    return error("E0806", title, asked.span, secondary=[(job_span, label)], notes=[f"they are numbered {range_}"])
