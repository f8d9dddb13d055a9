"""Program files as sources, and what a command says about their mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from dfc.cli.output import echo_drawn, is_terminal
from dfc.diagnostics.diagnostic import Diagnostic, render
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.limits import SIZE_LIMIT
from dfc.syntax.reader.reading import decode_source, read_source


def source_of(path: str) -> SourceFile:
    """The program of a file, or of standard input for `-`; a file that is no text is a diagnostic."""
    if path == "-":
        is_open = sys.stdin is not None  # it is None if it was closed before the start
        return decode_source(sys.stdin.buffer.read(SIZE_LIMIT + 1) if is_open else b"", "<stdin>")
    if not Path(path).exists():
        raise click.UsageError(f"there is no file {path}")
    if Path(path).is_dir():
        raise click.UsageError(f"{path} is a folder; name the .dfg files in it")
    return read_source(Path(path))


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Every message on standard error, an empty line between two."""
    colour = is_terminal(sys.stderr)
    text = "\n\n".join(render(d, colour=colour) for d in diagnostics)
    if text:
        echo_drawn(text)


def print_warnings(diagnostics: Iterable[Diagnostic]) -> None:
    """The messages of a program that was accepted."""
    print_diagnostics(d for d in diagnostics if not d.is_error)


def count(number: int, what: str) -> str:
    """`1 error`, `3 errors`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
