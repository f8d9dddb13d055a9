"""`dfc data`: files of records, which input pipelines read."""

from __future__ import annotations

import click

from dfc.cli.groups import LazyGroup, imported

COMMANDS: dict[str, str] = {
    "inspect": "Say what is in files, and which records are damaged.",
    "make": "Make files of examples of arrays, tables, texts or images.",
    "shuffle": "Write the records of files anew, in random order.",
}


def _load(name: str) -> click.Command:
    return imported(f"dfc.cli.commands.data.{name}_command")


@click.group(
    "data", cls=LazyGroup, commands_by_name=COMMANDS, load=_load, short_help="Make, look at and shuffle record files."
)
def command() -> None:
    """Files of records: what input pipelines read. docs/DATA.md says how they lie, and what is in them."""
