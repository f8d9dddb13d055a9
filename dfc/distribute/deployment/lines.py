"""Which lines hold for what: the most specific ones that match.

A line about a value holds also for what its statement computes on the way, unless a more specific line says otherwise.
Guarantees that every line without a match is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.distribute.deployment.globs import Glob
from dfc.distribute.deployment.model import Colocate, Deployment, PlaceStatement, Shard
from dfc.distribute.deployment.names import Names, Thing

Statement: TypeAlias = PlaceStatement | Shard | Colocate
LONGEST_NOTE = 90

Specificity: TypeAlias = tuple[int, int, bool]


@dataclass(slots=True)
class Best:
    """The lines that hold for one thing; all of them are equally specific."""

    specificity: Specificity
    statements: list[Statement]

    def placements(self) -> list[PlaceStatement]:
        return [each for each in self.statements if isinstance(each, PlaceStatement)]

    def shards(self) -> list[Shard]:
        return [each for each in self.statements if isinstance(each, Shard)]

    def colocations(self) -> list[Colocate]:
        return [each for each in self.statements if isinstance(each, Colocate)]


@dataclass
class Lines:
    """The lines of a deployment with what they match in a program: `best` by name of node or state."""

    deployment: Deployment
    names: Names
    best: dict[str, Best] = field(default_factory=dict[str, Best])
    globs: list[tuple[Glob, Statement]] = field(default_factory=list[tuple[Glob, Statement]])

    def match(self) -> Iterator[Diagnostic]:
        """Finds what every line matches; yields a message for each that matches nothing."""
        deployment = self.deployment
        for statement in (*deployment.placements, *deployment.colocations, *deployment.shards):
            text = statement.name if isinstance(statement, Shard) else statement.glob
            span = statement.name_span if isinstance(statement, Shard) else statement.glob_span
            glob = Glob(text)
            if isinstance(statement, Shard) and not glob.is_literal:
                continue  # the checks of shards say that it cannot be
            self.globs.append((glob, statement))
            matches = list(self.names.matching(glob))
            if not matches:
                yield names_nothing(text, span, self, takes_globs=not isinstance(statement, Shard))
            for thing in matches:
                for part in self.names.with_parts(thing):
                    self._hold(part, glob, statement)

    def _hold(self, thing: Thing, glob: Glob, statement: Statement) -> None:
        known = self.best.get(thing.name)
        if known is None or glob.specificity > known.specificity:
            self.best[thing.name] = Best(glob.specificity, [statement])
        elif glob.specificity == known.specificity and statement not in known.statements:
            known.statements.append(statement)

    def matching(self, name: str) -> Best | None:
        """The most specific lines that match a name that the program did not have; only globs can."""
        best: Best | None = None
        for glob, statement in self.globs:
            if glob.is_literal or not glob.matches(name):
                continue
            if best is None or glob.specificity > best.specificity:
                best = Best(glob.specificity, [statement])
            elif glob.specificity == best.specificity:
                best.statements.append(statement)
        return best

    def origin(self, name: str) -> str | None:
        """The node that a pass made this one of: its name begins with that one's."""
        while "/" in name:
            shorter, _, last = name.rpartition("/")
            stem, _, number = last.rpartition("_")
            if number.isdigit() and f"{shorter}/{stem}" in self.names.by_name:
                return self.names.by_name[f"{shorter}/{stem}"].name
            thing = self.names.find(shorter)
            if thing is not None:
                return thing.name
            name = shorter
        return None


def names_nothing(
    text: str, span: Span, lines: Lines, others: Collection[str] = (), *, takes_globs: bool = False
) -> Diagnostic:
    """The message for a name or a glob that matches nothing; `others` are names that would do there too."""
    names = lines.names
    title = f"`{text}` names nothing in {lines.deployment.program}"
    if "*" not in text and names.inside(text):
        mark = "/" if text in names.graph.entries else "."
        whole = f"{text}{mark}**"
        label = "has no place of its own; its parts have"
        helps: list[Help] = []
        if takes_globs:
            helps = [replacing(f'for all that is in it, write `"{whole}"`', span, f'"{whole}"')]
        return error("E0801", title, span, label, helps=helps)
    entry = text.partition("/")[0]
    if others:
        notes = [f"feeds: {enough(sorted(others))}"]
    elif "/" in text and entry in names.graph.entries:
        inside = [name.partition("/")[2] for name in names.graph.bound if name.startswith(f"{entry}/")]
        notes = [f"named values of `{entry}`: {enough(inside)}"] if inside else []
    else:
        top = names.top_level()
        notes = [f"top-level state: {enough(top)}"] if top else ["the program has no state"]
    near = closest(text.replace("*", ""), [*names.author_names(), *others])
    return error("E0801", title, span, did_you_mean(near), notes=notes)


def enough(names: list[str]) -> str:
    """As many of the names as fit a line, the first in any case."""
    text, *rest = names
    for name in rest:
        if len(text) + len(name) > LONGEST_NOTE:
            return f"{text}, ..."
        text += f", {name}"
    return text
