"""Jobs in forks of this process, as many at once as asked for: each begins with what this process knows, and leaves
nothing behind in it.

Assumes a process of one thread. Guarantees results in the order of the jobs, and that what a job raises, or its death,
ends in `CodeGenerationError` here, of the first such job in order, after all have ended.
"""

from __future__ import annotations

import os
import selectors
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dfc.kernels.errors import CodeGenerationError

Job = Callable[[], bytes]

_DONE, _REFUSED, _BROKEN = b"+", b"-", b"!"


@dataclass(slots=True)
class _Fork:
    number: int
    process: int
    pipe: int
    told: bytearray = field(default_factory=bytearray)


def run_forked(jobs: Sequence[Job], at_once: int, order: Sequence[int] | None = None) -> list[bytes]:
    """What each job gives. `order`: in which they begin."""
    results: list[bytes] = [b""] * len(jobs)
    waiting = list(range(len(jobs)) if order is None else order)[::-1]
    with selectors.DefaultSelector() as running:
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < at_once:
                fork = _begin(jobs, waiting.pop())
                running.register(fork.pipe, selectors.EVENT_READ, fork)
            for event, _ in running.select():
                fork = event.data
                data = os.read(fork.pipe, 1 << 20)
                fork.told += data
                if not data:
                    running.unregister(fork.pipe)
                    results[fork.number] = _end(fork)
    for result in results:
        if not result.startswith(_DONE):
            raise CodeGenerationError(result[1:].decode(errors="replace"))
    return [result[1:] for result in results]


def _begin(jobs: Sequence[Job], number: int) -> _Fork:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return _Fork(number, process, reading)
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(_result(jobs[number]))
    finally:
        os._exit(0)  # without what this process would do at its end


def _result(job: Job) -> bytes:
    try:
        return _DONE + job()
    except CodeGenerationError as error:
        return _REFUSED + str(error).encode()
    except BaseException:
        return _BROKEN + traceback.format_exc().encode()


def _end(fork: _Fork) -> bytes:
    os.close(fork.pipe)
    _, status = os.waitpid(fork.process, 0)
    if os.WIFSIGNALED(status) or not fork.told:
        return _BROKEN + f"a process of the compiler ended with {os.waitstatus_to_exitcode(status)}".encode()
    return bytes(fork.told)
