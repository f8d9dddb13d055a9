"""`dfc run FILE --fetch ENTRY/NAME`: a part of an entry, called once.

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
from dfc.cli.saving import Keeper, Plan
from dfc.cli.values import feeds, plain, write_arrays
from dfc.deferred.dataclasses import dataclass
from dfc_runtime import Module
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
    """Computes what is fetched from what is fed, once, and prints it."""
    names, feed_values = list(request.fetches), feeds(request.texts, ())
    cluster = module.manifest.cluster
    where = plan.or_else(cluster.checkpoint if cluster is not None else None)
    keeper = Keeper(module, ", ".join(names), where, running.Schedule(), feed_values, saves=False)
    keeper.restore()
    # An entry may be called `run`, and would then be found in its place.
    call = partial(type(module).run, module)
    values, number = running.once(lambda: call(names, feed_values), alone=isinstance(module, Module))
    results = dict(zip(names, cast("tuple[object, ...]", values), strict=True))
    if _writes(module, names, feed_values):
        keeper.save_after_all()
        keeper.finish(running.Report(steps=1, total_steps=1, last=results))
    if request.out is not None:
        write_arrays(request.out, {name: np.asarray(value) for name, value in results.items()})
    plain_values = {name: plain(value) for name, value in results.items()}
    click.echo(json.dumps({"fetch": names, "results": plain_values}) if request.as_json else running.described(results))
    return running.SIGNALLED + number if number else 0


def _writes(module: ClusterModule | Module, names: Sequence[str], feed_values: running.Feeds) -> bool:
    """Whether what is computed changes state."""
    if isinstance(module, Module):
        return bool(parts_of(module).signature(names, feed_values).writes)
    from dfc_runtime.distributed.calls.cluster_module import cluster_parts_of

    return bool(cluster_parts_of(module).signature(names, feed_values).writes)
