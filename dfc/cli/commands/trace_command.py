"""`dfc trace`: what a trace says, in a few lines."""

from __future__ import annotations

from pathlib import Path

import click

from dfc.cli import traces


@click.command("trace", short_help="Say where the time of a traced run went.")
@click.argument("file", metavar="TRACE.json")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many lines to list.")
def command(file: str, top: int) -> int:
    """Reads the trace of a run (dfc run --trace TRACE.json), and prints how long each rank computed and stood still,
    and the lines of the source where most of it was."""
    click.echo(traces.as_text(traces.read(Path(file)), top))
    return 0
