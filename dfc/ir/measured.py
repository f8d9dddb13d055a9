"""Sizes that are found out while an entry runs: which node gives a symbol its value, and what depends on it.

A node with `MeasuredAttributes` gives its symbol a value: a whole number from 0 to `most`, a formula over sizes known
before. The symbol may stand in types and attributes below the node, in its block and in the regions there; so whatever
mentions the symbol depends on the node, though no operand says so. A node that stands in several places (an iteration
that is run again) gives the same symbol a value in each.

Assumes nothing about validity. Guarantees that `upper` is never below the value of a formula, whatever the measured
sizes turn out to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import ONE, ZERO, Atom, Dim, Symbol, ceil_divide, dim, floor_divide, maximum, minimum
from dfc.ir.graph import Block, Node, Value
from dfc.ir.symbols import symbols_of

NO_SYMBOLS: frozenset[Symbol] = frozenset()


def measured(node: Node) -> Symbol | None:
    """The symbol that a node gives a value, if it does that."""
    return node.attributes.size.symbol if isinstance(node.attributes, MeasuredAttributes) else None


def measured_in(block: Block) -> dict[Symbol, list[Node]]:
    """The nodes that measure each size, nested ones included."""
    definitions: dict[Symbol, list[Node]] = {}
    for node in walk.nodes(block):
        symbol = measured(node)
        if symbol is not None:
            definitions.setdefault(symbol, []).append(node)
    return definitions


def bounds_in(block: Block) -> dict[Symbol, Dim]:
    """The largest value of each measured size, over sizes that are known when the entry is called."""
    bounds: dict[Symbol, Dim] = {}
    for symbol, nodes in measured_in(block).items():
        attributes = nodes[0].attributes
        assert isinstance(attributes, MeasuredAttributes)
        bounds[symbol] = upper(attributes.most, bounds)
    return bounds


def mentioned(node: Node) -> frozenset[Symbol]:
    """The sizes in the attributes and the result types of a node."""
    symbols = symbols_of(node.attributes)
    for value in node.results:
        symbols |= symbols_of(value.type)
    return symbols


@dataclass(slots=True)
class Dependence:
    """What values depend on besides the operands of their nodes: those who measure the sizes they mention."""

    definitions: Mapping[Symbol, list[Node]]
    _known: dict[Symbol, tuple[Value, ...]] = field(default_factory=dict[Symbol, "tuple[Value, ...]"])

    @classmethod
    def within(cls, block: Block) -> Dependence:
        return cls(measured_in(block))

    def of(self, value: Value) -> tuple[Value, ...]:
        """The results of the nodes that measure sizes which a value, or the node that makes it, mentions."""
        if not self.definitions:
            return ()
        symbols = symbols_of(value.type) if value.node is None else mentioned(value.node)
        return tuple(each for symbol in symbols for each in self._measured(symbol))

    def _measured(self, symbol: Symbol) -> tuple[Value, ...]:
        known = self._known.get(symbol)
        if known is None:
            known = self._known[symbol] = tuple(node.result for node in self.definitions.get(symbol, ()))
        return known


def own_symbols(region: Block) -> frozenset[Symbol]:
    """The sizes that are measured inside a region, and mean nothing outside."""
    return frozenset(measured_in(region))


def depends_on(value: Value, symbols: frozenset[Symbol]) -> bool:
    """Whether the type of a value mentions any of these sizes."""
    return bool(symbols) and not symbols.isdisjoint(symbols_of(value.type))


# ------------------------------------------------------------------ bounds --


def upper(size: Dim, most: Mapping[Symbol, Dim]) -> Dim:
    """A formula without measured sizes that is never below this one. `most` says how large each of them can be."""
    return _extreme(size, most, 1)


def _extreme(size: Dim, most: Mapping[Symbol, Dim], sign: int) -> Dim:
    """The bound above (sign 1) or below (-1) a formula."""
    if not most or most.keys().isdisjoint(size.symbols()):
        return size
    total = ZERO
    for monomial, coefficient in size.terms:
        term = dim(abs(coefficient))
        for atom in monomial:
            term = term * _atom(atom, most, sign if coefficient > 0 else -sign)
        total = total + term * (1 if coefficient > 0 else -1)
    return total


def _atom(atom: Atom, most: Mapping[Symbol, Dim], sign: int) -> Dim:
    """A bound of one factor, which is taken for a number that is not negative."""
    if isinstance(atom, Symbol):
        return dim(atom) if atom not in most else most[atom] if sign > 0 else ZERO
    itself = Dim((((atom,), 1),))
    if most.keys().isdisjoint(itself.symbols()):
        return itself
    left, right = _extreme(atom.left, most, sign), _extreme(atom.right, most, sign)
    match atom.function:
        case "min":
            return minimum(left, right)
        case "max":
            return maximum(left, right)
        case "%":
            return maximum(right, ZERO) if sign > 0 else ZERO
        case function:
            divide = floor_divide if function == "//" else ceil_divide
            if (atom.right.constant or 0) > 0:
                return divide(left, atom.right)
            return maximum(left, ZERO) if sign > 0 else ZERO  # a divisor that may be measured is at least one


def upper_elements(shape: Iterable[Dim], most: Mapping[Symbol, Dim]) -> Dim:
    """How many elements a shape has at most."""
    total = ONE
    for size in shape:
        bound = upper(size, most)
        total = total * (maximum(bound, ZERO) if bound != size else size)
    return total
