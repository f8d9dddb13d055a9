"""The processes of a job on this machine: which there are, and ending them.

Assumes Linux (`/proc`). Guarantees that a process counts as long as it is no zombie and carries the mark of the job in
its environment or belongs to its session: launchers move their children about.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def of_job(session: int, mark: str) -> list[int]:
    """The processes of a session, and those whose environment has the mark `NAME=VALUE`."""
    found: list[int] = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _belongs(entry, session, mark.encode()):
            found.append(int(entry.name))
    return found


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
