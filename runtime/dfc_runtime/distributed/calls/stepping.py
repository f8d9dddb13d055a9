"""Entries that save and restore, on many ranks: rank 0 does what they say, as `save` and `restore` of the module do.

Assumes an entry that does nothing else. Guarantees that ranks which call along end with it, and get its error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dfc_runtime.calls.gate import Mode
from dfc_runtime.checkpoints.saving import SaveRequest
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.requests import Requests
from dfc_runtime.distributed.save.saving import ClusterSaver
from dfc_runtime.formats.cluster import CheckpointStep


class CheckpointSteps:
    """What such entries do; `saved` are the names that checkpoints hold at all."""

    def __init__(self, saver: ClusterSaver, saved: Sequence[str]) -> None:
        self._saver = saver
        self._saved = frozenset(saved)

    def function(self, plan: EntryPlan, client: Client, requests: Requests, lock: Mode) -> Callable[..., None]:
        """The entry as rank 0 calls it."""

        def call(*feeds: object, **named: object) -> None:
            def work() -> list[object]:
                request = requests.checked(feeds, named)
                texts = {p.name: str(v) for p, v in zip(plan.entry.parameters, request.feeds, strict=True)}
                for step in plan.split.steps:
                    self._take(client, step, Path(texts[step.feed]))
                return []

            with lock:
                client.call_with(plan, work)

        return call

    def _take(self, client: Client, step: CheckpointStep, folder: Path) -> None:
        names = [name for name in step.state if name in self._saved]
        if step.kind == "save":
            self._saver.save(client, names, SaveRequest(folder))
            return
        restored = self._saver.restore(client, names, folder, None, None, best=False)
        if self._saved <= {*names}:
            client.restored()
        warn_of((str(path), fault) for path, fault in restored.skipped)


def warn_of(skipped: Iterable[Sequence[str]]) -> None:
    """What was damaged, so that an older checkpoint was taken."""
    for path, fault in skipped:
        warnings.warn(f"skipped the checkpoint {path}: {fault}", stacklevel=4)
