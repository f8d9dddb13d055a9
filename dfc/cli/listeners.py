"""How a run shows its progress: a bar on a terminal, plain lines elsewhere, nothing for machines."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from dfc.cli.output import escaping, raw
from dfc.cli.running import Report, described, results_line
from dfc_runtime.terminal import visible

LINE_EVERY_S = 1.0
REFRESH_EVERY_S = 0.1


class Silent:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def step(self, report: Report) -> None:
        return None

    def epoch(self, report: Report) -> None:
        return None


class Both(Silent):
    """Tells two others."""

    def __init__(self, first: Silent, second: Silent) -> None:
        self._first, self._second = first, second

    def step(self, report: Report) -> None:
        self._first.step(report)
        self._second.step(report)

    def epoch(self, report: Report) -> None:
        self._first.epoch(report)
        self._second.epoch(report)


class Lines(Silent):
    """One line at the end of an epoch, but no more than one a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LINE_EVERY_S

    def epoch(self, report: Report) -> None:
        if time.monotonic() >= self._next and report.steps < report.total_steps:
            self._next = time.monotonic() + LINE_EVERY_S
            click.echo(
                f"epoch {report.epoch}  step {report.steps}/{report.total_steps}  "
                f"{report.rate:.0f} steps/s  {results_line(report)}"
            )


class Bar(Silent):
    """A progress bar with the rate and the last results."""

    def __init__(self, title: str) -> None:
        # rich costs start-up time that only a terminal needs
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", "bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}", markup=False),
        )
        self._progress = Progress(*columns, transient=True, console=Console(file=raw(sys.stdout)))
        self._task = self._progress.add_task(visible(title), total=None, told="")
        self._next = 0.0

    def __enter__(self) -> Self:
        self._progress.start()  # which prints above the bar what is written from now on
        self._escaping = escaping()
        self._escaping.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._escaping.__exit__(None, None, None)
        self._progress.stop()

    def step(self, report: Report) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + REFRESH_EVERY_S
            now = f"{report.rate:.0f}/s  {visible(described(report.last))}"
            self._progress.update(self._task, completed=report.steps, total=report.total_steps, told=now)
