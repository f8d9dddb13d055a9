"""What `dfc run` says when it is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dfc.cli import running
from dfc.cli.values import plain
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.asynchronous.update_log import Updates
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.module import Module


def updates_of(module: ClusterModule | Module, entry: str) -> Updates | None:
    """What is known of the updates of an entry whose replicas take steps of their own."""
    log = getattr(module.entries[entry], "updates", None)
    return None if log is None else log.read()


def text(entry: str, report: running.Report, updates: Updates | None) -> str:
    """For people."""
    last = "" if updates is None else f"\n  {updates}"
    message = running.results_line(report)
    if report.total_steps == 1 and report.steps and report.over is None and not report.is_out_of_data:
        return (message or f"{entry}: done") + last
    stopped = ", stopped by a signal" if report.stopped_by else ", then the data ended" if report.is_out_of_data else ""
    head = f"{entry}: {counted(report.steps, 'step')} in {report.seconds:.2f} s ({report.rate:.0f} steps/s){stopped}"
    return (f"{head}  {message}" if message else head) + last


def json_line(entry: str, report: running.Report, updates: Updates | None) -> str:
    """For programs."""
    return json.dumps(
        {
            "entry": entry,
            "steps": report.steps,
            "seconds": round(report.seconds, 6),
            "stopped": report.stopped_by != 0,
            "end_of_data": report.is_out_of_data,
            "results": {name: plain(value) for name, value in report.results.items()},
            **running.shares(report),
            **facts_of(updates),
        }
    )


def facts_of(updates: Updates | None) -> dict[str, object]:
    """How late updates were, and how many steps came too late to be used: for JSON."""
    if updates is None:
        return {}
    return {"staleness": dict(sorted(updates.staleness.items())), "dropped": updates.dropped}
