"""Many module texts to objects: in this process, and in as many others as there are processors, where that pays.

LLVM is used by one thread of a process at a time, so others are processes: `python -m dfc_target_cpu.link.worker`,
which import what this process would, and nothing of the folder that it happens to be in.
Assumes texts that depend on nothing else. Guarantees the objects that `compile_object` makes, in the order of the
texts, whoever compiled them; that a process which cannot be started, ends or hangs costs time alone; and that none
stays.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.machine import Machine

Job = tuple[str, int]
"""A module text, and the speed level at which it is compiled."""

WORKER = "dfc_target_cpu.link.worker"
PAYS_FROM = 500_000
"""Characters of text for which another process is started: half a second of LLVM, several times what that takes."""
MOST_PROCESSES = 8
PATIENCE = 120.0
"""Seconds to wait for others, once nothing is left to do here."""
WORD = 8
"""Bytes of a length between processes."""
TOO_LONG = 1 << 32
"""A length that nothing has: something else was written."""


def compile_texts(asked: Sequence[Job], machine: Machine) -> list[bytes]:
    """The object of each text."""
    jobs = _Jobs(asked)
    size = sum(len(text) for text, _ in asked)
    count = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(asked), 1 + size // PAYS_FROM)
    others = [_Other(jobs, machine) for _ in range(count - 1 if _is_interpreter() else 0)]
    for each in others:
        each.start()
    try:
        while (number := jobs.take()) is not None:
            text, speed_level = asked[number]
            jobs.objects[number] = compiler.compile_object(text, machine, speed_level=speed_level)
    except BaseException:
        jobs.drop()
        raise
    finally:
        end = time.monotonic() + PATIENCE
        for each in others:
            each.join(max(0.0, end - time.monotonic()))
            each.stop()
    for number in jobs.objects.keys() ^ set(range(len(asked))):  # what a process left when it ended
        text, speed_level = asked[number]
        jobs.objects[number] = compiler.compile_object(text, machine, speed_level=speed_level)
    return [jobs.objects[number] for number in range(len(asked))]


class _Jobs:
    """Texts that wait, the longest first, so that no process is left alone with one at the end; and what is made."""

    def __init__(self, asked: Sequence[Job]) -> None:
        self.asked = asked
        self.objects: dict[int, bytes] = {}
        self._waiting = sorted(range(len(asked)), key=lambda number: (len(asked[number][0]), -number))
        self._lock = threading.Lock()

    def take(self) -> int | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def drop(self) -> None:
        with self._lock:
            self._waiting.clear()


def _is_interpreter() -> bool:
    """Whether `sys.executable` runs modules: in a program with Python inside it would be that program."""
    name = os.path.basename(sys.executable or "")
    return name.startswith("python") and not getattr(sys, "frozen", False)


class _Other(threading.Thread):
    """Has another process compile, until nothing waits or that process fails."""

    def __init__(self, jobs: _Jobs, machine: Machine) -> None:
        super().__init__(daemon=True)
        self._jobs = jobs
        self._arguments = [machine.name, machine.tuning]
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        with suppress(OSError, EOFError):
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
            )
            assert process.stdin is not None and process.stdout is not None
            with process, process.stdin as asks, process.stdout as answers:
                while (number := self._jobs.take()) is not None:
                    text, speed_level = self._jobs.asked[number]
                    send(asks, str(speed_level).encode())
                    send(asks, text.encode())
                    self._jobs.objects[number] = receive(answers)

    def stop(self) -> None:
        """Ends a process that has not answered; what it was asked is done without it."""
        if self.is_alive():
            if self._process is not None:
                self._process.kill()
            self.join()


def send(stream: IO[bytes], data: bytes) -> None:
    """Bytes behind their length."""
    stream.write(len(data).to_bytes(WORD, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """What `send` wrote. Raises `EOFError` where the stream ends before."""
    head = stream.read(WORD)
    size = int.from_bytes(head, "little")
    data = stream.read(size) if len(head) == WORD and size < TOO_LONG else b""
    if not data or len(data) < size:
        raise EOFError("the other process ended")
    return data
