"""Where the devices of one program meet: values that go from one to another, and who has come to an end.

A value goes straight to where somebody waits for it. Where nobody does yet, it is copied out of memory that its program
uses again, and once more when it is taken. Sending never waits. Assumes parts of which it was proved that none waits
for ever when all send what they are to send. Guarantees that values of a key come in their order, and that a device
which needs what will not come any more, because its sender has failed, is told so: whether it gets a value depends on
no timing.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.memory import address_of
from dfc_runtime.dataclasses import dataclass

_move = ctypes.memmove
_MOST_SPARE = 4
"""Buffers of one size that are kept for later values."""
_NOTHING = np.empty(0, np.uint8)


class StoppedError(Exception):
    """The value that is waited for will not come."""


@dataclass(slots=True)
class _Parcel:
    """A value on its way, to so many devices still."""

    buffer: NDArray[np.uint8]
    left: int


@dataclass(slots=True)
class _PendingReceive:
    """Memory of somebody who waits for a value. Who `claimed` it fills it; `sent` is how much came."""

    address: int
    size: int
    claimed: bool = False
    sent: int | None = None


class Meeting:
    """One for each loaded program. One call at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._boxes: dict[tuple[str, str], deque[_Parcel]] = {}
        self._pending_receives: dict[tuple[str, str], _PendingReceive] = {}
        self._spare: dict[int, list[NDArray[np.uint8]]] = {}
        self._running: set[str] = set()
        self._stopped: set[str] = set()
        self._entered: set[str] = set()
        self._call = 0
        self._is_over = False

    def begin(self, devices: Iterable[str]) -> int:
        """A call begins, in which these take part. Its number is for `enter`."""
        with self._changed:
            self._boxes.clear()
            self._pending_receives.clear()
            self._stopped.clear()
            self._entered.clear()
            self._running = set(devices)
            self._is_over = False
            self._call += 1
            return self._call

    def enter(self, device: str, call: int) -> bool:
        """Whether a device is to run its part of this call; if so it must `end`."""
        with self._changed:
            if call != self._call or self._is_over:
                return False
            self._entered.add(device)
            return True

    def put(self, key: str, destinations: Sequence[str], address: int, size: int) -> None:
        """Sends a value of so many bytes."""
        boxes = [(key, device) for device in destinations]
        with self._changed:
            receives = [None if self._boxes.get(box) else self._pending_receives.pop(box, None) for box in boxes]
            for receive in receives:
                if receive is not None:
                    receive.claimed = True
        for receive in receives:
            if receive is not None and receive.size == size:
                _move(receive.address, address, size)
        later = [box for box, receive in zip(boxes, receives, strict=True) if receive is None]
        parcel = _Parcel(self._copied(address, size) if later else _NOTHING, len(later))
        with self._changed:
            for receive in receives:
                if receive is not None:
                    receive.sent = size
            for box in later:
                self._boxes.setdefault(box, deque()).append(parcel)
            self._changed.notify_all()

    def take(self, key: str, device: str, source: str, address: int, size: int) -> None:
        """Receives the next value under a key. `StoppedError`: its source has ended without sending it."""
        with self._changed:
            parcel = self._awaited((key, device), source, _PendingReceive(address, size))
        if parcel is None:
            return
        _check_size(key, parcel.buffer.size, size)
        _move(address, address_of(parcel.buffer), size)
        self._give_back(parcel)

    def _awaited(self, box: tuple[str, str], source: str, receive: _PendingReceive) -> _Parcel | None:
        """The next value of a box, or None once it is where the receiver wants it. Call with the lock held."""
        self._pending_receives[box] = receive
        try:
            while receive.sent is None:
                if not receive.claimed:
                    if self._boxes.get(box):
                        return self._boxes[box].popleft()
                    if self._is_over or source not in self._running:
                        self._stopped.add(box[1])
                        raise StoppedError
                self._changed.wait()
        except BaseException:
            while receive.claimed and receive.sent is None:  # an interrupt: the memory is not ours before it was filled
                self._changed.wait()
            raise
        finally:
            if self._pending_receives.get(box) is receive:
                del self._pending_receives[box]
        _check_size(box[0], receive.sent, receive.size)
        return None

    def end(self, device: str) -> None:
        """A device has come to the end of its part, or has failed in it: it sends no more."""
        with self._changed:
            self._running.discard(device)
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody begins any more, and nobody gets anything: only those that have begun are waited for."""
        with self._changed:
            self._is_over = True
            self._running &= self._entered
            self._changed.notify_all()

    def wait(self) -> None:
        """Until all have come to an end. If that is interrupted, nobody gets anything any more, and all are waited for
        nevertheless: they use memory of the call."""
        interruption: BaseException | None = None
        with self._changed:
            while self._running:
                try:
                    self._changed.wait()
                except BaseException as problem:
                    interruption = problem
                    self._is_over = True
                    self._changed.notify_all()
        if interruption is not None:
            raise interruption

    def was_stopped(self, device: str) -> bool:
        """Whether a device ended for want of what others did not send."""
        return device in self._stopped

    def _copied(self, address: int, size: int) -> NDArray[np.uint8]:
        with self._changed:
            spare = self._spare.get(size)
            buffer = spare.pop() if spare else None
        if buffer is None:
            buffer = np.empty(size, np.uint8)
        _move(address_of(buffer), address, size)
        return buffer

    def _give_back(self, parcel: _Parcel) -> None:
        with self._changed:
            parcel.left -= 1
            if not parcel.left:
                spare = self._spare.setdefault(parcel.buffer.size, [])
                if len(spare) < _MOST_SPARE:
                    spare.append(parcel.buffer)


def _check_size(key: str, actual: int, expected: int) -> None:
    if actual != expected:
        raise ValueError(f"{key} has {actual} bytes instead of {expected}")
