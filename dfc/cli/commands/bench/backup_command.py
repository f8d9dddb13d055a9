"""`dfc bench backup`: how long a step takes with and without backup tasks, where each task is slow now and then."""

from __future__ import annotations

import json
import math

import click

from dfc.cli.stragglers import Delays, Measured, measured
from dfc.cli.tables import seconds, table

MOST_SECONDS = 10
"""Far from the seconds after which ranks that wait give up."""


class _Within(click.FloatRange):
    """A number from 0 on; what is none (`nan`) is in no range."""

    def __init__(self, most: float) -> None:
        super().__init__(0, most)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not in the range 0<=x<={self.max}.", param, ctx)
        return number


@click.command("backup", short_help="Say what backup tasks gain where tasks are slow by chance.")
@click.option("--tasks", type=click.IntRange(1, 64), default=8, show_default=True, help="Tasks whose steps count.")
@click.option("--backups", type=click.IntRange(0, 16), default=3, show_default=True, help="Measure with 0 to so many.")
@click.option(
    "--steps", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Steps of each measurement."
)
@click.option("--usual", type=_Within(MOST_SECONDS), default=0.01, show_default=True, help="Seconds of a usual step.")
@click.option("--slow", type=_Within(MOST_SECONDS), default=0.05, show_default=True, help="Seconds of a slow step.")
@click.option("--chance", type=_Within(1), default=0.05, show_default=True, help="How often it is slow.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the chance.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    tasks: int, backups: int, steps: int, usual: float, slow: float, chance: float, seed: int, *, as_json: bool
) -> None:
    """Trains with `mode = "backup"` and 0, 1, .. backup tasks, as threads of this process, and prints seconds a step.

    Each task sleeps before it hands over a gradient, sometimes for long. The normalised speed-up is t(0)/t(b) times
    n/(n+b), for n tasks whose gradients count and b backups: above 1, backups do more than tasks cost.
    """
    delays = Delays(usual, slow, chance, seed)
    rows = [measured(tasks, count, steps, delays) for count in range(backups + 1)]
    gains = [each.gain(rows[0]) for each in rows]
    if as_json:
        columns = [
            {"backups": each.backups, "seconds": each.seconds, "dropped": each.dropped, "speedup": gain}
            for each, gain in zip(rows, gains, strict=True)
        ]
        click.echo(json.dumps({"tasks": tasks, "steps": steps, "rows": columns}))
        return
    head = ("backups", "tasks", "a step", "dropped", "normalised speed-up")
    lines = [_line(each, gain) for each, gain in zip(rows, gains, strict=True)]
    click.echo("\n".join(table(head, lines, head)))


def _line(row: Measured, gain: float) -> tuple[str, ...]:
    tasks = row.tasks + row.backups
    return str(row.backups), str(tasks), seconds(row.seconds), str(row.dropped), f"{gain:.3f}"
