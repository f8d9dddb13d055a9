"""Ranks as threads of one process: for tests, and for programs of one rank.

Assumes one thread per rank. Guarantees the order that `comm` promises, and that a buffer is not read before the message
is delivered, so that code which changes it too early is found out. Faults are drawn from a seed: messages that come
late, which reorders them between tags and ranks, messages that are lost, links that are cut.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from random import Random
from typing import NoReturn

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.transport.comm import Arrival, Bytes, Pending
from dfc_runtime.distributed.transport.receives import Receives
from dfc_runtime.errors import RankError

_LONGEST_IDLE = 0.02
Route = tuple[int, int, int]
"""Source, destination, tag."""


@dataclass(slots=True)
class Faults:
    """What goes wrong. `delay` is the largest number of looks at the network that a message is late by; `lost` says of
    a route and the number of the message on it whether it vanishes; nothing passes a link in `severed`."""

    seed: int = 0
    delay: int = 0
    lost: Callable[[Route, int], bool] | None = None
    severed: set[frozenset[int]] = field(default_factory=set[frozenset[int]])


@dataclass(slots=True)
class _Message:
    buffer: Bytes
    looks: int
    delivered: bool = False


class Network:
    """What connects `size` ranks."""

    def __init__(self, size: int, faults: Faults | None = None, *, eager: int = 0) -> None:
        """Messages of up to `eager` bytes are copied at once, and count as sent, as real networks do it."""
        self.size = size
        self.eager = eager
        self.faults = faults or Faults()
        self.changed = threading.Condition()
        self.changes = 0
        self.aborted: str | None = None
        self.sent: dict[Route, int] = {}
        self.bytes_sent: dict[Route, int] = {}
        self._random = Random(self.faults.seed)
        self._waiting: dict[Route, deque[_Message]] = {}

    def comm(self, rank: int) -> InProcessComm:
        return InProcessComm(self, rank)

    def put(self, route: Route, buffer: Bytes, *, synchronous: bool) -> Pending:
        """A message sets out."""
        with self.changed:
            number = self.sent[route] = self.sent.get(route, 0) + 1
            self.bytes_sent[route] = self.bytes_sent.get(route, 0) + buffer.size
            late = self._random.randint(0, self.faults.delay) if self.faults.delay else 0
            early = buffer.size <= self.eager and not synchronous
            message = _Message(buffer.copy() if early else buffer, late)
            lost = self.faults.lost is not None and self.faults.lost(route, number - 1)
            if not lost and frozenset(route[:2]) not in self.faults.severed:
                self._waiting.setdefault(route, deque()).append(message)
            self._stir()
        return _Sent(self, message, done=early)

    def first(self, route: Route) -> _Message | None:
        """The message that is next on a route, if it is not late. Call with the lock held."""
        waiting = self._waiting.get(route)
        if not waiting:
            return None
        if waiting[0].looks > 0:
            waiting[0].looks -= 1
            self._stir()
            return None
        return waiting[0]

    def take(self, route: Route) -> _Message:
        return self._waiting[route].popleft()

    def deliver(self, message: _Message, buffer: Bytes) -> None:
        if message.buffer.size != buffer.size:
            raise RankError(f"a message has {message.buffer.size} bytes instead of {buffer.size}", code="E0911")
        np.copyto(buffer, message.buffer)
        message.delivered = True
        self._stir()

    def routes_to(self, destination: int, tag: int) -> list[Route]:
        return [route for route, waiting in self._waiting.items() if waiting and route[1:] == (destination, tag)]

    def abort(self, reason: str) -> None:
        with self.changed:
            self.aborted = self.aborted or reason
            self._stir()

    def check(self) -> None:
        if self.aborted is not None:
            raise RankError(self.aborted, code="E0911")

    def _stir(self) -> None:
        self.changes += 1
        self.changed.notify_all()


class InProcessComm:
    """The end of one rank."""

    highest_tag = 2**30

    def __init__(self, network: Network, rank: int) -> None:
        self.network = network
        self.rank = rank
        self.size = network.size
        self.neighbours = network.size
        self.neighbour = rank
        self._seen = -1
        self._receives: Receives[Route] = Receives(self._advance)

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        return self.network.put((self.rank, destination, tag), buffer, synchronous=synchronous)

    def irecv(self, buffer: Bytes, source: int, tag: int) -> Pending:
        return self._receives.post((source, self.rank, tag), buffer)

    def _advance(self, route: Route) -> None:
        """Gives messages that are there to those who wait for them, in the order of their asking."""
        network, posted = self.network, self._receives.posted(route)
        with network.changed:
            network.check()
            while posted and (message := network.first(route)) is not None:
                network.take(route)
                asked = posted.popleft()
                asked.done = True
                network.deliver(message, asked.buffer)

    def arrival(self, source: int | None, tag: int) -> Arrival | None:
        network = self.network
        with network.changed:
            network.check()
            routes = network.routes_to(self.rank, tag) if source is None else [(source, self.rank, tag)]
            for route in routes:
                message = network.first(route)
                if message is not None:
                    network.take(route)
                    return _Arrived(network, route[0], message)
        return None

    def seconds(self) -> float:
        return time.monotonic()

    def idle(self, turn: int) -> bool:
        """Sleeps until something has happened since the last time, or for a moment."""
        network = self.network
        with network.changed:
            network.check()
            if network.changes == self._seen:
                network.changed.wait(_LONGEST_IDLE)
            has_come = network.changes != self._seen
            self._seen = network.changes
        return has_come

    def abort(self, code: int) -> NoReturn:
        self.network.abort(f"rank {self.rank} has ended the program")
        raise SystemExit(code)

    def close(self) -> None:
        pass


class _Sent:
    def __init__(self, network: Network, message: _Message, *, done: bool) -> None:
        self._network = network
        self._message = message
        self._done = done

    def test(self) -> bool:
        self._network.check()
        return self._done or self._message.delivered

    def cancel(self) -> None:
        pass


class _Arrived:
    def __init__(self, network: Network, source: int, message: _Message) -> None:
        self._network = network
        self._message = message
        self.source = source

    @property
    def size(self) -> int:
        return self._message.buffer.size

    def receive(self, buffer: Bytes) -> Pending:
        with self._network.changed:
            self._network.deliver(self._message, buffer)
        return _Sent(self._network, self._message, done=True)
