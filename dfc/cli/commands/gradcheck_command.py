"""`dfc gradcheck`: the gradients of a program against central differences."""

from __future__ import annotations

import click

from dfc.cli.failures import did_you_mean
from dfc.cli.programs import source_of
from dfc.cli.values import pair, settings
from dfc.diagnostics.diagnostic import EXIT_MISTAKE
from dfc.driver.gradcheck import TOLERANCE, Compared, gradcheck
from dfc.elaborate import build


@click.command("gradcheck", short_help="Compare the gradients of a program with central differences.")
@click.argument("file", metavar="FILE")
@click.option("--entry", metavar="NAME", help="Only the gradients of this entry.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=N", help="A symbolic size; 3 if it is not given.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="What feeds are drawn from.")
def command(file: str, entry: str | None, pairs: tuple[str, ...], sizes: tuple[str, ...], seed: int) -> int:
    """Compares every gradient in FILE, in double precision, along random directions."""
    graph = build.build(source_of(file), settings(pairs))
    if entry is not None and entry not in graph.entries:
        raise click.UsageError(f"there is no entry {entry!r}{did_you_mean(entry, graph.entries)}")
    comparisons = gradcheck(graph, seed, dict(_size(text) for text in sizes), entry)
    click.echo(f"seed {seed}, double precision, relative error along random directions, at most {TOLERANCE:g}")
    for each in comparisons:
        click.echo(_line(each))
    if not comparisons:
        click.echo("the program takes no gradient")
    return EXIT_MISTAKE if any(each.is_wrong for each in comparisons) else 0


def _size(text: str) -> tuple[str, int]:
    name, value = pair(text, "size")
    if not value.isascii() or not value.isdigit():
        raise click.UsageError(f"size {text!r} is not of the form NAME=N")
    return name, int(value)


def _line(each: Compared) -> str:
    where = f"{each.entry}: `{each.target}`"
    location = "" if each.span.is_nowhere else f" ({each.span})"
    if each.error is None:
        return f"  not compared  {where} {each.reason}{location}"
    verdict = "WRONG" if each.is_wrong else "right"
    return f"  {verdict}  {each.error:.1e}  {where}{location}"
