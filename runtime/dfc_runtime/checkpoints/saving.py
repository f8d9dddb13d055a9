"""State into a folder of checkpoints: at once, or from a snapshot while the program goes on.

Assumes that the caller holds the module's gate while state is looked at. Guarantees that a checkpoint holds the state
as it was at the call, that checkpoints are numbered in the order of the calls, and that a save which failed unseen is
reported by the next one.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import nullcontext
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.checkpoints.format import About, Ends, Progress, Saved
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.launch import epochs
from dfc_runtime.errors import FeedError, LimitError
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.runners.pipeline_state import PipelineState  # programs without queues need nothing of it


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """How a checkpoint is to be saved. `best` is its score, the lower the better; the best of a folder stays. Without
    `keep` as many stay as were said before. With an `epoch` it is saved only while no newer one was taken."""

    folder: Path
    step: int | None = None
    keep: int | None = None
    best: float | None = None
    progress: Progress = field(default_factory=dict[str, "int | str"])
    epoch: int | None = None


def save_request(
    path: Path,
    step: object,
    keep: object,
    best: object,
    progress: Progress | None = None,
    epoch: int | None = None,
) -> SaveRequest:
    """What a caller asks for, checked. A score that is no number, as of a run that went astray, is none."""
    if step is not None and (not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 10**18):
        raise FeedError("step wants a whole number from 0 on", code="E0901")
    if keep is not None and not isinstance(keep, int):
        raise FeedError(f"keep wants a number of checkpoints, at least {store.KEPT}", code="E0901")
    score: float | None = None
    if best is not None:
        try:
            score = float(best)  # type: ignore[arg-type]  # whatever Python takes for a number
        except (TypeError, ValueError):
            raise FeedError(
                "best wants a number: the score of the checkpoint, the lower the better", code="E0901"
            ) from None
    score = score if score is not None and math.isfinite(score) else None
    return SaveRequest(path, step, keep, score, progress or {}, epoch)


class Saving:
    """A save that goes on by itself: `work` writes it and says where, when the one before is done. The process does not
    end before it is done, unless that is left to whoever has it (`daemon`)."""

    def __init__(self, work: Callable[[], Path], before: Saving | None = None, *, daemon: bool = False) -> None:
        self._seen = False
        self._path: Path | None = None
        self._problem: Exception | None = None
        self._before = before
        self._work: Callable[[], Path] | None = work
        self._thread = threading.Thread(target=self._run, name="dfc-save", daemon=daemon)
        self._thread.start()

    def _run(self) -> None:
        if self._before is not None:
            self._before.wait()
        work, self._before, self._work = self._work, None, None  # the copy of the state goes with them
        assert work is not None
        try:
            self._path = work()
        except Exception as problem:  # reported by `result`, or by the next save
            self._problem = problem

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is done; whether it is."""
        self._thread.join(timeout)
        return self.done

    def result(self, timeout: float | None = None) -> Path:
        """Where the checkpoint lies. Raises what went wrong, or `TimeoutError`."""
        if not self.wait(timeout):
            raise TimeoutError("the checkpoint is still being saved")
        self._seen = True
        if self._problem is not None:
            raise self._problem
        assert self._path is not None
        return self._path

    def warn_if_failed(self) -> None:
        """Warns of a failure that nobody has asked for."""
        if self.done and self._problem is not None and not self._seen:
            self._seen = True
            warnings.warn(f"a checkpoint was not saved: {self._problem}", stacklevel=4)


class Saver:
    """Saves the state of one module."""

    def __init__(self, state: State, program: str) -> None:
        self._state = state
        self._program = program
        self._last: Saving | None = None
        self.pipeline: PipelineState | None = None
        """The queues of the program, where it has some."""

    def save(self, names: Iterable[str], asked: SaveRequest) -> Path:
        """Saves these names; the caller holds the gate."""
        self.wait()
        return publish(self._program, *self._saved(names, copied=False), asked)

    def begin(self, names: Iterable[str], asked: SaveRequest) -> Saving:
        """Copies these names and saves the copies; the caller holds the gate meanwhile, and not longer."""
        if self._last is not None:
            self._last.warn_if_failed()
        try:
            state, ends = self._saved(names, copied=True)
        except MemoryError:
            raise LimitError("there is no memory for a copy of the state: use save", code="E0905") from None
        self._last = Saving(partial(publish, self._program, state, ends, asked), self._last)
        return self._last

    def wait(self) -> None:
        """Waits for what was begun."""
        if self._last is not None:
            self._last.wait()
            self._last.warn_if_failed()
            self._last = None

    def _saved(self, names: Iterable[str], *, copied: bool) -> tuple[list[Saved], Ends]:
        """These names, and with all that a program saves its queues; what runners write is copied in any case, as they
        go on."""
        names, pipeline = sorted(names), self.pipeline
        if pipeline is None:
            return self._current(names, set(names) if copied else set()), Ends()
        copies = set(names) if copied else pipeline.written
        is_whole = {each.name for each in self._state.entries.values() if each.saved} <= set(names)
        with pipeline.held() if is_whole else nullcontext(), self._state.background:
            queues, ends = pipeline.saved() if is_whole else ([], Ends())
            return [*self._current(names, copies), *queues], ends

    def _current(self, names: Sequence[str], copies: Set[str]) -> list[Saved]:
        entries, arrays = self._state.entries, self._state.current(names)
        return [
            Saved(name, entries[name].dtype, entries[name].shape, array.copy() if name in copies else array)
            for name, array in arrays.items()
        ]


def publish(program: str, state: Sequence[Saved], ends: Ends, asked: SaveRequest) -> Path:
    about = About(asked.step or 0, program, asked.best, asked.progress, ends=ends)
    write = store.own_file(state)

    def contents(disk: Disk, folder: Path, about: About) -> str:
        text = write(disk, folder, about)
        epochs.check(asked.folder, asked.epoch)
        return text

    return store.publish(asked.folder, about, contents, numbered=asked.step is not None, keep=asked.keep)
