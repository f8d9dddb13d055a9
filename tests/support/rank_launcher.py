"""The launcher of ranks in this process: each rank is a fork, which has imported what the tests have.

Stands in for `mpiexec` of MPICH where the start of ranks is not what is tested: an interpreter that imports NumPy and
the runtime is most of what a small job takes. Ranks find each other as below `mpiexec`: MPI asks its launcher over the
descriptor in `PMI_FD`, in the lines of the Process Management Interface 1.1, for its number and for what the other
ranks have put. Assumes Linux, and that this process has not started MPI. Guarantees that all ranks are ended when one
aborts, is killed, or ends without having left MPI that it had joined, as `mpiexec` does.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from dfc_runtime.distributed.launch import reaper, supervisor
from dfc_runtime.distributed.launch.processes import REAPER
from tests.support.forked import forked_command, move_to

MOST_FILES = 4096
"""More than a process of the tests has open."""


@dataclass
class _Rank:
    """A process that the launcher has started, and what it has told."""

    pid: int
    end: socket.socket
    pidfd: int
    unread: bytes = b""
    has_joined: bool = False
    has_left: bool = False
    code: int | None = None

    def say(self, answer: bytes) -> None:
        """What became of a rank that has ended says its exit code, not a broken connection."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.end.sendall(answer)


@dataclass
class _Exchange:
    """What the ranks tell each other through the launcher."""

    name: str
    ranks: list[_Rank]
    values: dict[str, str] = field(default_factory=dict[str, str])
    waiting: int = 0
    aborted: int | None = None

    def hear(self, rank: _Rank) -> bool:
        """Answers what a rank has asked; False if it will ask no more."""
        try:
            data = rank.end.recv(1 << 16)
        except ConnectionResetError:  # it has ended, and an answer to it was left unread
            return False
        *lines, rank.unread = (rank.unread + data).split(b"\n")
        for line in lines:
            words = {key: value for key, _, value in (word.partition("=") for word in line.decode().split())}
            self._answer(rank, words.pop("cmd"), words)
        return bool(data)

    def _answer(self, rank: _Rank, command: str, words: Mapping[str, str]) -> None:
        say = rank.say
        if command == "init":
            rank.has_joined = True
            say(b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
        elif command == "get_maxes":
            say(b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0\n")
        elif command == "get_appnum":
            say(b"cmd=appnum appnum=0 rc=0\n")
        elif command == "get_my_kvsname":
            say(f"cmd=my_kvsname kvsname={self.name} rc=0\n".encode())
        elif command == "get_universe_size":
            say(f"cmd=universe_size size={len(self.ranks)} rc=0\n".encode())
        elif command == "put":
            self.values[words["key"]] = words["value"]
            say(b"cmd=put_result rc=0 msg=success\n")
        elif command == "get":
            value = self.values.get(words["key"])
            answer = f"rc=0 msg=success value={value}" if value is not None else "rc=-1 msg=key_not_found value=unknown"
            say(f"cmd=get_result {answer}\n".encode())
        elif command == "barrier_in":
            self.waiting += 1
            if self.waiting == len(self.ranks):
                self.waiting = 0
                for each in self.ranks:
                    each.say(b"cmd=barrier_out rc=0\n")
        elif command == "finalize":
            rank.has_left = True
        elif command == "abort":
            self.aborted = int(words.get("exitcode", "1"))
        else:
            raise AssertionError(f"MPI asks its launcher for {command!r}, of which this one does not know")


def launch(size: int, work: Callable[[Mapping[str, str]], object], seconds: float | None = None) -> int:
    """Does the work in as many ranks, and gives the exit code of a launcher. `work` gets the variables that a rank has
    in its environment. Ranks that take longer are killed, and that is an error."""
    ranks: list[_Rank] = []
    try:
        for number in range(size):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if not pid:
                for each in ranks:
                    each.end.close()
                ours.close()
                _be_rank(number, size, theirs, work)
            os.setpgid(pid, pid)
            theirs.close()
            ranks.append(_Rank(pid, ours, os.pidfd_open(pid)))
        exchange = _Exchange(uuid4().hex, ranks, {"PMI_process_mapping": f"(vector,(0,1,{size}))"})  # all on one host
        _serve(exchange, seconds)
    finally:
        _end(ranks)
    return exchange.aborted if exchange.aborted is not None else max(rank.code or 0 for rank in ranks)


def _serve(exchange: _Exchange, seconds: float | None) -> None:
    """Until all ranks have ended."""
    end = None if seconds is None else time.monotonic() + seconds
    with selectors.DefaultSelector() as waiting:
        for rank in exchange.ranks:
            waiting.register(rank.end, selectors.EVENT_READ, rank)
            waiting.register(rank.pidfd, selectors.EVENT_READ, rank)
        while waiting.get_map():
            for key, _ in waiting.select(None if end is None else max(end - time.monotonic(), 0)):
                rank = key.data
                if key.fileobj is rank.end:
                    if exchange.hear(rank):
                        continue
                else:
                    rank.code = _code_of(os.waitpid(rank.pid, 0)[1])
                waiting.unregister(key.fileobj)
            if exchange.aborted is not None or any(map(_is_lost, exchange.ranks)):
                _kill(exchange.ranks)
            assert end is None or time.monotonic() < end, f"ranks had not ended after {seconds} seconds"


def _kill(ranks: list[_Rank]) -> None:
    """Ends a rank, and what it has started, its own rank if it is the parent of one: a group of processes."""
    for rank in ranks:
        if rank.code is None:
            os.killpg(rank.pid, signal.SIGKILL)


def _end(ranks: list[_Rank]) -> None:
    """Leaves nothing behind, whatever has ended this launcher."""
    _kill(ranks)
    for rank in ranks:
        if rank.code is None:
            os.waitpid(rank.pid, 0)
        os.close(rank.pidfd)
        rank.end.close()


def _is_lost(rank: _Rank) -> bool:
    """Whether others may wait for it in vain."""
    return rank.code is not None and (rank.code > 128 or (rank.has_joined and not rank.has_left))


def _code_of(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _be_rank(number: int, size: int, end: socket.socket, work: Callable[[Mapping[str, str]], object]) -> None:
    """The rest of this process is a rank."""
    code: object = 1
    try:
        end.set_inheritable(True)
        work({"PMI_FD": str(end.fileno()), "PMI_RANK": str(number), "PMI_SIZE": str(size)})
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(end, code if isinstance(code, int) else 0 if code is None else 1)


def _leave(end: socket.socket, code: int) -> None:
    """Ends this process as `python -m mpi4py` does, without what others had registered before it was forked."""
    sys.stdout.flush()
    sys.stderr.flush()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        if code:
            mpi.COMM_WORLD.Abort(code)
        mpi.Finalize()
        end.sendall(b"cmd=finalize\n")  # which MPICH says only when its library is unloaded
    os._exit(code)


def forked_job(
    *words: object, folder: Path, environment: Mapping[str, str], timeout: float, output: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """As `forked_command`, and the ranks that it starts are forks, too. When it returns, all have ended."""
    if not can_launch():
        return forked_command(*words, folder=folder, environment=environment, timeout=timeout, output=output)
    reading, writing = os.pipe()  # each process of the job holds it open

    def before() -> None:
        ForkedLauncher.mark = writing
        supervisor._start = ForkedLauncher  # type: ignore[assignment]

    try:
        done = forked_command(
            *words, folder=folder, environment=environment, timeout=timeout, before=before, output=output
        )
    finally:
        os.close(writing)
    try:
        assert select.select([reading], [], [], 0)[0], "a process of the job is left"
    finally:
        os.close(reading)
    return done


class ForkedLauncher:
    """In the place of the process of a launcher that a supervisor starts: a fork of the supervisor, and its ranks are
    forks of that below the parents that the supervisor gives them."""

    mark = -1
    """The one file of the supervisor that its ranks have, too."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        _, option, size, _, _, module, *words = command
        assert (option, module) == ("-n", REAPER)
        out, err = os.pipe(), os.pipe()
        self.pid = _fork_without_warning()
        if not self.pid:
            self._be_launcher(int(size), words, environment, (out[1], err[1]))
        os.close(out[1])
        os.close(err[1])
        self.stdout, self.stderr = os.fdopen(out[0], "rb"), os.fdopen(err[0], "rb")
        self._code: int | None = None

    def _be_launcher(
        self, size: int, words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int]
    ) -> NoReturn:
        code = 1

        def rank(variables: Mapping[str, str]) -> None:
            os.environ.update(variables)
            reaper.main(words)

        try:
            os.setsid()
            move_to(Path.cwd(), environment, streams)
            os.closerange(3, self.mark)
            os.closerange(self.mark + 1, MOST_FILES)
            sys.modules.pop("dfc.__main__", None)  # which ranks run anew
            code = launch(size, rank)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code; None as long as it runs."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int:
        code = self._ask(0)
        assert code is not None
        return code

    def _ask(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _fork_without_warning() -> int:
    """Of a supervisor, which has threads: Python warns of that from 3.12 on, and the command would print it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def can_launch() -> bool:
    """Whether the MPI of this Python is MPICH, whose ranks ask in these lines."""
    return Path(sys.executable).with_name("hydra_pmi_proxy").exists()
