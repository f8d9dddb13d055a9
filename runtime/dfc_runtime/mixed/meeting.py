"""Where the devices of one program meet: values that go from one to another, and who has come to an end.

A value is copied once when it is sent, out of memory that its program uses again, and once when it is taken. Sending
never waits. Assumes parts of which it was proved that none waits for ever when all send what they are to send.
Guarantees that a device which needs what will not come any more, because its sender has failed, is told so: whether it
gets a value depends on no timing.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.memory import address_of

_move = ctypes.memmove
_MOST_SPARE = 4
"""Buffers of one size that are kept for later values."""


class StoppedError(Exception):
    """The value that is waited for will not come."""


@dataclass(slots=True)
class _Parcel:
    """A value on its way, to so many devices still."""

    buffer: NDArray[np.uint8]
    left: int


class Meeting:
    """One for each loaded program. One call at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._boxes: dict[tuple[str, str], deque[_Parcel]] = {}
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
        buffer = self._buffer(size)
        _move(address_of(buffer), address, size)
        parcel = _Parcel(buffer, len(destinations))
        with self._changed:
            for device in destinations:
                self._boxes.setdefault((key, device), deque()).append(parcel)
            self._changed.notify_all()

    def take(self, key: str, device: str, source: str, address: int, size: int) -> None:
        """Receives the next value under a key. `StoppedError`: its source has ended without sending it."""
        box = key, device
        with self._changed:
            while not self._boxes.get(box):
                if self._is_over or source not in self._running:
                    self._stopped.add(device)
                    raise StoppedError
                self._changed.wait()
            parcel = self._boxes[box].popleft()
        if parcel.buffer.size != size:
            raise ValueError(f"{key} has {parcel.buffer.size} bytes instead of {size}")
        _move(address, address_of(parcel.buffer), size)
        self._give_back(parcel)

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

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        with self._changed:
            spare = self._spare.get(size)
            if spare:
                return spare.pop()
        return np.empty(size, np.uint8)

    def _give_back(self, parcel: _Parcel) -> None:
        with self._changed:
            parcel.left -= 1
            if not parcel.left:
                spare = self._spare.setdefault(parcel.buffer.size, [])
                if len(spare) < _MOST_SPARE:
                    spare.append(parcel.buffer)
