"""`dfc check`: names, types, shapes and effects of programs, without generating code."""

from __future__ import annotations

import click

from dfc.cli.programs import count, print_diagnostics, source_of
from dfc.cli.values import settings
from dfc.diagnostics import EXIT_MISTAKE, EXIT_UNSUPPORTED, NOT_SUPPORTED_YET, Diagnostic
from dfc.frontend import build
from dfc.frontend.syntax import parse
from dfc.frontend.syntax.layout import check_style
from dfc.source import SourceFile


@click.command("check", short_help="Read a program and report its mistakes.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--shapes", is_flag=True, help="List every check of sizes that an entry makes when it is called.")
def command(files: tuple[str, ...], pairs: tuple[str, ...], shapes: bool) -> int:
    """Reports the mistakes of each FILE; says nothing if there is none."""
    found: list[Diagnostic] = []
    for path in files:
        source = source_of(path)
        diagnostics = build.check(source, settings(pairs))
        found += diagnostics
        if not any(d.is_error for d in diagnostics):
            found += style_warnings(source)
        if shapes and not any(d.is_error for d in diagnostics):
            _print_shape_checks(path, pairs)
    print_diagnostics(found)
    errors = [d for d in found if d.is_error]
    if not errors:
        return 0
    click.echo(f"\n{count(len(errors), 'error')}", err=True)
    return EXIT_UNSUPPORTED if all(d.code == NOT_SUPPORTED_YET for d in errors) else EXIT_MISTAKE


def style_warnings(source: SourceFile) -> list[Diagnostic]:
    """What is allowed but better otherwise: no edition, long lines."""
    return list(check_style(source, parse(source)))


def _print_shape_checks(path: str, pairs: tuple[str, ...]) -> None:
    graph = build.build(source_of(path), settings(pairs))
    for entry in graph.entries.values():
        for check in entry.checks:
            place = f"{check.span.name}:{check.span.line}:{check.span.column}"
            click.echo(f"{entry.name}: {check.left} {check.relation} {check.right}  ({check.reason}, {place})")
