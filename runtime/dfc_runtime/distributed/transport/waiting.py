"""Every wait of a rank: with a deadline, answering others meanwhile, and with a report where it is in vain.

Assumes that all ranks wait here and nowhere else. Guarantees that a wait ends: with what was awaited, with an error
that another rank has told, or with a `RankError` after the deadline. That one names the value awaited, the rank that
makes it and what that rank was doing, and the ring of ranks that wait for each other, if there is one; the others raise
the same. A rank that does not answer computes, is stopped, or is gone.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.failures import failure_from, failure_of
from dfc_runtime.distributed.transport.comm import ANSWER, SIGNAL, Arrival, Bytes, Comm
from dfc_runtime.distributed.transport.sending import Outbox
from dfc_runtime.errors import DfcError, FeedError, RankError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import mapping

DEADLINE = 60.0
DEADLINE_VARIABLE = "DFC_DEADLINE"
_LONGEST_QUESTIONS = 0.75
_GRACE = 2.0
"""Seconds that those who wait for a rank have to report it before it reports itself: they know more."""
_LATER_BY, _LATEST_BY = 0.05, 2.0
"""Seconds that a rank gives up later than the one below it, so that the lowest asks and reports when several wait for
the same, and thousands do not all ask each other; and the most that one gives up later than rank 0."""
_MOST_LINES = 32
"""Ranks that a report tells one by one."""
_WAITED = re.compile(r"has waited [0-9.]+ s")
_LOOK_EVERY = 16
"""Turns of waiting between two looks for what others say: a look costs more than a turn."""

FAILURE = "failure"
"""The signal of a rank that goes no further, to all others."""
STOP = "stop_request"
"""The signal of a rank that was asked to stop, to rank 0, which decides."""

Data = dict[str, object]


def deadline(stated: float | None = None) -> float:
    """Seconds: as stated, else `DFC_DEADLINE`, else 60."""
    if stated is None:
        text = os.environ.get(DEADLINE_VARIABLE, "").strip()
        try:
            stated = float(text) if text else DEADLINE
        except ValueError:
            stated = 0.0
    if not 0 < stated < float("inf"):
        raise FeedError("the deadline is a number of seconds above 0", code="E0901")
    return stated


class ReportedError(RankError):
    """What another rank has found and reports; who raises this, or raises an error from it, need not repeat it."""


def is_reported(problem: BaseException) -> bool:
    """Whether another rank has found it, and tells it."""
    return isinstance(problem, ReportedError) or isinstance(problem.__cause__, ReportedError)


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a rank waits for: `what` in words, `rank` who is to send it (-1: nobody that is known)."""

    what: str
    rank: int


class Computing(Protocol):
    """A part of an entry that a rank computes, for the how manieth time."""

    @property
    def name(self) -> str: ...

    @property
    def calls(self) -> int: ...


class Waiting:
    """How one rank waits. `name` says which task a rank is; `on_signal` is asked about signals that are no questions,
    and raises what they mean; `on_silent` what else is known of a rank that does not answer; `kernel` which kernel
    of the call began last, "" where nobody knows; `stopped_by` which signal of the system has asked this rank to
    stop, or 0: rank 0 hears of it, and `on_stop` is told there which signal which rank got. `on_message` is told of
    messages that no request of native code is about: whether they come or go, since when, from or to whom, and the
    entry and line they are for."""

    def __init__(self, comm: Comm, seconds: float, name: Callable[[int], str]) -> None:
        self.comm = comm
        self.seconds = seconds
        self.name = name
        self.on_signal: Callable[[Data], None] | None = None
        self.on_look: Callable[[], None] | None = None
        self.on_silent: Callable[[int], str] = lambda _: ""
        self.on_wait: Callable[[int, Awaited], None] | None = None
        self.on_message: Callable[[str, int, str, str, str], None] | None = None
        self.on_stop: Callable[[int, int], None] | None = None
        self.stopped_by: Callable[[], int] = lambda: 0
        self._is_stop_reported = False
        self.doing = "it has just started"
        self.kernel = ""
        self._part: Computing | None = None
        self._busy_since = 0.0
        self._awaited: Callable[[], Awaited] | None = None
        self._since = 0.0
        self._questions = 0
        self._outbox = Outbox()

    def wait(self, condition: Callable[[], bool], awaited: Callable[[], Awaited], *, forever: bool = False) -> None:
        """Returns when the condition holds."""
        if condition():
            self._busy_since = self.comm.seconds()
            return
        begin = time.perf_counter_ns()
        try:
            self._wait(condition, awaited, forever=forever)
        finally:
            if self.on_wait is not None:
                self.on_wait(begin, awaited())

    def _wait(self, condition: Callable[[], bool], awaited: Callable[[], Awaited], *, forever: bool) -> None:
        """For what does not hold yet. Others that want this processor come first: they may be who is awaited."""
        before = self._awaited, self._since
        self._awaited, self._since = awaited, self.comm.seconds()
        end = None if forever else self._since + self.seconds + min(_LATER_BY * self.comm.rank, _LATEST_BY)
        turn = 0
        try:
            has_come = self.comm.idle(turn)
            while not condition():
                if has_come or turn % _LOOK_EVERY == 0:
                    self.look()
                    if end is not None and self.comm.seconds() > end:
                        self._give_up()
                turn += 1
                has_come = self.comm.idle(turn)
        finally:
            self._awaited, self._since = before
            self._busy_since = self.comm.seconds()

    def computes(self, part: Computing | None) -> None:
        """From now on this rank computes this, or nothing, but while it waits."""
        self._part, self._busy_since, self.kernel = part, self.comm.seconds(), ""

    def looked(self) -> None:
        """Whoever waits in another way than `wait` has looked at what others say."""
        self._busy_since = self.comm.seconds()

    def busy(self) -> tuple[float, str]:
        """For how many seconds this rank has computed without a look at what others say, and what, in words; 0 and ""
        if it does not compute. For another thread: native code answers nobody."""
        part = self._part
        if part is None or self._awaited is not None:
            return 0.0, ""
        seconds = self.comm.seconds() - self._busy_since
        where = f", last in {self.kernel}" if self.kernel else ""
        return seconds, f"it has computed for {seconds:.1f} s in call {part.calls} of `{part.name}`{where}"

    def overdue(self) -> str:
        """What is to be told of a rank that has computed for longer than others would wait for it; "" if it has not.
        For another thread, likewise."""
        seconds, doing = self.busy()
        if seconds <= self.seconds + _GRACE:
            return ""
        what = doing.removeprefix("it has ")
        return f"{self.name(self.comm.rank)} has {what}, and nobody has heard of it: the deadline is {self.seconds:g} s"

    def message(
        self, source: int | None, tag: int, awaited: Callable[[], Awaited], *, forever: bool = False
    ) -> Arrival:
        """Waits for a message of unknown size."""
        first = self.comm.arrival(source, tag)
        if first is not None:
            self._busy_since = self.comm.seconds()
            return first
        arrivals: list[Arrival] = []

        def has_come() -> bool:
            arrival = self.comm.arrival(source, tag)
            if arrival is not None:
                arrivals.append(arrival)
            return arrival is not None

        self._wait(has_come, awaited, forever=forever)
        return arrivals[0]

    def bytes_of(self, arrival: Arrival, awaited: Callable[[], Awaited]) -> Bytes:
        """The content of a message that is there."""
        buffer = np.empty(arrival.size, np.uint8)
        pending = arrival.receive(buffer)
        if not pending.test():
            self._wait(pending.test, awaited, forever=False)
        return buffer

    def post(self, buffer: Bytes, destination: int, tag: int) -> None:
        """Sends something small that nobody looks after. The buffer is not used again."""
        self._outbox.add(self.comm.isend(buffer, destination, tag))

    def signal(self, ranks: Iterable[int], data: Data) -> None:
        """Says something to ranks, wherever they wait."""
        for rank in ranks:
            if rank != self.comm.rank:
                self.post(packed(data), rank, SIGNAL)

    def broadcast_failure(self, problem: DfcError) -> None:
        """Says to all ranks that this one goes no further, and why: wherever they wait, they raise the same."""
        failure = failure_of(problem, self.name(self.comm.rank))
        self.signal(range(self.comm.size), {"kind": FAILURE, "failure": failure.to_json()})

    def look(self) -> None:
        """Answers questions, and raises what other ranks have reported."""
        if self.comm.rank and not self._is_stop_reported and (number := self.stopped_by()):
            self._is_stop_reported = True
            self.signal([0], {"kind": STOP, "number": number})
        while (arrival := self.comm.arrival(None, SIGNAL)) is not None:
            data = self._unpacked(arrival)
            if data["kind"] == "question":
                answer = {"number": data["number"], **self._status()}
                self.post(packed(answer), arrival.source, ANSWER)
            elif data["kind"] == STOP:
                if self.on_stop is not None and isinstance(data["number"], int):
                    self.on_stop(data["number"], arrival.source)
            elif data["kind"] == "report":
                raise ReportedError(str(data["text"]), code="E0911")
            elif data["kind"] == FAILURE:
                error = failure_from(mapping(data["failure"], "failure")).error()
                raise error from ReportedError(error.message, code="E0911")
            elif self.on_signal is not None:
                self.on_signal(data)
        if self.on_look is not None:
            self.on_look()

    def _unpacked(self, arrival: Arrival) -> Data:
        buffer = np.empty(arrival.size, np.uint8)
        pending = arrival.receive(buffer)
        end = self.comm.seconds() + self.seconds
        turn = 0
        while not pending.test():  # it has arrived: only its bytes are copied
            if self.comm.seconds() > end:
                raise RankError(f"a message of {self.name(arrival.source)} stopped half-way", code="E0911")
            self.comm.idle(turn)
            turn += 1
        return unpacked(buffer)

    def _status(self) -> Data:
        """What this rank is doing, for others."""
        if self._awaited is None:
            return {"doing": self.doing, "awaits": -1, "what": ""}
        awaited = self._awaited()
        seconds = self.comm.seconds() - self._since
        whom = f" from {self.name(awaited.rank)}" if awaited.rank >= 0 else ""
        doing = f"{self.doing}, and has waited {seconds:.1f} s for {awaited.what}{whom}"
        return {"doing": doing, "awaits": awaited.rank, "what": awaited.what}

    def _give_up(self) -> None:
        statuses = {self.comm.rank: self._status(), **self._ask()}
        text = self._report(statuses)
        self.signal(range(self.comm.size), {"kind": "report", "text": text})
        raise RankError(text, code="E0911")

    def _ask(self) -> dict[int, Data]:
        """What all others are doing, of those who answer within a moment."""
        self._questions += 1
        self.signal(range(self.comm.size), {"kind": "question", "number": self._questions})
        answers: dict[int, Data] = {}
        end = self.comm.seconds() + min(_LONGEST_QUESTIONS, max(self.seconds, 0.2))
        turn = 0
        while len(answers) < self.comm.size - 1 and self.comm.seconds() < end:
            arrival = self.comm.arrival(None, ANSWER)
            if arrival is not None:
                answer = self._unpacked(arrival)
                if answer.get("number") == self._questions:
                    answers[arrival.source] = answer
                continue
            self.look()
            self.comm.idle(turn)
            turn += 1
        return answers

    def _report(self, statuses: Mapping[int, Data]) -> str:
        own = statuses[self.comm.rank]
        awaited = _rank(own)
        whom = f" from {self.name(awaited)}" if awaited >= 0 else ""
        lines = [f"{self.name(self.comm.rank)} has waited {self.seconds:g} s for {own['what']}{whom}"]
        lines += self._lines([str(statuses[r]["doing"]) if r in statuses else "" for r in range(self.comm.size)])
        ring = _ring(self.comm.rank, statuses)
        if ring:
            links = [f"{self.name(rank)} for {statuses[rank]['what']}" for rank in ring]
            lines.append(f"they wait for each other: {', '.join(links)}")
        return "\n  ".join(lines)

    def _lines(self, doing: Sequence[str]) -> list[str]:
        """What each rank is doing ("": it does not answer); of very many ranks, one line for those in a row that do the
        same."""
        known = [text or self._silence_of(rank) for rank, text in enumerate(doing)]
        alike = _WAITED.sub if len(known) > _MOST_LINES else None
        lines: list[str] = []
        for _, row in groupby(enumerate(known), lambda each: alike("", each[1]) if alike is not None else each[0]):
            (first, text), *others = row
            last = f" to {self.name(others[-1][0])}" if others else ""
            lines.append(f"{self.name(first)}{last}: {text}")
        return lines

    def _silence_of(self, rank: int) -> str:
        return f"does not answer: {self.on_silent(rank) or 'it computes, is stopped or gone'}"


def _rank(status: Data) -> int:
    awaits = status["awaits"]
    return awaits if isinstance(awaits, int) else -1


def _ring(start: int, statuses: Mapping[int, Data]) -> list[int]:
    """The ranks that wait for each other in a ring that is reached from `start`."""
    path: list[int] = []
    rank = start
    while rank in statuses and rank not in path:
        path.append(rank)
        rank = _rank(statuses[rank])
    return path[path.index(rank) :] if rank in path else []


def packed(data: Data) -> Bytes:
    return np.frombuffer(strict_json.dump(data).encode(), np.uint8)


def unpacked(buffer: Bytes) -> Data:
    return mapping(strict_json.parse(buffer.tobytes().decode()), "message")
