"""The compiler as functions: what the command line and Python programs call.

Assumes sources as text. Guarantees that every mistake in a program is a `CompileError` with all messages of the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dfc import pipeline
from dfc.backend.bundle import Bundle, write
from dfc.diagnostics import CompileError, Diagnostic, Diagnostics
from dfc.frontend import build
from dfc.frontend.later import unused_parameters
from dfc.frontend.syntax.layout import check_style
from dfc.frontend.syntax.parser import parse_recovering
from dfc.frontend.syntax.reading import read_source
from dfc.ir.graph import Graph
from dfc.kernels.printer import print_program
from dfc.ops.spelling import show as show_graph
from dfc.options import CompileOptions
from dfc.source import SourceFile
from dfc.watching import watcher
from dfc_runtime.errors import FileError

__all__ = ["Shown", "check", "compile", "compile_source", "graph", "pass_names", "show"]

Setting = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Shown:
    """A stage of a program as text, with the warnings of its compilation."""

    text: str
    diagnostics: tuple[Diagnostic, ...]


def compile(
    path: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    deploy: str | os.PathLike[str] | None = None,
    target: str = "cpu",
    settings: Mapping[str, Setting] | None = None,
    check_finite: bool = False,
) -> Bundle:
    """The bundle of a program: of the file `path`, or of `text`. `settings` override those of the program. With
    `check_finite` a call stops at the first value that is not finite."""
    if deploy is not None:
        raise refused_deployment(deploy)
    if (path is None) == (text is None):
        raise TypeError("compile wants either the path of a program or its text")
    source = SourceFile("<text>", text) if text is not None else _read(path or "")
    chosen = tuple(sorted((settings or {}).items()))
    options = CompileOptions(target=target, settings=chosen, check_finite=check_finite)
    return compile_source(source, options)


def refused_deployment(path: str | os.PathLike[str]) -> CompileError:
    """What is to be said of a deployment file: its mistakes, or that this version runs a program in one task."""
    from dfc.frontend.deployment import check_deployment  # lark starts slowly, and is rarely needed

    return CompileError([check_deployment(_read(path))])


def _read(path: str | os.PathLike[str]) -> SourceFile:
    try:
        return read_source(Path(path))
    except OSError as problem:
        raise FileError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}", code="E0909") from None


def compile_source(source: SourceFile, options: CompileOptions) -> Bundle:
    """The bundle of a program that was read already."""
    built, diagnostics = _built(source, options)
    watch = watcher(options)
    optimised = pipeline.finish(pipeline.optimise(built, options, watch), options, watch)
    program, lowered = pipeline.lower(optimised, options, watch)
    return write(program, lowered, source.text, built.settings, diagnostics, built.modules)


def show(source: SourceFile, options: CompileOptions, stage: str) -> Shown:
    """A stage as text: the `graph` (as built, or after the pass `options.stop_after`), its `kernels`, or `llvm`."""
    built, diagnostics = _built(source, options)
    if stage == "graph":
        graph = pipeline.optimise(built, options) if options.stop_after is not None else built
        return Shown(show_graph(graph), diagnostics)
    optimised = pipeline.optimise(built, options)
    if stage == "kernels":
        return Shown(print_program(pipeline.scheduled(optimised)), diagnostics)
    wanted = replace(options, target_options=replace(options.target_options, dump_llvm=True))
    _, lowered = pipeline.lower(optimised, wanted)
    return Shown("\n".join(lowered.listings), diagnostics)


def pass_names() -> tuple[str, ...]:
    """Every pass, in the order of its first run."""
    return tuple(dict.fromkeys(phase.name for phase in pipeline.all_phases()))


def graph(source: SourceFile, settings: Mapping[str, Setting]) -> Graph:
    """The graph of a program as the front end makes it."""
    return build.build(source, settings)


def check(source: SourceFile, settings: Mapping[str, Setting]) -> list[Diagnostic]:
    """Every message about a program, from its style to its graph; no code is generated."""
    module = parse_recovering(source, Diagnostics())  # its messages come from the build below
    remarks = [*unused_parameters(module), *check_style(source, module)] if module is not None else []
    return [*build.check(source, settings), *remarks]


def _built(source: SourceFile, options: CompileOptions) -> tuple[Graph, tuple[Diagnostic, ...]]:
    """The graph as the front end makes it, without tests unless they are wanted, and the warnings."""
    settings = dict(options.settings)
    made, diagnostics = build.elaborate(source, settings)
    if made is None:
        raise CompileError(diagnostics)
    made.settings.update(settings)
    if not options.with_tests:
        made.tests.clear()
    return made, diagnostics
