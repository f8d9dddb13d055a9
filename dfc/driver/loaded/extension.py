"""A program with further declarations behind it: from the texts of a bundle, and one more, to a bundle.

The run side finds this module when `Module.extend` is first called. Assumes texts that compiled once. Guarantees that
mistakes in the further text are told at its own lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc.bundle.writing import Bundle
from dfc.diagnostics.diagnostic import CompileError, Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.driver import pipeline
from dfc.driver.loaded.partial import Setting, built_from, options_of, without_folder
from dfc.driver.pipeline import Context
from dfc.driver.single_task import distribution_of
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.parser import parse
from dfc_runtime.calls.compiling.partial import Build

NAME = "<extension>"


def extended(
    sources: Mapping[str, str], settings: Mapping[str, Setting], target: str, isa: str, how: Build, text: str
) -> bytes:
    """The bundle of the program with these texts, the main one first, and `text` behind it. Raises `CompileError` for
    mistakes in `text`."""
    extension = SourceFile(NAME, _without_edition(text))
    parse(extension)
    (main, before), *others = sources.items()
    start = len(before) + 2
    try:
        graph = built_from({main: f"{before}\n\n{extension.text}", **dict(others)}, settings)
        graph.settings.update(settings)
        options = options_of(target, isa.split(), how)
        context = Context(options, distribution_of(options), text=graph.source, modules=graph.modules)
        bundle: Bundle = pipeline.run(graph, context, "separate")
    except CompileError as problem:
        raise CompileError(_in_extension(each, extension, start) for each in problem.diagnostics) from None
    return bundle.to_bytes()


def _without_edition(text: str) -> str:
    """The text with blanks in place of `dfg 1`, which the program before it has."""
    tokens = load_language("dfg").lex(text).tokens[:2]
    if [token.type for token in tokens] != ["DFG", "INT"]:
        return text
    end = tokens[1].end_pos
    return text[: tokens[0].start_pos] + " " * (end - tokens[0].start_pos) + text[end:]


def _in_extension(message: Diagnostic, extension: SourceFile, start: int) -> Diagnostic:
    """A message about the text behind the program, at its own place there."""

    def own(span: Span) -> Span:
        inside = span.file.text.endswith(extension.text) and span.start >= start
        return extension.span(span.start - start, span.end - start) if inside else span

    named = without_folder(message)
    return replace(named, labels=tuple(replace(each, span=own(each.span)) for each in named.labels), fixes=())
