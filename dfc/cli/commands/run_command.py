"""`dfc run`: call an entry of a bundle, or of a program that is compiled on the way."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import numpy as np

from dfc.cli import running
from dfc.cli.bundles import open_module
from dfc.cli.failures import did_you_mean, is_terminal
from dfc.cli.listeners import Bar, Both, Lines, Silent
from dfc.cli.saving import Keeper, Plan
from dfc.cli.values import feeds, named, settings
from dfc_runtime import Module
from dfc_runtime.checkpoints.store import KEPT
from dfc_runtime.formats.manifest import Entry

JSON_ELEMENTS = 1000
SIGNALLED = 128


@click.command("run", short_help="Run an entry of a bundle or program.")
@click.argument("file", metavar="BUNDLE|FILE")
@click.argument("entry")
@click.option("--feed", "pairs", multiple=True, metavar="NAME=VALUE", help="A number, file.npy, or file.npz:key.")
@click.option("--set", "settings_", multiple=True, metavar="NAME=VALUE", help="Override a setting of a program FILE.")
@click.option("--batch", type=click.IntRange(min=1), help="Cut the feeds into pieces of N along the symbolic size.")
@click.option("--epochs", type=click.IntRange(min=1), help="Go through the feeds N times.")
@click.option("--steps", type=click.IntRange(min=1), help="Make N calls, going through the feeds as often as needed.")
@click.option("--state", metavar="DIR", help="Restore the state from DIR if it exists, and save it there at the end.")
@click.option("--save-every", type=click.IntRange(min=1), metavar="N", help="Save the state after every N steps, too.")
@click.option("--keep", type=click.IntRange(min=KEPT), default=KEPT, show_default=True, help="How many saves stay.")
@click.option("--best", metavar="RESULT", help="Never remove the save where this result, such as a loss, was lowest.")
@click.option(
    "--out",
    metavar="FILE.npz",
    help="Write the results to this file (of the last epoch, joined).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--check-finite", is_flag=True, help="Stop at the first value that is not finite, and say where from.")
@click.option("--threads", type=click.IntRange(min=1), help="How many threads to use; the numbers do not depend on it.")
def command(
    file: str,
    entry: str,
    pairs: tuple[str, ...],
    settings_: tuple[str, ...],
    batch: int | None,
    epochs: int | None,
    steps: int | None,
    state: str | None,
    save_every: int | None,
    keep: int,
    best: str | None,
    out: str | None,
    as_json: bool,
    threads: int | None,
    check_finite: bool,
) -> int:
    """Calls ENTRY of a bundle, or of a program FILE.dfg, with the feeds given."""
    if epochs is not None and steps is not None:
        raise click.UsageError("give --epochs or --steps, not both")
    texts = named(pairs)
    module = open_module(file, settings(settings_), threads, check_finite=check_finite)
    signature = _signature(module, entry)
    given = feeds(texts, {p.name for p in signature.parameters if p.is_text})
    plan = Plan(None if state is None else Path(state), save_every, keep, best)
    plan.check(signature)
    schedule = running.Schedule(batch, epochs, steps)
    keeper = Keeper(module, signature, plan, schedule, given)
    listener = Silent() if as_json else Bar(entry) if is_terminal(sys.stdout) else Lines()
    start = keeper.restore()
    with listener:
        call: running.Call = getattr(module, entry)
        loop = running.Loop(schedule, Both(listener, keeper), gather=out is not None, start=start)
        report, gathered = running.run(signature, call, given, loop)
    keeper.finish(report)
    if out is not None:
        arrays = gathered.arrays() if schedule.repeats else {n: np.asarray(v) for n, v in report.last.items()}
        with open(out, "wb") as written:  # given a name, NumPy would add an ending to it
            np.savez(written, allow_pickle=False, **arrays)
    click.echo(_json(entry, report) if as_json else _text(entry, report))
    return SIGNALLED + report.stopped_by if report.stopped_by else 0


def _signature(module: Module, name: str) -> Entry:
    known = {e.name: e for e in module.manifest.entries if not e.is_test}
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise click.UsageError(f"there is no entry {name!r}{did_you_mean(name, known)}; entries: {listed}")
    return known[name]


def _text(entry: str, report: running.Report) -> str:
    told = running.described(report.last)
    if report.total_steps == 1:
        return told or f"{entry}: done"
    stopped = ", stopped by a signal" if report.stopped_by else ""
    head = f"{entry}: {report.steps} steps in {report.seconds:.2f} s ({report.rate:.0f} steps/s){stopped}"
    return f"{head}  {told}" if told else head


def _json(entry: str, report: running.Report) -> str:
    return json.dumps(
        {
            "entry": entry,
            "steps": report.steps,
            "seconds": round(report.seconds, 6),
            "stopped": report.stopped_by != 0,
            "results": {name: _plain(value) for name, value in report.last.items()},
        }
    )


def _plain(value: object) -> object:
    """A result as JSON: all elements if there are few, else what it is. Not-a-number and infinities become text."""
    array = np.asarray(value)
    if array.size > JSON_ELEMENTS:
        return {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            return np.array(array, dtype=str).tolist()
    return array.tolist()
