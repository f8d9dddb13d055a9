"""Deployment files beside the programs they are for: `dfc check x.deploy`.

Assumes that a program lies where its deployment file says, seen from the folder of that file. Guarantees that the
mistakes of the program are reported before those of the deployment, which would often follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import Deployment
from dfc.distribute.deployment.resolve import resolve, wrong_names
from dfc.distribute.deployment.syntax.parse import parse_partly
from dfc.elaborate import build
from dfc.ir.graph import Graph
from dfc.syntax.reader.reading import read_source


def program_path(source: SourceFile) -> Path | None:
    """Where the program of a deployment file lies, if it says so."""
    program = parse_partly(source)[0].program
    return Path(source.name).parent / program if program else None


def messages(source: SourceFile, settings: Mapping[str, int | float | bool | str]) -> list[Diagnostic]:
    """All messages about a deployment file and, if they stand in its way, about its program."""
    return examined(source, settings)[0]


def examined(
    source: SourceFile, settings: Mapping[str, int | float | bool | str]
) -> tuple[list[Diagnostic], Graph | None]:
    """The same, and the graph of the program if both are without mistakes."""
    deployment, diagnostics = parse_partly(source)
    is_wrong = any(each.is_error for each in diagnostics)
    program, problems = _program(deployment)
    if program is None:
        return (diagnostics if is_wrong else [*diagnostics, *problems]), None
    try:
        graph, problems = build.elaborate(program, settings)
    except CompileError as failure:
        return [*diagnostics, *failure.diagnostics], None
    if graph is None:
        return [*diagnostics, *problems], None
    if is_wrong:
        diagnostics += wrong_names(deployment, graph)
        return sorted(diagnostics, key=lambda each: each.span.start), None
    diagnostics = [*diagnostics, *resolve(deployment, graph)[1]]
    return diagnostics, None if any(each.is_error for each in diagnostics) else graph


def _program(deployment: Deployment) -> tuple[SourceFile | None, tuple[Diagnostic, ...]]:
    path = Path(deployment.source.name).parent / deployment.program
    try:
        return read_source(path), ()
    except CompileError as failure:
        return None, failure.diagnostics
    except OSError as failure:
        title = f"cannot read {deployment.program}: {failure.strerror or failure}"
        helps = ["the program lies beside its deployment file"]
        return None, (error("E0809", title, deployment.program_span, helps=helps),)
