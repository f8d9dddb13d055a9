"""Which run a checkpoint belongs to: a fingerprint of the command, and what is noted of it in the checkpoint.

The fingerprint takes in whatever decides which numbers come out: the program, its settings, the entry, the contents of
the feeds, the schedule and where the run begins. Threads, ranks, devices and the names of files are not part of it.
Assumes that feeds were read. Guarantees that equal fingerprints mean the same run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc.cli.running import Feeds, Report, Schedule, results_line, shares
from dfc.cli.running import described as described_results
from dfc.cli.values import plain
from dfc.deferred.dataclasses import dataclass
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
    """What a checkpoint says of the run that saves it; of one that is over what it printed, too."""
    about: dict[str, int | str] = {"entry": entry, "steps": report.steps, "total": report.total_steps}
    if run:
        about["run"] = run
    if job:
        about["job"] = job
    if report.steps >= report.total_steps:
        about |= _ending(report)
    return about


def _ending(report: Report) -> dict[str, int | str]:
    """What a run that is over printed: the line as it was, and the data, of which long arrays are left out."""
    whole = {name: plain(value) for name, value in report.results.items()}
    single = {name: value for name, value in whole.items() if np.ndim(cast("float", report.results[name])) == 0}
    texts = {"told": results_line(report), "results": next(filter(_fits, map(json.dumps, (whole, single))), "")}
    if report.over is not None:
        texts["shares"] = json.dumps(shares(report))
    if report.is_out_of_data:
        texts["end_of_data"] = "true"
    return {name: text for name, text in texts.items() if _fits(text) and text not in ("", "{}")}


def _fits(text: str) -> bool:
    return len(text) <= _LONGEST_RESULTS


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run that is over printed, as far as its checkpoint has it: the results in words and as data, and of what
    they are where feeds were cut into batches (`shares`); and whether it was over as its data had ended."""

    message: str = ""
    results: Mapping[str, object] = field(default_factory=dict[str, object])
    shares: Mapping[str, object] = field(default_factory=dict[str, object])
    is_out_of_data: bool = False


def ending_of(progress: Progress) -> Ending:
    """Of a checkpoint of an earlier version there are the results alone."""
    results = _table(progress, "results")
    line = progress.get("told")
    message = line if isinstance(line, str) else described_results(results)
    return Ending(message, results, _table(progress, "shares"), "end_of_data" in progress)


def _table(progress: Progress, name: str) -> Mapping[str, object]:
    """JSON among the notes; nothing where it is none."""
    try:
        table = strict_json.parse(str(progress.get(name, "{}")))
    except ValueError:
        return {}
    return cast("Mapping[str, object]", table) if isinstance(table, dict) else {}


def described(progress: Progress) -> str:
    """Which run a checkpoint belongs to, in words that follow its name; "" if it does not say."""
    entry, steps, total = progress.get("entry"), progress.get("steps"), progress.get("total")
    if not isinstance(entry, str) or not isinstance(steps, int) or not isinstance(total, int):
        return ""
    if steps < total:
        return f", step {steps} of {total} of another run of {shown(entry)}"
    return f", the end of a run of {shown(entry)} ({total} step{'s' if total != 1 else ''})"
