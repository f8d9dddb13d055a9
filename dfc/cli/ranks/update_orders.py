"""`dfc run --record` and `--replay`: the order in which replicas took steps of their own, call by call, in a file.

The file has JSON lines: what it is, then one line for each call, with its number and the order that `update_log` read.
Guarantees that each line is on its way to the disk before the next call begins, so that a run which is killed can be
replayed as far as it came; that a run which goes on from a checkpoint records over what was undone; and that nothing is
replayed that is of another entry or of other tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from dfc.deferred.dataclasses import dataclass
from dfc_runtime.errors import FeedError, FileError, counted
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, items, mapping, text
from dfc_runtime.module import Module

if TYPE_CHECKING:  # most programs run on one rank
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule

FORMAT = "dfc order of updates 1"
Call = Callable[..., object]


class Order(Protocol):
    @property
    def order(self) -> Sequence[int]: ...


class Log(Protocol):
    """What an entry whose replicas take steps of their own knows of them (`UpdateLog`)."""

    def read(self) -> Order: ...

    def replay(self, order: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Orders:
    """Whose steps they are, and the order of each call by its number, from 1."""

    entry: str
    tasks: int
    calls: Mapping[int, Sequence[int]]


def with_orders(
    call: Call, module: ClusterModule | Module, entry: str, files: tuple[str | None, str | None], start: int
) -> Call:
    """The call of an entry as the options `--record` and `--replay` have it, behind `start` calls that were made
    before."""
    record, replay = files
    path = record or replay
    if path is None:
        return call
    log = getattr(module.entries[entry], "updates", None)
    if isinstance(module, Module) or log is None:
        flag = "--record" if record else "--replay"
        text = (
            f'{flag} is for entries whose replicas take steps of their own, such as mode = "async": {entry} is not one'
        )
        raise click.UsageError(text)
    plan = module.entries[entry].plan
    tasks = sum(part.task.job == plan.split.replicated_over for part in plan.parts.values())
    return (recording if record else replaying)(call, log, Path(path), entry, tasks, start)


def recording(call: Call, log: Log, path: Path, entry: str, tasks: int, start: int) -> Call:
    """The call, which writes the order of its updates behind those of the first `start` calls."""
    lines = [json.dumps({"format": FORMAT, "entry": entry, "tasks": tasks})]
    if start:
        known = _of_this_run(read(path), path, entry, tasks)
        missing = next((number for number in range(1, start + 1) if number not in known.calls), None)
        if missing is not None:
            raise _unfit(path, f"it has no order of call {missing}, and the run goes on behind call {start}")
        lines += [_line(number, known.calls[number]) for number in range(1, start + 1)]
    _write(path, "w", lines)
    number = start

    def recorded(**feeds: object) -> object:
        nonlocal number
        result = call(**feeds)
        number += 1
        _write(path, "a", [_line(number, log.read().order)])
        return result

    return recorded


def replaying(call: Call, log: Log, path: Path, entry: str, tasks: int, start: int) -> Call:
    """The call, with the order of updates that the file has for it."""
    orders = _of_this_run(read(path), path, entry, tasks)
    number = start

    def replayed(**feeds: object) -> object:
        nonlocal number
        number += 1
        if number not in orders.calls:
            raise _unfit(path, f"it has no order of call {number}, but of {counted(len(orders.calls), 'call')}")
        log.replay(orders.calls[number])
        return call(**feeds)

    return replayed


def read(path: Path) -> Orders:
    """What a file has; a last line that a killed run did not end counts for nothing."""
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise FileError(f"cannot read {path}: {problem.strerror}", code="E0909") from None
    except UnicodeDecodeError:
        raise _unfit(path, "it is no text") from None
    whole, _, _ = content.rpartition("\n")
    try:
        head, *rest = [mapping(strict_json.parse(line), "a line") for line in whole.split("\n")]
        if text(head.get("format"), "format") != FORMAT:
            raise ValueError(f'its format is not "{FORMAT}"')
        calls = {
            integer(line.get("call"), "call"): [integer(task, "task") for task in items(line.get("order"), "order")]
            for line in rest
        }
        return Orders(text(head.get("entry"), "entry"), integer(head.get("tasks"), "tasks"), calls)
    except ValueError as problem:
        raise _unfit(path, f"it was not written by --record: {problem}") from None


def _line(number: int, order: Sequence[int]) -> str:
    return json.dumps({"call": number, "order": list(order)})


def _write(path: Path, mode: str, lines: Sequence[str]) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    except OSError as problem:
        raise FileError(f"cannot write {path}: {problem.strerror}", code="E0909") from None


def _of_this_run(orders: Orders, path: Path, entry: str, tasks: int) -> Orders:
    if orders.entry != entry:
        raise _unfit(path, f"it is of calls of `{orders.entry}`, not of `{entry}`")
    if orders.tasks != tasks:
        raise _unfit(path, f"it is of {counted(orders.tasks, 'task')}, and now there are {tasks}")
    return orders


def _unfit(path: Path, why: str) -> FeedError:
    return FeedError(f"{path} does not fit this run: {why}", code="E0901")
