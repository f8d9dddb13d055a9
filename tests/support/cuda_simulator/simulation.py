"""Blocks of kernel text executed lane by lane on the host: a deterministic stand-in for a device, for tests.

`simulate(function, blocks, threads, arguments)` runs the blocks one after the other. Text whose lanes meet, at
`barrier()` and at exchanges between the lanes of a warp, is a generator: `names` makes each call at which lanes meet
a `yield from`, so that a lane gives up its turn there and nowhere else. All other text runs a lane from start to end.

Assumes the names of `simulated_names`. Guarantees the same order of lanes in each run, and an error where a device
would hang: lanes that wait at different places of the text. What cannot give up its turn in that way (machine code,
numba's simulator) runs in threads instead (`lane_threads`), which offer what a lane is asked for here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

Function = Callable[..., None]
Steps = Generator[int, None, Any]
"""What a lane does from one meeting to the next. Each says how many lanes the group has that meets, 0 for the block."""


class SimulationError(RuntimeError):
    """The text does what would hang or break a device."""


class Lane(Protocol):
    """What runs a text: its place, and memory of its block."""

    block: int
    blocks: int
    lane: int
    lanes: int
    shared_calls: int

    def offer(self, value: Any, warp: int) -> Mapping[int, Any] | Sequence[Any]:
        """Shows the lanes of the warp a value until the next but one; where their values are once they have met."""
        ...

    def memory(self, number: int, count: int, kind: Any) -> Any: ...


_active: Lane | None = None
_asked: Callable[[], Lane] | None = None
"""Knows the lane that asks where none has been activated."""


def current() -> Lane:
    if _active is not None:
        return _active
    if _asked is None:
        raise SimulationError("a text is running outside of a simulated launch")
    return _asked()


def activate(lane: Lane) -> None:
    """What runs from now on is this lane."""
    global _active
    _active = lane


@contextmanager
def launched(asked: Callable[[], Lane] | None = None) -> Iterator[None]:
    """Within, lanes are activated in turn, or where they run at once, `asked` for."""
    global _active, _asked
    before = _active, _asked
    _active, _asked = None, asked
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _active, _asked = before


def here() -> dict[str, Any]:
    """The names of the prelude that ask where a lane is, and the barrier."""
    return {
        "thread": lambda: current().lane,
        "block_size": lambda: current().lanes,
        "block_index": lambda: current().block,
        "block_count": lambda: current().blocks,
        "barrier": barrier,
        "barrier_any": barrier_any,
        "fence": lambda: None,
    }


def barrier() -> Steps:
    yield 0


def barrier_any(flag: bool) -> Steps:
    """The barrier, and whether the flag of any lane is set."""
    lane = current()
    flags = lane.memory(0, lane.lanes, np.uint8)
    flags[lane.lane] = 1 if flag else 0
    yield 0
    is_any = bool((flags == 1).any())
    yield 0
    return is_any


def exchange(value: Any, warp: int, source: Callable[[int], int]) -> Steps:
    """The value of the lane `source(own number within the warp)`; the own one where there is no such lane."""
    lane = current()
    values = lane.offer(value, warp)
    yield warp
    own = lane.lane % warp
    other = lane.lane - own + source(own) % warp
    return values[other] if other < lane.lanes else value


def gather(value: Any, warp: int) -> Steps:
    """The own number within the warp, and the values of all its lanes."""
    lane = current()
    values = lane.offer(value, warp)
    yield warp
    own = lane.lane % warp
    first = lane.lane - own
    return own, [values[number] for number in range(first, min(first + warp, lane.lanes))]


def shared(count: int, kind: Any) -> Any:
    """Memory of the block: the n-th request of each lane is the same memory."""
    lane = current()
    lane.shared_calls += 1
    return lane.memory(lane.shared_calls, count, kind)


def meets(function: Any) -> bool:
    """Whether lanes meet in it."""
    return inspect.isgeneratorfunction(function)


def simulate(function: Function, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    """Runs a kernel. Arrays stand for pointers, integers for sizes."""
    run = _in_turns if meets(function) else _one_by_one
    with launched():
        for block in range(blocks):
            run(function, arguments, block, blocks, threads)


def _one_by_one(function: Function, arguments: Sequence[Any], block: int, blocks: int, threads: int) -> None:
    memories: dict[int, Any] = {}
    for lane in range(threads):
        activate(_Alone(block, blocks, lane, threads, memories))
        function(*arguments)


def _in_turns(function: Callable[..., Steps], arguments: Sequence[Any], block: int, blocks: int, threads: int) -> None:
    lanes = block_lanes(BlockLane, block, blocks, threads)
    steps = [function(*arguments) for _ in lanes]
    turns = Turns(lanes)
    while (lane := turns.next()) is not None:
        activate(lane)
        mine = steps[lane.lane]
        try:
            warp = next(mine)
            lane.wait_with(warp, mine.gi_frame.f_lineno)
        except StopIteration:
            lane.finished = True


class _Alone:
    """A lane of a text in which lanes do not meet."""

    def __init__(self, block: int, blocks: int, lane: int, lanes: int, memories: dict[int, Any]) -> None:
        self.block, self.blocks, self.lane, self.lanes, self._memories = block, blocks, lane, lanes, memories
        self.shared_calls = 0

    def offer(self, value: Any, warp: int) -> Sequence[Any]:
        raise SimulationError("a lane exchanges values in a text without exchanges")

    def memory(self, number: int, count: int, kind: Any) -> Any:
        return block_memory(self._memories, number, count, kind)


def block_memory(memories: dict[Any, Any], number: Any, count: int, kind: Any) -> Any:
    """What lanes share; its content must not matter to the first one."""
    if number not in memories:
        memories[number] = np.frombuffer(bytearray(b"\xcb" * (count * np.dtype(kind).itemsize)), kind)
    return memories[number]


class BlockLane:
    """A lane of a block whose lanes meet."""

    def __init__(
        self, block: int, blocks: int, lane: int, lanes: int, memories: dict[int, Any], offers: list[list[Any]]
    ) -> None:
        """`memories` and `offers` are those of the block; the latter of even and odd exchanges, as one may still be
        read."""
        self.block, self.blocks, self.lane, self.lanes = block, blocks, lane, lanes
        self._memories, self._offers = memories, offers
        self._exchanges = self.shared_calls = 0
        self.finished = False
        self.waits: tuple[int, int, int] | None = None  # size (0: the block) and number of the warp, and the line

    def wait_with(self, warp: int, site: int) -> None:
        """From now on it waits for the others of its warp, or block, to come to the same line."""
        self.waits = (warp, self.lane // warp if warp else 0, site)

    def offer(self, value: Any, warp: int) -> Sequence[Any]:
        offers = self._offers[self._exchanges % 2]
        self._exchanges += 1
        offers[self.lane] = value
        return offers

    def memory(self, number: int, count: int, kind: Any) -> Any:
        return block_memory(self._memories, number, count, kind)


L = TypeVar("L", bound=BlockLane)


def block_lanes(kind: type[L], block: int, blocks: int, threads: int) -> list[L]:
    """The lanes of a block."""
    memories: dict[int, Any] = {}
    offers: list[list[Any]] = [[None] * threads, [None] * threads]
    return [kind(block, blocks, lane, threads, memories, offers) for lane in range(threads)]


class Turns(Generic[L]):
    """Whose turn it is: lanes go on in order; those that wait do once all of their group wait at the same place."""

    def __init__(self, lanes: Sequence[L]) -> None:
        self._lanes = lanes
        self._ready = list(lanes)[::-1]

    def next(self) -> L | None:
        """The lane that goes on; none once all have finished. `SimulationError` where none can."""
        if self._ready:
            return self._ready.pop()
        left = [lane for lane in self._lanes if not lane.finished]
        for warp, group in {lane.waits[:2]: None for lane in left if lane.waits is not None}:
            members = [lane for lane in left if warp == 0 or lane.lane // warp == group]
            if members and len({lane.waits for lane in members}) == 1:
                for lane in members:
                    lane.waits = None
                self._ready = members[:0:-1]
                return members[0]
        if left:
            waiting_at = sorted({lane.waits[2] for lane in left if lane.waits is not None})
            raise SimulationError(f"lanes wait for each other at different lines of the text: {waiting_at}")
        return None
