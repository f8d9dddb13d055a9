"""State on disk around a run: restored before it, saved on the way and at its end.

Each checkpoint says how far which run had come, so that the same command, given again after a crash, goes on behind the
last saved step. Assumes one command at a time per folder. Guarantees that a save on the way that fails is a warning and
nothing more, and that a run never starts over unnoticed where something was saved.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np

from dfc.cli.failures import did_you_mean
from dfc.cli.listeners import Silent
from dfc.cli.running import Feeds, Report, Schedule
from dfc_runtime import DfcError, Module
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.saving import Saving
from dfc_runtime.distributed import epochs
from dfc_runtime.distributed.cluster_module import ClusterModule
from dfc_runtime.distributed.records import current_job
from dfc_runtime.formats.cluster import CheckpointPolicy
from dfc_runtime.formats.manifest import Entry

Kept = Module | ClusterModule


@dataclass(frozen=True, slots=True)
class Plan:
    """Where state lies, after how many steps or seconds it is saved, how many checkpoints stay, and which result scores
    them."""

    folder: Path | None = None
    every: int | None = None
    keep: int = store.KEPT
    best: str | None = None
    seconds: float | None = None

    def or_else(self, policy: CheckpointPolicy | None) -> Plan:
        """What a deployment file says, where the command says nothing."""
        if policy is None or self.folder is not None:
            return self
        keep = max(policy.keep, store.KEPT)
        return Plan(Path(policy.folder), policy.steps or None, keep, self.best, policy.seconds or None)

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

    def __init__(self, module: Kept, entry: str, plan: Plan, schedule: Schedule, feeds: Feeds) -> None:
        # An entry may be called like one of these methods, and would then be found in its place.
        is_cluster = isinstance(module, ClusterModule)
        self._save = partial(ClusterModule.save, module) if is_cluster else partial(Module.save, module)
        self._begin = partial(ClusterModule.save_async, module) if is_cluster else partial(Module.save_async, module)
        self._restore = partial(ClusterModule.restore, module) if is_cluster else partial(Module.restore, module)
        self._plan = plan
        self._run = _fingerprint(entry, schedule, feeds) if schedule.repeats else ""
        self._begun: Saving | None = None
        self._warned = False
        self._is_complete = False
        self._saved_at = -1
        self._last = time.monotonic()

    def restore(self) -> int:
        """Restores what there is, and says how many steps of this very run are done."""
        folder = self._plan.folder
        if folder is None or not folder.exists():
            return 0
        began = (self._plan.every, self._plan.seconds) != (None, None) or (folder / store.EPOCHS).exists()
        if began and store.holds_nothing(folder):
            if epochs.newest(folder) != 1:  # the first session of ranks has nothing to tell
                click.echo(f"nothing was saved in {folder} yet: the run starts", err=True)
            return 0
        progress = format.about(self._restore(folder)).progress
        done, total = progress.get("steps", 0), progress.get("total", 0)
        is_ours = current_job() != "" and progress.get("job") == current_job()
        same = progress.get("run", "") == self._run and (is_ours or bool(self._run))
        if not same or not isinstance(done, int) or not isinstance(total, int):
            return 0
        if done >= total:  # the same command once more, unless a rank of this very job died when all was saved
            self._is_complete = is_ours
            return total if is_ours else 0
        click.echo(f"the run goes on behind step {done} of {total}", err=True)
        return done

    @property
    def is_complete(self) -> bool:
        """Whether what was restored is the end of this very run, and not of one like it."""
        return self._is_complete

    def step(self, report: Report) -> None:
        plan = self._plan
        if self._begun is not None and self._begun.done:
            self._collect()
        if plan.folder is None or report.steps >= report.total_steps or not self._is_time(report):
            return
        self._collect()
        progress, score = self._progress(report), self._score(report)
        self._begun = self._begin(plan.folder, keep=plan.keep, best=score, progress=progress)
        self._saved_at = report.steps
        self._last = time.monotonic()

    def _is_time(self, report: Report) -> bool:
        if self._plan.every is not None:
            return report.steps % self._plan.every == 0
        return self._plan.seconds is not None and time.monotonic() - self._last >= self._plan.seconds

    def finish(self, report: Report) -> None:
        """Saves how the run ended."""
        self._collect()
        plan = self._plan
        if plan.folder is not None and self._saved_at != report.steps:
            progress, score = self._progress(report), self._score(report)
            self._save(plan.folder, keep=plan.keep, best=score, progress=progress)

    def _collect(self) -> None:
        """Waits for the save before; the first that fails is told, and the run goes on, if the folder is still its."""
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

    def _progress(self, report: Report) -> dict[str, int | str]:
        which = {"run": self._run} if self._run else {}
        job = {"job": current_job()} if current_job() else {}
        return {**which, "steps": report.steps, "total": report.total_steps, **job} if which or job else {}

    def _score(self, report: Report) -> float | None:
        best = self._plan.best
        return None if best is None or best not in report.last else float(np.asarray(report.last[best]))


def _fingerprint(entry: str, schedule: Schedule, feeds: Feeds) -> str:
    """Which run this is: the same command over feeds of the same kind."""
    arrays = {name: np.asarray(each) for name, each in feeds.items()}
    kinds = {name: [str(array.dtype), *array.shape] for name, array in arrays.items()}
    text = json.dumps([entry, schedule.batch, schedule.epochs, schedule.steps, kinds], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
