"""Who is to answer a call or command of rank 0, and who has.

Assumes rank 0, and messages of one call or command at a time. Guarantees that the first failure stops all who are not
done, and that all are done, and all failures known, when `collect` returns.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence, Set

from dfc_runtime.distributed.calls.rank_data import Data
from dfc_runtime.distributed.failures import CallStoppedError, Failure, failure_from
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import REPLY, Arrival, Bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting, packed, unpacked
from dfc_runtime.distributed.transport.wire import DONE, FAILED, Head
from dfc_runtime.formats.fields import mapping

_NOBODY: frozenset[int] = frozenset()
_ENDED = struct.Struct("<II")


def ended(sequence: int, failed: int, stopped: int, answers: Mapping[int, Data] | None = None) -> bytearray:
    """The message that all parts of a piece are over, of which so many have failed and so many were stopped; behind it
    what ranks have answered to a command."""
    message = Head(DONE, sequence=sequence).packed() + _ENDED.pack(failed, stopped)
    return message + packed({str(rank): answer for rank, answer in answers.items()}).tobytes() if answers else message


def how_ended(message: Bytes) -> tuple[int, int]:
    """How many parts have failed, and how many were stopped."""
    failed, stopped = _ENDED.unpack_from(message.data, wire.HEAD_SIZE)
    return failed, stopped


def answers_of(message: Bytes) -> dict[int, Data]:
    """What ranks have answered, by their numbers."""
    content = message[wire.HEAD_SIZE + _ENDED.size :]
    if not content.size:
        return {}
    return {int(rank): dict(mapping(answer, "answer")) for rank, answer in unpacked(content).items()}


class Answers:
    """`missing` are those who have not answered; `silent` answer only if they fail. A key of `below` answers for all of
    its ranks when they are over; each of them that fails says so by itself. `messages` are the answers of those who
    answer for themselves, `answers` those of the others to a command."""

    def __init__(
        self,
        waiting: Waiting,
        sequence: int,
        awaited: Set[int],
        silent: frozenset[int] = _NOBODY,
        below: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self._waiting = waiting
        self._sequence = sequence
        self._silent = silent
        self._below = below or {}
        self._relayed = frozenset(rank for ranks in self._below.values() for rank in ranks)
        self._relayed_failures = 0  # that are known to be, of ranks that are over
        self.missing = {*awaited}
        self.messages: dict[int, Bytes] = {}
        self.answers: dict[int, Data] = {}
        self.failures: dict[int, Failure] = {}
        self.stopped = False

    @property
    def failed(self) -> bool:
        return self.stopped or bool(self.failures) or bool(self._relayed_failures)

    def look(self) -> None:
        """Takes an answer if there is one: `CallStoppedError` as soon as somebody has failed."""
        arrival = self._waiting.comm.arrival(None, REPLY)
        if arrival is not None:
            self._take(arrival)
        if self.failures:
            raise CallStoppedError

    def collect(self) -> None:
        """Waits for all answers; the first failure stops the others."""
        if self.failed:
            self.stop()
        while self.missing or self._untold():
            rank = min(self.missing, default=-1)
            what = "it to be done" if self.missing else "what went wrong on other ranks"
            arrival = self._waiting.message(None, REPLY, lambda rank=rank, what=what: Awaited(what, rank))
            had_failed = self.failed
            self._take(arrival)
            if self.failed and not had_failed:
                self.stop()

    def stop(self) -> None:
        """Tells all who are not known to be over that the call has failed."""
        ranks = {*self.missing, *self._silent}
        for rank in self.missing:
            ranks.update(self._below.get(rank, ()))
        self._waiting.signal(sorted(ranks), {"kind": "stop", "sequence": self._sequence})

    def _untold(self) -> bool:
        """Whether ranks have failed of which it is not known yet how: their own messages are under way."""
        return self._relayed_failures > len(self._relayed & self.failures.keys())

    def _take(self, arrival: Arrival) -> None:
        rank = arrival.source
        message = self._waiting.bytes_of(arrival, lambda: Awaited("an answer", rank))
        head = wire.head_of(message)
        if head.sequence != self._sequence:
            return  # of a silent part that failed in a call that has failed: nobody waits for it
        if head.kind == FAILED:
            self.failures[rank] = failure_from(unpacked(message[wire.HEAD_SIZE :]))
            if rank in self._relayed:
                return  # it is over when it says so
        self.missing.discard(rank)
        if head.kind == DONE and rank in self._below:
            failed, stopped = how_ended(message)
            self._relayed_failures += failed
            self.stopped |= stopped > 0
            self.answers.update(answers_of(message))
        elif head.kind == DONE:
            self.messages[rank] = message
        elif head.kind != FAILED:
            self.stopped = True
