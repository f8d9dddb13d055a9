"""Whether the parts of entries that a deployment wants compiled ahead are parts of one entry.

Assumes nothing of their names. What only the graph shows, such as a feed that is missing, is found when they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.deployment.lines import Lines, names_nothing
from dfc.deployment.model import Step
from dfc.diagnostics import Diagnostic, error


def check_steps(lines: Lines) -> Iterator[Diagnostic]:
    """A message for each name that is no value of the entry, and for parts that are listed twice."""
    seen: dict[tuple[frozenset[str], frozenset[str]], Step] = {}
    for step in lines.deployment.steps:
        yield from _unknown(step, lines)
        yield from _strangers(step)
        earlier = seen.setdefault((frozenset(step.fetches), frozenset(step.feeds)), step)
        if earlier is not step:
            title = "this part is compiled ahead twice"
            yield error("E0804", title, step.span, secondary=[(earlier.span, "the first line")])


def _unknown(step: Step, lines: Lines) -> Iterator[Diagnostic]:
    entry = lines.names.graph.entries.get(step.fetches[0].partition("/")[0])
    ends, fed = set[str](), set[str]()
    if entry is not None:
        ends = {f"{entry.name}/{name}" for name in (*entry.parameter_names, *entry.result_names)}
        fed = {*entry.parameter_names, *map(str, entry.dims)}
    for name, span in zip(step.fetches, step.fetch_spans, strict=True):
        if "/" in name and name not in ends and lines.names.find(name) is None:
            yield names_nothing(name, span, lines)
    for name, span in zip(step.feeds, step.feed_spans, strict=True):
        short = name if entry is None else name.removeprefix(f"{entry.name}/")
        full = name if entry is None else f"{entry.name}/{short}"
        if short not in fed and lines.names.find(full) is None:
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
