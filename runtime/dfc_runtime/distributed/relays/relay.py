"""A rank that passes a call or a command on to others, and answers for them.

Assumes one of them at a time. Guarantees that it is under way to all others of the piece before the own part begins,
and that the answer is sent when all of them are over, however they ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.rank_data import Data
from dfc_runtime.distributed.relays.answers import answers_of, ended, how_ended
from dfc_runtime.distributed.relays.call_tree import addressed, piece_of, pieces
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import CONTROL, RELAYED, REPLY, Bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting, packed
from dfc_runtime.distributed.transport.wire import FAILED, STOPPED, Head
from dfc_runtime.formats.fields import integer, items

_CLIENT = 0
_RANKS = "ranks"
"""In a command that is passed on: the ranks that its receiver is to see to, himself first."""


class Relay:
    """What `parent` has passed on to this rank, which has passed it on to `children`."""

    def __init__(self, waiting: Waiting, parent: int, children: Sequence[int]) -> None:
        self._waiting = waiting
        self._parent = parent
        self._children = children

    @classmethod
    def of_call(cls, waiting: Waiting, plan: EntryPlan, message: Bytes, parent: int) -> Relay:
        """Passes a call on."""
        content, (begin, end) = piece_of(message)
        children: list[int] = []
        for piece in pieces(begin + 1, end):
            child = plan.other_tasks[piece[0]].rank
            waiting.post(wire.as_message(addressed(content, piece)), child, CONTROL)
            children.append(child)
        return cls(waiting, parent, children)

    @classmethod
    def of_command(cls, waiting: Waiting, head: Head, data: Data, parent: int) -> Relay:
        """Passes a command on."""
        ranks = [integer(rank, "rank") for rank in items(data[_RANKS], "ranks")]
        return cls(waiting, parent, [*relay_command(waiting, head, data, ranks[1:])])

    def finish(self, sequence: int, kind: int, reply: bytearray, answer: Mapping[int, Data] | None = None) -> None:
        """The own part is over: `kind` says how, and if it has failed, `reply` why, which rank 0 hears at once.
        `answer` is that to a command, by the own rank."""
        failed, stopped = int(kind == FAILED), int(kind == STOPPED)
        answers = {**(answer or {})}
        self._waiting.doing = "it is done with its part"
        if failed:
            self._waiting.post(wire.as_message(reply), _CLIENT, REPLY)
        for child in self._children:
            awaited = Awaited("it to be done, and those that it has called", child)
            arrival = self._waiting.message(child, RELAYED, lambda awaited=awaited: awaited)
            message = self._waiting.bytes_of(arrival, lambda awaited=awaited: awaited)
            more_failed, more_stopped = how_ended(message)
            failed, stopped = failed + more_failed, stopped + more_stopped
            answers.update(answers_of(message))
        tag = RELAYED if self._parent != _CLIENT else REPLY
        self._waiting.post(wire.as_message(ended(sequence, failed, stopped, answers)), self._parent, tag)


def relay_command(waiting: Waiting, head: Head, data: Data, ranks: Sequence[int]) -> dict[int, Sequence[int]]:
    """Sends a command to the first rank of each piece of these; the ranks of each piece by its first one."""
    below: dict[int, Sequence[int]] = {}
    for begin, end in pieces(0, len(ranks)):
        below[ranks[begin]] = piece = [*ranks[begin:end]]
        waiting.post(command_message(head, {**data, _RANKS: piece}), ranks[begin], CONTROL)
    return below


def command_message(head: Head, data: Data) -> Bytes:
    """A message that says something in words."""
    message = head.packed()
    message += packed(data).tobytes()
    return wire.as_message(message)
