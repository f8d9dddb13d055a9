"""over_batch: which results of an entry are put together from those of smaller batches, and how.

    return mean(losses), sum(hits), max(scores), sqrt(mean(losses))    ->    mean, sum, max, and the last one not at all

A result is a mean, a sum or an extreme over the batch if it is one of numbers that each belong to one example: then
that of a whole set follows from those of its batches, for means weighted by their sizes. What replication finds out
(see `dfc.transforms.batch.analysis`) says what is summed over the batch, and `degrees` whether it is divided by its
size. Means and sums may be scaled and added afterwards, and a mean may be added to what has nothing to do with the
batch, such as a penalty on weights. Whatever else is made of them is unclear, and so is what uses a sum on the way to
the result (a variance is a mean of squares of what the whole batch decides), or reads what the batch has written.

Assumes an entry after all passes. Guarantees that a kind is told only where it is proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType
from dfc.ops.attributes import DimAttributes, RandomAtAttributes
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.ops.rules.degrees import Growth
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.sharding import SUM, Cutting, Partial, Split
from dfc.ops.rules.statistics import EXTREMES, Kind, unclear
from dfc.transforms.batch.analysis import CannotCut, Cuts, analyse
from dfc.transforms.batch.degrees import degrees
from dfc.transforms.batch.draws import numbered
from dfc.transforms.batch.row_uses import RowUses

BLOCKS = 2  # any number tells

OWN_KIND = {kind.value: kind for kind in EXTREMES}


def results_over(entry: Entry) -> dict[str, tuple[tuple[Symbol, str], ...]]:
    """For each size along which feeds can be cut into batches, what `over_batch` tells."""
    shapes = [value.type.shape for value in entry.block.parameters if isinstance(value.type, TensorType)]
    cut = [symbol for symbol in entry.dims if any(str(symbol) == str(size) for shape in shapes for size in shape)]
    found: dict[str, tuple[tuple[Symbol, str], ...]] = {}
    for symbol in cut:
        for name, how in over_batch(entry, symbol).items():
            found[name] = (*found.get(name, ()), (symbol, how))
    return found


def over_batch(entry: Entry, symbol: Symbol) -> Mapping[str, str]:
    """For results that are single numbers: mean, sum, max or min over the size `symbol`, where that is known."""
    wanted = {
        name: value
        for name, value in zip(entry.result_names, entry.block.outputs, strict=False)
        if isinstance(value.type, TensorType) and not value.type.shape and not value.type.machine.is_bool
    }
    cutting = Cutting(symbol, BLOCKS)
    part = numbered(_part(entry, list(wanted.values())), cutting)
    names = dict(zip(wanted, part.block.outputs, strict=True))
    try:
        cuts = analyse(part, cutting, RowUses())
    except CannotCut:
        return {}
    kinds = _Kinds(cuts, degrees(part, cutting), symbol)
    for node in part.block.nodes:
        kinds.visit(node)
    told = {Kind.MEAN, Kind.SUM, Kind.MAX, Kind.MIN}
    return {name: kind.value for name, value in names.items() if (kind := kinds.of(value)) in told}


def _part(entry: Entry, wanted: Sequence[Value]) -> Entry:
    """The entry with only these results, and what they are made of: not what is done with gradients."""
    needed: set[Value] = set(wanted)
    kept: list[Node] = []
    for node in reversed(entry.block.nodes):
        if not needed.isdisjoint(node.results):
            kept.append(node)
            needed.update(_used(node))
    return replace(entry, block=Block(entry.block.parameters, kept[::-1], tuple(wanted)))


def _used(node: Node) -> set[Value]:
    """All that a node takes, in its regions too."""
    found = set(node.operands)
    for region in node.regions:
        found.update(region.outputs)
        for inner in walk.nodes(region):
            found.update(inner.operands)
            for nested in inner.regions:
                found.update(nested.outputs)
    return found


class _Kinds:
    """One walk in the order of the nodes."""

    def __init__(self, cuts: Cuts, found: Mapping[Value, Growth], symbol: Symbol) -> None:
        self._cuts = cuts
        self._degrees = found
        self._symbol = symbol
        self._kinds: dict[Value, Kind] = {}

    def of(self, value: Value) -> Kind:
        if value in self._kinds:
            return self._kinds[value]
        return Kind.EXAMPLES if isinstance(self._cuts.state(value), Split) else Kind.FREE

    def visit(self, node: Node) -> None:
        """The kinds of the results; those of values inside of regions are never asked for."""
        taken = [self.of(v) for v in _used(node)]
        of_token = Kind.FREE if set(taken) <= {Kind.FREE} else Kind.UNCLEAR
        for value in node.results:
            self._kinds[value] = of_token if value.is_token else self._kind(node, value, taken)

    def _kind(self, node: Node, value: Value, taken: Sequence[Kind]) -> Kind:
        if isinstance(node.attributes, RandomAtAttributes):  # what is drawn for an example belongs to it
            return Kind.EXAMPLES if self._mentions(node, value) else Kind.FREE
        if isinstance(node.attributes, DimAttributes):
            return self._of_size(node.attributes)
        kinds = set(taken)
        if kinds <= {Kind.FREE, Kind.EXAMPLES, Kind.SIZE} and Kind.EXAMPLES in kinds:
            return self._of_examples(value)
        if kinds <= {Kind.FREE}:
            return Kind.UNCLEAR if self._mentions(node, value) or effect(node) is Effect.HOST else Kind.FREE
        return (rules_of(node).statistic or unclear)(node, [self.of(v) for v in node.operands])

    def _mentions(self, node: Node, value: Value) -> bool:
        """Whether there is more of it for a larger batch, such as a number drawn for each example."""
        sizes = symbols_of(node.attributes).union(*(size.symbols() for size in value.tensor.shape))
        return self._symbol in sizes

    def _of_size(self, attributes: DimAttributes) -> Kind:
        if self._symbol not in attributes.size.symbols():
            return Kind.FREE
        return Kind.SIZE if str(attributes.size) == str(self._symbol) else Kind.UNCLEAR

    def _of_examples(self, value: Value) -> Kind:
        """What is made of examples alone."""
        state = self._cuts.state(value)
        if isinstance(state, Split):
            return Kind.EXAMPLES
        if not isinstance(state, Partial):
            return Kind.UNCLEAR
        if state.how in OWN_KIND:
            return OWN_KIND[state.how]
        degree = self._degrees.get(value)
        if (
            state.how != SUM.how or degree is None or not degree.spread
        ):  # else few examples decide it, such as the first
            return Kind.UNCLEAR
        return {0.0: Kind.MEAN, 1.0: Kind.SUM}.get(degree.power, Kind.UNCLEAR)
