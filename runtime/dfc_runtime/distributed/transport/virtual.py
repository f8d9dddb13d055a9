"""Ranks as threads of one process that take turns, in virtual time: for thousands of ranks that do not exist.

Each rank has a clock, which its messages move: one costs the processor of either end `message` seconds, its bytes take
the links of both, one message after the other, and `latency` lies between them (the LogGP model: Alexandrov, Ionescu,
Schauser and Scheiman, 1995). What ranks compute costs no virtual time. Of all ranks the one whose next event is first
goes on, until it waits for others.

Assumes ranks that wait by `idle` alone, and take the time from `seconds`. Guarantees the same events and times in every
run; that messages to a rank arrive in the order in which they were sent on their links; that nothing arrives before it
was sent. A rank that goes on for long while others could have sent to it hears of that when it next waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from math import inf
from typing import NoReturn

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.transport.comm import Arrival, Bytes, Pending
from dfc_runtime.distributed.transport.receives import Receives
from dfc_runtime.errors import RankError

_STACK = 1 << 20
"""Bytes of a rank's stack: thousands of them fit into memory."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1e-3, 0.02
"""Seconds between two looks of a rank to which nothing comes."""


class DiedError(BaseException):
    """The end of a rank that was to die."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What the network and the processors can do: seconds between links, of a processor for a message, bytes a second;
    messages of up to `eager` bytes are copied at once, and count as sent."""

    latency: float = 2e-6
    message: float = 1.3e-6
    bandwidth: float = 8.2e9
    eager: int = 1 << 14


@dataclass(slots=True, eq=False)
class _Message:
    source: int
    buffer: Bytes
    arrives: float
    synchronous: bool = False
    delivered: bool = False


@dataclass(slots=True, eq=False)
class _RankState:
    """`events` are the times at which something came that the rank has not looked for yet."""

    slowness: float
    dies: float
    clock: float = 0.0
    wakes: float = 0.0
    is_blocked: bool = True
    is_over: bool = False
    link_out: float = 0.0
    link_in: float = 0.0
    sent: int = 0
    received: int = 0
    bytes_sent: int = 0
    events: list[float] = field(default_factory=list[float])
    mail: dict[int, deque[_Message]] = field(default_factory=dict[int, "deque[_Message]"])
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class VirtualNetwork:
    """What connects `size` ranks. `slowness` multiplies what messages cost the processor of each rank; `deaths` are the
    times at which ranks die, without a word."""

    def __init__(
        self,
        size: int,
        speed: Speed | None = None,
        *,
        slowness: Sequence[float] | None = None,
        deaths: Mapping[int, float] | None = None,
    ) -> None:
        self.size = size
        self.speed = speed or Speed()
        slow, dies = slowness or [1.0] * size, deaths or {}
        self.ranks = [_RankState(slow[rank], dies.get(rank, inf)) for rank in range(size)]
        self._ready: list[tuple[float, int]] = [(0.0, rank) for rank in range(size)]
        self._over = threading.Semaphore(0)
        self._aborted = ""

    def run(self, work: Callable[[VirtualComm], object]) -> list[object]:
        """What `work` returned on each rank, or the error with which it ended."""
        outcomes: list[object] = [None] * self.size

        def live(rank: int) -> None:
            self.ranks[rank].turn.acquire()
            try:
                outcomes[rank] = work(VirtualComm(self, rank))
            except BaseException as problem:
                outcomes[rank] = problem
            self.ranks[rank].is_over = True
            self._hand_on()

        before = threading.stack_size(_STACK)
        try:
            threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(self.size)]
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(before)
        self._hand_on()
        self._over.acquire()
        for thread in threads:
            thread.join()
        return outcomes

    def _hand_on(self) -> None:
        """Lets the rank go on whose next event is first."""
        while self._ready:
            time, number = heappop(self._ready)
            rank = self.ranks[number]
            if rank.is_blocked and not rank.is_over and time == rank.wakes:
                rank.is_blocked = False
                rank.clock = max(rank.clock, time)
                rank.turn.release()
                return
        self._over.release()

    def block(self, number: int, until: float) -> bool:
        """The rank waits for what comes next to it, but not longer; whether something has come."""
        rank = self.ranks[number]
        first = rank.events[0] if rank.events else inf
        rank.wakes = min(max(rank.clock, first), until, max(rank.clock, rank.dies))
        rank.is_blocked = True
        heappush(self._ready, (rank.wakes, number))
        self._hand_on()
        rank.turn.acquire()
        has_come = False
        while rank.events and rank.events[0] <= rank.clock:
            heappop(rank.events)
            has_come = True
        self.check(number)
        return has_come

    def check(self, number: int) -> None:
        rank = self.ranks[number]
        if rank.clock >= rank.dies:
            raise DiedError
        if self._aborted:
            raise RankError(self._aborted, code="E0911")

    def abort(self, reason: str) -> None:
        self._aborted = self._aborted or reason

    def put(self, source: int, destination: int, tag: int, buffer: Bytes, *, synchronous: bool) -> _Message:
        """A message sets out."""
        self.check(source)
        sender, receiver, speed = self.ranks[source], self.ranks[destination], self.speed
        on_link = buffer.size / speed.bandwidth
        sender.clock += speed.message * sender.slowness
        sender.link_out = max(sender.link_out, sender.clock) + on_link
        receiver.link_in = max(sender.link_out + speed.latency, receiver.link_in + on_link)
        early = buffer.size <= speed.eager and not synchronous
        message = _Message(source, buffer.copy() if early else buffer, receiver.link_in, synchronous, early)
        sender.sent, sender.bytes_sent = sender.sent + 1, sender.bytes_sent + buffer.size
        if receiver.dies > receiver.link_in and not receiver.is_over:
            receiver.mail.setdefault(tag, deque()).append(message)
            self._stir(destination, message.arrives)
        return message

    def first(self, number: int, source: int | None, tag: int) -> _Message | None:
        """The message that is there for a rank, taken out of its mail."""
        rank = self.ranks[number]
        waiting = rank.mail.get(tag)
        for message in waiting or ():
            if message.arrives > rank.clock:
                break  # and so do all behind it
            if source is None or message.source == source:
                assert waiting is not None
                waiting.remove(message)
                return message
        return None

    def deliver(self, number: int, message: _Message, buffer: Bytes) -> None:
        if message.buffer.size != buffer.size:
            raise RankError(f"a message has {message.buffer.size} bytes instead of {buffer.size}", code="E0911")
        np.copyto(buffer, message.buffer)
        rank = self.ranks[number]
        rank.clock += self.speed.message * rank.slowness
        rank.received += 1
        if not message.delivered:
            message.delivered = True
            self._stir(message.source, rank.clock)

    def _stir(self, number: int, time: float) -> None:
        """Something comes to a rank at this time."""
        rank = self.ranks[number]
        heappush(rank.events, time)
        if rank.is_blocked and not rank.is_over and max(time, rank.clock) < rank.wakes:
            rank.wakes = max(time, rank.clock)
            heappush(self._ready, (rank.wakes, number))


class VirtualComm:
    """The end of one rank."""

    highest_tag = 2**30

    def __init__(self, network: VirtualNetwork, rank: int) -> None:
        self.network = network
        self.rank = rank
        self.size = network.size
        self.neighbours = 1
        self.neighbour = 0
        self._receives: Receives[tuple[int, int]] = Receives(self._advance)

    def seconds(self) -> float:
        return self.network.ranks[self.rank].clock

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        return _Sent(self, self.network.put(self.rank, destination, tag, buffer, synchronous=synchronous))

    def irecv(self, buffer: Bytes, source: int, tag: int) -> Pending:
        return self._receives.post((source, tag), buffer)

    def _advance(self, route: tuple[int, int]) -> None:
        """Gives messages that are there to those who wait for them, in the order of their asking."""
        self.network.check(self.rank)
        posted = self._receives.posted(route)
        while posted and (message := self.network.first(self.rank, *route)) is not None:
            asked = posted.popleft()
            asked.done = True
            self.network.deliver(self.rank, message, asked.buffer)

    def arrival(self, source: int | None, tag: int) -> Arrival | None:
        self.network.check(self.rank)
        message = self.network.first(self.rank, source, tag)
        return None if message is None else _Arrived(self, message)

    def idle(self, turn: int) -> bool:
        """Lets others go on until something comes to this rank, or for a moment."""
        pause = min(_SHORTEST_PAUSE * (1 + turn), _LONGEST_PAUSE)
        return self.network.block(self.rank, self.seconds() + pause)

    def abort(self, code: int) -> NoReturn:
        self.network.abort(f"rank {self.rank} has ended the program")
        raise SystemExit(code)

    def close(self) -> None:
        pass


class _Sent:
    def __init__(self, comm: VirtualComm, message: _Message) -> None:
        self._comm = comm
        self._message = message

    def test(self) -> bool:
        self._comm.network.check(self._comm.rank)
        return self._message.delivered

    def cancel(self) -> None:
        pass


class _Arrived:
    def __init__(self, comm: VirtualComm, message: _Message) -> None:
        self._comm = comm
        self._message = message
        self.source = message.source

    @property
    def size(self) -> int:
        return self._message.buffer.size

    def receive(self, buffer: Bytes) -> Pending:
        self._comm.network.deliver(self._comm.rank, self._message, buffer)
        return _Sent(self._comm, self._message)
