"""`dfc trace`: what a trace says, in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dfc.cli.tracing import traces


@click.command("trace", short_help="Say where the time of a traced run went.")
@click.argument("file", metavar="TRACE.json")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many lines to list.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(file: str, top: int, as_json: bool) -> int:
    """Reads the trace of a run (dfc run --trace TRACE.json), and prints how long each rank computed and stood still,
    and the lines of the source where most of it was; of queues and runners, what each stage waited for and which one
    the others wait for."""
    trace = traces.read(Path(file))
    click.echo(json.dumps(traces.as_data(trace)) if as_json else traces.as_text(trace, top))
    return 0
