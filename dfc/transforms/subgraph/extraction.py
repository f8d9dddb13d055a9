"""Subgraph extraction: what some values of one entry need, as a program with this one entry.

    entry train(x, y, rate) {                      entry train(h) {
      let h = x @ w                                  let z = tanh(h)
      let z = tanh(h)                      ->        return z
      w -= rate * grad(loss(z, y), w)              }
      return loss(z, y)
    }                                              (z fetched, h fed)

What is fed becomes a parameter and what only it needed goes. An effect stays if a fetched value is read after it or
drawn after it; an assertion or a checkpoint on the way does not, nor does a call of the host whose results are not
used. But a check of a size that only the run knows stays where what is left mentions the size. Such a size of a fed
value becomes one of the entry. Assumes a graph as the front end made it, so that every name the author knows is there.
Guarantees a graph that verifies; the parameters are first those of the entry that are needed or fed, then the other fed
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Entry, Graph, Node, Value
from dfc.ir.measured import measured, measured_in
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType, TokenType
from dfc.ops.attributes import TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import block_effects, effect, is_host_call
from dfc.ops.record import Effect
from dfc.ops.sizes.checks import size_asserts
from dfc.transforms.scalar.dce import Marker
from dfc.transforms.scalar.dead_results import around, eliminate_dead_results, idle_results, without_idle_tokens

NAME = "cut"
Named = Sequence[tuple[str, Value]]
"""Values with the names they are known by from outside."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A program with one entry; `missing` are parameters of the original entry that it needs and nobody feeds."""

    graph: Graph
    missing: tuple[str, ...]


def extract(graph: Graph, entry: Entry, fetched: Named, fed: Named) -> Extraction:
    """The part of an entry that computes the fetched values from the fed ones. Values are results of nodes at the top
    level of the entry, or its parameters."""
    own = {value: name for name, value in zip(entry.parameter_names, entry.block.parameters, strict=False)}
    inner = {value: Value(value.type, name) for name, value in fed if value not in own}
    fed_sizes = _fed_sizes(entry.block, inner.values())
    block = rebuild(entry.block, _Feed(inner, fed_sizes))
    outputs = [inner.get(old, old) for _, old in fetched]
    renewed = {old: new for old, new in _renewed(entry.block, block).items() if old not in inner}
    block = _needed(Block(block.parameters, block.nodes, [renewed.get(value, value) for value in outputs]), fed_sizes)
    fed_values = {value for _, value in fed}
    used = walk.used_values(block)
    feeds = [value for value in own if value in used or value in fed_values]
    block = Block(
        [*feeds, *inner.values(), *(v for v in block.parameters if v.is_token)],
        block.nodes,
        block.outputs,
    )
    names = (*(own[value] for value in feeds), *(value.name for value in inner.values()))
    single = _entry(entry, block, names, tuple(name for name, _ in fetched), fed_sizes)
    resources = {name: replace(graph.resources[name], initial=None) for name in graph.resources if _uses(block, name)}
    program = Graph(graph.name, resources, {entry.name: single}, {}, graph.settings, graph.source)
    return Extraction(program, tuple(own[value] for value in feeds if value not in fed_values))


def _fed_sizes(block: Block, fed: Iterable[Value]) -> tuple[Symbol, ...]:
    """The measured sizes that fed values decide."""
    among = measured_in(block)
    return tuple(dict.fromkeys(s for v in fed for s in sorted(symbols_of(v.type), key=str) if s in among))


class _Feed(Pass):
    """Lets the users of a fed value use the parameter that stands for it. Sizes that fed values decide are not measured
    any more."""

    def __init__(self, fed: Mapping[Value, Value], sizes: Sequence[Symbol]) -> None:
        self._fed = fed
        self._sizes = sizes

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        results = site.node.results
        if measured(site.node) in self._sizes:
            builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
            return [builder.apply("iota", attributes=TypeAttributes(results[0].tensor))]
        if self._fed.keys().isdisjoint(results):
            return None
        kept = site.kept()
        site.output.append(kept)
        return [self._fed.get(old, new) for old, new in zip(results, kept.results, strict=True)]


def _renewed(before: Block, after: Block) -> dict[Value, Value]:
    """What the values of the outermost nodes have become; `_Feed` keeps every node in its place."""
    return {
        old: new
        for was, node in zip(before.nodes, after.nodes, strict=True)
        for old, new in zip(was.results, node.results, strict=True)
    }


# ------------------------------------------------------------------ closure --


def _needed(block: Block, fed_sizes: Sequence[Symbol]) -> Block:
    """The block with only what its outputs, none of them tokens, need; then with the tokens of what is left."""
    closure = _Closure(block, fed_sizes)
    thinned = rebuild(block, _EliminateDeadResults(closure.run(), closure.kept))
    latest = _last_tokens(thinned)
    return without_idle_tokens(Block(thinned.parameters, thinned.nodes, [*thinned.outputs, *latest]))


class _Closure(Marker):
    """A save leaves the state as it is, and so does a call of the host: what comes after it does not need it. Of checks
    only those are needed that are about sizes which something needed mentions."""

    def __init__(self, block: Block, fed_sizes: Sequence[Symbol]) -> None:
        super().__init__(block)
        self._asserts = list(size_asserts(block, fed_sizes))
        self._definitions = measured_in(block)
        self.kept: set[Node] = set()

    def run(self) -> set[Value]:
        while True:
            used = super().run()
            needed_asserts = [
                n for n, symbols in self._asserts if n not in self.kept and all(map(self._is_used, symbols))
            ]
            if not needed_asserts:
                return used
            self.kept.update(needed_asserts)
            tokens = [token for node in needed_asserts for token in node.results]
            used.difference_update(tokens)  # they may have been passed by before
            self._pending += tokens

    def _is_used(self, symbol: Symbol) -> bool:
        definitions = self._definitions.get(symbol)
        return definitions is None or any(node.result in self._used for node in definitions)

    def passes_by(self, value: Value) -> Value | None:
        node = value.node
        skipped = node is not None and (_is_report(node) or (node.op == "assert" and node not in self.kept))
        if node is not None and value.is_token and skipped:
            return next(v for v in node.operands if v.type == value.type)
        return super().passes_by(value)


class _EliminateDeadResults(Pass):
    """Drops unused nodes and unused parts of region nodes. A branch whose state nobody reads afterwards ends with the
    last effect that something inside needs."""

    def __init__(self, used: set[Value], kept: set[Node]) -> None:
        self._used = used
        self._kept = kept

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if node.op == "assert":
            return None if node in self._kept else around(site)
        is_kept = [v in self._used for v in node.results]
        for_order = effect(node) is Effect.READ or _is_report(node)
        if not any(w for w, v in zip(is_kept, node.results, strict=True) if not (for_order and v.is_token)):
            return around(site)
        if not node.regions:
            return None
        if node.op == "if":
            site.regions = tuple(self._ended(site, region) for region in site.regions)
        results = zip(node.results, is_kept, idle_results(site), strict=True)
        keep = [(is_needed or v.is_token) and not idle for v, is_needed, idle in results]
        return None if all(keep) and site.regions == node.regions else eliminate_dead_results(site, keep)

    def _ended(self, site: RewriteSite, region: Block) -> Block:
        latest = {value.type: value for value in _last_tokens(region)}
        outputs = [
            latest.get(output.type, output) if result.is_token and result not in self._used else output
            for output, result in zip(region.outputs, site.node.results, strict=True)
        ]
        return Block(region.parameters, region.nodes, outputs)


def _is_report(node: Node) -> bool:
    """Whether the tokens of a node are there for the order of what the world sees."""
    return node.op == "checkpoint_save" or is_host_call(node)


def _last_tokens(block: Block) -> list[Value]:
    """The token of each resource after the last node of a block, in the order of its parameters."""
    latest = {value.type: value for value in block.parameters if value.is_token}
    for node in block.nodes:
        latest.update((value.type, value) for value in node.results if value.is_token)
    return list(latest.values())


# -------------------------------------------------------------------- entry --


def _entry(
    entry: Entry, block: Block, parameters: tuple[str, ...], results: tuple[str, ...], sizes: Sequence[Symbol]
) -> Entry:
    used = _symbols(block)
    dims = tuple(symbol for symbol in (*entry.dims, *sizes) if symbol in used)
    shapes = [value.type.shape for value in block.parameters if isinstance(value.type, TensorType)]
    decided = {symbol for shape in shapes for size in shape if (symbol := size.symbol) is not None}
    known = set(dims)
    return Entry(
        entry.name,
        block,
        parameters,
        results,
        dims,
        tuple(symbol for symbol in dims if symbol not in decided),
        tuple(check for check in entry.checks if check.left.symbols() | check.right.symbols() <= known),
        entry.span,
        readonly=not block_effects(block) & {Effect.WRITE, Effect.HOST},
    )


def _symbols(block: Block) -> set[Symbol]:
    """The sizes that the values and attributes of a block mention."""
    symbols: set[Symbol] = set()
    for inner in walk.blocks(block):
        for value in inner.parameters:
            symbols |= symbols_of(value.type)
        for node in inner.nodes:
            symbols |= symbols_of(node.attributes)
            for value in node.results:
                symbols |= symbols_of(value.type)
    return symbols


def _uses(block: Block, resource: str) -> bool:
    return any(isinstance(v.type, TokenType) and v.type.resource == resource for v in block.parameters)
