"""Calling an entry again and again: epochs, batches, steps, stopping by a signal, and the listeners of all that.

Assumes feeds as arrays and numbers. Guarantees that a signal ends the loop between two steps, so that state can still
be saved, and that a second one, or a step of more than some seconds, is interrupted: state is then that of the last
complete step. The end of the data that a program reads ends the loop, too.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import click
import numpy as np

from dfc.cli.patience import SIGNALLED, STOPPING, Patience, end_at_once
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.calls.batching import Batching, Epoch, Gathered, plan_batches
from dfc_runtime.errors import EndOfData, FeedError, counted
from dfc_runtime.formats.manifest import Entry

Results = dict[str, object]
SAME_REQUEST = 1.0
"""Seconds in which a repeated signal is the same request to stop, and no impatience."""
LOOK_EVERY_S = 0.1
Feeds = Mapping[str, object]
T = TypeVar("T")
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | signal.Handlers | int | None
"""What Python does at a signal."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often to call: `batch` cuts the feeds; an epoch is one pass over them (one call without `batch`). `last` says
    what becomes of a last batch that is shorter: it runs as it is, or filled up if it has to be, or is dropped."""

    batch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    last: str = "run"

    @property
    def repeats(self) -> bool:
        """Whether more than one call was asked for."""
        return self != Schedule()

    def most_epochs(self) -> int:
        """Epochs to run at the most; a number of steps goes through the data as often as it needs."""
        if self.epochs is not None:
            return self.epochs
        return 1 if self.steps is None else self.steps


@dataclass(slots=True)
class Report:
    """What a loop did so far; `first` steps of it were done before."""

    first: int = 0
    steps: int = 0
    epoch: int = 0
    total_steps: int = 0
    seconds: float = 0.0
    last: Results = field(default_factory=dict[str, object])
    stopped_by: int = 0
    is_out_of_data: bool = (
        False  # the data ended before all the steps that were asked for; `total_steps` is what it gave
    )
    over: Epoch | None = None  # the batches of the last epoch together, where there are batches

    @property
    def results(self) -> Results:
        """The results of the last epoch where they follow from those of its batches, else those of the last call."""
        return self.last if self.over is None else {**self.last, **self.over.values()}

    @property
    def rate(self) -> float:
        """Steps a second."""
        return (self.steps - self.first) / self.seconds if self.seconds else 0.0


class Listener(Protocol):
    """Called after every step; must be quick."""

    def step(self, report: Report) -> None: ...

    def epoch(self, report: Report) -> None: ...


class Call(Protocol):
    def __call__(self, **feeds: object) -> object: ...


@dataclass(frozen=True, slots=True)
class Loop:
    """How to call, who listens, whether results of the last epoch are kept, and how many steps are done already.
    `on_stop` gets signals, and says whether a later one may end the process at once."""

    schedule: Schedule
    listener: Listener
    gather: bool = False
    start: int = 0
    alone: bool = True
    """Whether no other ranks take part: only then a call can be interrupted."""
    on_stop: Callable[[int], bool] | None = None
    """Gets signals, and says whether it is left to this process what more of them mean."""


class Stopper:
    """Turns the first SIGINT or SIGTERM into a request to stop after the step, and says so, unless a supervisor does. A
    second one interrupts the step where that can be; a further one ends the process at once, but not within a second of
    the first: service managers signal all processes, and some of them pass it on.

    Handlers run between two steps of the interpreter, and native code is one of them however long it takes: the calls
    are therefore made by a thread of their own, while this one waits.
    """

    def __init__(self, on_stop: Callable[[int], bool] | None = None) -> None:
        self.signal = 0
        self.signals = 0
        self.patience: Patience | None = None
        self._at = 0.0
        self._on_stop = on_stop
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Stopper:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        is_left = self._on_stop is None or self._on_stop(number)
        self.signals += 1
        if not self.signal:
            self.signal, self._at = number, time.monotonic()  # first: who reads the message may send the next at once
            if is_left:
                os.write(2, STOPPING)
            return
        can_interrupt = self.patience is not None and self.signals == 2
        if is_left and not can_interrupt and time.monotonic() - self._at >= SAME_REQUEST:
            end_at_once(number)

    @contextmanager
    def calling(self) -> Generator[None]:
        """While a call is made, which may be interrupted."""
        if self.patience is None:
            yield
            return
        self.patience.calling = True
        try:
            yield
        finally:
            self.patience.calling = False


def run(entry: Entry, call: Call, feeds: Feeds, loop: Loop) -> tuple[Report, Gathered]:
    """Calls the entry as scheduled, and can be stopped meanwhile."""
    return _in_background(
        lambda stopper: _run(entry, call, feeds, loop, stopper), alone=loop.alone, on_stop=loop.on_stop
    )


def once(call: Callable[[], T], *, alone: bool = True) -> tuple[T, int]:
    """What one call gives, and the number of the signal that came meanwhile, or 0. `Exit` if it was interrupted."""

    def work(stopper: Stopper) -> tuple[T, int]:
        try:
            with stopper.calling():
                return call(), stopper.signal
        except KeyboardInterrupt:
            click.echo("error: stopped", err=True)
            raise click.exceptions.Exit(SIGNALLED + stopper.signal) from None

    return _in_background(work, alone=alone)


def _in_background(work: Callable[[Stopper], T], *, alone: bool, on_stop: Callable[[int], bool] | None = None) -> T:
    """Works in a thread of its own, while this one hears signals, and sees to it that the call ends if it is alone."""
    with Stopper(on_stop) as stopper, ThreadPoolExecutor(1, "dfc-run") as calls:
        if alone:
            thread = calls.submit(threading.get_ident).result()
            stopper.patience = Patience(lambda: stopper.signal, lambda: stopper.signals, thread)
        future = calls.submit(work, stopper)
        try:
            while True:
                try:
                    return future.result(timeout=LOOK_EVERY_S)
                except TimeoutError:
                    if future.done():
                        raise
                    if stopper.patience is not None:
                        stopper.patience.look()
        finally:
            if stopper.patience is not None:
                stopper.patience.withdraw()


def _run(entry: Entry, call: Call, feeds: Feeds, loop: Loop, stopper: Stopper) -> tuple[Report, Gathered]:
    schedule, listener = loop.schedule, loop.listener
    batching = batching_of(entry, feeds, schedule) if schedule.batch is not None else None
    report = Report(loop.start, total_steps=_total(schedule, batching))
    dim = batching.dim if batching else None
    gathered = Gathered(dim, {r.name: [f.symbol for f in r.shape] for r in entry.results})
    start = time.perf_counter()
    over = {} if dim is None else {r.name: how for r in entry.results for each, how in r.over if each == dim}
    for report.epoch in range(1, schedule.most_epochs() + 1):
        report.over = Epoch(over) if batching is not None else None
        gathered = Gathered(dim, {r.name: [f.symbol for f in r.shape] for r in entry.results})
        for batch in _epoch(feeds, batching, schedule.batch):
            report.steps += 1
            if report.steps <= loop.start:
                continue
            if not _step(entry, call, batch, report, stopper):
                break  # the step counts for nothing
            report.seconds = time.perf_counter() - start
            if report.over is not None and batching is not None:
                report.over.add(report.last, batching.size_of(batch))
            if loop.gather:
                gathered.add(report.last)
            listener.step(report)
            if stopper.signal or report.steps == schedule.steps:
                break
        listener.epoch(report)
        if stopper.signal or report.is_out_of_data or report.steps == schedule.steps:
            break
    report.stopped_by = stopper.signal
    return report, gathered


def _step(entry: Entry, call: Call, batch: Feeds, report: Report, stopper: Stopper) -> bool:
    """Makes one call. False if it was interrupted, which leaves state as it was after the step before, or if the data
    has ended, which leaves it as any failing call does. `EndOfData` if there was none for the first step: the run has
    nothing to show then."""
    try:
        with stopper.calling():
            report.last = named(entry, call(**batch))
    except EndOfData:
        if report.steps == report.first + 1:
            raise
        report.steps -= 1
        report.total_steps, report.is_out_of_data = report.steps, True
        return False
    except KeyboardInterrupt:
        if not stopper.signal:
            raise
        report.steps -= 1
        return False
    return True


def named(entry: Entry, value: object) -> Results:
    """The results of a call by name, however many there are."""
    names = [r.name for r in entry.results]
    if not names:
        return {}
    if entry.unnamed_result:
        return {names[0]: value}
    return dict(zip(names, cast("tuple[object, ...]", value), strict=True))


def batching_of(entry: Entry, feeds: Feeds, schedule: Schedule) -> Batching:
    """How feeds of an entry are cut into batches; raises `FeedError` where they make no batch at all."""
    axes = {p.name: [f.symbol for f in p.shape] for p in entry.parameters}
    batching = plan_batches(entry.name, axes, feeds, drops=schedule.last == "drop")
    if batching.drops and batching.total and schedule.batch is not None and not batching.batches(schedule.batch):
        rows = counted(batching.total, "row")
        text = f"there is no whole batch of {schedule.batch} in {rows}, and --last drop leaves out shorter ones"
        raise FeedError(
            f"{text}\n  give a smaller --batch: {batching.total} or less", code="E0901", spans=[entry.location]
        )
    return batching


def _epoch(feeds: Feeds, batching: Batching | None, size: int | None) -> Iterator[Feeds]:
    if batching is None or size is None:
        yield feeds
    else:
        yield from batching.split(feeds, size)


def _total(schedule: Schedule, batching: Batching | None) -> int:
    one = batching.batches(schedule.batch) if batching and schedule.batch else 1
    whole = schedule.most_epochs() * one
    return min(whole, schedule.steps) if schedule.steps is not None else whole


def described(results: Mapping[str, object]) -> str:
    """Results in one line: numbers as they are, arrays by their first values."""
    return "  ".join(f"{name} {_value(value)}" for name, value in results.items())


def results_line(report: Report) -> str:
    """The results in one line, with what they are of: of how many examples together, or of the last batch alone."""
    whole = report.over
    if whole is None or not report.last:
        return described(report.last)
    together, alone = (
        {n: v for n, v in report.results.items() if (n in whole.over) is is_whole} for is_whole in (True, False)
    )
    parts = [f"of {whole.examples} examples: {described(together)}"] if together else []
    return "; ".join([*parts, *([f"of the last batch: {described(alone)}"] if alone else [])])


def shares(report: Report) -> dict[str, object]:
    """For JSON, where feeds are cut into batches: how many examples there were, and what each result is of them."""
    if report.over is None:
        return {}
    return {"examples": report.over.examples, "over": {n: report.over.over.get(n, "last batch") for n in report.last}}


def _value(value: object) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{float(array):.6g}" if array.dtype.kind == "f" else str(array)
    return np.array2string(array, threshold=8, edgeitems=2, precision=5, separator=", ").replace("\n", "")
