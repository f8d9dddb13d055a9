"""Whether the parts of entries that a deployment wants compiled ahead are parts of one entry."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.deployment.lines import Lines, names_nothing
from dfc.deployment.model import Step
from dfc.diagnostics import NOT_SUPPORTED_YET, Diagnostic, error


def check_steps(lines: Lines) -> Iterator[Diagnostic]:
    """A message for each name that is no value of the entry, and for what is not supported yet."""
    for step in lines.deployment.steps:
        found = [*_unknown(step, lines), *_strangers(step)]
        yield from found
        if not found:
            title = "parts of entries are not compiled ahead yet"
            helps = ["delete the line: a part is compiled when it is first run"]
            yield error(NOT_SUPPORTED_YET, title, step.span, helps=helps)


def _unknown(step: Step, lines: Lines) -> Iterator[Diagnostic]:
    entry = lines.names.graph.entries.get(step.fetches[0].partition("/")[0])
    fed: set[str] = set()
    if entry is not None:
        fed = {*entry.parameter_names, *(symbol.name for symbol in entry.dim_feeds)}
    for name, span in zip(step.fetches, step.fetch_spans, strict=True):
        thing = lines.names.find(name)
        if thing is None:
            yield names_nothing(name, span, lines)
    for name, span in zip(step.feeds, step.feed_spans, strict=True):
        if name not in fed and lines.names.find(name) is None:
            yield names_nothing(name, span, lines, fed)


def _strangers(step: Step) -> Iterator[Diagnostic]:
    """Names that are not of the entry of the first fetch; a name without a `/` is of none."""
    first = step.fetches[0].partition("/")[0]
    for name, span in zip(step.fetches, step.fetch_spans, strict=True):
        if "/" not in name:
            yield error("E0812", f"`{name}` is not a value of an entry", span, "values are named `ENTRY/NAME`")
        elif name.partition("/")[0] != first:
            title = f"`{name}` and `{step.fetches[0]}` are values of different entries"
            yield error("E0812", title, span, secondary=[(step.fetch_spans[0], "the first one")])
