"""Names of passes on the command line."""

from __future__ import annotations

from collections.abc import Iterable

import click

from dfc.cli.failures import did_you_mean
from dfc.driver import api


def check_names(names: Iterable[str]) -> None:
    """A pass that does not exist is a mistake in usage."""
    known = api.pass_names()
    for name in names:
        if name not in known:
            listed = ", ".join(known)
            raise click.UsageError(f"there is no pass {name!r}{did_you_mean(name, known)}; passes: {listed}")
