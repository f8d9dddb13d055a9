"""Rules of degrees: how a value grows with the number of examples that it is made of.

Think of a batch that is there n times, one copy behind the other. A value has the degree k if n^-k times its elements
are spread in some fixed way when n is large:

    Degree(k)                     all elements grow so: what belongs to one example (0), a mean (0), a sum (1), B (1)
    Degree(k, spread=False)       few elements are not 0, and only sums over them grow so, their number times n^k:
                                  what the gradient of `h[0]` or of a cumulative maximum leaves for `h`
    ANY                           zeros
    None                          there is no such k, or it cannot be seen

Whatever is linear keeps both kinds; what is not needs elements that all grow alike. Where examples stand is no matter:
an example that is picked by its number, a slice or a sorted batch has the degree of the examples. Where few rows go
into many, as in a scatter of B rows into B * N, the target's size is taken off: sum(rows) is what stays.

Sizes have degrees too: the one of their highest power of what is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Atom, Compound, Dim, Symbol
from dfc.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Degree:
    """See above."""

    power: float
    is_dense: bool = True


ANY = Degree(-inf)
FLAT = Degree(0.0)
MaybeDegree = Degree | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The degrees of sizes: `powers` has those of the size that is split, and of sizes that a run measures; None for
    one of which nothing is known. The others are fixed."""

    powers: Mapping[Symbol, float | None]

    def power(self, size: Dim) -> float | None:
        """The highest power; None where the terms that have it may cancel, or a size is not known."""
        flags: dict[float, set[bool]] = {}
        for monomial, factor in size.terms:
            each = [self._atom(atom) for atom in monomial]
            if None in each:
                return None
            power = sum((p for p in each if p is not None), 0.0)
            flags.setdefault(power, set()).add(factor > 0)
        if not flags:
            return 0.0
        highest = max(flags)
        return highest if flags[highest] == {True} else None

    def _atom(self, atom: Atom) -> float | None:
        if isinstance(atom, Symbol):
            return self.powers.get(atom, 0.0)
        left, right = self.power(atom.left), self.power(atom.right)
        if left is None or right is None:
            return None
        return _of_compound(atom, left, right)

    def is_fixed(self, sizes: Sequence[Dim]) -> bool:
        return all(self.power(size) == 0 for size in sizes)


def _of_compound(atom: Compound, left: float, right: float) -> float | None:
    match atom.function:
        case "//" | "ceil_div":
            return left - right if left >= right else None
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case _:
            return 0.0 if right == 0 else None


# ---------------------------------------------------------------- the algebra --


def same(degrees: Sequence[MaybeDegree]) -> MaybeDegree:
    """The one degree that all have; zeros have every degree."""
    known = {degree for degree in degrees if degree != ANY}
    if not known:
        return ANY
    powers = {degree.power if degree is not None else None for degree in known}
    power = powers.pop()
    if powers or power is None:
        return None
    return Degree(power, all(degree is not None and degree.is_dense for degree in known))


def times(a: MaybeDegree, b: MaybeDegree) -> MaybeDegree:
    """That of a product. Where few elements of both are not 0 they may miss each other."""
    if ANY in (a, b):
        return ANY
    if a is None or b is None or not (a.is_dense or b.is_dense):
        return None
    return Degree(a.power + b.power, a.is_dense and b.is_dense)


def to_the(degree: MaybeDegree, power: float) -> MaybeDegree:
    """That of a power of it."""
    if degree == ANY:
        return ANY if power > 0 else None
    return None if degree is None or not degree.is_dense else Degree(degree.power * power)


def more(degree: MaybeDegree, power: float | None) -> MaybeDegree:
    """That of a sum of so many."""
    if degree == ANY:
        return ANY
    return None if degree is None or power is None else replace(degree, power=degree.power + power)


# ---------------------------------------------------------------- rules that ops share --

DegreeRule = Callable[[Node, Sequence[MaybeDegree], Sizes], MaybeDegree]
"""The degree of what a node without regions gives, from those of its operands but tokens."""


def unknown(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """The safe default: a function of values that do not grow does not grow; of others nothing is known."""
    del node, sizes
    return FLAT if all(degree in (FLAT, ANY) for degree in degrees) else None


def as_first(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """That of the first operand: what is linear, and what moves elements."""
    del node, sizes
    return degrees[0]


def as_all(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """That of all operands, if it is the same one: sums, and values side by side."""
    del node, sizes
    return same(degrees)


def as_all_evenly(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """The same, of elements that all grow alike: extremes of them."""
    del node, sizes
    return evenly(same(degrees))


def fixed(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """That of numbers that do not depend on how many there are."""
    del node, degrees, sizes
    return FLAT


def pointwise(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """The default of element-wise ops: of operands that grow alike a test, which is true or false, does not grow."""
    is_test = node.result.tensor.machine.is_bool and evenly(same(degrees)) is not None
    return FLAT if is_test else unknown(node, degrees, sizes)


def power_of_first(exponent: float) -> DegreeRule:
    """That of a power of the first operand."""

    def rule(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
        del node, sizes
        return to_the(degrees[0], exponent)

    return rule


def evenly(degree: MaybeDegree) -> MaybeDegree:
    """A degree, if all elements grow so."""
    return degree if degree is not None and degree.is_dense else None
