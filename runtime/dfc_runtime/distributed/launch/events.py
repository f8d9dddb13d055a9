"""What a coordinator hears of ranks, launcher and user, and what it wants to be done; times are those of one clock."""

from __future__ import annotations

from dfc_runtime.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """A session runs. `epoch` is higher than any before."""

    time: float
    epoch: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A rank is alive; `step` and `doing` are for messages. `signal` is the first that has asked it to stop, or 0, and
    `origin` the rank that got this signal, if not the same."""

    time: float
    epoch: int
    rank: int
    step: int
    doing: str
    signal: int = 0
    origin: int = -1


@dataclass(frozen=True, slots=True)
class Completed:
    """A rank has left its record of completion; `signal` and `origin` as above."""

    time: float
    epoch: int
    rank: int
    signal: int = 0
    origin: int = -1


@dataclass(frozen=True, slots=True)
class Failed:
    """A rank has reported what went wrong, and with which exit code it ends: in a message, or in a whole `report` for
    the user; neither: the user knows already."""

    time: float
    epoch: int
    rank: int
    code: int
    message: str
    report: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """The process of a rank is no more; `how` in words, if that is known."""

    time: float
    epoch: int
    rank: int
    how: str


@dataclass(frozen=True, slots=True)
class LauncherEnded:
    """The process that started the ranks is over."""

    time: float
    epoch: int
    code: int


@dataclass(frozen=True, slots=True)
class LauncherStopped:
    """The process that started the ranks was stopped by a signal, or goes on."""

    time: float
    epoch: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class Empty:
    """No process of the session is left."""

    time: float
    epoch: int


@dataclass(frozen=True, slots=True)
class Clock:
    time: float


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Somebody wants the job to stop."""

    time: float
    number: int


Event = Started | Beat | Completed | Failed | Gone | LauncherEnded | LauncherStopped | Empty | Clock | Interrupted


@dataclass(frozen=True, slots=True)
class Launch:
    """Take an epoch and start a session of this many ranks."""

    ranks: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a signal to all processes of the session."""

    number: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a rank says itself, as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Over:
    """The job is over."""

    code: int


Effect = Launch | Send | LogLine | Report | Over
