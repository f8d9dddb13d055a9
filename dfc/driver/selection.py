"""A part of an entry, by names: which values are fetched, which are fed, and the graph that computes the ones from the
others.

Assumes the graph as the front end makes it. Guarantees that full names are those of `dfc show`, and that a name nobody
knows, or one inside a loop or branch, is a `FeedError` that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.driver.written_state import read_after, written_variables
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node, Value
from dfc.ir.names import identifier
from dfc.ir.types import TensorType
from dfc.transforms.subgraph.extraction import Named, extract
from dfc_runtime.errors import FeedError
from dfc_runtime.names import did_you_mean


@dataclass(frozen=True, slots=True)
class Selection:
    """A graph with the one entry `entry`. `feeds` says which parameter, or size, of it each name of a feed is;
    `fetched` and `fed` are all names for each of them, beginning with the one that was asked for."""

    graph: Graph
    entry: str
    feeds: Mapping[str, str]
    fetched: tuple[tuple[str, ...], ...]
    fed: tuple[tuple[str, ...], ...]


def select(graph: Graph, fetches: Sequence[str], feeds: Sequence[str]) -> Selection:
    """The part that computes these values from those. All are of one entry."""
    entry = _entry(graph, fetches)
    variables = written_variables(graph, entry).keys() - _Names(entry, graph.bound).all.keys()
    entry, after = read_after(graph, entry, variables.intersection(fetches))
    known = _Names(entry, graph.bound, after, variables)
    fetched = [(name, known.fetched(name)) for name in fetches]
    fed: list[tuple[str, Value]] = []
    renamed: dict[str, str] = {}
    for name in feeds:
        size = known.size(name)
        if size is None:
            value = known.fed(name)
            renamed[name] = known.parameters.get(value, known.canonical(value))
            fed.append((renamed[name], value))
        else:
            renamed[name] = size
    _refuse_twice(entry, renamed)
    part = extract(graph, entry, fetched, sorted(fed, key=lambda pair: pair[0]))
    if part.missing:
        what = ", ".join(f"{name}: {_type(entry, name)}" for name in part.missing)
        raise _wrong(f"{_listed(fetched)} needs the feed {what}")
    return Selection(
        part.graph,
        entry.name,
        renamed,
        tuple(_first(name, known.names_of(value)) for name, value in fetched),
        tuple(_first(name, known.spellings_of(name)) for name in feeds),
    )


def _first(name: str, others: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, *others)))


def _entry(graph: Graph, fetches: Sequence[str]) -> Entry:
    """The entry whose values are asked for."""
    entries = graph.entries
    whole = next((name for name in fetches if name in entries), None)
    if whole is not None:
        raise _wrong(f"`{whole}` is an entry, which runs where it is fetched alone; its values are called {whole}/NAME")
    names = list(dict.fromkeys(name.split("/")[0] for name in fetches))
    unknown = next((full for full in fetches if full.split("/")[0] not in entries), None)
    if unknown is not None:
        known = [name for each in entries.values() for name in _Names(each, graph.bound).all]
        short = [full for full in known if full.split("/")[-1] == unknown]
        hint = f"; did you mean {short[0]}?" if short else did_you_mean(unknown, [*entries, *known])
        raise _wrong(f"`{unknown}` is no entry, and no value of one, as entry/name{hint}")
    if len(names) > 1:
        raise _wrong(f"one run is of one entry, but `{names[0]}` and `{names[1]}` are two")
    return entries[names[0]]


# -------------------------------------------------------------------- names --


@dataclass(slots=True)
class _Names:
    """The names of one entry's values, as the author, `dfc show` and messages write them; `variables` are those of
    variables that it writes, and `after` what those that are fetched hold behind it."""

    entry: Entry
    bound: Mapping[str, Value]
    after: Mapping[str, Value] = field(default_factory=dict[str, Value])
    variables: Collection[str] = ()
    parameters: dict[Value, str] = field(default_factory=dict[Value, str])
    all: dict[str, Value] = field(default_factory=dict[str, Value])
    inside: dict[str, Node] = field(default_factory=dict[str, Node])

    def __post_init__(self) -> None:
        """What the author bound comes first, then what nodes are called, then feeds and results."""
        entry = self.entry
        top = {*entry.block.parameters, *(value for node in entry.block.nodes for value in node.results)}
        prefix = f"{entry.name}/"
        self.all = {name: value for name, value in self.bound.items() if name.startswith(prefix) and value in top}
        pairs = list(zip(entry.parameter_names, entry.block.parameters, strict=False))
        self.parameters = {value: name for name, value in pairs}
        for node in entry.block.nodes:
            self._add(node)
            for region in node.regions:
                self.inside.update((inner.name, node) for inner in walk.nodes(region))
        results = zip(entry.result_names, entry.block.outputs, strict=False)
        for name, value in [*pairs, *results]:
            self.all.setdefault(f"{entry.name}/{name}", value)

    def _add(self, node: Node) -> None:
        """Every result, and the node itself where it has one value; the rest are tokens."""
        plain = [value for value in node.results if not value.is_token]
        for value in plain:
            self.all.setdefault(value.name, value)
        if plain:
            self.all.setdefault(node.name, plain[0])

    def canonical(self, value: Value) -> str:
        return next(name for name, known in self.all.items() if known is value)

    def size(self, name: str) -> str | None:
        """The size of that name, if it is one."""
        short = name.removeprefix(f"{self.entry.name}/")
        sizes = {str(symbol) for symbol in self.entry.dims}
        return short if short in sizes and f"{self.entry.name}/{short}" not in self.all else None

    def fetched(self, name: str) -> Value:
        value = self.after.get(name) or self._find(name, [*self.all, *self.variables])
        if not isinstance(value.type, TensorType):
            raise _wrong(f"`{name}` is a {value.type}, not a tensor")
        return value

    def fed(self, name: str) -> Value:
        """A parameter by its own name, or any value by its full name."""
        for value, own in self.parameters.items():
            if own == name:
                return value
        prefix = f"{self.entry.name}/"
        if not name.startswith(prefix):
            return self._find(prefix + name, [*self.parameters.values(), *self.all])
        return self._find(name, list(self.all))

    def names_of(self, value: Value) -> list[str]:
        """The full names of a value."""
        return self._candidates(value, short=False)

    def spellings_of(self, feed: str) -> list[str]:
        """All names for what a feed of that name replaces."""
        size = self.size(feed)
        if size is not None:
            return [size, f"{self.entry.name}/{size}"]
        value = self.fed(feed)
        return [
            name for name in self._candidates(value, short=True) if self.size(name) is None and self._is(name, value)
        ]

    def _candidates(self, value: Value, *, short: bool) -> list[str]:
        """Names that stand for a value, as it is called and as it is printed."""
        prefix = f"{self.entry.name}/"
        full = [name for name, known in self.all.items() if known is value]
        printed = [prefix + identifier(name.removeprefix(prefix)) for name in full]
        candidates = [*full, *(name for name in printed if name in self.all or self._printed(name) is value)]
        if short:
            own = [self.parameters[value]] if value in self.parameters else []
            candidates += [*own, *(name.removeprefix(prefix) for name in candidates)]
        known = (name for name in dict.fromkeys(candidates) if short or self.all.get(name, value) is value)
        return list(known)

    def _is(self, name: str, value: Value) -> bool:
        try:
            return self.fed(name) is value
        except FeedError:
            return False

    def _find(self, name: str, near: Sequence[str]) -> Value:
        value = self.all.get(name) or self._printed(name)
        if value is not None:
            return value
        if name in self.inside:
            node = self.inside[name]
            what = "a branch" if node.op == "if" else "a loop"
            raise _wrong(f"`{name}` is inside {what}, where it has many values or none: fetch `{node.name}` instead")
        raise _wrong(f"`{self.entry.name}` has no value `{name}`{did_you_mean(name, near)}")

    def _printed(self, name: str) -> Value | None:
        """The value that is printed under this name, if there is just one."""
        prefix = f"{self.entry.name}/"
        short_name = name.removeprefix(prefix)
        values = {value for full, value in self.all.items() if identifier(full.removeprefix(prefix)) == short_name}
        return values.pop() if len(values) == 1 else None


def _refuse_twice(entry: Entry, feeds: Mapping[str, str]) -> None:
    known: dict[str, str] = {}
    for name, parameter in feeds.items():
        if parameter in known:
            raise _wrong(f"`{entry.name}` is fed {parameter} twice, as {known[parameter]} and as {name}")
        known[parameter] = name


def _type(entry: Entry, parameter: str) -> str:
    return str(entry.block.parameters[entry.parameter_names.index(parameter)].type)


def _listed(fetched: Named) -> str:
    return ", ".join(f"`{name}`" for name, _ in fetched)


def _wrong(text: str) -> FeedError:
    return FeedError(text, code="E0901")
