"""What is told of a run that was done before: that it was, where it is saved, and how it ended.

Assumes that its last checkpoint was read. Guarantees exit code 0 only where all that the command asks for is there.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from dfc.cli.running import Results, described
from dfc.cli.values import plain

_AGAIN = "--again makes it once more, from where it ended"


def tell(entry: str, steps: int, results: Results, folder: Path | None, out: str | None, *, as_json: bool) -> int:
    """Tells it, and gives the exit code. `UsageError` if there was to be a file `out`, and there is none."""
    if out is not None and not Path(out).exists():
        text = f"this run was done before, and {out} is not there: what it gave is not kept with the state"
        raise click.UsageError(f"{text}\n  {_AGAIN}")
    numbers = {name: plain(value) for name, value in results.items()}
    data = {"entry": entry, "steps": steps, "seconds": 0.0, "stopped": False, "done_before": True, "results": numbers}
    text = f"{entry}: done before, {steps} step{'s' if steps != 1 else ''}  {described(results)}".rstrip()
    click.echo(json.dumps(data) if as_json else text)
    click.echo(f"this run was done before, and is saved in {folder}: {_AGAIN}", err=True)
    return 0
