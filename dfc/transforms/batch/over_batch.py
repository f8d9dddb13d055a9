"""over_batch: which results of an entry are put together from those of smaller batches, and how.

    return mean(losses), sum(hits), max(scores), sqrt(mean(losses))    ->    mean, sum, max, and the last one not at all

A result is a mean, a sum or an extreme over the batch if it is one of numbers that each belong to one example: then
that of a whole set follows from those of its batches, for means weighted by their sizes. What replication finds out
(see `dfc.transforms.batch.analysis`) says what is summed over the batch, and `degrees` whether it is divided by its
size. Means and sums may be scaled and added afterwards, and a mean may be added to what has nothing to do with the
batch, such as a penalty on weights. Whatever else is made of them is unclear, and so is what uses a sum on the way to
the result (a variance is a mean of squares of what the whole batch decides), or reads what the batch has written.

Assumes an entry after all passes. Guarantees that a kind is given only where it is proved.
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
from dfc.ops.rules.degrees import MaybeDegree
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.sharding import SUM, Cutting, Partial, Split
from dfc.ops.rules.statistics import EXTREMES, Kind, unclear
from dfc.transforms.batch.analysis import BlockSplits, CannotSplit, analyse
from dfc.transforms.batch.degrees import degrees
from dfc.transforms.batch.draws import numbered
from dfc.transforms.batch.row_uses import RowUses

BLOCKS = 2  # any number tells

OWN_KIND = {kind.value: kind for kind in EXTREMES}


def results_over(entry: Entry) -> dict[str, tuple[tuple[Symbol, str], ...]]:
    """For each size along which feeds can be cut into batches, what `over_batch` finds."""
    shapes = [value.type.shape for value in entry.block.parameters if isinstance(value.type, TensorType)]
    batch_symbols = [
        symbol for symbol in entry.dims if any(str(symbol) == str(size) for shape in shapes for size in shape)
    ]
    over: dict[str, tuple[tuple[Symbol, str], ...]] = {}
    for symbol in batch_symbols:
        for name, how in over_batch(entry, symbol).items():
            over[name] = (*over.get(name, ()), (symbol, how))
    return over


def over_batch(entry: Entry, symbol: Symbol) -> Mapping[str, str]:
    """For results that are single numbers: mean, sum, max or min over the size `symbol`, where that is known."""
    required = {
        name: value
        for name, value in zip(entry.result_names, entry.block.outputs, strict=False)
        if isinstance(value.type, TensorType) and not value.type.shape and not value.type.machine.is_bool
    }
    cutting = Cutting(symbol, BLOCKS)
    part = numbered(_part(entry, list(required.values())), cutting)
    names = dict(zip(required, part.block.outputs, strict=True))
    try:
        splits = analyse(part, cutting, RowUses())
    except CannotSplit:
        return {}
    kinds = _Kinds(splits, degrees(part, cutting), symbol)
    for node in part.block.nodes:
        kinds.visit(node)
    reported = {Kind.MEAN, Kind.SUM, Kind.MAX, Kind.MIN}
    return {name: kind.value for name, value in names.items() if (kind := kinds.of(value)) in reported}


def _part(entry: Entry, required: Sequence[Value]) -> Entry:
    """The entry with only these results, and what they are made of: not what is done with gradients."""
    needed: set[Value] = set(required)
    kept: list[Node] = []
    for node in reversed(entry.block.nodes):
        if not needed.isdisjoint(node.results):
            kept.append(node)
            needed.update(_used(node))
    return replace(entry, block=Block(entry.block.parameters, kept[::-1], tuple(required)))


def _used(node: Node) -> set[Value]:
    """All that a node takes, in its regions too."""
    used = set(node.operands)
    for region in node.regions:
        used.update(region.outputs)
        for inner in walk.nodes(region):
            used.update(inner.operands)
            for nested in inner.regions:
                used.update(nested.outputs)
    return used


class _Kinds:
    """One walk in the order of the nodes."""

    def __init__(self, splits: BlockSplits, degrees: Mapping[Value, MaybeDegree], symbol: Symbol) -> None:
        self._splits = splits
        self._degrees = degrees
        self._symbol = symbol
        self._kinds: dict[Value, Kind] = {}

    def of(self, value: Value) -> Kind:
        if value in self._kinds:
            return self._kinds[value]
        return Kind.EXAMPLES if isinstance(self._splits.state(value), Split) else Kind.FREE

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
        state = self._splits.state(value)
        if isinstance(state, Split):
            return Kind.EXAMPLES
        if not isinstance(state, Partial):
            return Kind.UNCLEAR
        if state.how in OWN_KIND:
            return OWN_KIND[state.how]
        degree = self._degrees.get(value)
        if (
            state.how != SUM.how or degree is None or not degree.is_dense
        ):  # else few examples decide it, such as the first
            return Kind.UNCLEAR
        return {0.0: Kind.MEAN, 1.0: Kind.SUM}.get(degree.power, Kind.UNCLEAR)
