"""Many module texts to objects: in this process, and in as many others as there are processors, where that pays.

LLVM is used by one thread of a process at a time, so others are processes: `python -m dfc_target_cpu.link.worker`.
Assumes texts that depend on nothing else. Guarantees the objects that `compile_object` makes, in the order of the
texts, whoever compiled them; that a process which cannot be started, or ends, costs time alone; and that none stays.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.machine import Machine

WORKER = "dfc_target_cpu.link.worker"
PAYS_FROM = 500_000
"""Characters of text for which another process is started: half a second of LLVM, several times what that takes."""
MOST_PROCESSES = 8
WORD = 8
"""Bytes of a length between processes."""
TOO_LONG = 1 << 32
"""A length that nothing has: something else was written."""


def compile_texts(texts: Sequence[str], machine: Machine, speed_level: int) -> list[bytes]:
    """The object of each text."""
    jobs = _Jobs(texts)
    count = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(texts), 1 + sum(map(len, texts)) // PAYS_FROM)
    others = [threading.Thread(target=_ask, args=(jobs, machine, speed_level)) for _ in range(count - 1)]
    for each in others:
        each.start()
    try:
        while (number := jobs.take()) is not None:
            jobs.objects[number] = compiler.compile_object(texts[number], machine, speed_level=speed_level)
    except BaseException:
        jobs.drop()
        raise
    finally:
        for each in others:
            each.join()
    for number in jobs.objects.keys() ^ set(range(len(texts))):  # what a process left when it ended
        jobs.objects[number] = compiler.compile_object(texts[number], machine, speed_level=speed_level)
    return [jobs.objects[number] for number in range(len(texts))]


class _Jobs:
    """Texts that wait, the longest first, so that no process is left alone with one at the end; and what is made."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.objects: dict[int, bytes] = {}
        self._waiting = sorted(range(len(texts)), key=lambda number: (len(texts[number]), -number))
        self._lock = threading.Lock()

    def take(self) -> int | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def drop(self) -> None:
        with self._lock:
            self._waiting.clear()


def _ask(jobs: _Jobs, machine: Machine, speed_level: int) -> None:
    """Has another process compile, until nothing waits or that process fails."""
    with suppress(OSError, EOFError):
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, machine.name, machine.tuning, str(speed_level)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
        )
        assert process.stdin is not None and process.stdout is not None
        with process, process.stdin as asks, process.stdout as answers:
            while (number := jobs.take()) is not None:
                send(asks, jobs.texts[number].encode())
                jobs.objects[number] = receive(answers)


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
