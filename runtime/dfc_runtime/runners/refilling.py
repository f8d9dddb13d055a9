"""A queue whose elements are read again: what a checkpoint has of it, and putting the same elements into it.

Each element was made of one record of a reader's stream alone, by a runner whose other work does not matter. So the
elements inside are known by their numbers (`checkpoints/shuffled`), and the records by these; the runner makes them
again, given those records alone. Assumes that runners are held, or have ended. Guarantees that elements are saved where
it is not certain that they can be read again: where the runner has left out a record, say, a draw was made without a
take, or somebody has set the reader back; and that whatever goes wrong leaves the queue as it was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.checkpoints import positions, queues
from dfc_runtime.checkpoints.positions import Positions
from dfc_runtime.checkpoints.shuffled import Numbers, Taken
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import CheckpointError, DfcError, counted
from dfc_runtime.formats.queue_layout import HEADER_BYTES, QueueLayout
from dfc_runtime.runners.native import OPEN, NativeQueue
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.readers import Reader
    from dfc_runtime.runners.crew import Failure

_SURVIVORS = 3
"""e^3 = 20 elements are still inside, on average, of those that came in before, where it is worth looking for one."""
_MANY = 64
"""Elements that were left out by the reader of which old ones are forgotten."""


@dataclass(frozen=True, slots=True)
class _Begin:
    """How it stood when the runner began: so many elements had been put in, and the reader had come so far; the first
    take ever has drawn `base`, and draws have this key."""

    put: int
    ordinal: int
    base: int
    key: int


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the elements inside. Those with numbers below `unknown` cannot be made again: they come from a
    checkpoint that had them, say.
    `expected` are the position of the reader, the draws and their key that belong to elements which were read again: if
    it stood otherwise when the runner began, nothing is known."""

    begin: _Begin | None = None
    unknown: int = 0
    expected: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What was read again for a queue."""

    queue: str
    count: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.queue}: {self.count:,} elements were read again in {self.seconds:.1f} s"


class Refilling:
    """One queue. `run` runs the runner that fills it until it has read all that it is given, which writes the state
    `written`; `locked` holds the locks of queues."""

    def __init__(
        self,
        name: str,
        layout: QueueLayout,
        state: State,
        queue: NativeQueue,
        reader: Reader,
        written: Collection[str],
        run: Callable[[str], Failure | None],
        locked: Callable[[], AbstractContextManager[None]],
    ) -> None:
        assert layout.refill is not None
        self._name, self._layout, self._refill = name, layout, layout.refill
        self._state, self._queue, self._reader = state, queue, reader
        self._written, self._run, self._locked = written, run, locked
        self._known = _Known()

    def forget(self, unknown: int = 0) -> None:
        """The queue has other elements from now on, so many of which cannot be read again."""
        self._known = _Known(unknown=unknown)

    def begin(self) -> None:
        """The runner is about to begin, for the first time since the queue has other elements."""
        known, position, (draws, key) = self._known, self._position(), self._drawn()
        if known.begin is not None or known.expected not in (None, (position, draws, key)) or not self._refill.take:
            return
        put, taken, _ = self._queue.numbers
        self._begin_at(put, position, draws - taken // self._refill.take, key, known.unknown)

    def _begin_at(self, put: int, position: int, base: int, key: int, unknown: int) -> None:
        """From here on records become elements one by one; those below `unknown` cannot be made again."""
        self._known = _Known(_Begin(put, self._ordinal(position), base, key), unknown)
        self._reader.left_out -= {each for each in self._reader.left_out if each >= position}

    # --- saving

    def positions(self) -> Positions | None:
        """What is saved in place of the elements; None where they are to be saved."""
        put, taken, _ = self._queue.numbers
        begin, take = self._known.begin, self._refill.take
        if begin is None or not self._layout.has_positions or put == taken or taken % take:
            return None
        position, (draws, key) = self._position(), self._drawn()
        if (draws - taken // take, key) != (begin.base, begin.key) or begin.base < 0:
            return None
        left_out = [each for each in sorted(self._reader.left_out) if each < position]
        since = sum(self._ordinal(each) >= begin.ordinal for each in left_out)
        if self._ordinal(position) - begin.ordinal - since != put - begin.put:
            self._begin_at(put, position, begin.base, key, put)  # what becomes of records is known from here on
            return None
        all_taken = Taken(key, begin.base, take, self._layout.window, put, taken)
        if self._are_unknown_inside(all_taken):
            return None
        if len(left_out) > _MANY:
            first = int(self._elements(position, left_out, put, all_taken.inside()).min())
            left_out = [each for each in left_out if each >= first]
        memory = self._state.arrays[self._name]
        digest = positions.digest(self._layout, memory, queues.slots_of(self._layout, memory, put, taken))
        return Positions(all_taken, position, self._reader.records, digest, tuple(left_out))

    def _are_unknown_inside(self, taken: Taken) -> bool:
        """Whether elements are inside of which it is not known how to make them. Where some are for all that chance can
        do, nobody looks for them."""
        unknown, window = self._known.unknown, self._layout.window
        if not unknown:
            return False
        if taken.taken - unknown < window * (math.log(window) - _SURVIVORS) or int(taken.inside().min()) < unknown:
            return True
        self._known = replace(self._known, unknown=0)
        return False

    def _drawn(self) -> tuple[int, int]:
        """How many draws there were, and their key; where there are none, as if there was one for each take."""
        if not self._layout.is_reordered:
            return self._queue.numbers[1], 0
        first, second, draws = (int(word) for word in self._state.arrays[f"{self._name}.order"][:3])
        return draws, first ^ second

    def _position(self) -> int:
        return int(self._state.arrays[self._refill.reader][0])

    def _ordinal(self, position: int) -> int:
        return int(self._reader.ordinals(np.array([position]))[0])

    def _elements(self, position: int, left_out: list[int], put: int, numbers: Numbers) -> Numbers:
        """The elements of the stream of which these elements of the queue were made, the last one in front of the
        reader's position."""
        gaps = self._reader.ordinals(np.array(left_out, np.int64))
        ranks = self._ordinal(position) - len(gaps) - put + numbers
        return self._reader.elements(ranks + np.searchsorted(gaps - np.arange(len(gaps)), ranks, side="right"))

    # --- reading again

    @contextmanager
    def replaced(self, saved: Positions) -> Generator[ReadAgain]:
        """Puts the elements into the queue that were there, and puts back what is there now if the block fails, or
        this. `CheckpointError` if they are not the same."""
        start, memory = time.perf_counter(), self._state.arrays[self._name]
        inside = saved.taken.inside()
        goes_on = (saved.taken.take, saved.taken.window) == (self._refill.take, self._layout.window)
        first = saved.taken.taken if goes_on else 0
        known, left_out = self._known, self._reader.left_out
        with self._locked():
            put, taken, state = self._queue.numbers
            kept = memory[HEADER_BYTES:].copy() if put > taken else None
            queues.set_slots(self._layout, memory, first, _in_order(self._layout, first, saved.count))
            self._queue.set_numbers(first, first + saved.count, OPEN)  # nobody gets one before all are there
        try:
            self._read_again(saved, inside, first)
            expected = (saved.position, saved.taken.base + saved.taken.taken // saved.taken.take, saved.taken.key)
            self._known = _Known(expected=expected) if goes_on else _Known(unknown=saved.count)
            yield ReadAgain(self._name, saved.count, time.perf_counter() - start)
        except BaseException:
            self._known, self._reader.left_out = known, left_out
            with self._locked():
                if kept is not None:
                    memory[HEADER_BYTES:] = kept
                self._queue.set_numbers(put, taken, state)
            raise

    def _read_again(self, saved: Positions, inside: Numbers, first: int) -> None:
        """Has these elements made in the order of their numbers, and puts them where they were, from position `first`
        on."""
        memory, order = self._state.arrays[self._name], np.argsort(inside)
        if not self._layout.is_reordered and saved.taken.window > 1:
            raise self._not_the_same(saved, "they were in a queue that was shuffled")
        failure = self._put_in(self._elements(saved.position, list(saved.left_out), saved.taken.put, inside[order]))
        there = self._queue.numbers[0] - first
        if failure is not None:
            problem = failure.problem
            words = problem.message if isinstance(problem, DfcError) else f"{type(problem).__name__}: {problem}"
            raise self._not_the_same(saved, words) from problem
        if (now := self._reader.records) != saved.records:
            words = (
                f"`{self._refill.reader}` has {counted(now, 'record')}, and had {saved.records:,} when they were saved"
            )
            raise self._not_the_same(saved, words)
        if there != saved.count:
            words = f"of {saved.count:,} records {saved.count - there:,} are damaged now, or become no elements"
            raise self._not_the_same(saved, words)
        slots = np.empty(saved.count, np.int64)
        slots[order] = _in_order(self._layout, first, saved.count)
        if positions.digest(self._layout, memory, slots) != saved.digest:
            words = "they are not those that were saved: files have changed, or what is made of records"
            raise self._not_the_same(saved, words)
        with self._locked():
            queues.set_slots(self._layout, memory, first, slots)
            self._queue.set_numbers(first + saved.count, first, OPEN)
        self._reader.left_out = {*saved.left_out}

    def _put_in(self, elements: Numbers) -> Failure | None:
        """Has the runner make them; all state that it writes is then as it was."""
        arrays = self._state.arrays
        before = {name: arrays[name].copy() for name in self._written}
        try:
            with self._reader.again(elements):
                arrays[self._refill.reader][...] = int(elements[0]), 0
                return self._run(self._refill.runner)
        finally:
            for name, value in before.items():
                arrays[name][...] = value

    def _not_the_same(self, saved: Positions, reason: str) -> CheckpointError:
        text = f"the {saved.count:,} elements of `{self._name}` cannot be read again from `{self._refill.reader}`"
        helps = f'go on with the files as they were, or restore without it: only=[...] leaves "{self._name}" out'
        return CheckpointError(f"{text}; nothing was restored\n  {reason}\n  {helps}", code="E0902")


def _in_order(layout: QueueLayout, first: int, count: int) -> Numbers:
    """The slots in which elements lie that are put in one after the other, from a position on."""
    return (first + np.arange(count)) % layout.slots
