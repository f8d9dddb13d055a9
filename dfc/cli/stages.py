"""Names of stages on the command line."""

from __future__ import annotations

import click

from dfc.cli.failures import did_you_mean


def stage_of(name: str) -> str:
    """The stage of that name, which may be one of a former edition; a name of none is a mistake in usage."""
    from dfc.driver import api  # which no command needs that names no stage

    known = api.stage_names()
    current = api.FORMER_NAMES.get(name, name)
    if current not in known:
        raise click.UsageError(f"there is no stage {name!r}{did_you_mean(name, known)}; stages: {', '.join(known)}")
    return current
