"""Ranks of MPI, through mpi4py.

Assumes that all ranks make their `MpiComm` of the same communicator, which is duplicated, so that messages of others
on it are never mistaken for ours. Guarantees that bytes go out of, and come into, the arrays themselves, and that no
single message of MPI is longer than `PIECE`, which every implementation can count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NoReturn

from mpi4py import MPI

from dfc_runtime.distributed.transport.comm import Arrival, Bytes, Pending
from dfc_runtime.distributed.transport.mpi_errors import in_words
from dfc_runtime.errors import RankError

PIECE = 1 << 30
_SPINS, _YIELDS = 200, 2000
_SHORTEST_SLEEP, _LONGEST_SLEEP = 20e-6, 1e-3


class MpiComm:
    """A rank of MPI. `piece` is the longest message, for tests."""

    def __init__(self, communicator: MPI.Intracomm, *, piece: int = PIECE) -> None:
        self._comm = communicator.Dup()
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._status = MPI.Status()
        self._piece = piece
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        machine = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.neighbours: int = machine.Get_size()
        self.neighbour: int = machine.Get_rank()
        machine.Free()
        self._spins = _SPINS if self.neighbours <= len(os.sched_getaffinity(0)) else 0
        highest = self._comm.Get_attr(MPI.TAG_UB)
        self.highest_tag = highest if isinstance(highest, int) else 32767

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        if buffer.size <= self._piece:
            send = self._comm.Issend if synchronous else self._comm.Isend
            try:
                request = send((buffer, MPI.BYTE), destination, tag)
                return (
                    DONE if request.Test() else _Sent(request, buffer, destination)
                )  # small messages have mostly left
            except MPI.Exception as problem:
                raise _error(problem, destination) from None
        parts = [self.isend(part, destination, tag, synchronous=synchronous) for part in self._pieces(buffer)]
        return _Requests(parts)

    def irecv(self, buffer: Bytes, source: int, tag: int) -> Pending:
        if buffer.size <= self._piece:
            return _Received(self._comm.Irecv((buffer, MPI.BYTE), source, tag), buffer, self._status, source)
        return _Requests([self.irecv(part, source, tag) for part in self._pieces(buffer)])

    def _pieces(self, buffer: Bytes) -> list[Bytes]:
        return [buffer[start : start + self._piece] for start in range(0, buffer.size, self._piece)]

    def arrival(self, source: int | None, tag: int) -> Arrival | None:
        status = self._status  # of one thread, which looks at it at once
        message = self._comm.Improbe(MPI.ANY_SOURCE if source is None else source, tag, status)
        return None if message is None else _Arrived(message, status.Get_source(), status.Get_count(MPI.BYTE), status)

    def seconds(self) -> float:
        return time.monotonic()

    def idle(self, turn: int) -> bool:
        """Spins unless ranks are more than processors, then lets others have the processor, then sleeps."""
        if turn < self._spins:
            return False
        if turn < _YIELDS:
            os.sched_yield()
        else:
            time.sleep(min(_LONGEST_SLEEP, _SHORTEST_SLEEP * (1 + (turn - _YIELDS) // 100)))
        return False

    def abort(self, code: int) -> NoReturn:
        self._comm.Abort(code)
        raise SystemExit(code)

    def close(self) -> None:
        if not MPI.Is_finalized():
            self._comm.Free()


class _Done:
    """A message that needed no waiting."""

    __slots__ = ()

    def test(self) -> bool:
        return True

    def cancel(self) -> None:
        pass


DONE: Pending = _Done()


class _Sent:
    """A message that was sent. `_kept` is its buffer, of which MPI has only the address."""

    __slots__ = ("_kept", "_rank", "_request")

    def __init__(self, request: MPI.Request, kept: Bytes, rank: int) -> None:
        self._request = request
        self._rank = rank
        self._kept: Bytes | None = kept

    def test(self) -> bool:
        if self._kept is None:
            return True
        try:
            done = self._request.Test()
        except MPI.Exception as problem:
            raise _error(problem, self._rank) from None
        if done:
            self._kept = None
        return done

    def cancel(self) -> None:
        pass  # what was sent cannot be taken back


class _Received:
    """A message that is waited for; `_status` is that of the rank, which only one thread uses."""

    __slots__ = ("_kept", "_rank", "_request", "_status")

    def __init__(self, request: MPI.Request, kept: Bytes, status: MPI.Status, rank: int) -> None:
        self._request = request
        self._rank = rank
        self._kept: Bytes | None = kept
        self._status = status

    def test(self) -> bool:
        if self._kept is None:
            return True
        status = self._status
        try:
            if not self._request.Test(status):
                return False
        except MPI.Exception as problem:
            raise _error(problem, self._rank) from None
        expected, self._kept = self._kept.size, None
        received = status.Get_count(MPI.BYTE)
        if received != expected:
            raise RankError(f"a message has {received} bytes instead of {expected}", code="E0911")
        return True

    def cancel(self) -> None:
        if self._kept is not None:
            self._request.Cancel()
            self._request.Wait()
            self._kept = None


def _error(problem: MPI.Exception, rank: int) -> RankError:
    return RankError(in_words(problem.Get_error_string(), rank), code="E0911")


class _Requests:
    def __init__(self, parts: Sequence[Pending]) -> None:
        self._parts = list(parts)

    def test(self) -> bool:
        self._parts = [part for part in self._parts if not part.test()]
        return not self._parts

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()


class _Arrived:
    __slots__ = ("_message", "_status", "size", "source")

    def __init__(self, message: MPI.Message, source: int, size: int, status: MPI.Status) -> None:
        self._message = message
        self._status = status
        self.source = source
        self.size = size

    def receive(self, buffer: Bytes) -> Pending:
        return _Received(self._message.Irecv((buffer, MPI.BYTE)), buffer, self._status, self.source)
