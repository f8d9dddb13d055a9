"""cut: what some values of one entry need, as a program with this one entry.

    entry train(x, y, rate) {                      entry train(h) {
      let h = x @ w                                  let z = tanh(h)
      let z = tanh(h)                      ->        return z
      w -= rate * grad(loss(z, y), w)              }
      return loss(z, y)
    }                                              (z fetched, h fed)

What is fed becomes a parameter and what only it needed goes. An effect stays if a fetched value is read after it or
drawn after it; an assertion or a checkpoint on the way does not. Assumes a graph as the front end made it, so that
every name the author knows is there. Guarantees a graph that verifies; the parameters are first those of the entry
that are needed or fed, then the other fed values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.rewrite import Pass, Site, rebuild
from dfc.ir.types import TensorType, TokenType
from dfc.ir.verify import symbols_of
from dfc.ops.effects import block_effects, effect
from dfc.ops.record import Effect
from dfc.passes.dce import Marker
from dfc.passes.thin import around, is_idle, thin, without_idle_tokens

NAME = "cut"
Named = Sequence[tuple[str, Value]]
"""Values with the names they are known by from outside."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A program with one entry; `missing` are parameters of the original entry that it needs and nobody feeds."""

    graph: Graph
    missing: tuple[str, ...]


def cut(graph: Graph, entry: Entry, fetched: Named, fed: Named) -> Cut:
    """The part of an entry that computes the fetched values from the fed ones. Values are results of nodes at the top
    level of the entry, or its parameters."""
    own = {value: name for name, value in zip(entry.parameter_names, entry.block.parameters, strict=False)}
    inner = {value: Value(value.type, name) for name, value in fed if value not in own}
    block = rebuild(entry.block, _Feed(inner))
    outputs = [inner.get(old, old) for _, old in fetched]
    made = {old: new for old, new in _renewed(entry.block, block).items() if old not in inner}
    block = _needed(Block(block.parameters, block.nodes, [made.get(value, value) for value in outputs]))
    given = {value for _, value in fed}
    used = walk.used_values(block)
    feeds = [value for value in own if value in used or value in given]
    block = Block(
        [*feeds, *inner.values(), *(v for v in block.parameters if v.is_token)],
        block.nodes,
        block.outputs,
    )
    names = (*(own[value] for value in feeds), *(value.name for value in inner.values()))
    single = _entry(entry, block, names, tuple(name for name, _ in fetched))
    resources = {name: replace(graph.resources[name], initial=None) for name in graph.resources if _uses(block, name)}
    program = Graph(graph.name, resources, {entry.name: single}, {}, graph.settings, graph.source)
    return Cut(program, tuple(own[value] for value in feeds if value not in given))


class _Feed(Pass):
    """Lets the users of a fed value use the parameter that stands for it."""

    def __init__(self, fed: Mapping[Value, Value]) -> None:
        self._fed = fed

    def visit(self, site: Site) -> Sequence[Value] | None:
        results = site.node.results
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


def _needed(block: Block) -> Block:
    """The block with only what its outputs, none of them tokens, need; then with the tokens of what is left."""
    used = _Closure(block).run()
    thinned = rebuild(block, _Thin(used))
    latest = _last_tokens(thinned)
    return without_idle_tokens(Block(thinned.parameters, thinned.nodes, [*thinned.outputs, *latest]))


class _Closure(Marker):
    """A save leaves the state as it is: what comes after it does not need it."""

    def passes_by(self, value: Value) -> Value | None:
        node = value.node
        if node is not None and value.is_token and node.op == "checkpoint_save":
            return next(v for v in node.operands if v.type == value.type)
        return super().passes_by(value)


class _Thin(Pass):
    """Drops unused nodes and unused parts of region nodes. A branch whose state nobody reads afterwards ends with the
    last effect that something inside needs."""

    def __init__(self, used: set[Value]) -> None:
        self._used = used

    def visit(self, site: Site) -> Sequence[Value] | None:
        node = site.node
        wanted = [v in self._used for v in node.results]
        is_read = effect(node) is Effect.READ
        if not any(w for w, v in zip(wanted, node.results, strict=True) if not (is_read and v.is_token)):
            return around(site)
        if node.op == "checkpoint_save":
            return around(site)
        if not node.regions:
            return None
        if node.op == "if":
            site.regions = tuple(self._ended(site, region) for region in site.regions)
        keep = [(wanted[i] or v.is_token) and not is_idle(site, i) for i, v in enumerate(node.results)]
        return None if all(keep) and site.regions == node.regions else thin(site, keep)

    def _ended(self, site: Site, region: Block) -> Block:
        latest = {value.type: value for value in _last_tokens(region)}
        outputs = [
            latest.get(output.type, output) if result.is_token and result not in self._used else output
            for output, result in zip(region.outputs, site.node.results, strict=True)
        ]
        return Block(region.parameters, region.nodes, outputs)


def _last_tokens(block: Block) -> list[Value]:
    """The token of each resource after the last node of a block, in the order of its parameters."""
    latest = {value.type: value for value in block.parameters if value.is_token}
    for node in block.nodes:
        latest.update((value.type, value) for value in node.results if value.is_token)
    return list(latest.values())


# -------------------------------------------------------------------- entry --


def _entry(entry: Entry, block: Block, parameters: tuple[str, ...], results: tuple[str, ...]) -> Entry:
    used = _symbols(block)
    dims = tuple(symbol for symbol in entry.dims if symbol in used)
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
    found: set[Symbol] = set()
    for inner in walk.blocks(block):
        for value in inner.parameters:
            found |= symbols_of(value.type)
        for node in inner.nodes:
            found |= symbols_of(node.attributes)
            for value in node.results:
                found |= symbols_of(value.type)
    return found


def _uses(block: Block, resource: str) -> bool:
    return any(isinstance(v.type, TokenType) and v.type.resource == resource for v in block.parameters)
