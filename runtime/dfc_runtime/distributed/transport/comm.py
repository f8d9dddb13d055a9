"""How ranks send each other bytes: point to point, in order for each (source, destination, tag), never blocking.

Assumes buffers that are whole, one-dimensional and of bytes: `as_bytes` makes them, of any element type, without a
copy. Guarantees nothing about when a message arrives; whoever waits does so in `waiting`, with a deadline.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Bytes = NDArray[np.uint8]

CONTROL, REPLY, DATA_DOWN, DATA_UP, SIGNAL, ANSWER, JOIN, TOGETHER, RELAYED = range(9)
"""Tags of what is not an edge of the program."""
FIRST_EDGE = 16
"""Tags of edges start here."""


class Pending(Protocol):
    """A message on its way. Its buffer belongs to the message until it is done."""

    def test(self) -> bool:
        """Whether it is done. Raises `RankError` if it can never be."""
        ...

    def cancel(self) -> None:
        """Gives a message up that will not come. What was sent cannot be taken back."""
        ...


class Arrival(Protocol):
    """A message that is there, but was not received: nobody else gets it."""

    @property
    def source(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    def receive(self, buffer: Bytes) -> Pending: ...


class Comm(Protocol):
    """A rank's end of the network between the ranks of one program."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def neighbours(self) -> int:
        """How many ranks there are on this machine, this one included."""
        ...

    @property
    def neighbour(self) -> int:
        """The number of this rank among those of its machine."""
        ...

    @property
    def highest_tag(self) -> int: ...

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        """A synchronous message is done only when its receiver has begun to take it."""
        ...

    def irecv(self, buffer: Bytes, source: int, tag: int) -> Pending:
        """Receives exactly as many bytes as the buffer has: another number is a `RankError`."""
        ...

    def arrival(self, source: int | None, tag: int) -> Arrival | None:
        """The next message from a rank (from any, for None), of a size that is not known, if one is there. Not for
        messages that `irecv` waits for."""
        ...

    def seconds(self) -> float:
        """The time by which this rank waits, from any begin on."""
        ...

    def idle(self, turn: int) -> bool:
        """Called between looks at what is pending; `turn` counts how often nothing had happened. Whether something is
        known to have come, which may be a signal."""
        ...

    def abort(self, code: int) -> NoReturn:
        """Ends all ranks."""
        ...

    def close(self) -> None: ...


def as_bytes(array: Array) -> Bytes:
    """The memory of a row-major array."""
    assert array.flags.c_contiguous, "only whole arrays have bytes in a row"
    return array.reshape(-1).view(np.uint8)
