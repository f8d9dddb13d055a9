"""Dimensions: whole numbers >= 0 as canonical polynomials with integer coefficients over atoms.

An atom is a `Symbol` or a `Compound`: `a // b`, `a % b`, `min`, `max`, `ceil_div` of canonical forms that could not be
reduced. Two dimensions are equal if and only if their canonical forms are. Facts (`D % H == 0`, `N == 784`) are
applied by `dfc.ir.facts`; this module knows only unconditional arithmetic. Polynomials are immutable and hashable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from dfc.deferred.dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A named size. `unique` tells apart sizes of one name that come from different places (0: as written)."""

    name: str
    unique: int = 0

    def __str__(self) -> str:
        return self.name if self.unique == 0 else f"{self.name}_{self.unique}"


class Compound:
    """`function(left, right)` that could not be reduced; function is one of //, %, min, max, ceil_div. Nothing changes
    it once it is made."""

    __slots__ = ("_hash", "function", "left", "right")

    def __init__(self, function: str, left: Dim, right: Dim) -> None:
        self.function = function
        self.left = left
        self.right = right
        self._hash = hash((function, left, right))

    def __eq__(self, other: object) -> bool:
        if other is self or not isinstance(other, Compound):
            return other is self
        return (self.function, self.left, self.right) == (other.function, other.left, other.right)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Compound({self})"

    def __str__(self) -> str:
        if self.function in ("//", "%"):
            return f"({factor_text(self.left)} {self.function} {factor_text(self.right)})"
        return f"{self.function}({self.left}, {self.right})"


Atom = Symbol | Compound
Monomial = tuple[Atom, ...]
KNOWN = 1 << 12
"""How many sums and products are remembered: a program has few sizes, and adds and multiplies the same ones again."""


class Dim:
    """A polynomial: a sorted tuple of (monomial, non-zero coefficient). Nothing changes it once it is made.
    `constant` is its value if it is a plain number, else None."""

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self.constant: int | None = None
        if not terms:
            self.constant = 0
        elif len(terms) == 1 and not terms[0][0]:
            self.constant = terms[0][1]
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, Dim) and other.terms == self.terms)

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = self._hash = hash(self.terms)
        return known

    @property
    def symbol(self) -> Symbol | None:
        """The symbol if the dimension is nothing but one symbol, else None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            return atom if isinstance(atom, Symbol) else None
        return None

    def symbols(self) -> frozenset[Symbol]:
        """Every symbol that occurs in it, inside atoms too."""
        symbols: set[Symbol] = set()
        pending: list[Dim] = [self]
        while pending:
            for monomial, _ in pending.pop().terms:
                for atom in monomial:
                    if isinstance(atom, Symbol):
                        symbols.add(atom)
                    else:
                        pending += (atom.left, atom.right)
        return frozenset(symbols)

    def __add__(self, other: DimLike) -> Dim:
        right = other if isinstance(other, Dim) else dim(other)
        if not right.terms:
            return self
        if not self.terms:
            return right
        return _sum(self, right)

    def __radd__(self, other: DimLike) -> Dim:
        return self + other

    def __neg__(self) -> Dim:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: DimLike) -> Dim:
        return self + -dim(other)

    def __rsub__(self, other: DimLike) -> Dim:
        return dim(other) - self

    def __mul__(self, other: DimLike) -> Dim:
        right = other if isinstance(other, Dim) else dim(other)
        if right.constant == 1 or not self.terms:
            return self
        if self.constant == 1 or not right.terms:
            return right
        return _product(self, right)

    def __rmul__(self, other: DimLike) -> Dim:
        return self * other

    def __floordiv__(self, other: DimLike) -> Dim:
        return floor_divide(self, dim(other))

    def __mod__(self, other: DimLike) -> Dim:
        return modulo(self, dim(other))

    def substitute(self, values: Mapping[Symbol, DimLike]) -> Dim:
        """The dimension with symbols replaced, in canonical form again."""
        if not values or not (self.symbols() & values.keys()):
            return self
        total = ZERO
        for monomial, coefficient in self.terms:
            product = dim(coefficient)
            for atom in monomial:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        """Its value as an unbounded integer; ZeroDivisionError if it divides by zero; KeyError for unknown symbols."""
        result = self.substitute(values)
        if result.constant is None:
            unknown = sorted(str(s) for s in result.symbols())
            if unknown:
                raise KeyError(unknown[0])
            raise ZeroDivisionError(str(self))
        return result.constant

    def __str__(self) -> str:
        return _format(self)

    def __repr__(self) -> str:
        return f"Dim({self})"


DimLike = Dim | Symbol | int


def dim(value: DimLike) -> Dim:
    """Any dimension-like thing as a canonical polynomial."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, Symbol):
        return Dim((((value,), 1),))
    return Dim((((), int(value)),)) if value else ZERO


ZERO = Dim(())
ONE = dim(1)


@lru_cache(maxsize=KNOWN)
def _sum(a: Dim, b: Dim) -> Dim:
    if a.constant is not None and b.constant is not None:
        return dim(a.constant + b.constant)
    return collected([*a.terms, *b.terms])


@lru_cache(maxsize=KNOWN)
def _product(a: Dim, b: Dim) -> Dim:
    if a.constant is not None and b.constant is not None:
        return dim(a.constant * b.constant)
    return collected([(_sorted(m + n), c * d) for m, c in a.terms for n, d in b.terms])


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    total = ONE
    for d in dims:
        total = total * d
    return total


def is_multiple(d: Dim, number: int) -> bool:
    """Whether it surely is a multiple of a number, whatever its symbols are."""
    return all(coefficient % number == 0 for _, coefficient in d.terms)


def floor_divide(a: Dim, b: Dim) -> Dim:
    """a // b: exact term by term where b divides, otherwise a compound atom."""
    if b.constant == 1:
        return a
    if a.constant is not None and b.constant:
        return dim(a.constant // b.constant)
    if a == b and a.constant is None:
        return ONE if _never_zero(a) else _compound("//", a, b)
    if len(b.terms) != 1:
        return _compound("//", a, b)
    exact, rest = _divide_terms(a, b.terms[0])
    if not rest.terms:
        return exact
    if b.constant and b.constant > 0:
        if rest.constant is not None:
            return exact + rest.constant // b.constant
        return exact + _compound("//", rest, b)
    return _compound("//", a, b)


def modulo(a: Dim, b: Dim) -> Dim:
    """a % b with the sign of b (floor)."""
    if a.constant is not None and b.constant:
        return dim(a.constant % b.constant)
    if len(b.terms) == 1:
        _, rest = _divide_terms(a, b.terms[0])
        if not rest.terms:
            return ZERO
        if b.constant and b.constant > 0:
            if rest.constant is not None:
                return dim(rest.constant % b.constant)
            return _compound("%", rest, b)
    return _compound("%", a, b)


def ceil_divide(a: Dim, b: Dim) -> Dim:
    """The smallest whole number not below a / b."""
    if b.constant == 1:
        return a
    if a.constant is not None and b.constant:
        return dim(-(-a.constant // b.constant))
    if len(b.terms) == 1 and not _divide_terms(a, b.terms[0])[1].terms:
        return floor_divide(a, b)
    return _compound("ceil_div", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    return _extreme("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    return _extreme("max", a, b)


def _extreme(function: str, a: Dim, b: Dim) -> Dim:
    """The extreme of all alternatives of both sides, each of them once: `max(max(x, y), x)` is `max(x, y)`."""
    kept: list[Dim] = []
    for candidate in (*_alternatives(function, a), *_alternatives(function, b)):
        kept = _with_candidate(function, kept, candidate)
    kept.sort(key=str)
    result = kept[0]
    for other in kept[1:]:
        result = _compound(function, result, other)
    return result


def _alternatives(function: str, d: Dim) -> list[Dim]:
    """What an extreme chooses from; the dimension itself if it is no such extreme."""
    alternatives: list[Dim] = []
    pending = [d]
    while pending:
        each = pending.pop()
        atom = each.terms[0][0][0] if _is_atom(each) else None
        if isinstance(atom, Compound) and atom.function == function:
            pending += (atom.right, atom.left)
        else:
            alternatives.append(each)
    return alternatives


def _sign(d: Dim) -> int | None:
    """Whether it is never negative (1), never positive (-1), or zero, as far as that shows: symbols are sizes >= 0."""
    signs = {1 if coefficient > 0 else -1 for _, coefficient in d.terms}
    plain = all(isinstance(atom, Symbol) for monomial, _ in d.terms for atom in monomial)
    if not signs:
        return 0
    return signs.pop() if plain and len(signs) == 1 else None


def _with_candidate(function: str, kept: list[Dim], candidate: Dim) -> list[Dim]:
    """The alternatives with one more, unless another is known to be beyond it; without those it is beyond."""
    remaining: list[Dim] = []
    for each in kept:
        sign = _sign(each - candidate)
        if sign is None:
            remaining.append(each)
        elif sign == 0 or (sign > 0) == (function == "max"):
            return kept
    return [*remaining, candidate]


FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "//": floor_divide,
    "%": modulo,
    "min": minimum,
    "max": maximum,
    "ceil_div": ceil_divide,
}


def _compound(function: str, a: Dim, b: Dim) -> Dim:
    return Dim((((Compound(function, a, b),), 1),))


def _never_zero(a: Dim) -> bool:
    return a.constant not in (None, 0)


def _substitute_atom(atom: Atom, values: Mapping[Symbol, DimLike]) -> Dim:
    if isinstance(atom, Symbol):
        return dim(values.get(atom, atom))
    return FUNCTIONS[atom.function](atom.left.substitute(values), atom.right.substitute(values))


def _divide_terms(a: Dim, divisor: tuple[Monomial, int]) -> tuple[Dim, Dim]:
    """Splits `a` into what one monomial divides exactly (divided) and the rest."""
    monomial, coefficient = divisor
    exact: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for m, c in a.terms:
        left = _without(m, monomial)
        if left is None or c % coefficient:
            rest.append((m, c))
        else:
            exact.append((left, c // coefficient))
    return collected(exact), collected(rest)


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    if not factor:
        return monomial
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _sorted(monomial: Monomial) -> Monomial:
    return monomial if len(monomial) < 2 else tuple(sorted(monomial, key=str))


def collected(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    """The sum of these terms, each monomial of which is sorted."""
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        total[monomial] = total.get(monomial, 0) + factor
    kept = [term for term in total.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), str([*map(str, term[0])])))
    return Dim(tuple(kept))


def factor_text(d: Dim) -> str:
    """The size as it stands in a product: sums, and products after `//` or `%`, are in parentheses."""
    simple = d.constant is not None or d.symbol is not None or _is_atom(d)
    return str(d) if simple else f"({d})"


def _is_atom(d: Dim) -> bool:
    return len(d.terms) == 1 and all(c == 1 and len(m) == 1 for m, c in d.terms)


def _format(d: Dim) -> str:
    if not d.terms:
        return "0"
    text = ""
    for monomial, coefficient in d.terms:
        body = " * ".join(str(a) for a in monomial)
        size = abs(coefficient)
        part = str(size) if not body else body if size == 1 else f"{size} * {body}"
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {part}" if text else part if coefficient > 0 else f"0 - {part}"
    return text
