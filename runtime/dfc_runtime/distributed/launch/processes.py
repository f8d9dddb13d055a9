"""The processes of a job on this machine: which there are, and ending them.

Assumes Linux (`/proc`). Guarantees that a process counts as long as it is no zombie and carries the mark of the job in
its environment or belongs to its session: launchers move their children about.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
REAPER = "dfc_runtime.distributed.launch.reaper"
"""The module that is the parent of each rank."""
RANK_NAME = "dfc-rank"
"""What a rank calls itself: it is a fork of its parent, with the same command line."""
_PR_SET_NAME = 15
"""Of `prctl.h`."""
LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables of rank and size. Where Slurm gives somebody a shell, or runs a script, there is no step of many tasks."""


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    return _state(pid) not in ("", "Z", "X")


class Ends:
    """Which of some processes of this host end, and in which order: the kernel keeps it, however late one looks."""

    def __init__(self) -> None:
        self._queue = select.epoll()
        self._followed: dict[int, int] = {}
        self._known: set[int] = set()
        self._late: set[int] = set()

    def follow(self, pid: int) -> None:
        """Tells of this process from now on, if the kernel can; once is enough."""
        if pid in self._known:
            return
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # it is gone already, or such things are not allowed here
            return
        self._queue.register(descriptor, select.EPOLLIN)
        self._followed[descriptor] = pid
        self._known.add(pid)
        if _has_ended(descriptor):
            self._late.add(pid)

    def follows(self, pids: Iterable[int]) -> bool:
        """Whether the end of each of these has been told, or will be."""
        return self._known.issuperset(pids)

    def orders(self, pids: Iterable[int]) -> bool:
        """Whether these are told in the order in which they end: what had ended before it was followed is told in the
        order in which following began."""
        ordered = self._known - self._late
        return ordered.issuperset(pids)

    def new(self) -> list[int]:
        """Those that have ended since the last look, the first one first."""
        if not self._followed:
            return []
        ready = [descriptor for descriptor, _ in self._queue.poll(0, len(self._followed))]
        return [self._leave(descriptor) for descriptor in ready]

    def _leave(self, descriptor: int) -> int:
        self._queue.unregister(descriptor)
        os.close(descriptor)
        return self._followed.pop(descriptor)

    def close(self) -> None:
        for descriptor in list(self._followed):
            self._leave(descriptor)
        self._queue.close()


def _has_ended(descriptor: int) -> bool:
    """Whether all threads of a process have: the first of them may be a zombie while others still end."""
    poll = select.poll()  # `select` knows no descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, and not been told to go on."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """The letter of its state; "" if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def ranks_among(pids: Iterable[int]) -> dict[int, int]:
    """The processes among these that are ranks on this host, by their rank; of several with the same the oldest that
    is no parent of one (`reaper`): children have its environment. What this process was itself told says nothing of
    others."""
    names = [name.encode() for name, _ in LAUNCHERS if name not in os.environ]
    ranks: dict[int, int] = {}
    for pid in sorted(pids):
        rank = _rank(PROC / str(pid), names)
        if rank is not None and _is_here(pid) and not _is_reaper(pid):
            ranks.setdefault(rank, pid)
    return ranks


def _rank(entry: Path, names: Iterable[bytes]) -> int | None:
    try:
        lines = (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    environment = {name: text for name, _, text in (line.partition(b"=") for line in lines)}
    numbers = (environment.get(name, b"") for name in names)
    return next((int(text) for text in numbers if text.isdigit() and len(text) < 10), None)


def reaper_of(pid: int) -> int | None:
    """The parent of a rank, if it is the one that a supervisor has given it."""
    try:
        parent = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return parent if _is_reaper(parent) else None


def name_rank() -> None:
    """Names this process, which so far is taken for the parent of a rank, as the rank. Asks the kernel, as in some
    containers nobody may write to `/proc`. To be called in the first thread, whose name is that of the process."""
    import ctypes  # which a rank loads anyway, and its parent does without

    ctypes.CDLL(None).prctl(_PR_SET_NAME, RANK_NAME.encode(), 0, 0, 0)


def _is_reaper(pid: int) -> bool:
    entry = PROC / str(pid)
    try:
        is_either = REAPER.encode() in (entry / "cmdline").read_bytes().split(b"\0")
        return is_either and (entry / "comm").read_text() != f"{RANK_NAME}\n"
    except OSError:
        return False


def _is_here(pid: int) -> bool:
    """Whether a process is of the host that this one is of: containers are hosts of their own."""
    try:
        return all(os.readlink(PROC / str(pid) / "ns" / each) == os.readlink(f"/proc/self/ns/{each}") for each in _HERE)
    except OSError:
        return False


_HERE = ("pid", "uts")


def of_job(session: int, mark: str) -> list[int]:
    """The processes of a session, and those whose environment has the mark `NAME=VALUE`."""
    pids: list[int] = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _belongs(entry, session, mark.encode()):
            pids.append(int(entry.name))
    return pids


def _belongs(entry: Path, session: int, mark: bytes) -> bool:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        if fields[0] in ("Z", "X"):
            return False
        return int(fields[3]) == session or mark in (entry / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError, ValueError):
        return False  # it ended meanwhile, or is another user's


def signal_all(pids: list[int], number: int) -> None:
    """Sends a signal; processes that are gone do not matter."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
