"""Partial execution, the compiler's half: from names of values to a bundle with one entry that computes them.

The run side finds this module when `Module.run` is first called; it hands over what a bundle carries (sources,
settings, target, variant) and gets bundles back. Assumes sources that compiled once. Guarantees the names that
`selection` knows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dfc.bundle.formulas import formula, name_symbols
from dfc.bundle.writing import Bundle
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.separate import together
from dfc.driver import pipeline
from dfc.driver.cluster_parts import Surroundings, compiled, compiled_padded
from dfc.driver.many_ranks import separated
from dfc.driver.pipeline import Context
from dfc.driver.selection import select
from dfc.driver.single_task import distribution_of
from dfc.elaborate import build
from dfc.ir.graph import Graph
from dfc.ir.names import identifier
from dfc.ir.options import CompileOptions, TargetOptions
from dfc.ops.spelling import show as show_graph
from dfc_runtime.calls.compiling.partial import Build
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats.cluster import site

Setting = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Specialised:
    """A bundle for one signature. `feeds` says which parameter, or size, each name of a feed is."""

    bundle: bytes
    feeds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Filled:
    """A bundle for batches that are filled up; `valid` is the feed that says how many rows count. `feeds` and `results`
    say along which axis rows are, and in how many runs."""

    bundle: bytes
    valid: str
    feeds: Mapping[str, tuple[int, Formula]]
    results: Mapping[str, tuple[int, Formula]]


def specialiser(
    sources: Mapping[str, str], settings: Mapping[str, Setting], target: str, isa: str, how: Build
) -> Specialiser:
    """For the program with these texts by relative path, the main one first. `isa` are its variants, and `how` it was
    compiled."""
    return Specialiser(rebuilt(sources, settings), options_of(target, isa.split(), how))


def options_of(target: str, variants: Sequence[str], how: Build) -> CompileOptions:
    """Those that the program was compiled with."""
    asked = TargetOptions(isas=tuple(variants))
    return CompileOptions(target=target, target_options=asked, timed=how.timed, check_finite=how.check_finite)


def cluster_specialiser(
    sources: Mapping[str, str],
    settings: Mapping[str, Setting],
    target: str,
    variants: Sequence[str],
    deployment: tuple[str, str],
    state_sites: Mapping[str, str],
    elastic: Sequence[str],
    how: Build,
) -> ClusterSpecialiser:
    """For a program on many ranks: `deployment` is the name and the text of its deployment file, `state_sites` says of
    all state where it lies, as `job` or `job:task`, and `elastic` jobs may have any number of tasks."""
    options = options_of(target, variants, how)
    built = rebuilt(sources, settings)
    sites = {name: TaskSite(*site(text)) for name, text in state_sites.items()}
    with _compiled_once():
        built, resolution = separated(built, SourceFile(*deployment))
    return ClusterSpecialiser(Surroundings(together(built), resolution, sites, elastic), options)


def show_step(
    source: SourceFile, options: CompileOptions, fetches: Sequence[str], feeds: Sequence[str]
) -> tuple[str, tuple[Diagnostic, ...]]:
    """The graph of one step as a program: what is fetched, from what is fed, pruned of all else; and the warnings of
    the whole program. Raises `FeedError` for names that nothing has, and for a feed that is missing."""
    context = Context(options)
    whole: Graph = pipeline.run(source, context, last="elaborate")
    part = select(whole, fetches, feeds)
    pruned: Graph = pipeline.run(part.graph, Context(options), "prune", "prune")
    (entry,) = pruned.entries.values()
    names = _identifiers((*entry.parameter_names, *entry.result_names))
    count = len(entry.parameter_names)
    named = replace(entry, parameter_names=names[:count], result_names=names[count:])
    return show_graph(replace(pruned, entries={entry.name: named})), tuple(context.diagnostics)


def _identifiers(names: Sequence[str]) -> tuple[str, ...]:
    """The last part of each full name, as a program may have it, and another one where that is taken."""
    taken: dict[str, None] = {}
    for name in names:
        word = identifier(name.rsplit("/", 1)[-1])
        while word in taken:
            word += "_"
        taken[word] = None
    return tuple(taken)


class ClusterSpecialiser:
    """Bundles for many ranks of parts of a program's entries."""

    def __init__(self, around: Surroundings, options: CompileOptions) -> None:
        self._around = around
        self._options = options

    def specialise(self, fetches: Sequence[str], feeds: Sequence[str]) -> Specialised:
        """The bundle that computes these values from those. All are of one entry."""
        part = select(self._around.built, fetches, feeds)
        return Specialised(compiled(part, self._around, self._options).to_bytes(), part.feeds)

    def fill(self, entry: str) -> Filled:
        """The bundle of a replicated entry for batches that are filled up; raises `CompileError` where rows are mixed
        so that what is behind the short batch would have a part in its results."""
        try:
            bundle, padding = compiled_padded(entry, self._around, self._options)
        except CompileError as problem:
            raise CompileError(without_folder(each) for each in problem.diagnostics) from None
        names = name_symbols(self._around.built.entries[entry].dims)
        return Filled(
            bundle.to_bytes(),
            padding.valid,
            {name: (piece.axis, formula(piece.outer, names)) for name, piece in padding.feeds.items()},
            {name: (piece.axis, formula(piece.outer, names)) for name, piece in padding.results.items()},
        )


class Specialiser:
    """The graph of a program as the front end made it, and bundles for parts of its entries."""

    def __init__(self, graph: Graph, options: CompileOptions) -> None:
        self._graph = graph
        self._options = options

    def specialise(self, fetches: Sequence[str], feeds: Sequence[str]) -> Specialised:
        """The bundle that computes these values from those. All are of one entry."""
        part = select(self._graph, fetches, feeds)
        context = Context(self._options, distribution_of(self._options))
        bundle: Bundle = pipeline.run(part.graph, context, "prune")
        return Specialised(bundle.to_bytes(), part.feeds)


def rebuilt(sources: Mapping[str, str], settings: Mapping[str, Setting]) -> Graph:
    """The graph as the front end makes it of the texts of a bundle."""
    with _compiled_once():
        return built_from(sources, settings)


def built_from(sources: Mapping[str, str], settings: Mapping[str, Setting]) -> Graph:
    """Likewise of texts that may have mistakes, from files of no other folder than one that holds just the sources."""
    with tempfile.TemporaryDirectory(prefix="dfc-") as folder:
        for path, text in list(sources.items())[1:]:
            target = Path(folder, *_parts(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        name, text = next(iter(sources.items()))
        return build.build(SourceFile(str(Path(folder, name)), text), settings)


def without_folder(message: Diagnostic) -> Diagnostic:
    """A message about a text of the bundle, which lies in no folder any more."""
    return replace(message, labels=tuple(replace(each, span=_named(each.span)) for each in message.labels))


def _named(span: Span) -> Span:
    """A place by the name of its file alone."""
    if span.is_nowhere or span.name.startswith("std/"):
        return span
    return replace(span, file=replace(span.file, name=Path(span.name).name))


@contextmanager
def _compiled_once() -> Generator[None]:
    """Texts of a bundle compiled when that was made: if they do not now, this is another version of the compiler."""
    try:
        yield
    except CompileError as problem:
        what = problem.diagnostics[0].title
        raise UnsupportedError(f"the program in the bundle does not compile here: {what}", code="E1001") from None


def _parts(path: str) -> list[str]:
    """A path that cannot leave the folder it is written below."""
    parts = path.split("/")
    if not all(part.removesuffix(".dfg").isidentifier() for part in parts):
        raise UnsupportedError(f"the bundle holds a source with the path {path!r:.60}", code="E1001")
    return parts
