"""Options of `dfc run` that are about ranks: which make sense where, and the words that ranks are started with."""

from __future__ import annotations

from typing import cast

import click

from dfc_runtime.errors import UnsupportedError

LEAST_SILENCE = 2
"""Seconds: a rank says twice in a second that it lives, and may be late."""
OF_THE_LAUNCH = frozenset({"ranks", "max_restarts", "min_ranks", "silence"})
OF_RANKS = OF_THE_LAUNCH | {"jobs", "deadline"}


def check_for_ranks(context: click.Context) -> None:
    """Refuses what would be without effect, or make no sense, on many ranks."""
    parameters = context.params
    if parameters["settings_"]:
        raise click.UsageError("settings are fixed in a bundle; give --set when it is compiled")
    if parameters["target"] != "cpu":
        raise click.UsageError("a bundle runs on what it was compiled for; its deployment file says what is on GPUs")
    if parameters["check_finite"]:
        text = "--check-finite is for programs on one rank in this version"
        raise UnsupportedError(f"{text}\n  ranks have it if it was given to `dfc compile --deploy`", code="E1001")
    if not LEAST_SILENCE <= cast("float", parameters["silence"]) < float("inf"):
        raise click.UsageError(f"--silence wants seconds, at least {LEAST_SILENCE}")
    ranks, least = parameters["ranks"], parameters["min_ranks"]
    if ranks is not None and least is not None and least > ranks:
        raise click.UsageError(f"--min-ranks {least} is more than the {ranks} ranks to begin with")


def refuse(context: click.Context, names: frozenset[str]) -> None:
    """Refuses what only ranks understand that are started here."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in names and context.params[name] not in (None, (), parameter.default):
            flag = max(parameter.opts, key=len)
            raise click.UsageError(f"{flag} is for ranks that are started here, with -n")


def words(context: click.Context) -> list[str]:
    """The command line without what is for the process that starts the ranks. Launchers take a word `:` as the end of
    a command, wherever it stands: values are in one word with their option, and a file of this name is `./:`."""
    arguments, named = ["run"], ["--"]
    for parameter in context.command.params:
        value = context.params[parameter.name or ""]
        if isinstance(parameter, click.Argument):
            named += [] if value is None else ["./:" if value == ":" else str(value)]
        elif parameter.name not in OF_THE_LAUNCH and value is not None and value != parameter.default:
            flag = max(parameter.opts, key=len)
            if isinstance(parameter, click.Option) and parameter.is_flag:
                arguments += [flag] if value else []
            else:
                values = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
                arguments += [f"{flag}={each}" for each in values]
    return [*arguments, *named]
