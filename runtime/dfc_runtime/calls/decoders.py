"""Processes that decode images, which native code asks without Python: a table with a socket for each.

Native code takes a decoder that is free, sends an image, gets pixels, and gives the decoder back; one that does not
answer as it should is marked as lost, and the request goes to the run side, which starts it anew. So an image that ends
its decoder, twice, is a damaged image, and nothing else ends. Assumes that native code alone changes states of decoders
that are not lost. Guarantees that processes start with the first request, and end with this one, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np

from dfc_runtime.errors import FeedError, LimitError
from dfc_runtime.records.decoder_table import BUSY, FREE, LOST, REPLY, REQUEST, Decoder, DecoderTable
from dfc_runtime.records.image_worker import received
from dfc_runtime.records.images import CHANNELS, DamagedImage, Pixels, decode

VARIABLE = "DFC_DECODERS"
MOST = 1024
WORKER = ("-m", "dfc_runtime.records.image_worker")
"""What the interpreter of a process runs; the number of its socket follows."""
PATIENCE = 60
"""Seconds after which an image counts as one that ends its decoder."""


def requested() -> int:
    """How many decoders the environment asks for; 0 without a word."""
    text = os.environ.get(VARIABLE, "").strip() or "0"
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not 0 <= count <= MOST:
        raise FeedError(f"{VARIABLE} is a number of processes from 0 to {MOST}, not {text}", code="E0901")
    return count


class _Process:
    """A process with our end of its socket."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        limit = struct.pack("@ll", PATIENCE, 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, limit)
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, *WORKER, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": path},
                )
        except OSError as problem:
            self.socket.close()
            text = f"there is no process to decode images in: {problem}"
            raise LimitError(f"{text}\n  set {VARIABLE} to a smaller number, or to 0", code="E0905") from None

    def end(self, patience: float = 0) -> int:
        """Ends it; how it ended by itself within so many seconds, else 0."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 0


class Decoders:
    """So many processes for native code, and one for requests that come to the run side."""

    def __init__(self, count: int) -> None:
        self._rows = (Decoder * count)()
        for row in self._rows:
            row.state = LOST
        self._table = DecoderTable(count, ctypes.addressof(self._rows))
        self._processes: list[_Process | None] = [None] * (count + 1)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        weakref.finalize(self, _end_all, self._processes, self._owner)
        _living.add(self)

    @property
    def address(self) -> int:
        """Of the table."""
        return ctypes.addressof(self._table)

    @property
    def processes(self) -> list[int]:
        """The numbers of those that were started and not ended."""
        return [each.process.pid for each in self._processes if each is not None]

    def decode(self, data: bytes, height: int, width: int) -> Pixels:
        """As `images.decode`, by a process; in a forked child, which has none, by this one."""
        if os.getpid() != self._owner:
            return decode(data, height, width)
        with self._lock:
            self._mend()
            try:
                return self._by_the_last(data, height, width)
            except OSError:  # it may have been ended for another reason
                self._end_the_last()
            try:
                return self._by_the_last(data, height, width)
            except OSError as problem:
                code = self._end_the_last()
                how = f"signal {-code}" if code < 0 else f"exit status {code}" if code else str(problem)
                raise DamagedImage(f"it ended two processes that were to decode it ({how})") from None

    def _by_the_last(self, data: bytes, height: int, width: int) -> Pixels:
        """By the process of the run side, which is started where it is not there."""
        process = self._processes[-1] or _Process()
        self._processes[-1] = process
        return _asked(process.socket, data, height, width)

    def _end_the_last(self) -> int:
        process, self._processes[-1] = self._processes[-1], None
        assert process is not None
        process.socket.close()
        return process.end(patience=1)

    def close(self) -> None:
        """Ends all processes. A further request starts them again."""
        with self._lock:
            _end_all(self._processes, self._owner)
            for row, process in zip(self._rows, self._processes, strict=False):
                if process is not None and row.state != BUSY:  # else its number must not become that of another file
                    process.socket.close()
                    row.state = LOST
            self._processes[:] = [None] * len(self._processes)

    def _mend(self) -> None:
        """Starts those that are not there, or are lost."""
        for number, row in enumerate(self._rows):
            if row.state != LOST:
                continue
            former = self._processes[number]
            if former is not None:
                former.socket.close()
                former.end()
            process = self._processes[number] = _Process()
            row.descriptor = process.socket.fileno()
            row.state = FREE

    def forget(self) -> None:
        """In a forked child: there are no processes, and their sockets are the parent's."""
        self._table.count = 0
        self._lock = threading.Lock()
        for process in filter(None, self._processes):
            process.socket.close()


def _asked(connection: socket.socket, data: bytes, height: int, width: int) -> Pixels:
    connection.sendall(REQUEST.pack(len(data), height, width, 1))
    connection.sendall(data)
    reply = received(connection, REPLY.size)
    (length,) = REPLY.unpack(reply) if reply is not None else (0,)
    rest = received(connection, length or height * width * CHANNELS) if reply is not None else None
    if rest is None:
        raise ConnectionResetError("it has ended")
    if length:
        raise DamagedImage(rest.decode())
    return np.frombuffer(rest, np.uint8).reshape(height, width, CHANNELS)


def _end_all(processes: list[_Process | None], owner: int) -> None:
    """Whoever still waits for one of them sees its socket end."""
    if os.getpid() == owner:
        for process in filter(None, processes):
            process.end()


_living: weakref.WeakSet[Decoders] = weakref.WeakSet()


def _after_fork() -> None:
    for decoders in list(_living):
        decoders.forget()


os.register_at_fork(after_in_child=_after_fork)
