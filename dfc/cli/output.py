"""Where text of the command line leaves: standard output and standard error, as long as a command runs.

Assumes nothing of what is written: much of it is of files and bundles that anybody may have made. Guarantees that all
of it is visible (`dfc_runtime.terminal`), whoever writes it, but for our own colours on a terminal and for programs as
data in a file or pipe; and that a character which the stream cannot spell is an escape and no failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO, cast

import click

from dfc_runtime.terminal import visible

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


class Escaping:
    """A stream on which everything is visible. It has no buffer of bytes, which would lead around it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(spelled(visible(text), self.stream))
        return len(text)

    def __getattr__(self, name: str) -> object:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


@contextmanager
def escaping() -> Generator[None]:
    """Escapes what is written to the two streams while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _escaping(sys.stdout), _escaping(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _escaping(stream: TextIO | None) -> TextIO:
    """One that was closed before the start is None, and stays so."""
    return cast("TextIO", stream if stream is None or isinstance(stream, Escaping) else Escaping(stream))


def spelled(text: str, stream: TextIO) -> str:
    """With escapes for the characters that the encoding of the stream lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def raw(stream: TextIO) -> TextIO:
    """The stream itself, for those who see to it themselves that what they write is visible."""
    return stream.stream if isinstance(stream, Escaping) else stream


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody watches; a stream that was closed before the start is None."""
    return stream is not None and stream.isatty()


def echo_drawn(text: str) -> None:
    """Drawn messages on standard error, which bring their colours along if it is a terminal: what draws them has made
    the rest visible."""
    if sys.stderr is not None and is_terminal(sys.stderr):
        click.echo(spelled(text, raw(sys.stderr)), file=raw(sys.stderr))
    else:
        click.echo(text, err=True, color=True)


def echo_heading(text: str) -> None:
    """A line in bold, on a terminal."""
    if sys.stdout is not None and is_terminal(sys.stdout):
        click.echo(f"{BOLD}{spelled(visible(text), raw(sys.stdout))}{PLAIN}", file=raw(sys.stdout))
    else:
        click.echo(text)


def echo_program(text: str, *, nl: bool = False) -> None:
    """A program. In a file or a pipe it is data, and not a character of it changes."""
    if sys.stdout is None or is_terminal(sys.stdout):
        click.echo(text, nl=nl)
    else:
        click.echo(text, nl=nl, file=raw(sys.stdout), color=True)


def close_streams() -> bool:
    """Writes out what is left; False if a stream does not take it. Python would try again when it ends, and end with
    the code 120 then: what is left goes nowhere instead."""
    taken = True
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:  # whoever read it has what he wanted
            _to_nowhere(stream)
        except OSError:
            taken = False
            _to_nowhere(stream)
    return taken


def _to_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
