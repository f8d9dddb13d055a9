"""`dfc check`: names, types, shapes and effects of programs, without generating code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import click

from dfc.cli.programs import count, print_diagnostics, source_of
from dfc.cli.values import settings
from dfc.diagnostics.diagnostic import (
    EXIT_MISTAKE,
    EXIT_UNSUPPORTED,
    NOT_SUPPORTED_YET,
    CompileError,
    Diagnostic,
)
from dfc.diagnostics.reporting import FORMATS
from dfc.elaborate import build
from dfc.elaborate.names.unread import remarks
from dfc.ir.graph import Graph
from dfc.ops.sizes.checks import checks_inside
from dfc.syntax.reader.layout import check_style
from dfc.syntax.reader.reading import DEPLOYMENT, is_deployment, read_source

WATCH_SECONDS = 0.2
MOST_WATCHED = 1000


@click.command("check", short_help="Read a program and report its mistakes.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--shapes", is_flag=True, help="List every check of sizes that an entry makes.")
@click.option(
    "--format", "form", type=click.Choice(["text", *FORMATS]), default="text", help="For people, or for programs."
)
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until interrupted.")
def command(files: tuple[str, ...], pairs: tuple[str, ...], shapes: bool, form: str, watch: bool) -> int:
    """Reports the mistakes of each FILE, a program or a deployment file; says nothing if there is none."""
    if watch and "-" in files:
        raise click.UsageError("standard input cannot be watched; name a file")
    code = _check(files, pairs, shapes, form)
    while watch:
        _wait(files)
        click.echo("", err=True)
        code = _check(files, pairs, shapes, form)
        if code == 0:
            click.echo("no errors", err=True)
    return code


def _check(files: Sequence[str], pairs: tuple[str, ...], shapes: bool, form: str) -> int:
    """Once over all files."""
    messages: list[Diagnostic] = []
    for path in files:
        source = source_of(path)
        if is_deployment(source):
            from dfc.driver import api  # a program alone is checked without what compiles

            messages += api.check(source, settings(pairs))
            continue
        examined = build.examine(source, settings(pairs))
        module, broken = examined.module, examined.is_broken
        diagnostics = [*examined.diagnostics, *(remarks(module, broken=broken) if module else ())]
        messages += diagnostics
        if module is None or examined.graph is None or any(d.is_error for d in diagnostics):
            continue
        messages += check_style(source, module)
        if shapes:
            _print_shape_checks(examined.graph)
    errors = [d for d in messages if d.is_error]
    if form == "text":
        print_diagnostics(messages)
    else:
        click.echo(FORMATS[form](messages))
    if not errors:
        return 0
    if form == "text":
        click.echo(f"\n{count(len(errors), 'error')}", err=True)
    return EXIT_UNSUPPORTED if all(d.code == NOT_SUPPORTED_YET for d in errors) else EXIT_MISTAKE


def _wait(files: Sequence[str]) -> None:
    """Returns when one of the files, or a program beside one, is not what it was, and all that are named are there."""
    named = [Path(path) for path in files]
    watched = [*named, *_programs(named)]
    before = _stamps(watched)
    while (now := _stamps(watched)) == before or any(path not in now for path in named):
        time.sleep(WATCH_SECONDS)


def _programs(named: Sequence[Path]) -> Iterator[Path]:
    """The programs of deployment files, which may lie in other folders."""
    # Programs alone are checked without what reads deployment files.
    from dfc.driver import deployment_check as deployment

    for path in named:
        if path.name.endswith(DEPLOYMENT):
            try:
                program = deployment.program_path(read_source(path))
            except (OSError, CompileError):
                continue  # it was there a moment ago: when it is again, it is read again
            if program is not None:
                yield program


def _stamps(watched: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """When each file was written and how long it is; one that is gone is left out, as while an editor replaces it.
    Programs in the same folders count, too: what is imported is looked for there first."""
    siblings = (each for folder in {path.parent for path in watched} for each in folder.glob("**/*.dfg"))
    stamps: dict[Path, tuple[int, int]] = {}
    for path in {*watched, *islice(siblings, MOST_WATCHED)}:
        try:
            status = path.stat()
        except OSError:
            continue
        stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps


def _print_shape_checks(graph: Graph) -> None:
    for entry in graph.entries.values():
        for check in entry.checks:
            location = f"{check.span.name}:{check.span.line}:{check.span.column}"
            click.echo(f"{entry.name}: {check.left} {check.relation} {check.right}  ({check.reason}, {location})")
        for inside in checks_inside(entry.block):
            location = f"{inside.span.name}:{inside.span.line}:{inside.span.column}"
            click.echo(f"{entry.name}, while it runs: {inside.condition}  ({inside.reason}, {location})")
