"""What a launcher prints: the lines of the ranks are passed on, its own account of a death is read and kept back.

Knows the accounts of MPICH (a banner between lines of `=`, with the process and its signal) and of Open MPI (a
paragraph between lines of `-`, with rank and signal). Assumes whole lines. Guarantees that every other line is passed
on as it was, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from dfc_runtime.dataclasses import dataclass

_RULES = (re.compile(rb"={20,}"), re.compile(rb"-{20,}"))
_TAIL = re.compile(
    rb"YOUR APPLICATION TERMINATED WITH THE EXIT STRING.*|This typically refers to a problem with your application\.?"
    rb"|Please see the FAQ page for debugging suggestions"
    rb"|Abort\(\d+\) on node \d+ .*application called MPI_Abort.*"
    rb"|\[[^\]]*\] PMIX ERROR: .*"
)
_OWN = re.compile(
    rb"BAD TERMINATION|MPI_ABORT was invoked|mpirun|prterun|PRTE|Primary job|exited on signal|non-zero status"
    rb"|process rank"
)
_PID = re.compile(rb"=\s+PID (\d+) RUNNING AT")
_RANK = re.compile(rb"process rank (\d+)")
_SIGNAL = re.compile(rb"\(signal (\d+)\)|exited on signal (\d+)|^signal (\d+) \(")


@dataclass(slots=True)
class Account:
    """What the launcher said of a death: the process or the rank that was first, and its signal; -1 is unknown."""

    pid: int = -1
    rank: int = -1
    signal: int = -1

    @property
    def names_somebody(self) -> bool:
        return self.pid >= 0 or self.rank >= 0

    def read(self, line: bytes) -> None:
        """Takes what a line says; the first that is told of counts."""
        for pattern, name in ((_PID, "pid"), (_RANK, "rank"), (_SIGNAL, "signal")):
            match = pattern.search(line)
            if match and getattr(self, name) < 0:
                setattr(self, name, int(next(group for group in match.groups() if group)))


@dataclass(slots=True)
class Filter:
    """One stream. Lines that may begin an account are held until it is clear what they are."""

    account: Account
    pass_on: Callable[[bytes], None]
    _held: list[bytes] = field(default_factory=list[bytes])
    _inside: bytes = b""

    def line(self, line: bytes) -> None:
        text = line.strip(b"\0 \t\r\n")  # Open MPI ends its accounts with a zero
        if not text and b"\0" in line:
            return
        if self._inside:
            self._read_on(line, text)
        elif any(rule.fullmatch(text) for rule in _RULES):
            self._held.append(line)
            self._inside = text[:1]
        elif _TAIL.fullmatch(text):
            self.account.read(text)
            self._held.clear()
        elif not text:
            self._held.append(line)
        else:
            self.flush()
            self.pass_on(line)

    def _read_on(self, line: bytes, text: bytes) -> None:
        self._held.append(line)
        if text.startswith(self._inside * 20):
            inside, self._inside = self._held, b""
            if any(_OWN.search(each) for each in inside):
                for each in inside:
                    self.account.read(each)
                self._held = []
            else:
                self.flush()

    def flush(self) -> None:
        """Passes on what was held."""
        for line in self._held:
            self.pass_on(line)
        self._held.clear()
        self._inside = b""
