"""The rank that calls: one control message to each task that takes part, its own part, one answer from each.

Assumes rank 0, and one call at a time. Guarantees that nothing is sent before all feeds are checked; that an error of
any rank ends the call on all of them and is raised here, the one of the lowest rank if there are several; that ranks
which call along are told how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.assembling import Shape, assembled
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.calls.part import Part
from dfc_runtime.distributed.calls.rank import Answer, Data, Rank, described, empty
from dfc_runtime.distributed.failures import CallStoppedError, failure_of
from dfc_runtime.distributed.relays.answers import Answers
from dfc_runtime.distributed.relays.call_tree import FAN_OUT, Route, addressed, pieces, route
from dfc_runtime.distributed.relays.relay import command_message, relay_command
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import (
    CONTROL,
    DATA_DOWN,
    DATA_UP,
    JOIN,
    Array,
    Bytes,
    Pending,
)
from dfc_runtime.distributed.transport.waiting import Awaited, packed, unpacked
from dfc_runtime.distributed.transport.wire import (
    CALL,
    CLOSE,
    COMMAND,
    FAILED,
    OUTCOME,
    RELAYED_CALL,
    RELAYED_COMMAND,
    SILENT_CALL,
    Head,
    Value,
    is_array,
)
from dfc_runtime.errors import DfcError, EndOfData, FeedError, RankError, RunError
from dfc_runtime.module import INIT

T = TypeVar("T")
_NOBODY: frozenset[int] = frozenset()


@dataclass(slots=True)
class Request:
    """A call that was checked: arrays, numbers and texts by the number of their feed; sizes; shapes of results."""

    feeds: Sequence[object]
    slots: Sequence[Value]
    sizes: Mapping[str, int]
    shapes: Sequence[Shape]


class Client:
    """Calls of rank 0."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._waiting = rank.waiting
        self._comm = rank.waiting.comm
        self._serving: set[int] = set()
        self._sequence = 0
        self._generation = 0
        self._half_done: str | None = None
        self._lost: str | None = None
        self._closed = False
        self._silent: dict[int, frozenset[int]] = {}
        self._routes: dict[int, tuple[EntryPlan, Route]] = {}
        self._unheard: set[int] = set()

    def silence(self, parts: Mapping[int, Sequence[int]]) -> None:
        """Says of ranks which entries they have silent parts of (`Rank.silent_parts`)."""
        for number in {number for numbers in parts.values() for number in numbers}:
            self._silent[number] = frozenset(rank for rank, numbers in parts.items() if number in numbers)

    def call(self, plan: EntryPlan, checked: Callable[[], Request]) -> list[object]:
        """A call of an entry on all tasks that take part; `checked` gives the request, or raises what is wrong."""
        if self._all_serve and self._half_done is None and self._lost is None and not self._closed:
            request = checked()
            try:  # nobody to wait for, nobody to tell
                return self.run(plan, request)
            except BaseException as problem:
                self._note(problem)
                raise

        def work() -> list[object]:
            self.require_whole(plan)
            return self.run(plan, checked())

        return self.call_with(plan, work)

    def call_with(self, plan: EntryPlan, work: Callable[[], list[object]]) -> list[object]:
        """A call of an entry whose results `work` makes."""
        return self._together(f"`{plan.name}`", work, lambda results: self._packed_results(plan, results))

    def command(
        self, data: Data, arrays: Sequence[tuple[str, Array]] = (), ranks: Sequence[int] | None = None
    ) -> dict[int, Answer]:
        """Makes these ranks (None: all) do something; what each answers. Part of something that is done together."""
        self._sequence += 1
        chosen = range(self._comm.size) if ranks is None else ranks
        others = [rank for rank in chosen if rank != 0]
        text, payload = {**data, "arrays": described(arrays)}, [array for _, array in arrays]
        sending: list[Pending] = []
        below: Mapping[int, Sequence[int]] = {}
        if not payload and len(others) > FAN_OUT:
            below = relay_command(self._waiting, Head(RELAYED_COMMAND, sequence=self._sequence), text, others)
        for rank in [] if below else others:
            self._post(rank, Head(COMMAND, sequence=self._sequence), text)
            sending += self._rank.send_arrays(payload, rank, DATA_DOWN)
        answers = Answers(self._waiting, self._sequence, {*(below or others)}, below=below)
        replies, own = self._rank.tried(text, payload) if 0 in chosen else ({}, None)
        answers.collect()
        own_answers = {rank: unpacked(message[wire.HEAD_SIZE :]) for rank, message in answers.messages.items()}
        for rank, reply in sorted({**own_answers, **answers.answers}.items()):
            buffers = empty(reply.get("arrays", []))
            self._rank.receive_arrays(buffers, rank, DATA_UP)
            replies[rank] = (reply, buffers)
        self._wait_sent(sending)
        if own is not None:  # only now: nobody is to clear away what others still work on
            raise own
        if answers.failures:
            raise answers.failures[min(answers.failures)].error()
        return replies

    def together(self, label: str, work: Callable[[], T], outcome: Callable[[T], Answer]) -> T:
        """Something that all ranks ask for, by what it is called; `outcome` is what the others get of it."""

        def encode(result: T) -> tuple[bytearray, list[Array]]:
            data, arrays = outcome(result)
            message = Head(OUTCOME).packed()
            message += packed(data).tobytes()
            return message, arrays

        return self._together(label, work, encode)

    def with_all(self, work: Callable[[], None]) -> None:
        """Something for which all ranks wait for commands, until it is over or has failed."""
        try:
            work()
        except BaseException as problem:
            self._note(problem)
            self._send_failure(range(1, self._comm.size), problem)
            raise

    def results_together(self, label: str, work: Callable[[], tuple[EntryPlan, list[object]]]) -> list[object]:
        """A call of what only `work` knows: a part of an entry that may have to be made first. What the others get are
        its results."""
        return self._together(label, work, lambda outcome: self._packed_results(*outcome))[1]

    def restored(self) -> None:
        """All state has been set: what a call that failed left of it is gone."""
        self._half_done = None

    def close(self) -> None:
        """Ends ranks that serve, now or later; others never look at this message. Nothing can be called any more."""
        self._closed = True
        for rank in range(1, self._comm.size):
            self._waiting.post(wire.as_message(Head(CLOSE).packed()), rank, CONTROL)

    def _together(self, label: str, work: Callable[[], T], encode: Callable[[T], tuple[bytearray, list[Array]]]) -> T:
        if self._closed:
            raise RunError(f"{label} cannot run: the module was closed", code="E0903")
        if self._lost is not None:
            raise RankError(self._lost, code="E0911")
        joined: list[int] = []
        try:
            joined = self._assemble(label)
            result = work()
        except BaseException as problem:
            self._note(problem)
            self._send_failure(joined, problem)
            raise
        if joined:
            message, arrays = encode(result)
            sending: list[Pending] = []
            for rank in joined:
                self._waiting.post(wire.as_message(bytearray(message)), rank, CONTROL)
                sending += self._rank.send_arrays(arrays, rank, DATA_DOWN)
            self._wait_sent(sending)
        return result

    @property
    def _all_serve(self) -> bool:
        return len(self._serving) == self._comm.size - 1

    def _note(self, problem: BaseException) -> None:
        """Behind these errors nothing can be called: answers that are under way would be taken for those to it."""
        if isinstance(problem, RankError):
            self._lost = f"the ranks have lost each other: {problem.message}"
        elif not isinstance(problem, Exception):
            self._lost = "the call was interrupted: start the program again"

    def _assemble(self, label: str) -> list[int]:
        """Waits until all ranks that do not serve have called the same, and refuses if one has not."""
        joined: list[int] = []
        if self._all_serve:
            return joined
        self._waiting.doing = f"it calls {label}"
        others: dict[int, str] = {}
        for rank in range(1, self._comm.size):
            if rank in self._serving:
                continue
            awaited = Awaited(f"it to call {label} too, or to serve", rank)
            arrival = self._waiting.message(rank, JOIN, lambda awaited=awaited: awaited)
            called = wire.called(self._waiting.bytes_of(arrival, lambda awaited=awaited: awaited))
            if called is None:
                self._serving.add(rank)
                continue
            joined.append(rank)
            if called != label:
                others[rank] = called
        if others:
            rank, other = min(others.items())
            text = f"rank 0 calls {label}, but {self._waiting.name(rank)} calls {other}"
            problem = FeedError(f"{text}: all ranks call the same, in the same order", code="E0901")
            self._send_failure(joined, problem)
            raise problem
        return joined

    def _send_failure(self, joined: Sequence[int], problem: BaseException) -> None:
        reason = problem if isinstance(problem, Exception) else RankError("rank 0 was interrupted", code="E0911")
        failure = failure_of(reason, "")
        for rank in joined:
            self._post(rank, Head(FAILED), failure.to_json())

    def require_whole(self, plan: EntryPlan) -> None:
        """Refuses what would find state that a failed call has left half done."""
        if self._half_done is not None and plan.name != INIT:
            text = f"`{self._half_done}` was stopped, and may have changed a part of the state that `{plan.name}` finds"
            raise RunError(f"{text}\n  call init or restore first", code="E0903")

    def run(self, plan: EntryPlan, request: Request) -> list[object]:
        """Runs an entry on all tasks that take part. Part of something that is done together."""
        self._sequence += 1
        self._waiting.doing = f"it calls `{plan.name}`"
        sending: list[Pending] = []
        route = self._route(plan)
        for rank, message, behind in self._packed_calls(plan, request, route):
            self._waiting.post(message, rank, CONTROL)
            if behind:
                sending += self._rank.send_arrays(behind, rank, DATA_DOWN)
        answers = Answers(self._waiting, self._sequence, route.awaited, route.silent, route.below)
        own_results = self._run_own_part(plan, request, answers)
        answers.collect()
        if answers.failed:
            self._unheard |= route.silent
            raise self._failed_call_error(plan, answers, sending)
        self._unheard -= plan.other_ranks - route.silent
        if plan.name == INIT:
            self._half_done = None
        results = self._results(plan, request, answers, own_results)
        self._wait_sent(sending)
        return results

    def _route(self, plan: EntryPlan) -> Route:
        """Who is called by whom. Behind a call that failed, messages to silent parts may still be under way, which one
        that goes by other ranks could overtake: the next call goes to each of these ranks directly, and awaits it."""
        if not self._unheard.isdisjoint(plan.other_ranks):
            return route(plan, _NOBODY, along_trees=False)
        known = self._routes.get(plan.number)
        if known is None or known[0] is not plan:
            silent = self._silent.get(plan.number, _NOBODY)
            known = self._routes[plan.number] = plan, route(plan, silent)
        return known[1]

    def _packed_calls(self, plan: EntryPlan, request: Request, route: Route) -> list[tuple[int, Bytes, list[Array]]]:
        """For each rank that is called from here the message to it, and arrays to be sent behind it. Tasks that get the
        same numbers, and nothing else, get the same message."""
        sizes = [request.sizes[name] for name in plan.entry.dims]
        packed: list[tuple[int, Bytes, list[Array]]] = []
        last: tuple[int, Sequence[int], Bytes] | None = None
        for part in route.direct:
            kind = SILENT_CALL if part.task.rank in route.silent else CALL
            if last is not None and last[:2] == (kind, part.feeds):
                packed.append((part.task.rank, last[2], []))
                continue
            message, behind = self._packed_call(plan, part, request, sizes, kind)
            whole = wire.as_message(message)
            packed.append((part.task.rank, whole, behind))
            last = (kind, part.feeds, whole) if part.down.only_scalars else None
        for run in route.runs:
            message, _ = self._packed_call(plan, plan.others[run[0]], request, sizes, RELAYED_CALL)
            for piece in pieces(*run):
                packed.append((plan.other_tasks[piece[0]].rank, wire.as_message(addressed(message, piece)), []))
        return packed

    def _packed_call(
        self, plan: EntryPlan, part: TaskPart, request: Request, sizes: Sequence[int], kind: int
    ) -> tuple[bytearray, list[Array]]:
        """The message to a task, and arrays to be sent behind it."""
        values: list[Value] = []
        for number in part.feeds:
            value = request.slots[number]
            if isinstance(value, np.ndarray):
                value = plan.feed_for(part, number, value, request.sizes)
            values.append(value)
        message = Head(kind, plan.number, self._generation, self._sequence).packed()
        return message, part.down.pack(message, sizes, values)

    def _failed_call_error(self, plan: EntryPlan, answers: Answers, sending: Sequence[Pending]) -> DfcError:
        """The error of a call that failed, when all tasks are done with it."""
        self._generation += 1
        self._wait_sent(sending)
        for rank, message in answers.messages.items():
            self._received(plan.parts[rank], message)  # nobody else would take them
        errors = {rank: failure.error() for rank, failure in answers.failures.items()}
        if plan.entry.writes and not all(isinstance(each, EndOfData) for each in errors.values()):
            self._half_done = plan.name  # at the end of data, all have kept what stands before the take, as on one rank
        return errors[min(errors)]

    def _run_own_part(self, plan: EntryPlan, request: Request, answers: Answers) -> list[object]:
        """Runs what rank 0 has to do with the call; looks for failures of others wherever it waits."""
        own = self._rank.own_part(plan)
        if own is None:
            return []
        feeds = [self._own_feed(own, number, request) for number in own.part.feeds]
        if plan.other_tasks:
            self._waiting.on_look = answers.look
        try:
            return self._rank.run_part(own, feeds, request.sizes, self._generation)
        except RankError:
            raise
        except CallStoppedError:
            answers.stopped = True
        except Exception as problem:
            answers.failures[0] = failure_of(problem, self._waiting.name(0))
        except BaseException:  # an interrupt
            answers.stop()
            raise
        finally:
            self._waiting.on_look = None
        return []

    def _own_feed(self, own: Part, number: int, request: Request) -> object:
        value = request.feeds[number]
        return own.plan.feed_for(own.part, number, value, request.sizes) if is_array(value) else value

    def _results(
        self, plan: EntryPlan, request: Request, answers: Answers, own_results: Sequence[object]
    ) -> list[object]:
        """All results, put together where they come in pieces."""
        if plan.results_are_own:
            return [*own_results]

        def values_of(rank: int, part: TaskPart) -> Sequence[object]:
            return own_results if rank == 0 else self._received(part, answers.messages[rank])

        return assembled(plan, request.shapes, request.sizes, values_of)

    def _received(self, part: TaskPart, message: Bytes) -> list[object]:
        _, values, behind = part.up.unpack(message)
        if behind:
            self._rank.receive_arrays(behind, part.task.rank, DATA_UP)
        return values

    def _packed_results(self, plan: EntryPlan, results: Sequence[object]) -> tuple[bytearray, list[Array]]:
        message = Head(OUTCOME).packed()
        return message, plan.all_results.pack(message, (), plan.all_results.values_of(results))

    def _wait_sent(self, sending: Sequence[Pending]) -> None:
        for pending in sending:
            self._waiting.wait(pending.test, lambda: Awaited("what was sent to be taken", -1))

    def _post(self, rank: int, head: Head, data: Data) -> None:
        self._waiting.post(command_message(head, data), rank, CONTROL)
