"""Whether the parts of entries that a deployment wants precompiled are parts of one entry, each value named once.

    step "train/scores", "train/loss" from "train/x", "train/y"

Assumes nothing of their names, which are no globs: a part is called by the very names that it is compiled for. What
only the graph shows, such as a feed that is missing, is found when they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.globs import Glob
from dfc.distribute.deployment.lines import Lines, enough, names_nothing
from dfc.distribute.deployment.model import Step


def check_steps(lines: Lines) -> Iterator[Diagnostic]:
    """A message for each name that is no value of the entry, and for parts that are listed twice."""
    seen: dict[tuple[frozenset[str], frozenset[str]], Step] = {}
    for step in lines.deployment.steps:
        yield from _unknown(step, lines)
        yield from _strangers(step)
        yield from _repeated(step)
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
        if "*" in name:
            yield _no_glob(name, span, "fetched", _values(name, lines))
        elif "/" in name and name not in ends and lines.names.find(name) is None:
            yield names_nothing(name, span, lines)
    for name, span in zip(step.feeds, step.feed_spans, strict=True):
        short = name if entry is None else name.removeprefix(f"{entry.name}/")
        full = name if entry is None else f"{entry.name}/{short}"
        if "*" in name:
            yield _no_glob(name, span, "fed", sorted(fed))
        elif short not in fed and lines.names.find(full) is None:
            yield names_nothing(name, span, lines, fed)


def _strangers(step: Step) -> Iterator[Diagnostic]:
    """Names that are not of the entry of the first fetch; a name without a `/` is of none."""
    first = step.fetches[0].partition("/")[0]
    for name, span in zip(step.fetches, step.fetch_spans, strict=True):
        if "/" not in name and "*" not in name:
            yield error("E0812", f"`{name}` is not a value of an entry", span, "values are named `ENTRY/NAME`")
        elif "*" not in first + name and name.partition("/")[0] != first:
            title = f"`{name}` and `{step.fetches[0]}` are values of different entries"
            yield error("E0812", title, span, secondary=[(step.fetch_spans[0], "the first one")])


def _no_glob(name: str, span: Span, done: str, names: list[str]) -> Diagnostic:
    """The message for a glob; `names` are some that could stand in its place."""
    title = f"`{name}` is a glob, and a step takes names"
    notes = [f"names that could be {done}: {enough(names)}"] if names else []
    return error("E0801", title, span, f"what is {done} is named value by value", notes=notes)


def _values(glob: str, lines: Lines) -> list[str]:
    """The values that a glob matches among those that an author has named."""
    pattern = Glob(glob)
    return [name for name in lines.names.graph.bound if pattern.matches(name)]


def _repeated(step: Step) -> Iterator[Diagnostic]:
    """Names that stand there twice. Two names of one value are found when the part is cut."""
    fetches = zip(step.fetches, step.fetch_spans, strict=True)
    feeds = zip(step.feeds, step.feed_spans, strict=True)
    for named, done in ((fetches, "fetched"), (feeds, "fed")):
        first: dict[str, Span] = {}
        for name, span in named:
            earlier = first.setdefault(name, span)
            if earlier is not span:
                yield error("E0804", f"`{name}` is {done} twice", span, secondary=[(earlier, "the first time")])
