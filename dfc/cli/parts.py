"""`dfc run FILE --fetch ENTRY/NAME`: a part of an entry, called once; `--fetch ENTRY` executes all of it.

Assumes a module whose state may be restored. Guarantees that state is saved only where the part has written some: to
look at values of a program leaves its checkpoints alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import click
import numpy as np

from dfc.cli import running
from dfc.cli.saving import Keeper, Plan, saves
from dfc.cli.values import feeds, plain, write_arrays
from dfc.deferred.dataclasses import dataclass
from dfc_runtime import Module
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.module import parts_of

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What is fetched, and the feeds as they were typed, by name; where results go, and how they are printed."""

    fetches: Sequence[str]
    texts: Mapping[str, str]
    out: str | None
    as_json: bool


def check_once(plan: Plan, schedule: running.Schedule) -> None:
    """Refuses what makes sense for calls of an entry only."""
    if schedule.repeats:
        raise click.UsageError("--fetch makes one call: --batch, --epochs and --steps are for an ENTRY")
    if plan.every is not None or plan.best is not None or plan.again:
        raise click.UsageError("--fetch makes one call: --save-every, --best and --again are for an ENTRY")


def run_part(module: ClusterModule | Module, request: PartRequest, plan: Plan) -> int:
    """Computes what is fetched from what is fed, once, and prints it. An entry is executed for its effects, which are
    saved, and gives nothing."""
    names = list(request.fetches)
    entry = _executed(module, request)
    feed_values = feeds(request.texts, () if entry is None else _text_feeds(entry))
    cluster = module.manifest.cluster
    where = plan.or_else(cluster.checkpoint if cluster is not None else None)
    keeper = Keeper(module, ", ".join(names), where, running.Schedule(), feed_values, saves=False)
    keeper.restore()
    # An entry may be called `run`, and would then be found in its place.
    call = partial(type(module).run, module)
    fetched = names if entry is None else entry.name
    values, number = running.once(lambda: call(fetched, feed_values), alone=isinstance(module, Module))
    results = {} if entry is not None else dict(zip(names, cast("tuple[object, ...]", values), strict=True))
    if _writes(module, names, feed_values) if entry is None else saves(entry):
        keeper.save_after_all()
        keeper.finish(running.Report(steps=1, total_steps=1, last=results))
    if request.out is not None:
        write_arrays(request.out, {name: np.asarray(value) for name, value in results.items()})
    plain_values = {name: plain(value) for name, value in results.items()}
    shown = running.described(results) if entry is None else f"{entry.name} executed"
    click.echo(json.dumps({"fetch": names, "results": plain_values}) if request.as_json else shown)
    return running.SIGNALLED + number if number else 0


def _executed(module: ClusterModule | Module, request: PartRequest) -> Entry | None:
    """The entry that is fetched by its name alone. `UsageError` where there is something beside it, or results are
    wanted."""
    entries = {entry.name: entry for entry in module.manifest.entries if entry.is_called}
    name = next((name for name in request.fetches if name in entries), None)
    if name is None:
        return None
    if len(request.fetches) > 1:
        other = next(each for each in request.fetches if each != name)
        text = f"--fetch {name} executes the entry, and stands alone: leave it out, or {other}"
        raise click.UsageError(text)
    if request.out is not None:
        text = f"--fetch {name} executes the entry and gives no values for --out: give {name} as ENTRY, or --fetch"
        raise click.UsageError(f"{text} {name}/NAME")
    return entries[name]


def _text_feeds(entry: Entry) -> list[str]:
    """The names, short and full, of feeds that are texts."""
    texts = [parameter.name for parameter in entry.parameters if parameter.is_text]
    return [*texts, *(f"{entry.name}/{text}" for text in texts)]


def _writes(module: ClusterModule | Module, names: Sequence[str], feed_values: running.Feeds) -> bool:
    """Whether what is computed changes state."""
    if isinstance(module, Module):
        return bool(parts_of(module).signature(names, feed_values).writes)
    from dfc_runtime.distributed.calls.cluster_module import cluster_parts_of

    return bool(cluster_parts_of(module).signature(names, feed_values).writes)
