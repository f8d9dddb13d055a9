"""What rank 0 waits for when ranks answer for others."""

from __future__ import annotations

import pytest

from dfc_runtime.distributed.failures import CallStoppedError, Failure
from dfc_runtime.distributed.relays.answers import Answers, ended
from dfc_runtime.distributed.transport.comm import REPLY, SIGNAL
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.distributed.transport.waiting import Waiting, packed
from dfc_runtime.distributed.transport.wire import DONE, FAILED, STOPPED, Head, as_message

CALL = 7
BELOW = {1: [1, 2, 3], 4: [4, 5]}


class Calling:
    """Rank 0 of seven: rank 1 answers for three ranks, rank 4 for two, rank 6 for itself."""

    def __init__(self) -> None:
        self.network = Network(7, eager=1 << 10)
        self.waiting = Waiting(self.network.comm(0), 10, str)
        self.answers = Answers(self.waiting, CALL, frozenset({1, 4, 6}), below=BELOW)

    def say(self, rank: int, message: bytearray) -> None:
        self.network.comm(rank).isend(as_message(message), 0, REPLY)

    def fail(self, rank: int, text: str) -> None:
        self.say(
            rank, Head(FAILED, sequence=CALL).packed() + packed(Failure("RunError", "E0904", text).to_json()).tobytes()
        )

    def told_to_stop(self) -> list[int]:
        return sorted(receiver for _, receiver, tag in self.network.sent if tag == SIGNAL)


def test_all_is_well_when_those_who_answer_for_others_have_said_so() -> None:
    calling = Calling()
    for rank in (4, 1):
        calling.say(rank, ended(CALL, 0, 0))
    calling.say(6, Head(DONE, sequence=CALL).packed())
    calling.answers.collect()
    assert not calling.answers.failed
    assert (list(calling.answers.messages), calling.told_to_stop()) == ([6], [])


def test_what_went_wrong_is_waited_for_when_it_comes_behind_the_end() -> None:
    calling = Calling()
    calling.say(1, ended(CALL, 1, 0))
    calling.say(4, ended(CALL, 0, 2))
    calling.say(6, Head(STOPPED, sequence=CALL).packed())
    late = iter([None, None, "no memory"])

    def look() -> None:
        if text := next(late, None):
            calling.fail(3, text)

    calling.waiting.on_look = look
    calling.answers.collect()
    assert {rank: failure.message for rank, failure in calling.answers.failures.items()} == {3: "no memory"}


def test_the_first_failure_stops_all_who_are_not_known_to_be_over() -> None:
    calling = Calling()
    calling.say(4, ended(CALL, 0, 0))
    calling.fail(2, "division by zero")
    ends = iter([[], [(1, ended(CALL, 1, 2)), (6, Head(STOPPED, sequence=CALL).packed())]])

    def look() -> None:
        for rank, message in next(ends, []):
            calling.say(rank, message)

    calling.waiting.on_look = look
    calling.answers.collect()
    assert calling.told_to_stop() == [1, 2, 3, 6]
    assert calling.answers.failed
    assert list(calling.answers.failures) == [2]


def test_a_look_in_between_finds_failures_of_this_call_alone() -> None:
    calling = Calling()
    calling.say(5, Head(FAILED, sequence=CALL - 1).packed())
    calling.answers.look()
    calling.fail(4, "no memory")
    with pytest.raises(CallStoppedError):
        calling.answers.look()
    assert calling.answers.missing == {1, 4, 6}, "rank 4 is over when rank 5 is"
