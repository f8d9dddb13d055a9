"""How a value grows with the number of examples: the algebra, and what each op without regions does.

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
from dataclasses import dataclass, replace
from math import inf

from dfc.ir.dims import Atom, Compound, Dim, Symbol, product
from dfc.ir.graph import Node
from dfc.ops import registry
from dfc.ops.attributes import (
    AxisAttributes,
    ConstantAttributes,
    DimAttributes,
    PadAttributes,
    ReduceAttributes,
    ScatterAttributes,
    SliceAttributes,
    WindowAttributes,
)
from dfc.ops.constants import is_zero
from dfc.ops.record import Elementwise


@dataclass(frozen=True, slots=True)
class Degree:
    """See above."""

    power: float
    spread: bool = True


ANY = Degree(-inf)
FLAT = Degree(0.0)
Growth = Degree | None
_SUMS = frozenset({"add", "sub", "concat"})
_EXTREMES = frozenset({"maximum", "minimum"})
_LINEAR = frozenset({"neg", "reshape", "transpose", "broadcast", "reverse"})
_POWERS = {"abs": 1.0, "relu": 1.0, "square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "sign": 0.0}
_IN_ORDER = frozenset({"cummax", "cummin"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """The degrees of sizes: `powers` has those of the size that is split, and of sizes that a run measures; None for
    one of which nothing is known. The others are fixed."""

    powers: Mapping[Symbol, float | None]

    def power(self, size: Dim) -> float | None:
        """The highest power; None where the terms that have it may cancel, or a size is not known."""
        found: dict[float, set[bool]] = {}
        for monomial, factor in size.terms:
            each = [self._atom(atom) for atom in monomial]
            if None in each:
                return None
            power = sum((p for p in each if p is not None), 0.0)
            found.setdefault(power, set()).add(factor > 0)
        if not found:
            return 0.0
        highest = max(found)
        return highest if found[highest] == {True} else None

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


def same(degrees: Sequence[Growth]) -> Growth:
    """The one degree that all have; zeros have every degree."""
    known = {degree for degree in degrees if degree != ANY}
    if not known:
        return ANY
    powers = {degree.power if degree is not None else None for degree in known}
    power = powers.pop()
    if powers or power is None:
        return None
    return Degree(power, all(degree is not None and degree.spread for degree in known))


def times(a: Growth, b: Growth) -> Growth:
    """That of a product. Where few elements of both are not 0 they may miss each other."""
    if ANY in (a, b):
        return ANY
    if a is None or b is None or not (a.spread or b.spread):
        return None
    return Degree(a.power + b.power, a.spread and b.spread)


def to_the(degree: Growth, power: float) -> Growth:
    """That of a power of it."""
    if degree == ANY:
        return ANY if power > 0 else None
    return None if degree is None or not degree.spread else Degree(degree.power * power)


def more(degree: Growth, power: float | None) -> Growth:
    """That of a sum of so many."""
    if degree == ANY:
        return ANY
    return None if degree is None or power is None else replace(degree, power=degree.power + power)


# ---------------------------------------------------------------- ops --


def growth(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """The degree of what a node without regions gives; `degrees` are those of its operands but tokens."""
    found = _RULES.get(node.op, _by_kind)(node, degrees, sizes)
    if found is not None and not found.spread and sizes.is_fixed(node.result.tensor.shape):
        return Degree(found.power)  # what is left has no examples: it is a sum over them
    return found


def _by_kind(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del sizes
    if node.op in _SUMS:
        return same(degrees)
    if node.op in _EXTREMES:
        return _evenly(same(degrees))
    if node.op in _LINEAR:
        return degrees[0]
    if node.op in _POWERS:
        return to_the(degrees[0], _POWERS[node.op])
    if all(degree in (FLAT, ANY) for degree in degrees):
        return FLAT  # a function of values that do not grow
    is_test = isinstance(registry.record(node.op).lowering, Elementwise) and node.result.tensor.machine.is_bool
    return FLAT if is_test and _evenly(same(degrees)) is not None else None


def _evenly(degree: Growth) -> Growth:
    return degree if degree is not None and degree.spread else None


def _dim(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del degrees
    assert isinstance(node.attributes, DimAttributes)
    return more(FLAT, sizes.power(node.attributes.size))


def _constant(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del degrees, sizes
    assert isinstance(node.attributes, ConstantAttributes)
    return ANY if is_zero(node.attributes.value) else FLAT


def _counted(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """Numbers from 0 on."""
    del degrees
    shape = node.result.tensor.shape
    return more(FLAT, sizes.power(shape[0])) if len(shape) == 1 else None


def _numbers(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del node, degrees, sizes
    return FLAT


def _cast(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """What is rounded to whole numbers must not be small."""
    del sizes
    (degree,) = degrees
    rounds = node.operands[0].tensor.machine.is_float and not node.result.tensor.machine.is_float
    if rounds and degree != ANY:
        return degree if degree is not None and degree.spread and degree.power >= 0 else None
    return degree


def _sum(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    assert isinstance(node.attributes, ReduceAttributes)
    count = product(node.operands[0].tensor.shape[axis] for axis in node.attributes.axes)
    return more(degrees[0], sizes.power(count))


def _mean(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del node, sizes
    return degrees[0]


def _extreme(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del node, sizes
    return _evenly(degrees[0])


def _prod(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    assert isinstance(node.attributes, ReduceAttributes)
    counts = [node.operands[0].tensor.shape[axis] for axis in node.attributes.axes]
    if degrees[0] == ANY:
        return ANY
    return degrees[0] if degrees[0] == FLAT and sizes.is_fixed(counts) else None


def _running(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    assert isinstance(node.attributes, AxisAttributes)
    count = node.operands[0].tensor.shape[node.attributes.axis]
    if node.op == "cumsum":
        return more(degrees[0], sizes.power(count))
    if node.op in _IN_ORDER:
        return _evenly(degrees[0])
    if degrees[0] == ANY:
        return ANY
    return degrees[0] if degrees[0] == FLAT and sizes.is_fixed([count]) else None


def _product(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del node, sizes
    return times(*degrees)


def _quotient(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    del node, sizes
    return times(degrees[0], to_the(degrees[1], -1))


def _matmul(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    return more(times(*degrees), sizes.power(node.operands[0].tensor.shape[-1]))


def _select(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """Where a mask holds at few places, what it lets through counts as a product with it."""
    del node, sizes
    mask, a, b = degrees
    if mask is None:
        return None
    if mask.spread:
        return same([a, b])
    return times(mask, a) if b == ANY else None


def _equal(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """Numbers that grow with the batch, such as those of examples, are equal at few places."""
    del node, sizes
    known = _evenly(same([degree for degree in degrees if degree != FLAT]))
    if known is None:
        return None
    return FLAT if known.power <= 0 else Degree(-known.power, spread=False)


def _slice(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """A part of the examples is examples; but where few are not 0 it may miss these."""
    assert isinstance(node.attributes, SliceAttributes)
    (degree,) = degrees
    if degree is None or degree.spread:
        return degree
    pairs = zip(node.operands[0].tensor.shape, node.attributes.sizes, strict=True)
    return degree if sizes.is_fixed([before for before, after in pairs if before != after]) else None


def _windows(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    assert isinstance(node.attributes, WindowAttributes)
    shape = node.operands[0].tensor.shape
    if degrees[0] is None or degrees[0].spread or sizes.is_fixed([shape[axis] for axis in node.attributes.axes]):
        return degrees[0]
    return None


def _gather(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """Rows grow as the rows do that they are picked from, whatever their numbers are."""
    assert isinstance(node.attributes, AxisAttributes)
    degree = degrees[0]
    if degree is None or degree.spread or sizes.is_fixed([node.operands[0].tensor.shape[node.attributes.axis]]):
        return degree
    return None


def _scatter(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """The sum of all rows stays; it is spread over the rows of the target, of which some may get nothing."""
    assert isinstance(node.attributes, ScatterAttributes)
    _, rows = degrees
    return _into(rows, node.operands[0].tensor.elements, node.attributes.shape[node.attributes.axis], sizes)


def _into(degree: Growth, rows: Dim, target: Dim, sizes: Sizes) -> Growth:
    before, after = sizes.power(rows), sizes.power(target)
    if degree == ANY:
        return ANY
    if degree is None or before is None or after is None:
        return None
    return Degree(degree.power + before - after, degree.spread and after == 0)


def _pad(node: Node, degrees: Sequence[Growth], sizes: Sizes) -> Growth:
    """Zeros beside rows of which there are as many as of these, or many more."""
    assert isinstance(node.attributes, PadAttributes)
    degree, fill = degrees
    before, after = (sizes.power(value.tensor.elements) for value in (node.operands[0], node.result))
    if before is not None and before == after:
        return same([degree, fill])
    return _into(degree, node.operands[0].tensor.elements, node.result.tensor.elements, sizes) if fill == ANY else None


_Rule = Callable[[Node, Sequence[Growth], Sizes], Growth]
_RULES: dict[str, _Rule] = {
    "dim": _dim,
    "constant": _constant,
    "iota": _counted,
    "range": _counted,
    "random": _numbers,
    "random_at": _numbers,
    "cast": _cast,
    "sum": _sum,
    "mean": _mean,
    "max": _extreme,
    "min": _extreme,
    "sort": _extreme,
    "prod": _prod,
    "cumsum": _running,
    "cumprod": _running,
    "cummax": _running,
    "cummin": _running,
    "mul": _product,
    "div": _quotient,
    "matmul": _matmul,
    "select": _select,
    "equal": _equal,
    "slice": _slice,
    "windows": _windows,
    "gather": _gather,
    "scatter_add": _scatter,
    "pad": _pad,
}
