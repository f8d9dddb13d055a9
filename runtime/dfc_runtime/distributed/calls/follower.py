"""A rank that does what rank 0 says: for one call that all ranks make together, or for good.

Assumes one thread. Guarantees an answer to every message that asks for one, whatever goes wrong in between, and that
feeds are received whole even for calls that fail, so that no message is left for a later call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.rank import Answer, Data, Rank, empty
from dfc_runtime.distributed.failures import CallStoppedError, failure_from, failure_of
from dfc_runtime.distributed.relays.relay import Relay
from dfc_runtime.distributed.transport import wire
from dfc_runtime.distributed.transport.comm import CONTROL, DATA_DOWN, DATA_UP, JOIN, REPLY, Array, Bytes
from dfc_runtime.distributed.transport.sending import Outbox
from dfc_runtime.distributed.transport.waiting import Awaited, packed, unpacked
from dfc_runtime.distributed.transport.wire import (
    CALL,
    CLOSE,
    COMMAND,
    DONE,
    FAILED,
    OUTCOME,
    RELAYED_CALL,
    RELAYED_COMMAND,
    SILENT_CALL,
    STOPPED,
    Head,
)
from dfc_runtime.errors import RankError

_FROM_CLIENT = 0


class Follower:
    """A rank other than 0."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._waiting = rank.waiting
        self._waiting.on_signal = self._note_signal
        self._running = -1
        self._stopped = -1
        self._outbox = Outbox()
        self.closed = False

    def call(self, plan: EntryPlan) -> list[object]:
        """An entry that all ranks call: does its part, and gives the results that rank 0 has."""
        return self.results(f"`{plan.name}`", lambda: plan)

    def results(self, label: str, plan: Callable[[], EntryPlan]) -> list[object]:
        """Likewise, of what is known only when it is over."""
        message = self._follow(label)
        _, values, behind = plan().all_results.unpack(message)
        self._rank.receive_arrays(behind, _FROM_CLIENT, DATA_DOWN)
        return values

    def together(self, label: str) -> Answer:
        """Something else that all ranks ask for."""
        data = unpacked(self._follow(label)[wire.HEAD_SIZE :])
        arrays = empty(data.get("arrays", []))
        self._rank.receive_arrays(arrays, _FROM_CLIENT, DATA_DOWN)
        return data, arrays

    def serve(self) -> None:
        """Does what rank 0 says until it closes the program."""
        self._join("", serves=True)
        while not self.closed:
            message, sender = self._next(forever=True)
            self._obey(wire.head_of(message), message, sender)

    def obey(self, label: str, until: Callable[[], bool]) -> None:
        """Does what rank 0 says until something has come of it; raises why it has not."""
        while not until():
            self._obey_once(label)

    def _follow(self, label: str) -> Bytes:
        """Obeys until rank 0 says how the call of that name ended, and gives what it said."""
        if self.closed:
            raise RankError("rank 0 has closed the program", code="E0911")
        self._join(label, serves=False)
        while True:
            outcome = self._obey_once(label)
            if outcome is not None:
                return outcome

    def _obey_once(self, label: str) -> Bytes | None:
        """The next message, if it is the outcome of a call; else it is obeyed."""
        message, sender = self._next(label=label)
        head = wire.head_of(message)
        if head.kind == OUTCOME:
            return message
        if head.kind == FAILED:
            raise failure_from(unpacked(message[wire.HEAD_SIZE :])).error()
        self._obey(head, message, sender)
        if self.closed:
            raise RankError("rank 0 has closed the program", code="E0911")
        return None

    def _join(self, label: str, *, serves: bool) -> None:
        self._waiting.post(wire.joining(None if serves else label), _FROM_CLIENT, JOIN)

    def _next(self, *, forever: bool = False, label: str = "") -> tuple[Bytes, int]:
        """What rank 0 says, and who has passed it on: rank 0, or a rank that it has called."""
        self._waiting.doing = "it waits for rank 0"
        what = f"it to call {label}" if label else "a call"
        arrival = self._waiting.message(None, CONTROL, lambda: Awaited(what, _FROM_CLIENT), forever=forever)
        return self._waiting.bytes_of(arrival, lambda: Awaited(what, arrival.source)), arrival.source

    def _obey(self, head: Head, message: Bytes, sender: int) -> None:
        if head.kind in (CALL, SILENT_CALL):
            kind, reply, arrays = self._run_call(head, message)
            if head.kind == CALL or kind == FAILED:
                self._reply(reply, arrays)
        elif head.kind == RELAYED_CALL:
            relay = Relay.of_call(self._waiting, self._rank.plan(head.number), message, sender)
            kind, reply, _ = self._run_call(head, message)
            relay.finish(head.sequence, kind, reply)
        elif head.kind == COMMAND:
            _, reply, _, arrays = self._run_command(head, unpacked(message[wire.HEAD_SIZE :]))
            self._reply(reply, arrays)
        elif head.kind == RELAYED_COMMAND:
            data = unpacked(message[wire.HEAD_SIZE :])
            relay = Relay.of_command(self._waiting, head, data, sender)
            kind, reply, answer, arrays = self._run_command(head, data)
            self._send_behind(arrays)
            relay.finish(head.sequence, kind, reply, {self._rank.number: answer} if kind == DONE else {})
        elif head.kind == CLOSE:
            self.closed = True

    def _run_call(self, head: Head, message: Bytes) -> tuple[int, bytearray, Sequence[Array]]:
        """How the own part of a call ended, the answer that says so, and arrays behind it."""
        own = self._rank.own_part(self._rank.plan(head.number))
        assert own is not None, "only tasks that take part are called"
        sizes, feeds, behind = own.part.down.unpack(message)
        if behind:
            self._rank.receive_arrays(behind, _FROM_CLIENT, DATA_DOWN)
        arrays: Sequence[Array] = ()
        try:
            self._start(head.sequence)
            named = dict(zip(own.plan.entry.dims, sizes, strict=True)) if sizes else {}
            results = self._rank.run_part(own, feeds, named, head.generation)
            reply = Head(DONE, sequence=head.sequence).packed()
            if results:
                arrays = own.part.up.pack(reply, (), own.part.up.values_of(results))
            return DONE, reply, arrays
        except RankError:
            raise
        except CallStoppedError:
            return STOPPED, Head(STOPPED, sequence=head.sequence).packed(), arrays
        except Exception as problem:
            return FAILED, self._failed(head, problem), ()
        finally:
            self._running = -1

    def _start(self, sequence: int) -> None:
        self._running = sequence
        if self._stopped == sequence:
            raise CallStoppedError

    def _note_signal(self, data: Data) -> None:
        """Another rank failed: this call is over, now or when it begins."""
        if data["kind"] == "stop":
            self._stopped = data["sequence"] if isinstance(data["sequence"], int) else -1
            if self._stopped == self._running:
                raise CallStoppedError

    def _run_command(self, head: Head, data: Data) -> tuple[int, bytearray, Data, Sequence[Array]]:
        """How a command ended here, the answer that says so, what is in it, and arrays behind it."""
        payload = empty(data["arrays"])
        self._rank.receive_arrays(payload, _FROM_CLIENT, DATA_DOWN)
        try:
            answer, arrays = self._rank.run_command(data, payload)
        except RankError:
            raise
        except Exception as problem:
            return FAILED, self._failed(head, problem), {}, ()
        reply = Head(DONE, sequence=head.sequence).packed()
        reply += packed(answer).tobytes()
        return DONE, reply, answer, arrays

    def _failed(self, head: Head, problem: Exception) -> bytearray:
        reply = Head(FAILED, sequence=head.sequence).packed()
        reply += packed(failure_of(problem, self._waiting.name(self._rank.number)).to_json()).tobytes()
        return reply

    def _reply(self, reply: bytearray, arrays: Sequence[Array]) -> None:
        self._waiting.post(wire.as_message(reply), _FROM_CLIENT, REPLY)
        self._send_behind(arrays)

    def _send_behind(self, arrays: Sequence[Array]) -> None:
        """What rank 0 receives when it has the answer that describes it."""
        for pending in self._rank.send_arrays(arrays, _FROM_CLIENT, DATA_UP):
            self._outbox.add(pending)
