"""Who waits for messages of a route gets them in the order of asking, and not at all once he has given up."""

from __future__ import annotations

import numpy as np

from dfc_runtime.distributed.transport.receives import Receives


def test_a_request_that_was_given_up_takes_no_message() -> None:
    arrived: list[int] = []

    def advance(route: int) -> None:
        while arrived and (waiting := receives.posted(route)):
            request = waiting.popleft()
            request.buffer[:] = arrived.pop(0)
            request.done = True

    receives: Receives[int] = Receives(advance)
    first, second, third = (receives.post(5, np.zeros(1, np.uint8)) for _ in range(3))
    second.cancel()
    arrived += [7, 8]
    assert (third.test(), first.test()) == (True, True)
    assert (first.buffer[0], second.done, third.buffer[0]) == (7, False, 8)
    first.cancel()
    assert not receives.posted(5)
