"""What the ranks of a job report to their supervisor: beats, and how they ended; small files in the folder of the job.

A rank learns from its environment that there is a supervisor. It writes every half second that it is alive, what it is
doing and how far it has come; and at its end a record of completion, or of what went wrong. Records are replaced as a
whole, so that a reader sees one or none. Ranks on hosts that do not share the folder send their records (`post`).
Guarantees that what is damaged counts as not written, and that ranks whose supervisor was killed end by themselves.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.launch.post import Line
from dfc_runtime.distributed.launch.record_files import ALIVE, JOB_VARIABLE, current_epoch, host, put
from dfc_runtime.errors import DfcError
from dfc_runtime.formats import fields, strict_json

EVERY = 0.5
ALONE_AT_MOST = 10.0
"""Seconds that ranks without a supervisor have to finish a step and save."""
_ALONE = 75
_INTERNAL = 1
_WELL = (0, 130, 143)
"""Exit codes of a rank that did what it was asked to: also to stop."""
_NUMBERS = ("rank", "pid", "number", "step", "code", "signal", "origin", "time")
_LONGEST = 2000
_LONGEST_REPORT = 40_000
"""Bytes of a report as JSON: with the rest of its record it is less than a line of `post` may be."""
STOPS = (signal.SIGINT, signal.SIGTERM)
"""What asks a job to stop."""
_MOST_NAMED = 8
_LATE = 4 * EVERY
"""Seconds without a beat after which a rank no longer counts as one that computes."""

Doing = Callable[[], tuple[int, str]]
"""The step a rank is in, and what it is doing in words that follow `where`."""


@dataclass(frozen=True, slots=True)
class Record:
    """One file of one rank. `kind` is beat, done or failed; or ended, by the parent of the rank, which says with which
    `code` or by which `signal`; in others that is the first that has asked this rank to stop, or 0, which rank `origin`
    got (-1: this one). `pid` is a process of `host`; `report` is for the user, as it is; `time` is when it was written,
    or has come here, in nanoseconds."""

    kind: str
    rank: int
    pid: int
    number: int = 0
    step: int = 0
    code: int = 0
    text: str = ""
    host: str = ""
    signal: int = 0
    origin: int = -1
    report: str = ""
    time: int = 0


def without_foreign_folders() -> None:
    """The supervisor's folder for temporary files is only on its own host, and on those that share it."""
    if current_epoch() is not None and not Path(os.environ.get("TMPDIR", "/")).is_dir():
        del os.environ["TMPDIR"]


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether a rank can be watched, and the name of its host."""

    node: str
    is_seen: bool

    @classmethod
    def of(cls, link: SupervisorLink) -> Seen:
        return cls(os.uname().nodename, link.is_heard)


def unseen(ranks: Sequence[Seen]) -> str:
    """What is to be told of ranks, in their order, that the supervisor cannot watch; "" if it can watch all of them."""
    blind = [rank for rank, each in enumerate(ranks) if not each.is_seen]
    if not blind:
        return ""
    shown = ", ".join(map(str, blind[:_MOST_NAMED])) + (", ..." if len(blind) > _MOST_NAMED else "")
    nodes = ", ".join(dict.fromkeys(ranks[rank].node for rank in blind[:_MOST_NAMED]))
    text = f"rank{'s' if len(blind) > 1 else ''} {shown} on {nodes} cannot be watched: there is no folder"
    text += f" {os.environ.get(JOB_VARIABLE, '')} there, and no way to the supervisor"
    return f"{text}\n  set TMPDIR to a folder that all hosts share, or let them reach the host that `dfc run` is on"


class SupervisorLink:
    """Tells the supervisor of this process, as long as the block runs; does nothing without one. `is_heard` says
    whether there is a way to it; `signal` is the first that has asked this rank to stop, which the next record tells;
    `has_stepped` whether a step was made, and `is_interrupted` whether a signal has ended the rank before that.
    A supervisor starts its ranks with such signals held back: `accept_signals`."""

    def __init__(self, rank: int, doing: Doing | None = None) -> None:
        epoch = current_epoch()
        self._epoch = epoch or 0
        self._folder = Path(os.environ[JOB_VARIABLE]) if epoch is not None else None
        is_here = self._folder is None or (self._folder / ALIVE).exists()
        self._line = None if is_here else Line.to_supervisor()
        self._watch = self._line or (_Watch(self._folder) if self._folder is not None else None)
        self.is_heard = is_here or self._line is not None
        self._rank = rank
        self._number = 0
        self.signal = 0
        self.origin = rank
        self.has_stepped = False
        self.is_interrupted = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="dfc-beats", daemon=True)
        self.doing: Doing = doing or (lambda: (0, ""))

    def __enter__(self) -> SupervisorLink:
        if self._folder is not None:
            self._beat()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._folder is None:
            return
        code = _exit_code(problem)
        self.end(0 if code is None else code, "" if code is None else _words(problem))

    def on_stop(self, number: int) -> bool:
        """This rank was asked to stop by a signal; the first one counts. Whether it is left to this process what more
        of them mean: a supervisor hears of the first, and sees to it that the job stops."""
        self.signal = self.signal or number
        return self._folder is None

    def end(self, code: int, text: str = "", report: str = "") -> bool:
        """The last record of a rank: that it is done, or with which code it ends; later calls change nothing. Without
        a text the user has been told already, or is told the report: True if the supervisor has got it."""
        if self._folder is None or self._over.is_set():
            return False
        self._over.set()
        self._thread.join()
        if code in _WELL:
            return self._write("done", code=code)
        fits = len(json.dumps(report)) <= _LONGEST_REPORT
        return self._write("failed", code=code, text=text, report=report if fits else "") and fits

    def _beat_on(self) -> None:
        while not self._over.wait(EVERY):
            self._beat()
            if self._folder is not None and self._watch is not None and self._watch.is_over:
                self._leave(self._folder)
                return

    def _leave(self, folder: Path) -> None:
        """The supervisor was killed. Rank 0 is told to stop, which saves its state; the others end with it, and whoever
        has not ended after a while does so now. The launcher sees to the rest."""
        if self._rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)  # as the supervisor would have done
        if not self._over.wait(ALONE_AT_MOST):
            os._exit(_ALONE)

    def _beat(self) -> None:
        self._number += 1
        step, text = self.doing()
        self._write("beat", step=step, text=text)

    def _write(self, kind: str, **fields: int | str) -> bool:
        """Whether it was passed on."""
        if self._folder is None:
            return False
        about = {"rank": self._rank, "host": host(), "pid": os.getpid(), "number": self._number}
        data = {**about, "signal": self.signal, "origin": self.origin, **fields}
        if self._line is not None:
            self._line.send(self._epoch, self._rank, kind, data)
            return not self._line.is_over
        try:
            put(self._folder, self._epoch, self._rank, kind, data)
        except OSError:
            return False  # a supervisor that is gone has removed the folder
        return True


def heard(rank: int) -> str:
    """What a rank of this job has told last of what it is doing, and whether it still tells: it does so while it
    computes, but not when it is stopped or gone. "" without a supervisor, or from another machine."""
    epoch = current_epoch()
    if epoch is None:
        return ""
    try:
        text = (Path(os.environ[JOB_VARIABLE]) / f"{epoch}-{rank}.beat").read_text(encoding="utf-8")
        data = fields.mapping(strict_json.parse(text), "a record")
        age = (time.monotonic_ns() - _whole(data["time"])) * 1e-9
    except (OSError, ValueError, KeyError):
        return ""
    message = str(data.get("text", ""))
    if age > _LATE:
        return f"it is stopped or gone, and was last heard {age:.1f} s ago" + (f", when {message}" if message else "")
    return message or "it lives, and does not compute: it may be out of reach"


def _exit_code(problem: BaseException | None) -> int | None:
    """The exit code of what ended a rank; None if it ended well. A stop by a signal is an end, and no failure."""
    if problem is None:
        return None
    if isinstance(problem, SystemExit):
        return None if problem.code in (None, *_WELL) else problem.code if isinstance(problem.code, int) else 1
    return problem.exit_code if isinstance(problem, DfcError) else _INTERNAL


def _words(problem: BaseException | None) -> str:
    text = problem.message if isinstance(problem, DfcError) else f"{type(problem).__name__}: {problem}"
    return text[:_LONGEST]


@contextmanager
def held_back() -> Generator[None]:
    """What is started in this block gets signals that ask it to stop only when it accepts them; a launcher never, which
    would end its ranks in the middle of a step."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def accept_signals() -> None:
    """From here on this process gets signals that ask it to stop, also those that came before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def watch_over(folder: Path) -> IO[bytes]:
    """Says that the supervisor lives, as long as the file that is returned stays open: it is locked, and the system
    unlocks it however this process ends."""
    file = (folder / ALIVE).open("wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


class _Watch:
    """Whether the supervisor still watches over its folder."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: BinaryIO | None = (folder / ALIVE).open("rb")
        except OSError:
            self._file = None  # its folder is on another machine, or its ranks are watched in another way

    @property
    def is_over(self) -> bool:
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def read_records(folder: Path, epoch: int) -> list[Record]:
    """Every record of an epoch, those of an end first."""
    records: list[Record] = []
    for kind in ("done", "failed", "ended", "beat"):
        for path in sorted(folder.glob(f"{epoch}-*.{kind}")):
            record = _read(path, kind)
            if record is not None:
                records.append(record)
    return records


def _read(path: Path, kind: str) -> Record | None:
    try:
        data = fields.mapping(strict_json.parse(path.read_text(encoding="utf-8")), "a record")
        numbers = {key: _whole(data.get(key, 0)) for key in _NUMBERS}
        texts = {key: str(data.get(key, "")) for key in ("text", "host", "report")}
        return Record(kind, **numbers, **texts)  # type: ignore[arg-type]
    except (OSError, ValueError):
        return None


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("not a number")
    return value
