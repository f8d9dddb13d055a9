"""State on disk around a run: restored before it, saved on the way and at its end.

Each checkpoint says how far which run had come (`identity`), so that the same command, given again after a crash, goes
on behind the last saved step, or says that all was done before. Guarantees that a save on the way that fails is a
warning and nothing more; that a run never starts over unnoticed where something was saved; that of two runs in one
folder the older one ends; and that what only reads state writes nothing.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click
import numpy as np

from dfc.cli import identity
from dfc.cli.failures import did_you_mean
from dfc.cli.listeners import Silent
from dfc.cli.running import Feeds, Report, Schedule
from dfc.deferred.dataclasses import dataclass
from dfc_runtime import DfcError, Module
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.format import Progress
from dfc_runtime.distributed.launch import epochs
from dfc_runtime.distributed.launch.record_files import current_epoch, current_job
from dfc_runtime.formats.cluster import CheckpointPolicy
from dfc_runtime.formats.manifest import Entry

if TYPE_CHECKING:
    from dfc_runtime.checkpoints.saving import Saving
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule

LOOK_EVERY_S = 1.0
"""Seconds between two looks for another run that has taken the folder."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where state lies, after how many steps or seconds it is saved, how many checkpoints stay, and which result scores
    them. `start` is where state comes from instead; with `again` a run that is over is made once more. `is_asked` says
    that the command names the folder, and not the deployment file."""

    folder: Path | None = None
    every: int | None = None
    keep: int | None = None
    best: str | None = None
    seconds: float | None = None
    start: Path | None = None
    again: bool = False
    is_asked: bool = True

    @property
    def saves_on_the_way(self) -> bool:
        """Whether state is saved before the end, too."""
        return (self.every, self.seconds) != (None, None)

    def or_else(self, policy: CheckpointPolicy | None) -> Plan:
        """What a deployment file says, where the command says nothing."""
        if policy is None or self.folder is not None:
            return self
        steps, seconds, keep = policy.steps or None, policy.seconds or None, max(policy.keep, store.KEPT)
        return replace(self, folder=Path(policy.folder), every=steps, keep=keep, seconds=seconds, is_asked=False)

    def check(self, entry: Entry) -> None:
        """What was asked for makes sense together."""
        if self.folder is None and (self.every, self.keep, self.best) != (None, None, None):
            raise click.UsageError("--save-every, --keep and --best want a folder: --state DIR")
        if not saves(entry) and (self.every, self.keep, self.best) != (None, None, None):
            raise click.UsageError(f"--save-every, --keep and --best save state, and {entry.name!r} changes none")
        self.check_again()
        scalars = [result.name for result in entry.results if not result.shape]
        if self.best is not None and self.best not in scalars:
            known = ", ".join(scalars) or "none"
            near = did_you_mean(self.best, scalars)
            raise click.UsageError(f"{entry.name!r} has no single number {self.best!r}{near}; it has {known}")

    def check_again(self) -> None:
        """`--again` is about what a folder says."""
        if self.again and self.folder is None:
            raise click.UsageError("--again wants the folder of the run that is over: --state DIR")


def saves(entry: Entry) -> bool:
    """Whether calls of an entry change state that is worth a checkpoint."""
    return not entry.readonly and bool(entry.writes)


def refuse_checkpoint(folder: Path) -> None:
    """`UsageError` where state would be saved inside of a checkpoint."""
    around = store.checkpoint_around(folder)
    if around is not None:
        text = f"{folder} lies in the checkpoint {around}, and would be removed with it: name a folder elsewhere"
        raise click.UsageError(text)
    if not store.is_checkpoint(folder):
        return
    parent = store.folder_of(folder)
    if not folder.exists():
        raise click.UsageError(f"{folder} would be one of the checkpoints in {parent}: name another folder")
    words = f"--from {shlex.quote(str(folder))} --state {shlex.quote(str(parent))}"
    raise click.UsageError(f"{folder} is one checkpoint, and state is saved beside it\n  {words} goes on from it")


class Keeper(Silent):
    """Restores and saves the state of one run. As a listener it hears of every step; as a context it leaves no folder
    behind in which a run that failed has saved nothing."""

    def __init__(
        self, module: Module | ClusterModule, entry: str, plan: Plan, schedule: Schedule, feeds: Feeds, *, saves: bool
    ) -> None:
        # An entry may be called like one of these methods, and would then be found in its place.
        kind = type(module)
        self._save = partial(kind.save, module)
        self._begin = partial(kind.save_async, module)
        self._restored = partial(kind.restore, module)
        self._read_again = partial(kind.read_again, module)
        self._plan = plan
        self._entry = entry
        self._saves = saves and plan.folder is not None
        is_named = self._saves and schedule.repeats
        self._run = identity.fingerprint(module.manifest, entry, schedule, feeds, plan.start) if is_named else ""
        self._epoch: int | None = None
        self._is_new = False
        self._begun: Saving | None = None
        self._warned = False
        self._done: Progress | None = None
        self._seen = 0 if plan.folder is None else epochs.newest(plan.folder)
        self._saved_at = -1
        self._last = self._looked = time.monotonic()

    def _restore(self, folder: Path) -> Path:
        path = self._restored(folder)
        for line in self._read_again():
            click.echo(line, err=True)
        return path

    def restore(self) -> int:
        """Restores what there is, and says how many steps of this very run are done."""
        folder = self._plan.folder
        if not self._saves or folder is None:
            self._read()
            return 0
        refuse_checkpoint(folder)
        self._done = self._over(folder)
        if self._done is not None:
            return _steps(self._done)
        is_empty = not folder.exists() or store.holds_nothing(folder)
        if not is_empty and not store.steps_in(folder):
            store.find(folder)  # says what is there instead
        try:
            self._claim(folder)
            return self._begin_in(folder) if is_empty else self._resume(folder)
        except BaseException:
            self._abandon()
            raise

    def _read(self) -> None:
        """State for what only reads it. A folder that the command names must have some."""
        source, is_asked = self._plan.start or self._plan.folder, self._plan.is_asked or self._plan.start is not None
        if source is None:
            return
        if not is_asked and not store.steps_in(source):
            click.echo(f"nothing was saved in {source} yet: state is initial", err=True)
            return
        self._restore(source)

    def _over(self, folder: Path) -> Progress | None:
        """What the newest checkpoint says, if it is the end of this very run. Nothing is claimed or written for that;
        and as only a look at all of it says whether it is whole, that is taken only then."""
        newest = store.newest_about(folder)
        if newest is None or not self._is_end(newest.progress):
            return None
        progress = store.find(folder).checkpoint.about.progress
        return progress if self._is_end(progress) else None

    def _is_end(self, progress: Progress) -> bool:
        if not self._is_same(progress) or _steps(progress) < _total(progress):
            return False
        return not self._plan.again or _is_ours(progress)

    def _is_same(self, progress: Progress) -> bool:
        """Whether a checkpoint belongs to this very run. One call that was not told to be made so often is a run by
        itself each time, but for the ranks of one job."""
        known = {"steps", "total"} <= progress.keys() and progress.get("entry", self._entry) == self._entry
        return known and progress.get("run", "") == self._run and (_is_ours(progress) or bool(self._run))

    def _claim(self, folder: Path) -> None:
        """From now on other runs in this folder end; and if nothing can be saved in it, this one does."""
        self._is_new = not folder.exists()
        epoch = current_epoch()  # a supervisor has taken it
        self._epoch = epochs.take(folder) if epoch is None else epoch

    def _begin_in(self, folder: Path) -> int:
        start, others = self._plan.start, {*os.listdir(folder)} - {store.EPOCHS}
        if start is not None:
            self._start_from(start)
        elif self._epoch == 1 and not others:
            click.echo(f"{folder} is a new folder: the run starts from initial state", err=True)
        else:
            click.echo(f"nothing was saved in {folder} yet: the run starts", err=True)
        return 0

    def _start_from(self, start: Path) -> None:
        path = self._restore(start)
        click.echo(f"the run starts from {path}{identity.described(format.about(path).progress)}", err=True)

    def _resume(self, folder: Path) -> int:
        """Restores the newest checkpoint, and goes on behind it if it is one of this run; where that begins elsewhere
        by its own words, it begins there."""
        if self._plan.start is not None and not self._is_unfinished(store.find(folder).checkpoint.about.progress):
            self._start_from(self._plan.start)
            return 0
        path = self._restore(folder)
        progress = format.about(path).progress
        if not self._is_unfinished(progress):
            click.echo(f"the run goes on from {path}{identity.described(progress)}", err=True)
            return 0
        click.echo(f"the run goes on behind step {_steps(progress)} of {_total(progress)}", err=True)
        return _steps(progress)

    def _is_unfinished(self, progress: Progress) -> bool:
        return self._is_same(progress) and _steps(progress) < _total(progress)

    @property
    def is_over(self) -> bool:
        """Whether all that the command asks for was done before."""
        return self._done is not None

    @property
    def ending(self) -> identity.Ending:
        """What a run that was done before printed."""
        return identity.ending_of(self._done or {})

    def save_after_all(self) -> None:
        """For calls of which only their end says that there is something to save: if nobody else has saved since."""
        if self._plan.folder is not None:
            refuse_checkpoint(self._plan.folder)
            epochs.check(self._plan.folder, self._seen)
            self._epoch = epochs.take(self._plan.folder)
            self._saves = True

    def __exit__(self, *problem: object) -> None:
        if problem[0] is not None:
            self._abandon()

    def _abandon(self) -> None:
        """A run that failed before it saved anything leaves no folder behind that was not there before."""
        if self._is_new and self._epoch is not None and self._plan.folder is not None:
            epochs.release(self._plan.folder, self._epoch)

    def step(self, report: Report) -> None:
        plan = self._plan
        if plan.folder is None or not self._saves:
            return
        if self._begun is not None and self._begun.done:
            self._collect()
        self._look(plan.folder)
        if report.steps >= report.total_steps or not self._is_time(report):
            return
        self._collect()
        self._begun = self._begin(plan.folder, keep=plan.keep, **self._progress_record(report))
        self._saved_at = report.steps
        self._last = time.monotonic()

    def _look(self, folder: Path) -> None:
        """Ends a run whose folder another one has taken, instead of letting it work in vain."""
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            try:
                epochs.check(folder, self._epoch)
            except epochs.ReplacedError:
                self._collect()  # a save that goes on would be reported once more
                raise

    def _is_time(self, report: Report) -> bool:
        if self._plan.every is not None:
            return report.steps % self._plan.every == 0
        return self._plan.seconds is not None and time.monotonic() - self._last >= self._plan.seconds

    def finish(self, report: Report) -> None:
        """Saves how the run ended."""
        self._collect()
        plan = self._plan
        if plan.folder is not None and self._saves and self._saved_at != report.steps:
            self._save(plan.folder, keep=plan.keep, **self._progress_record(report))

    def _collect(self) -> None:
        """Waits for the save before; the first that fails is reported, and the run goes on while the folder is its."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            begun.result()
        except epochs.ReplacedError:
            raise
        except DfcError as problem:
            self._saved_at = -1
            if not self._warned:
                click.echo(f"warning: {problem.message}; the run goes on", err=True)
            self._warned = True

    def _progress_record(self, report: Report) -> _ProgressRecord:
        """What a checkpoint says of this run."""
        progress = identity.noted(self._run, self._entry, report, current_job())
        return {"best": self._score(report), "progress": progress, "epoch": self._epoch}

    def _score(self, report: Report) -> float | None:
        best = self._plan.best
        return None if best is None or best not in report.last else float(np.asarray(report.last[best]))


class _ProgressRecord(TypedDict):
    best: float | None
    progress: Progress
    epoch: int | None


def _steps(progress: Progress) -> int:
    """How far the run of a checkpoint had come."""
    done = progress.get("steps", 0)
    return done if isinstance(done, int) else 0


def _total(progress: Progress) -> int:
    total = progress.get("total", 0)
    return total if isinstance(total, int) else 0


def _is_ours(progress: Progress) -> bool:
    """Whether another session of this very job saved it."""
    return current_job() != "" and progress.get("job") == current_job()
