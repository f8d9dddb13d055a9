"""Groups of commands that import a command, and what it needs, only when that one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from dfc.cli.failures import did_you_mean
from dfc.deferred.collection import importing


class LazyGroup(click.Group):
    """A group that knows its commands by name, with a line about each, and `load`s one when it is asked for."""

    def __init__(
        self, *positional: Any, commands_by_name: Mapping[str, str], load: Callable[[str], click.Command], **more: Any
    ) -> None:
        super().__init__(*positional, **more)
        self.summaries = dict(commands_by_name)
        self._load = load

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._load(cmd_name) if cmd_name in self.summaries else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.summaries and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], self.summaries)}")
        return super().resolve_command(ctx, args)


def imported(module: str) -> click.Command:
    """The `command` of a module."""
    if module not in sys.modules:
        with importing():
            import_module(module)
    command: click.Command = sys.modules[module].command
    return command
