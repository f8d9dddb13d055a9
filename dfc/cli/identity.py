"""Which run a checkpoint belongs to: a fingerprint of the command, and what is noted of it in the checkpoint.

The fingerprint takes in whatever decides which numbers come out: the program, its settings, the entry, the contents of
the feeds, the schedule and where the run begins. Threads, ranks, devices and the names of files are not part of it.
Assumes that feeds were read. Guarantees that equal fingerprints mean the same run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc.cli.running import Feeds, Report, Results, Schedule
from dfc.cli.values import plain
from dfc_runtime.checkpoints.format import Progress
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import Manifest

_LONGEST_RESULTS = 4000
_DIGITS = 32


def fingerprint(manifest: Manifest, entry: str, schedule: Schedule, feeds: Feeds, start: Path | None) -> str:
    """Which run this is. `start` is the checkpoint it begins with, if the command names one."""
    program = {n: digest for n, digest in manifest.tensors.items() if n.startswith(("source", "weights/"))}
    fed = {name: _feed(value) for name, value in feeds.items()}
    begins = None if start is None else str(start.resolve())
    calls = [schedule.batch, schedule.epochs, schedule.steps, schedule.last]
    text = json.dumps([manifest.name, program, dict(manifest.settings), entry, calls, fed, begins], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _feed(value: object) -> list[object]:
    """A feed as what it holds."""
    if isinstance(value, str):
        return ["text", value]
    array = np.asarray(value)
    return [str(array.dtype), list(array.shape), hashlib.blake2b(_bytes(array), digest_size=16).hexdigest()]


def _bytes(array: NDArray[np.generic]) -> memoryview | bytes:
    """The elements, without a copy where that can be; one order of them is as good as another."""
    if array.dtype.kind not in "biufc" or not array.size:
        return array.tobytes()
    straight = array.T if array.flags.f_contiguous else np.ascontiguousarray(array)
    return straight.reshape(-1).view(np.uint8).data


def noted(run: str, entry: str, report: Report, job: str) -> Progress:
    """What a checkpoint says of the run that saves it; of one that is over its numbers, too."""
    about: dict[str, int | str] = {"entry": entry, "steps": report.steps, "total": report.total_steps}
    if run:
        about["run"] = run
    if job:
        about["job"] = job
    if report.steps >= report.total_steps:
        numbers = {name: plain(value) for name, value in report.last.items() if np.ndim(cast("float", value)) == 0}
        text = json.dumps(numbers)
        if numbers and len(text) <= _LONGEST_RESULTS:
            about["results"] = text
    return about


def results_of(progress: Progress) -> Results:
    """The numbers that a run which is over ended with, as far as its checkpoint has them."""
    try:
        found = strict_json.parse(str(progress.get("results", "{}")))
    except ValueError:
        return {}
    return dict(cast("Mapping[str, object]", found)) if isinstance(found, dict) else {}


def described(progress: Progress) -> str:
    """Which run a checkpoint belongs to, in words that follow its name; "" if it does not say."""
    entry, steps, total = progress.get("entry"), progress.get("steps"), progress.get("total")
    if not isinstance(entry, str) or not isinstance(steps, int) or not isinstance(total, int):
        return ""
    if steps < total:
        return f", step {steps} of {total} of another run of {shown(entry)}"
    return f", the end of a run of {shown(entry)} ({total} step{'s' if total != 1 else ''})"
