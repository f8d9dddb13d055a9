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
from dfc_runtime.records.images.decoder_table import FREE, GREETING, LOST, REPLY, REQUEST, Decoder, DecoderTable
from dfc_runtime.records.images.decoding import CHANNELS, DamagedImage, Pixels, decode
from dfc_runtime.records.images.worker import received

VARIABLE = "DFC_DECODERS"
MOST = 1024
WORKER = ("-P", "-m", "dfc_runtime.records.images.worker")
"""What the interpreter of a process runs, whatever is in the working folder; the number of its socket follows."""
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
        try:
            self.socket, theirs = socket.socketpair()
        except OSError as problem:
            raise _no_process(str(problem)) from None
        limit = struct.pack("@ll", PATIENCE, 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, limit)
        path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable or "", *WORKER, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": path},
                )
        except OSError as problem:
            self.socket.close()
            raise _no_process(str(problem)) from None

    def is_ready(self) -> bool:
        """Whether it can decode, when that is known."""
        try:
            return received(self.socket, len(GREETING)) is not None
        except OSError:
            return False

    def end(self, patience: float = 0) -> int:
        """Ends it; how it ended by itself within so many seconds, else 0."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 0


def _how(code: int) -> str:
    """How a process has ended, by what is known of that."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def _no_process(reason: str) -> LimitError:
    text = f"there is no process to decode images in: {reason}"
    return LimitError(f"{text}\n  set {VARIABLE} to a smaller number, or to 0", code="E0905")


def _ready(process: _Process) -> _Process:
    """It or, where it has ended already, as by an interrupt that a terminal sends to all, another one."""
    if process.is_ready():
        return process
    process.socket.close()
    process.end()
    second = _Process()
    if second.is_ready():
        return second
    second.socket.close()
    code = second.end(patience=1)
    raise _no_process(f"two were started, and none can decode ({_how(code) if code else 'no answer'})")


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
        self._is_closed = False
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
        """As `images.decode`, by a process; by this one in a forked child, which has none, and behind `close`."""
        if os.getpid() != self._owner:
            return decode(data, height, width)
        reasons: list[str] = []
        with self._lock:
            while len(reasons) < 2:  # the first one may have been ended for another reason
                if self._is_closed:
                    return decode(data, height, width)
                self._mend()
                try:
                    return self._by_the_last(data, height, width)
                except BlockingIOError:
                    self._end_the_last()
                    reasons.append(f"no answer in {PATIENCE} s")
                except OSError as problem:
                    code = self._end_the_last(patience=1)
                    reasons.append(_how(code) if code else str(problem))
        raise DamagedImage(f"it ended two processes that were to decode it ({reasons[-1]})")

    def _by_the_last(self, data: bytes, height: int, width: int) -> Pixels:
        """By the process of the run side. It is ended where a signal raises something in the middle of this: what it
        answers would be taken for the answer to the next request."""
        process = self._processes[-1]
        assert process is not None, "it was started"
        try:
            return _asked(process.socket, data, height, width)
        except (OSError, DamagedImage):
            raise
        except BaseException:
            self._end_the_last()
            raise

    def _end_the_last(self, patience: float = 0) -> int:
        process, self._processes[-1] = self._processes[-1], None
        assert process is not None, "it was started"
        process.socket.close()
        return process.end(patience)

    def close(self) -> None:
        """Ends all processes, also those that are waited for by a runner which does not end."""
        self._is_closed = True
        _end_all(self._processes, self._owner)
        with self._lock:
            _end_all(self._processes, self._owner)
            for number, process in enumerate(self._processes):
                if process is None or (number < len(self._rows) and not self._is_lost(number)):
                    continue
                process.socket.close()
                self._processes[number] = None

    def _is_lost(self, number: int) -> bool:
        """Whether no code has it any more; while some has, the number of its socket must not become another file's."""
        row = self._rows[number]
        if row.state == FREE:
            row.state = LOST
        return row.state == LOST

    def _mend(self) -> None:
        """Starts those that are not there, or are lost, side by side."""
        missing = [number for number, row in enumerate(self._rows) if row.state == LOST]
        missing += [len(self._rows)] * (self._processes[-1] is None)
        for former in (self._processes[number] for number in missing):
            if former is not None:
                former.socket.close()
                former.end()
        started: list[_Process] = []
        try:
            started += (_Process() for _ in missing)
            for number in missing:
                process = self._processes[number] = _ready(started.pop(0))
                if number < len(self._rows):
                    self._rows[number].descriptor = process.socket.fileno()
                    self._rows[number].state = FREE
        finally:  # of an interrupt, or of a limit of processes
            for process in started:
                process.socket.close()
                process.end()

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
