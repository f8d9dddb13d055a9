"""`dfc why`: why values share a kernel, are computed again or lie in memory."""

from __future__ import annotations

import click

from dfc.cli.output import echo_program
from dfc.cli.programs import print_warnings, source_of
from dfc.cli.values import settings
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.driver import api
from dfc.ir.options import CompileOptions


@click.command("why", short_help="Say why values share a kernel or lie in memory.")
@click.argument("file", metavar="FILE")
@click.argument("name", metavar="[NAME]", required=False, default="")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--target", default="cpu", show_default=True, help="What the kernels are for: cpu or cuda.")
def command(file: str, name: str, pairs: tuple[str, ...], target: str) -> int:
    """Prints the kernels of each entry of FILE, the bytes that each of them moves at least, and why it computes what it
    computes: bytes saved against work repeated. With NAME, only kernels that mention it.

    Sizes that are known at the call only are taken to be 64 where figures are compared.
    """
    source, options = source_of(file), CompileOptions(target, settings=tuple(settings(pairs).items()))
    shown = api.show(source, options, "reasons", name)
    if not shown.text.strip() and name:
        near = did_you_mean(closest(name, _names(api.show(source, options, "reasons").text)))
        raise click.UsageError(f"no kernel of {file} mentions {name}{': ' + near if near else ''}")
    if not shown.text.strip():
        raise click.UsageError(f"{file} has no kernels")
    print_warnings(shown.diagnostics)
    echo_program(shown.text, nl=not shown.text.endswith("\n"))
    return 0


def _names(text: str) -> set[str]:
    """What the lines about kernels name: entries, and values by their paths."""
    return {word.strip(",:") for word in text.split() if "/" in word or "." in word}
