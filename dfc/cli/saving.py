"""State on disk around a run: restored before it, saved on the way and at its end.

Each checkpoint says how far which run had come, so that the same command, given again after a crash, goes on behind the
last saved step. Assumes one command at a time per folder. Guarantees that a save on the way that fails is a warning and
nothing more, and that a run never starts over unnoticed where something was saved.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from dfc.cli.failures import did_you_mean
from dfc.cli.listeners import Silent
from dfc.cli.running import Feeds, Report, Schedule
from dfc_runtime import DfcError, Module
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.saving import Saving
from dfc_runtime.formats.manifest import Entry


@dataclass(frozen=True, slots=True)
class Plan:
    """Where state lies, after how many steps it is saved, how many checkpoints stay, and which result scores them."""

    folder: Path | None = None
    every: int | None = None
    keep: int = store.KEPT
    best: str | None = None

    def check(self, entry: Entry) -> None:
        """What was asked for makes sense together."""
        if self.folder is None and (self.every, self.keep, self.best) != (None, store.KEPT, None):
            raise click.UsageError("--save-every, --keep and --best want a folder: --state DIR")
        scalars = [result.name for result in entry.results if not result.shape]
        if self.best is not None and self.best not in scalars:
            known = ", ".join(scalars) or "none"
            near = did_you_mean(self.best, scalars)
            raise click.UsageError(f"{entry.name!r} has no single number {self.best!r}{near}; it has {known}")


class Keeper(Silent):
    """Restores and saves the state of one run. As a listener it is told of every step."""

    def __init__(self, module: Module, entry: Entry, plan: Plan, schedule: Schedule, feeds: Feeds) -> None:
        self._module = module
        self._entry = entry
        self._plan = plan
        self._run = _fingerprint(entry.name, schedule, feeds) if schedule.repeats else ""
        self._begun: Saving | None = None
        self._warned = False
        self._saved_at = -1

    def restore(self) -> int:
        """Restores what there is, and says how many steps of this very run are done."""
        folder = self._plan.folder
        if folder is None or not folder.exists():
            return 0
        if self._plan.every is not None and store.holds_nothing(folder):
            click.echo(f"nothing was saved in {folder} yet: the run starts", err=True)
            return 0
        # An entry may be called like the method, and would then be found in its place.
        progress = format.about(Module.restore(self._module, folder)).progress
        done, total = progress.get("steps", 0), progress.get("total", 0)
        same = bool(self._run) and progress.get("run") == self._run
        if not same or not isinstance(done, int) or not isinstance(total, int) or done >= total:
            return 0
        click.echo(f"the run goes on behind step {done} of {total}", err=True)
        return done

    def step(self, report: Report) -> None:
        plan = self._plan
        if plan.every is None or plan.folder is None or report.steps % plan.every or report.steps >= report.total_steps:
            return
        self._collect()
        progress, score = self._progress(report), self._score(report)
        self._begun = Module.save_async(self._module, plan.folder, keep=plan.keep, best=score, progress=progress)
        self._saved_at = report.steps

    def finish(self, report: Report) -> None:
        """Saves how the run ended."""
        self._collect()
        plan = self._plan
        if plan.folder is not None and self._saved_at != report.steps:
            progress, score = self._progress(report), self._score(report)
            Module.save(self._module, plan.folder, keep=plan.keep, best=score, progress=progress)

    def _collect(self) -> None:
        """Waits for the save before; the first that fails is told, and the run goes on."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            begun.result()
        except DfcError as problem:
            self._saved_at = -1
            if not self._warned:
                click.echo(f"warning: {problem.message}; the run goes on", err=True)
            self._warned = True

    def _progress(self, report: Report) -> dict[str, int | str]:
        return {"run": self._run, "steps": report.steps, "total": report.total_steps} if self._run else {}

    def _score(self, report: Report) -> float | None:
        best = self._plan.best
        return None if best is None or best not in report.last else float(np.asarray(report.last[best]))


def _fingerprint(entry: str, schedule: Schedule, feeds: Feeds) -> str:
    """Which run this is: the same command over feeds of the same kind."""
    arrays = {name: np.asarray(each) for name, each in feeds.items()}
    kinds = {name: [str(array.dtype), *array.shape] for name, array in arrays.items()}
    text = json.dumps([entry, schedule.batch, schedule.epochs, schedule.steps, kinds], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
