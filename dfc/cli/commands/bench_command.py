"""`dfc bench`: how fast programs are that come with the compiler."""

from __future__ import annotations

import click

from dfc.cli.groups import LazyGroup, imported

COMMANDS: dict[str, str] = {
    "backup": "Say what backup tasks gain where tasks are slow by chance.",
    "cnn": "Train a convolutional network and say how many images it takes a second.",
    "null": "Say what it takes to fetch parameters from servers and to update them.",
}


def _load(name: str) -> click.Command:
    return imported(f"dfc.cli.commands.bench.{name}_command")


@click.group("bench", cls=LazyGroup, commands_by_name=COMMANDS, load=_load, short_help="Measure known programs.")
def command() -> None:
    """Measures known programs on this machine, or on several."""
