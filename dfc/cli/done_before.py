"""Reports of a run that was done before: that it was, where it is saved, how it ended, and what is lost of its results.

Assumes that its last checkpoint was read. Guarantees exit code 0 only where all that the command asks for is there.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from dfc.cli.identity import Ending
from dfc.cli.running import Feeds, Schedule, batching_of
from dfc_runtime.formats.manifest import Entry

_AGAIN = "--again makes it once more, from where it ended"


def print_ending(entry: str, steps: int, ending: Ending, folder: Path | None, out: str | None, *, as_json: bool) -> int:
    """Prints the report, and gives the exit code. `UsageError` if there was to be a file `out`, and there is none."""
    if out is not None and not Path(out).exists():
        text = f"this run was done before, and {out} is not there: what it gave is not kept with the state"
        raise click.UsageError(f"{text}\n  {_AGAIN}")
    data: dict[str, object] = {"entry": entry, "steps": steps, "seconds": 0.0, "stopped": False}
    data |= {"end_of_data": ending.is_out_of_data, "done_before": True}
    data |= {"results": dict(ending.results), **{n: v for n, v in ending.shares.items() if n not in data}}
    ended = ", then the data ended" if ending.is_out_of_data else ""
    text = f"{entry}: done before, {steps} step{'s' if steps != 1 else ''}{ended}  {ending.message}".rstrip()
    click.echo(json.dumps(data) if as_json else text)
    click.echo(f"this run was done before, and is saved in {folder}: {_AGAIN}", err=True)
    return 0


def warn_of_lost(out: str, entry: Entry, schedule: Schedule, feeds: Feeds, start: int) -> None:
    """A file of results has those of the last epoch; where a run goes on in the middle of it, some are not there."""
    if schedule.batch is None or not start:
        return
    one = batching_of(entry, feeds, schedule).batches(schedule.batch)
    total = (
        one * schedule.most_epochs() if schedule.steps is None else min(schedule.steps, one * schedule.most_epochs())
    )
    lost = start - (total - 1) // one * one
    if lost > 0:
        text = f"{out} lacks the results of the first {lost} of {one} steps of the last epoch, which were made before"
        click.echo(f"warning: {text}", err=True)
