"""One trace of many ranks: clocks are compared at the start, events are brought to rank 0 at the end.

Assumes that all ranks load the program with a trace, and close it. Guarantees times on the clock of rank 0, right to
half of the quickest of `ROUND_TRIPS` exchanges, which the file tells. If ranks have lost each other, rank 0 writes
what it has itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.calls.rank import Answer, Data, Rank, described
from dfc_runtime.distributed.transport.comm import DATA_DOWN, DATA_UP, Array, as_bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.errors import DfcError, FeedError, RankError
from dfc_runtime.formats.fields import integer, items, text
from dfc_runtime.observe.tracing import Label, Part, Recorder, write

READY, CLOCK, EVENTS = "trace_ready", "trace_clock", "trace_events"
ROUND_TRIPS = 64


def answer_ready(rank: Rank, *, is_traced: bool) -> None:
    """What every rank answers to the first question of a rank 0 that traces."""

    def answer(_data: Data, _arrays: list[Array]) -> Answer:
        return {"traced": is_traced}, []

    rank.commands[READY] = answer


class Tracer:
    """The trace of one program on one rank; made on all of them, before the first call."""

    def __init__(self, recorder: Recorder, rank: Rank, module: ClusterModule, path: str | os.PathLike[str]) -> None:
        self._recorder = recorder
        self._rank = rank
        self._module = module
        self._path = path
        self._offsets = {0: (0, 0)}
        rank.commands[CLOCK] = self._compare
        rank.commands[EVENTS] = self._events

    def start(self) -> None:
        """Compares clocks, and records from then on; all ranks call this."""
        try:
            self._module.together("the trace", self._compare_all)
        except DfcError:
            self._module.close()  # ranks that are about to serve would wait for ever
            raise
        record_waits(self._recorder, self._rank.waiting)
        self._recorder.record_calls(self._module.entries, self._module.__dict__)
        self._module.at_close.append(self.finish)

    def finish(self) -> None:
        """Writes the file; all ranks call this that do not serve."""
        try:
            self._module.together("the end of the trace", self._collect)
        except RankError:
            if self._module.rank == 0:
                write(self._path, self._module.name, [self._own()])

    def _compare_all(self, client: Client) -> Answer:
        for rank, (data, _) in client.command({"command": READY}).items():
            if not data["traced"]:
                raise FeedError(f"rank {rank} is not traced: load the program with a trace on all ranks", code="E0901")
        for rank in range(1, self._module.size):
            answers = client.command({"command": CLOCK, "other": rank}, ranks=[0, rank])
            self._offsets[rank] = integer(answers[0][0]["offset"], "offset", -(1 << 62)), _error(answers[0][0])
        return {}, []

    def _compare(self, data: Data, _: Sequence[Array]) -> Answer:
        if self._module.rank:
            self._echo()
            return {}, []
        offset, error = self._ask(integer(data["other"], "other"))
        return {"offset": offset, "error": error}, []

    def _echo(self) -> None:
        """The other side of a comparison: says what its clock says."""
        comm, wait = self._rank.waiting.comm, self._wait
        question, answer = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for _ in range(ROUND_TRIPS):
            wait(comm.irecv(as_bytes(question), 0, DATA_DOWN).test, 0)
            answer[0] = time.perf_counter_ns()
            wait(comm.isend(as_bytes(answer), 0, DATA_UP).test, 0)

    def _ask(self, other: int) -> tuple[int, int]:
        """What the clock of another rank is ahead, and how wrong that can be: from the quickest round trip."""
        comm, wait, clock = self._rank.waiting.comm, self._wait, time.perf_counter_ns
        question, answer = np.zeros(1, np.int64), np.zeros(1, np.int64)
        samples: list[tuple[int, int]] = []
        for _ in range(ROUND_TRIPS):
            begin = clock()
            wait(comm.isend(as_bytes(question), other, DATA_DOWN).test, other)
            wait(comm.irecv(as_bytes(answer), other, DATA_UP).test, other)
            end = clock()
            samples.append(((end - begin) // 2, int(answer[0]) - (begin + end) // 2))
        error, offset = min(samples)
        return offset, error

    def _wait(self, condition: Callable[[], bool], rank: int) -> None:
        self._rank.waiting.wait(condition, lambda: Awaited("its clock", rank))

    def _events(self, _: Data, _arrays: Sequence[Array]) -> Answer:
        recorder = self._recorder
        labels: list[object] = [[each.category, each.name, each.location, each.entry] for each in recorder.labels]
        events: Array = recorder.events()
        return {"labels": labels, "dropped": recorder.dropped, "arrays": described([("i64", events)])}, [events]

    def _collect(self, client: Client) -> Answer:
        answers = client.command({"command": EVENTS}, ranks=range(1, self._module.size))
        others = [self._part(rank, data, arrays) for rank, (data, arrays) in sorted(answers.items())]
        write(self._path, self._module.name, [self._own(), *others])
        return {}, []

    def _own(self) -> Part:
        name = self._rank.waiting.name(0)
        return Part(0, name, self._recorder.labels, self._recorder.events(), dropped=self._recorder.dropped)

    def _part(self, rank: int, data: Data, arrays: Sequence[Array]) -> Part:
        labels = [Label(*(text(word, "label") for word in items(each, "label"))) for each in items(data["labels"], "")]
        offset, error = self._offsets[rank]
        events = arrays[0].astype(np.int64, copy=False)
        dropped = integer(data["dropped"], "dropped")
        return Part(rank, self._rank.waiting.name(rank), labels, events, offset, error, dropped)


def _error(data: Data) -> int:
    return integer(data["error"], "error")


def record_waits(recorder: Recorder, waiting: Waiting) -> None:
    """Waits of a rank are events from now on, if they are in vain at first; and so are messages between calls of native
    code."""

    def record(begin: int, awaited: Awaited) -> None:
        whom = f" from {waiting.name(awaited.rank)}" if awaited.rank >= 0 else ""
        recorder.add(Label("wait", f"{awaited.what}{whom}"), begin, time.perf_counter_ns())

    def record_message(category: str, begin: int, what: str, entry: str, location: str) -> None:
        recorder.add(Label(category, what, location, entry), begin, time.perf_counter_ns())

    waiting.on_wait = record
    waiting.on_message = record_message
