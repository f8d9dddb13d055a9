"""What is known about sizes besides arithmetic: from `where`, `assert` and `if N == 784 {`.

Assumes that every symbol is a whole number >= 0. Guarantees that `canonical` only rewrites with facts that hold, so
two sizes whose canonical forms are the same are equal; and that answers are True (proved), False (refuted) or None.
There is no search: a bound is proved if it is a sum of terms that cannot be negative, after taking away at most two
known bounds. What this leaves open is asked again of the difference's normal form under all equations
(`dfc.ir.normal_forms`), which is no form to show: it proves what is equal inside of products, quotients and extremes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import (
    FUNCTIONS,
    ONE,
    ZERO,
    Atom,
    Compound,
    Dim,
    DimLike,
    Monomial,
    Symbol,
    dim,
    floor_divide,
)
from dfc.ir.normal_forms import NormalForms, TooLargeError, normal_forms

RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MAX_ITERATIONS = 8


@dataclass(frozen=True, slots=True)
class Facts:
    """An immutable set of facts; `assume` gives a larger one."""

    replacements: tuple[tuple[Atom, Dim], ...] = ()
    divisions: frozenset[tuple[Dim, Dim]] = frozenset()
    bounds: tuple[Dim, ...] = ()
    unequal: frozenset[Dim] = frozenset()
    equations: tuple[Dim, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.replacements or self.divisions or self.bounds or self.unequal)

    def assume(self, left: DimLike, relation: str, right: DimLike) -> Facts:
        """These facts and `left relation right`."""
        a, b = self.canonical(dim(left)), self.canonical(dim(right))
        match relation:
            case "==":
                known = replace(self, equations=(*self.equations, dim(left) - dim(right)))
                return known._assume_equal(a, b)
            case "!=":
                return replace(self, unequal=self.unequal | {a - b, b - a})
            case ">=":
                return self._assume_bound(a - b)
            case ">":
                return self._assume_bound(a - b - 1)
            case "<=":
                return self._assume_bound(b - a)
            case _:
                return self._assume_bound(b - a - 1)

    def canonical(self, size: Dim) -> Dim:
        """The size in the one form that all sizes known to be equal to it share."""
        if size.constant is not None or not (self.replacements or self.divisions):
            return size
        for _ in range(_MAX_ITERATIONS):
            simpler = self._rewrite(size)
            if simpler == size:
                break
            size = simpler
        return size

    def shape(self, shape: Iterable[Dim]) -> tuple[Dim, ...]:
        return tuple(self.canonical(size) for size in shape)

    def equal(self, left: DimLike, right: DimLike) -> bool | None:
        return self.holds(left, "==", right)

    def holds(self, left: DimLike, relation: str, right: DimLike) -> bool | None:
        """Whether `left relation right` follows (True), contradicts (False) or is open (None)."""
        difference = self.canonical(dim(left)) - self.canonical(dim(right))
        difference = self.canonical(difference)
        if difference.constant is None:
            difference = _with_floors(difference)
        answer = self._compare(difference, relation, self.bounds)
        if answer is None and (self.equations or not _is_plain(difference)):
            form, bounds = _normal(self, dim(left) - dim(right))
            answer = self._compare(form, relation, bounds) if form is not None else None
        return answer

    # ------------------------------------------------------------- inside --

    def _compare(self, difference: Dim, relation: str, bounds: tuple[Dim, ...]) -> bool | None:
        """Whether `difference relation 0`; the same for a positive multiple, since it is about whole numbers."""
        match relation:
            case "==":
                return self._is_zero(difference, bounds)
            case "!=":
                return _not(self._is_zero(difference, bounds))
            case ">=":
                return self._sign(difference, bounds)
            case ">":
                return self._sign(difference - 1, bounds)
            case "<=":
                return self._sign(-difference, bounds)
            case _:
                return self._sign(-difference - 1, bounds)

    def _is_zero(self, difference: Dim, bounds: tuple[Dim, ...]) -> bool | None:
        if difference.constant is not None:
            return difference.constant == 0
        if difference in self.unequal or self._proved(difference - 1, bounds) or self._proved(-difference - 1, bounds):
            return False
        return True if self._proved(difference, bounds) and self._proved(-difference, bounds) else None

    def _sign(self, size: Dim, bounds: tuple[Dim, ...]) -> bool | None:
        if self._proved(size, bounds):
            return True
        return False if self._proved(-size - 1, bounds) else None

    def _proved(self, size: Dim, bounds: tuple[Dim, ...]) -> bool:
        """Whether `size` >= 0 follows."""
        if _cannot_be_negative(size):
            return True
        known = (*bounds, *_bounds_of_atoms(size))
        if any(_cannot_be_negative(size - bound) for bound in known):
            return True
        if len(known) > 24:
            return False
        return any(_cannot_be_negative(size - a - b) for a, b in combinations_with_replacement(known, 2))

    def _assume_bound(self, size: Dim) -> Facts:
        return self if _cannot_be_negative(size) else replace(self, bounds=(*self.bounds, size))

    def _assume_equal(self, a: Dim, b: Dim) -> Facts:
        divided = self._assume_divides(a, b) or self._assume_divides(b, a)
        if divided is not None:
            return divided
        if a == b:
            return self
        solved = _solve(a, b)
        if solved is None:
            return replace(self, bounds=(*self.bounds, a - b, b - a))
        atom, value = solved
        rewritten = Facts(((atom, value),))
        older = tuple((x, rewritten.canonical(y)) for x, y in self.replacements)
        bounds = tuple(rewritten.canonical(bound) for bound in self.bounds)
        divisions = frozenset((rewritten.canonical(x), rewritten.canonical(y)) for x, y in self.divisions)
        return Facts((*older, solved), divisions, bounds, self.unequal, self.equations)

    def _assume_divides(self, a: Dim, b: Dim) -> Facts | None:
        """From `x % y == 0`: y divides x."""
        if b != ZERO or len(a.terms) != 1 or len(a.terms[0][0]) != 1:
            return None
        atom = a.terms[0][0][0]
        if not isinstance(atom, Compound) or atom.function != "%":
            return None
        return replace(self, divisions=self.divisions | {(atom.right, atom.left)})

    def divides(self, divisor: Dim, size: Dim) -> bool:
        return (divisor, size) in self.divisions

    def _rewrite(self, size: Dim) -> Dim:
        total = ZERO
        for monomial, coefficient in size.terms:
            total = total + self._rewrite_term(monomial, coefficient)
        return total

    def _rewrite_term(self, monomial: Monomial, coefficient: int) -> Dim:
        for position, atom in enumerate(monomial):
            if isinstance(atom, Compound) and atom.function in ("//", "ceil_div"):
                rest = monomial[:position] + monomial[position + 1 :]
                exact = self._cancel(atom, rest, coefficient)
                if exact is not None:
                    return exact
        product = dim(coefficient)
        for atom in monomial:
            product = product * self._rewrite_atom(atom)
        return product

    def _cancel(self, quotient: Compound, rest: Monomial, coefficient: int) -> Dim | None:
        """`b * (a // b)` is `a` when b divides a."""
        if not self.divides(quotient.right, quotient.left):
            return None
        factor = Dim(((rest, coefficient),))
        times = ONE if factor == quotient.right else floor_divide(factor, quotient.right)
        if times * quotient.right != factor or any(isinstance(x, Compound) for m, _ in times.terms for x in m):
            return None
        return times * quotient.left

    def _rewrite_atom(self, atom: Atom) -> Dim:
        for known, value in self.replacements:
            if atom == known:
                return value
        if isinstance(atom, Symbol):
            return dim(atom)
        left, right = self.canonical(atom.left), self.canonical(atom.right)
        if self.divides(right, left):
            if atom.function == "%":
                return ZERO
            if atom.function == "ceil_div":
                return floor_divide(left, right)
        return FUNCTIONS[atom.function](left, right)

    def proved(self, size: Dim) -> bool:
        """Whether `size` >= 0 follows, without any normal form."""
        canonical = self.canonical(size)
        return self._proved(canonical, self.bounds)


NO_FACTS = Facts()


@lru_cache(maxsize=64)
def _forms(facts: Facts) -> tuple[NormalForms, tuple[Dim, ...]]:
    """The normal forms under the equations, and the bounds in these forms."""
    forms = normal_forms(facts.equations, facts.proved)
    bounds: list[Dim] = []
    for bound in facts.bounds:
        try:
            bounds.append(forms.of(bound)[0])
        except TooLargeError:
            continue
    return forms, tuple(bounds)


@lru_cache(maxsize=4096)
def _normal(facts: Facts, difference: Dim) -> tuple[Dim | None, tuple[Dim, ...]]:
    """A positive multiple of a difference in normal form (None if it would be too large), and the bounds likewise."""
    forms, bounds = _forms(facts)
    try:
        return forms.of(difference)[0], bounds
    except TooLargeError:
        return None, ()


def _is_plain(size: Dim) -> bool:
    return all(isinstance(atom, Symbol) for monomial, _ in size.terms for atom in monomial)


def _with_floors(size: Dim) -> Dim:
    """`ceil_div(a, 2)` as `(a + 1) // 2`: the two spellings of one size meet."""
    if not any(isinstance(a, Compound) and a.function == "ceil_div" for m, _ in size.terms for a in m):
        return size
    total = ZERO
    for monomial, coefficient in size.terms:
        product = dim(coefficient)
        for atom in monomial:
            product = product * _with_floor(atom)
        total = total + product
    return total


def _with_floor(atom: Atom) -> Dim:
    if isinstance(atom, Compound) and atom.function == "ceil_div" and (atom.right.constant or 0) > 0:
        return floor_divide(atom.left + atom.right - 1, atom.right)
    return Dim((((atom,), 1),))


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _cannot_be_negative(size: Dim) -> bool:
    return all(coefficient > 0 and all(map(_atom_not_negative, monomial)) for monomial, coefficient in size.terms)


def _atom_not_negative(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return True
    left, right = _cannot_be_negative(atom.left), _cannot_be_negative(atom.right)
    match atom.function:
        case "%":
            return right
        case "max":
            return left or right
        case _:
            return left and right


def _bounds_of_atoms(size: Dim) -> list[Dim]:
    """What holds for the quotients and extremes in `size` by themselves, such as `min(a, b) <= a`."""
    bounds: list[Dim] = []
    for monomial, _ in size.terms:
        for atom in monomial:
            if isinstance(atom, Compound) and len(monomial) == 1:
                bounds += _bounds_of(atom)
    return bounds


def _bounds_of(atom: Compound) -> list[Dim]:
    itself = Dim((((atom,), 1),))
    match atom.function:
        case "min":
            return [atom.left - itself, atom.right - itself]
        case "max":
            return [itself - atom.left, itself - atom.right]
        case "//" if (atom.right.constant or 0) > 0:
            return [atom.left - itself * atom.right, itself * atom.right + atom.right - 1 - atom.left]
        case "ceil_div" if (atom.right.constant or 0) > 0:
            return [itself * atom.right - atom.left, atom.left + atom.right - 1 - itself * atom.right]
        case "%" if (atom.right.constant or 0) > 0:
            return [atom.right - 1 - itself]
        case _:
            return []


def _solve(a: Dim, b: Dim) -> tuple[Atom, Dim] | None:
    """An atom with coefficient +-1 that stands alone in `a == b`, and what it is equal to."""
    difference = a - b
    candidates = [
        (monomial[0], coefficient)
        for monomial, coefficient in difference.terms
        if len(monomial) == 1 and coefficient in (1, -1)
    ]
    candidates.sort(key=lambda pair: (isinstance(pair[0], Compound), str(pair[0])), reverse=True)
    symbols_first = [pair for pair in candidates if isinstance(pair[0], Symbol)]
    for atom, coefficient in (*symbols_first, *candidates):
        value = (difference - Dim((((atom,), coefficient),))) * -coefficient
        if not _mentions(value, atom):
            return atom, value
    return None


def _mentions(size: Dim, atom: Atom) -> bool:
    pending = [size]
    while pending:
        for monomial, _ in pending.pop().terms:
            for each in monomial:
                if each == atom:
                    return True
                if isinstance(each, Compound):
                    pending += (each.left, each.right)
    return False
