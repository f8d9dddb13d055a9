"""What can be named in a deployment file: state, and the values of the entries.

A value may have several names: those the author gave it (`graph.bound`), its own, and its node's. A node that an author
did not name belongs to the value in whose statement it stands, if there is one: `train/h/matmul` to `train/h`.

Assumes a graph as the front end makes it. Guarantees that every state, every node and every result of a node is a
thing, and that a name means one thing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.globs import Glob
from dfc.ir.graph import Graph, Node
from dfc.ir.walk import nodes


@dataclass(slots=True)
class Thing:
    """Something with a place: `name` is the name of its node or state, `names` are all of them, that one first."""

    name: str
    names: list[str]
    is_state: bool = False
    bound: bool = False


@dataclass
class Names:
    """All things of a program by name."""

    graph: Graph
    things: dict[str, Thing] = field(default_factory=dict[str, Thing])
    by_name: dict[str, Thing] = field(default_factory=dict[str, Thing])
    _parts: dict[str, list[Thing]] = field(default_factory=lambda: defaultdict[str, list[Thing]](list))

    def __post_init__(self) -> None:
        for name in self.graph.resources:
            self._add(Thing(name, [name], is_state=True))
        bound: dict[int, list[str]] = defaultdict(list)
        for name, value in self.graph.bound.items():
            bound[id(value)].append(name)
        for entry in self.graph.entries.values():
            for node in nodes(entry.block):
                self._add(_thing(node, bound))
        for thing in self.things.values():
            owner = self.owner(thing.name)
            if owner is not None:
                self._parts[owner.name].append(thing)

    def _add(self, thing: Thing) -> None:
        known = self.things.setdefault(thing.name, thing)
        for name in thing.names:
            self.by_name.setdefault(name, known)

    def find(self, name: str) -> Thing | None:
        """The thing that a literal name stands for; the name of an entry stands for nothing by itself."""
        return None if name in self.graph.entries else self.by_name.get(name)

    def owner(self, name: str) -> Thing | None:
        """The nearest named value in whose statement a node of this name stands."""
        while "/" in name:
            name = name.rpartition("/")[0]
            thing = self.by_name.get(name)
            if thing is not None and thing.bound:
                return thing
        return None

    def matching(self, glob: Glob) -> Iterator[Thing]:
        """The things one of whose names a glob matches, in the order of the program."""
        if glob.is_literal:
            thing = self.find(glob.text)
            if thing is not None:
                yield thing
            return
        for thing in self.things.values():
            if any(glob.matches(name) for name in thing.names):
                yield thing

    def with_parts(self, thing: Thing) -> Iterator[Thing]:
        """A thing and what belongs to it, each once: a value that is named twice may belong to itself."""
        pending, seen = [thing], {thing.name}
        while pending:
            current = pending.pop()
            yield current
            more = [each for each in self._parts.get(current.name, ()) if each.name not in seen]
            seen.update(each.name for each in more)
            pending.extend(more)

    def state(self) -> list[str]:
        """Every state's name."""
        return [thing.name for thing in self.things.values() if thing.is_state]

    def top_level(self) -> list[str]:
        """State, and the blocks that have state, as they are declared in the program itself."""
        return list(dict.fromkeys(name.partition(".")[0] for name in self.graph.resources))

    def author_names(self) -> list[str]:
        """The names that an author has written."""
        return [*self.graph.resources, *self.graph.bound]

    def inside(self, prefix: str) -> bool:
        """Whether a name stands for a whole: an entry, or a block with state."""
        return prefix in self.graph.entries or any(
            name.startswith((f"{prefix}.", f"{prefix}/")) for name in self.by_name
        )


def _thing(node: Node, bound: dict[int, list[str]]) -> Thing:
    names = [node.name]
    is_bound = False
    for result in node.results:
        bound_names = bound.get(id(result), [])
        is_bound = is_bound or bool(bound_names)
        names += [result.name, *bound_names]
    return Thing(node.name, list(dict.fromkeys(names)), bound=is_bound)
