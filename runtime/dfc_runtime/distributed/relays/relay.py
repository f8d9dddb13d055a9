"""A rank that passes a call on to others, and answers for them.

Assumes one call at a time. Guarantees that the call is under way to all others of the piece before the own part begins,
and that the answer is sent when all of them are over, however they ended.
"""

from __future__ import annotations

from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.relays.answers import ended, how_ended
from dfc_runtime.distributed.relays.call_tree import addressed, piece_of, pieces
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import CONTROL, RELAYED, REPLY, Bytes
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.distributed.transport.wire import FAILED, STOPPED

_CLIENT = 0


class Relay:
    """One call that `parent` has passed on to this rank, which passes it on."""

    def __init__(self, waiting: Waiting, plan: EntryPlan, message: Bytes, parent: int) -> None:
        self._waiting = waiting
        self._parent = parent
        content, (begin, end) = piece_of(message)
        self._children: list[int] = []
        for piece in pieces(begin + 1, end):
            child = plan.others[piece[0]].task.rank
            self._waiting.post(wire.as_message(addressed(content, piece)), child, CONTROL)
            self._children.append(child)

    def finish(self, sequence: int, kind: int, reply: bytearray) -> None:
        """The own part is over: `kind` says how, and if it has failed, `reply` why, which rank 0 hears at once."""
        failed, stopped = int(kind == FAILED), int(kind == STOPPED)
        if failed:
            self._waiting.post(wire.as_message(reply), _CLIENT, REPLY)
        for child in self._children:
            awaited = Awaited("it to be done, and those that it has called", child)
            arrival = self._waiting.message(child, RELAYED, lambda awaited=awaited: awaited)
            more_failed, more_stopped = how_ended(self._waiting.bytes_of(arrival, lambda awaited=awaited: awaited))
            failed, stopped = failed + more_failed, stopped + more_stopped
        tag = RELAYED if self._parent != _CLIENT else REPLY
        self._waiting.post(wire.as_message(ended(sequence, failed, stopped)), self._parent, tag)
