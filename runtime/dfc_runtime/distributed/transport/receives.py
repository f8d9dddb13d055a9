"""Messages that a rank of this process waits for, in the order of its asking.

For transports whose ranks are threads. Assumes an `advance` that gives what has come on a route to those who wait for
it, the first who has asked first. Guarantees that a request which was cancelled takes no message from a later one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from dfc_runtime.distributed.transport.comm import Bytes

Route = TypeVar("Route")


class Receives(Generic[Route]):
    """Requests by route."""

    def __init__(self, advance: Callable[[Route], None]) -> None:
        self._advance = advance
        self._posted: dict[Route, deque[Received[Route]]] = {}

    def post(self, route: Route, buffer: Bytes) -> Received[Route]:
        """Waits for the next message on a route that nobody waits for yet."""
        request = Received(self, route, buffer)
        self._posted.setdefault(route, deque()).append(request)
        return request

    def posted(self, route: Route) -> deque[Received[Route]]:
        """Those who wait, in the order of their asking."""
        return self._posted[route]

    def advance(self, route: Route) -> None:
        self._advance(route)


class Received(Generic[Route]):
    """One request: `buffer` is filled when it is `done`."""

    def __init__(self, receives: Receives[Route], route: Route, buffer: Bytes) -> None:
        self._receives = receives
        self._route = route
        self.buffer = buffer
        self.done = False

    def test(self) -> bool:
        if not self.done:
            self._receives.advance(self._route)
        return self.done

    def cancel(self) -> None:
        if not self.done:
            self._receives.posted(self._route).remove(self)
