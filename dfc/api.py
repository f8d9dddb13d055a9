"""The compiler as functions: what the command line and Python programs call.

Assumes sources as text. Guarantees that every mistake in a program is a `CompileError` with all messages of the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dfc import pipeline
from dfc.backend.bundle import Bundle
from dfc.diagnostics import CompileError, Diagnostic
from dfc.frontend.syntax.reading import read_source
from dfc.ir.graph import Graph
from dfc.options import CompileOptions
from dfc.source import SourceFile
from dfc_runtime.errors import FileError, UnsupportedError

Setting = int | float | bool | str


def compile(
    path: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    deploy: str | None = None,
    target: str = "cpu",
    settings: Mapping[str, Setting] | None = None,
) -> Bundle:
    """The bundle of a program: of the file `path`, or of `text`. `settings` override those of the program."""
    if deploy is not None:
        raise UnsupportedError(
            "deploy files are not supported yet: leave `deploy` out to run in one task", code="E1001"
        )
    if (path is None) == (text is None):
        raise TypeError("compile wants either the path of a program or its text")
    source = SourceFile("<text>", text) if text is not None else _read(path or "")
    options = CompileOptions(target=target, settings=tuple(sorted((settings or {}).items())))
    return compile_source(source, options)


def _read(path: str | os.PathLike[str]) -> SourceFile:
    try:
        return read_source(Path(path))
    except OSError as problem:
        raise FileError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}", code="E0909") from None


def compile_source(source: SourceFile, options: CompileOptions) -> Bundle:
    """The bundle of a program that was read already."""
    return pipeline.compile_source(source, options)


def graph(source: SourceFile, settings: Mapping[str, Setting]) -> Graph:
    """The graph of a program as the front end makes it."""
    return pipeline.elaborated(source, settings).graph


def check(source: SourceFile, settings: Mapping[str, Setting]) -> list[Diagnostic]:
    """Every message about a program, from reading it to its graph; no code is generated."""
    try:
        return list(pipeline.elaborated(source, settings).diagnostics)
    except CompileError as mistakes:
        return list(mistakes.diagnostics)
