"""What `dfc place` prints: a report about a placement as tables, or as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dfc.cli.tables import seconds, size, table
from dfc.distribute.place.balance import Load
from dfc.distribute.place.devices import DeviceDecision
from dfc.driver.placement_report import DeviceRow, Peak, PlacedEntry, Report, Row
from dfc_runtime.errors import counted


def as_text(report: Report) -> str:
    """Tables: state, what each task holds, then each entry."""
    blocks: list[list[str]] = []
    if report.devices:
        rows = [[each.role, _named(each), _because(report, each)] for each in report.devices]
        blocks.append(["devices", *table(["role", "works on", "because"], rows)])
    if report.state:
        blocks.append(["state", *_rows(report, report.state, of_state=True)])
    blocks.append(_loads(report.loads))
    blocks += [_entry(report, entry) for entry in report.entries]
    if report.peaks:
        blocks.append(_peaks(report.peaks))
    return "\n\n".join("\n".join(block) for block in blocks)


def _because(report: Report, row: DeviceRow) -> str:
    lines = ",".join(map(str, row.lines))
    return f"{report.deployment}:{lines}" if row.lines else "no line places anything of it on a gpu"


def _named(row: DeviceRow) -> str:
    return ", ".join(map(str, row.devices))


def _rows(report: Report, rows: Sequence[Row], *, of_state: bool) -> list[str]:
    shown = [_state_cells(report, row) if of_state else _node_cells(report, row) for row in rows]
    times = list[str]() if of_state else ["from", "to"]
    other = "would hold" if of_state else "would end"
    return table(["name", "where", *times, "because", "line", other], shown, right=["from", "to"])


def _state_cells(report: Report, row: Row) -> list[str]:
    others = ", ".join([*(f"{site} {size(int(held))}" for site, held in row.alternatives), *_others(row)])
    return [row.name, _where(row), _reason(row), _lines(report, row), others]


def _where(row: Row) -> str:
    """The task, with the device if that is a GPU, or one of several."""
    has_own = row.device.kind == "gpu" if row.on_device is None else not row.on_device.floats
    return f"{row.site} {row.device}" if has_own else str(row.site)


def _reason(row: Row) -> str:
    """Why it is in its task, and why on this device of it."""
    if row.on_device is None:
        return row.reason
    return f"{row.reason}; {'' if row.on_device.floats else f'{row.device}: '}{row.on_device.reason}"


def _others(row: Row) -> list[str]:
    """The other devices of its task, with what speaks of them."""
    alternatives = row.on_device.alternatives if row.on_device is not None else ()
    return [f"{device} {seconds(end) if isinstance(end, float) else end}" for device, end in alternatives]


def _node_cells(report: Report, row: Row) -> list[str]:
    others = ", ".join([*(f"{site} {seconds(end)}" for site, end in row.alternatives), *_others(row)])
    return [
        row.name,
        _where(row),
        seconds(row.start),
        seconds(row.finish),
        _reason(row),
        _lines(report, row),
        others,
    ]


def _lines(report: Report, row: Row) -> str:
    return f"{report.deployment}:{','.join(map(str, row.lines))}" if row.lines else ""


def _loads(loads: Sequence[Load]) -> list[str]:
    rows = [
        [str(task), size(held), size(load.limit) if load.limit else "no limit"]
        for load in loads
        for task, held in load.tasks.items()
    ]
    lines = ["state by task", *table(["task", "holds", "may hold"], rows, right=["holds"])]
    for load in loads:
        lines.append(
            f"  {load.job}: the fullest task holds {size(load.fullest)}; no placement gets below {_least(load)}"
        )
    return lines


def _least(load: Load) -> str:
    return f"{size(load.least)} (by size, largest first: at most {load.factor:.2f} times the best)"


def _entry(report: Report, entry: PlacedEntry) -> list[str]:
    run = entry.timeline
    bound = f"the longest chain takes {seconds(run.critical_path)}, all work by {counted(len(run.tasks), 'task')} "
    head = f"entry {entry.name}: done after {seconds(run.finish)} (simulated); no placement below "
    lines = [f"{head}{seconds(run.lower_bound)}: {bound}{seconds(run.work / len(run.tasks))}"]
    if entry.rows:
        lines += _rows(report, entry.rows, of_state=False)
    tasks = [[str(task), seconds(busy), str(len(run.tasks[task]))] for task, busy in run.busy.items()]
    return [*lines, *table(["task", "computes", "nodes"], tasks, right=["computes", "nodes"])]


def _peaks(peaks: Sequence[Peak]) -> list[str]:
    rows = [[each.role, each.entry, str(each.delayed), str(each.early)] for each in peaks]
    return ["working memory in bytes", *table(["role", "entry", "receives delayed", "receives at the start"], rows)]


def as_json(report: Report) -> str:
    """The same as one object; times are seconds, sizes bytes."""
    return json.dumps(
        {
            "deployment": report.deployment,
            "devices": [
                {"role": each.role, "devices": [str(one) for one in each.devices], "lines": list(each.lines)}
                for each in report.devices
            ],
            "state": [_row_data(row, "bytes") for row in report.state],
            "loads": [_load_data(load) for load in report.loads],
            "entries": [_entry_data(entry) for entry in report.entries],
            "peaks": [
                {"role": each.role, "entry": each.entry, "delayed": str(each.delayed), "early": str(each.early)}
                for each in report.peaks
            ],
        },
        indent=1,
    )


def _row_data(row: Row, compared: str) -> dict[str, object]:
    return {
        "name": row.name,
        "site": str(row.site),
        "device": str(row.device),
        "reason": row.reason,
        "lines": list(row.lines),
        "start": row.start,
        "finish": row.finish,
        "alternatives": [{"site": str(site), compared: value} for site, value in row.alternatives],
        **({} if row.on_device is None else {"device_choice": _choice_data(row.on_device)}),
    }


def _choice_data(decision: DeviceDecision) -> dict[str, object]:
    others = [
        {"device": str(device), "finish" if isinstance(end, float) else "because": end}
        for device, end in decision.alternatives
    ]
    return {"reason": decision.reason, "alternatives": others}


def _load_data(load: Load) -> dict[str, object]:
    return {
        "job": load.job,
        "tasks": {str(task): held for task, held in load.tasks.items()},
        "fullest": load.fullest,
        "least": load.least,
        "factor": load.factor,
        "limit": load.limit,
    }


def _entry_data(entry: PlacedEntry) -> dict[str, object]:
    run = entry.timeline
    return {
        "name": entry.name,
        "nodes": [_row_data(row, "finish") for row in entry.rows],
        "finish": run.finish,
        "critical_path": run.critical_path,
        "work": run.work,
        "lower_bound": run.lower_bound,
        "busy": {str(task): busy for task, busy in run.busy.items()},
        "timeline": {
            str(task): [{"name": each.name, "start": each.start, "finish": each.finish} for each in row]
            for task, row in run.tasks.items()
        },
    }
