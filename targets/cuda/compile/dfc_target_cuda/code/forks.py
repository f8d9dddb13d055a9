"""Jobs in forks of this process, as many at once as asked for: each fork begins with what this process knows, does one
job after the other, and leaves nothing behind here.

A fork costs some ten milliseconds, mostly for pages of memory that both write; so there are as few as run at once.
Assumes a process of one thread, and jobs whose results do not depend on those that their fork did before. Guarantees
results in the order of the jobs, and that what a job raises, or its death, ends in `CodeGenerationError` here, of the
first such job in order, after all have ended.
"""

from __future__ import annotations

import os
import selectors
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.errors import CodeGenerationError

Job = Callable[[], bytes]

_DONE, _REFUSED, _BROKEN = b"+", b"-", b"!"
_WORD = 8
"""Bytes of a number between processes: of a job, or of the bytes that follow."""
_NO_JOB = (1 << 64) - 1


@dataclass(slots=True)
class _Fork:
    process: int
    jobs: int
    """Where it reads numbers of jobs from."""
    results: int
    """Where it writes results to, each behind its length."""
    job: int
    received: bytearray = field(default_factory=bytearray)


def run_forked(jobs: Sequence[Job], at_once: int, order: Sequence[int] | None = None) -> list[bytes]:
    """What each job gives. `order`: in which they begin."""
    results: list[bytes] = [b""] * len(jobs)
    waiting = list(range(len(jobs)) if order is None else order)[::-1]
    with selectors.DefaultSelector() as running:
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < at_once:
                fork = _begin(jobs, waiting.pop())
                running.register(fork.results, selectors.EVENT_READ, fork)
            for event, _ in running.select():
                fork = event.data
                data = os.read(fork.results, 1 << 20)
                fork.received += data
                if not data:
                    running.unregister(fork.results)
                    failure = _end(fork)
                    if fork.job != _NO_JOB:
                        results[fork.job] = failure
                elif (result := _whole(fork)) is not None:
                    results[fork.job] = result
                    _give(fork, waiting.pop() if waiting else _NO_JOB)
    for result in results:
        if not result.startswith(_DONE):
            raise CodeGenerationError(result[1:].decode(errors="replace"))
    return [result[1:] for result in results]


def _begin(jobs: Sequence[Job], first: int) -> _Fork:
    (asked, asking), (results, answering) = os.pipe(), os.pipe()
    with warnings.catch_warnings():  # from Python 3.12 on, of threads of libraries, which do no work for a job
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        os.close(asked)
        os.close(answering)
        fork = _Fork(process, asking, results, first)
        _give(fork, first)
        return fork
    try:
        os.close(asking)
        os.close(results)
        with os.fdopen(asked, "rb", buffering=0) as source, os.fdopen(answering, "wb") as target:
            while (number := int.from_bytes(source.read(_WORD), "little")) != _NO_JOB:
                result = _result(jobs[number])
                target.write(len(result).to_bytes(_WORD, "little") + result)
                target.flush()
    finally:
        os._exit(0)  # without what this process would do at its end


def _give(fork: _Fork, job: int) -> None:
    fork.job = job
    try:
        os.write(fork.jobs, job.to_bytes(_WORD, "little"))
    except BrokenPipeError:
        pass  # it died between two jobs, which is seen where its results end


def _whole(fork: _Fork) -> bytes | None:
    """The result that it sent, once all of it is here."""
    size = _WORD + int.from_bytes(fork.received[:_WORD], "little")
    if len(fork.received) < _WORD or len(fork.received) < size:
        return None
    result = bytes(fork.received[_WORD:size])
    del fork.received[:size]
    return result


def _result(job: Job) -> bytes:
    try:
        return _DONE + job()
    except CodeGenerationError as error:
        return _REFUSED + str(error).encode()
    except BaseException:
        return _BROKEN + traceback.format_exc().encode()


def _end(fork: _Fork) -> bytes:
    """What to say of the job that it was at, if it was at one."""
    os.close(fork.jobs)
    os.close(fork.results)
    _, status = os.waitpid(fork.process, 0)
    return _BROKEN + f"a process of the compiler ended with {os.waitstatus_to_exitcode(status)}".encode()
