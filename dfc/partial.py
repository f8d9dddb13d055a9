"""Partial execution, the compiler's half: from names of values to a bundle with one entry that computes them.

The run side finds this module when `Module.run` is first called; it hands over what a bundle carries (sources,
settings, target, variant) and gets bundles back. Assumes sources that compiled once. Guarantees that full names are
those of `dfc show`, and that a name nobody knows, or one inside a loop or branch, is a `FeedError` that says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dfc import pipeline
from dfc.backend.bundle import write
from dfc.diagnostics import CompileError
from dfc.frontend import build
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node, Value
from dfc.ir.names import identifier
from dfc.ir.types import TensorType
from dfc.options import CompileOptions, TargetOptions
from dfc.passes.cut import Named, cut
from dfc.source import SourceFile
from dfc_runtime.errors import FeedError, UnsupportedError
from dfc_runtime.names import did_you_mean

Setting = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Specialised:
    """A bundle for one signature. `feeds` says which parameter, or size, each name of a feed is."""

    bundle: bytes
    feeds: Mapping[str, str]


def specialiser(sources: Mapping[str, str], settings: Mapping[str, Setting], target: str, isa: str) -> Specialiser:
    """For the program with these texts by relative path, the main one first."""
    options = CompileOptions(target=target, target_options=TargetOptions(isas=(isa,)))
    return Specialiser(rebuilt(sources, settings), options)


class Specialiser:
    """The graph of a program as the front end made it, and bundles for parts of its entries."""

    def __init__(self, graph: Graph, options: CompileOptions) -> None:
        self._graph = graph
        self._options = options

    def specialise(self, fetches: Sequence[str], feeds: Sequence[str]) -> Specialised:
        """The bundle that computes these values from those. All are of one entry."""
        entry = self._entry(fetches)
        known = _Names(entry, self._graph.bound)
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
        return Specialised(self._compile(entry, fetched, sorted(fed, key=lambda pair: pair[0])), renamed)

    def _entry(self, fetches: Sequence[str]) -> Entry:
        """The entry whose values are asked for."""
        entries = self._graph.entries
        names = list(dict.fromkeys(name.split("/")[0] for name in fetches))
        unknown = next((full for full in fetches if full.split("/")[0] not in entries), None)
        if unknown is not None:
            known = [name for each in entries.values() for name in _Names(each, self._graph.bound).all]
            short = [full for full in known if full.split("/")[-1] == unknown]
            hint = f"; did you mean {short[0]}?" if short else did_you_mean(unknown, known)
            raise _wrong(f"`{unknown}` is no value of an entry, which are called entry/name{hint}")
        if len(names) > 1:
            raise _wrong(f"one run is of one entry, but `{names[0]}` and `{names[1]}` are two")
        return entries[names[0]]

    def _compile(self, entry: Entry, fetched: Named, fed: Named) -> bytes:
        part = cut(self._graph, entry, fetched, fed)
        if part.missing:
            what = ", ".join(f"{name}: {_type(entry, name)}" for name in part.missing)
            raise _wrong(f"{_listed(fetched)} needs the feed {what}")
        optimised = pipeline.optimise(part.graph, self._options)
        program, lowered = pipeline.lower(optimised, self._options)
        return write(program, lowered, "", part.graph.settings).to_bytes()


def rebuilt(sources: Mapping[str, str], settings: Mapping[str, Setting]) -> Graph:
    """The graph as the front end makes it, from files of no other folder than one that holds just the sources."""
    with tempfile.TemporaryDirectory(prefix="dfc-") as folder:
        for path, text in list(sources.items())[1:]:
            target = Path(folder, *_parts(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        name, text = next(iter(sources.items()))
        try:
            return build.build(SourceFile(str(Path(folder, name)), text), settings)
        except CompileError as problem:
            what = problem.diagnostics[0].title
            raise UnsupportedError(f"the program in the bundle does not compile here: {what}", code="E1001") from None


def _parts(path: str) -> list[str]:
    """A path that cannot leave the folder it is written below."""
    parts = path.split("/")
    if not all(part.removesuffix(".dfg").isidentifier() for part in parts):
        raise UnsupportedError(f"the bundle holds a source with the path {path!r:.60}", code="E1001")
    return parts


# -------------------------------------------------------------------- names --


@dataclass(slots=True)
class _Names:
    """The names of one entry's values, as the author, `dfc show` and messages write them."""

    entry: Entry
    bound: Mapping[str, Value]
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
        value = self._find(name, list(self.all))
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

    def _find(self, name: str, near: Sequence[str]) -> Value:
        found = self.all.get(name) or self._printed(name)
        if found is not None:
            return found
        if name in self.inside:
            place = self.inside[name]
            what = "a branch" if place.op == "if" else "a loop"
            raise _wrong(f"`{name}` is inside {what}, where it has many values or none: fetch `{place.name}` instead")
        raise _wrong(f"`{self.entry.name}` has no value `{name}`{did_you_mean(name, near)}")

    def _printed(self, name: str) -> Value | None:
        """The value that is printed under this name, if there is just one."""
        prefix = f"{self.entry.name}/"
        wanted = name.removeprefix(prefix)
        found = {value for full, value in self.all.items() if identifier(full.removeprefix(prefix)) == wanted}
        return found.pop() if len(found) == 1 else None


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
