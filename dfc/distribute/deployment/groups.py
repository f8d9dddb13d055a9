"""What has to stay together, and whether there is a device for it.

Things that a `colocate` line joins are one group (a union-find over nodes and state); what holds for a member holds for
all. Guarantees that the constraints of a group do not contradict each other and that some device of the jobs satisfies
them, or a message that shows every line with a part in it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.distribute.deployment.constraints import asked_by, contradict, intersection, words_of
from dfc.distribute.deployment.feasible import Feasible
from dfc.distribute.deployment.lines import Lines, Statement, names_nothing
from dfc.distribute.deployment.model import Colocate, PlaceStatement, Shard
from dfc.distribute.deployment.names import Thing
from dfc.distribute.deployment.resolution import Group, ResolvedConstraint


def check_leaders(lines: Lines) -> Iterator[Diagnostic]:
    """A message for each line that colocates with nothing, or with itself."""
    for line in lines.deployment.colocations:
        leader = lines.names.find(line.name)
        if leader is None:
            yield names_nothing(line.name, line.name_span, lines)
        elif lines.names.find(line.glob) is leader:
            title = f"`{line.glob}` is where it is"
            helps = ["name something else, or delete the line"]
            yield error("E0810", title, line.span, "colocated with itself", helps=helps)


class Joining:
    """Groups on their way: `join` fills `groups` and `resolved_constraints`."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.feasible = Feasible(lines.deployment)
        self.groups: dict[str, Group] = {}
        self.resolved_constraints: dict[str, ResolvedConstraint] = {}
        self._parent: dict[str, str] = {}
        self._links: dict[str, list[tuple[str, Colocate]]] = defaultdict(list)
        self._reported: set[tuple[int, int]] = set()

    def join(self) -> Iterator[Diagnostic]:
        yield from check_leaders(self.lines)
        for name, best in self.lines.best.items():
            for line in best.colocations():
                leader = self.lines.names.find(line.name)
                if leader is not None and leader.name != name:
                    self._union(name, leader.name, line)
        yield from self._rule_each()
        yield from self._rule_groups()

    # ------------------------------------------------------------ union-find --

    def _root(self, name: str) -> str:
        parent = self._parent
        while parent.setdefault(name, name) != name:
            parent[name] = parent.setdefault(parent[name], parent[name])
            name = parent[name]
        return name

    def _union(self, name: str, leader: str, line: Colocate) -> None:
        self._links[name].append((leader, line))
        self._links[leader].append((name, line))
        self._parent[self._root(name)] = self._root(leader)

    def _members(self) -> Iterator[list[Thing]]:
        """The things of each group, in the order of the program."""
        members: dict[str, list[Thing]] = defaultdict(list)
        for name, thing in self.lines.names.things.items():
            if name in self._parent:
                members[self._root(name)].append(thing)
        yield from members.values()

    def _chain(self, first: str, last: str) -> list[Colocate]:
        """The lines that join two members, by the shortest way."""
        before: dict[str, tuple[str, Colocate] | None] = {first: None}
        waiting = deque([first])
        while waiting and last not in before:
            name = waiting.popleft()
            for other, line in self._links[name]:
                if other not in before:
                    before[other] = (name, line)
                    waiting.append(other)
        chain: list[Colocate] = []
        step = before.get(last)
        while step is not None:
            if step[1] not in chain:
                chain.append(step[1])
            step = before[step[0]]
        return chain[::-1]

    # ----------------------------------------------------------- constraints --

    def _rule_each(self) -> Iterator[Diagnostic]:
        """What the lines about each thing say together."""
        for name, best in self.lines.best.items():
            resolved: ResolvedConstraint | None = None
            for statement in (*best.placements(), *best.shards()):
                problem = self._contradiction(resolved, statement)
                if problem is not None:
                    yield from self._once(problem[0], problem[1], name)
                    continue
                resolved = self._narrowed(resolved, statement)
            if resolved is None:
                continue
            self.resolved_constraints[name] = resolved
            if name not in self._parent:
                yield from self.feasible.check(resolved, ())

    def _contradiction(
        self, resolved: ResolvedConstraint | None, statement: PlaceStatement | Shard
    ) -> tuple[Statement, Statement] | None:
        if resolved is None:
            return None
        contradicting = (
            each for each in resolved.causes if not isinstance(each, Colocate) and contradict(each, statement)
        )
        cause = next(contradicting, None)
        return None if cause is None else (cause, statement)

    def _narrowed(self, resolved: ResolvedConstraint | None, statement: PlaceStatement | Shard) -> ResolvedConstraint:
        asked = asked_by(statement)
        if resolved is None:
            return ResolvedConstraint(asked, (statement,))
        both = intersection(resolved.constraint, asked)
        return ResolvedConstraint(both or resolved.constraint, (*resolved.causes, statement))

    def _rule_groups(self) -> Iterator[Diagnostic]:
        for members in self._members():
            names = tuple(thing.name for thing in members)
            resolved: ResolvedConstraint | None = None
            source: dict[int, str] = {}
            for name in names:
                own = self.resolved_constraints.get(name)
                for statement in () if own is None else own.causes:
                    if isinstance(statement, Colocate) or (resolved is not None and statement in resolved.causes):
                        continue
                    clash = self._contradiction(resolved, statement)
                    if clash is not None:
                        yield from self._apart(clash, source[id(clash[0])], name)
                        continue
                    source[id(statement)] = name
                    resolved = self._narrowed(resolved, statement)
            links = tuple(dict.fromkeys(line for name in names for _, line in self._links[name]))
            if resolved is not None:
                yield from self.feasible.check(resolved, links)
                resolved = ResolvedConstraint(resolved.constraint, (*resolved.causes, *links))
            group = Group(names, links, resolved)
            self.groups.update(dict.fromkeys(names, group))

    # -------------------------------------------------------------- messages --

    def _once(self, first: Statement, second: Statement, name: str) -> Iterator[Diagnostic]:
        """Two lines about one thing."""
        if self._is_reported(first, second):
            return
        title = f"two lines place `{self._author_name(name)}` differently, and none is more specific"
        helps = ["delete one of them, or name what is meant in full"]
        if isinstance(first, Shard) or isinstance(second, Shard):
            title = f"`{self._author_name(name)}` is to be spread over the tasks of a job, and to be somewhere else"
            helps = ["delete one of the lines"]
        secondary = [(words_of(first), _request_text(first))]
        yield error("E0804", title, words_of(second), _request_text(second), secondary=secondary, helps=helps)

    def _apart(self, clash: tuple[Statement, Statement], one: str, other: str) -> Iterator[Diagnostic]:
        """Two lines about different members of a group."""
        first, second = clash
        if self._is_reported(first, second):
            return
        left, right = self._author_name(one), self._author_name(other)
        title = f"`{left}` and `{right}` have to be on one device, but are placed apart"
        secondary = [(words_of(first), f"`{left}` is placed here")]
        secondary += [(line.span, "joined by this line") for line in self._chain(one, other)]
        helps = ["delete one of these lines"]
        label = f"`{right}` is placed here"
        yield error("E0804", title, words_of(second), label, secondary=secondary, helps=helps)

    def _is_reported(self, first: Statement, second: Statement) -> bool:
        key = (first.span.start, second.span.start)
        known = key in self._reported
        self._reported.add(key)
        return known

    def _author_name(self, name: str) -> str:
        """The name that an author would use: that of the value in whose statement a node stands, if it has none."""
        names = self.lines.names
        thing = names.by_name[name]
        if not (thing.bound or thing.is_state):
            thing = names.owner(name) or thing
        graph = names.graph
        return next((each for each in thing.names if each in graph.bound or each in graph.resources), name)


def _request_text(statement: Statement) -> str:
    """What a line asks for, in words."""
    if isinstance(statement, Colocate):
        return f"with `{statement.name}`"
    asked = asked_by(statement)
    return f"over all tasks of `{asked.job}`" if isinstance(statement, Shard) else f"on `{asked}`"
