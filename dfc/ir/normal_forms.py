"""Normal forms of sizes under equations: what proves `N * K == 2 * M * K` from `where N == 2 * M`.

Assumes that symbols are whole numbers >= 0, that every equation holds, and that what a size divides by is not zero:
where it is, the size has no value at all. Guarantees that a form has the value of its size times a number above zero,
so that a difference whose form is zero is zero. Quotients are divided out with remainder; `%`, `ceil_div`, `min` and
`max` are written with `//` and `max(_, 0)`; equations rewrite as polynomials do, by a Groebner basis ordered by degree.
All of it has bounds; beyond these an answer stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import combinations
from math import gcd

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Atom, Compound, Dim, Monomial, dim

Proved = Callable[[Dim], bool]
"""Whether a size >= 0 follows from what is known."""

MOST_TERMS = 80
MOST_STEPS = 200
MOST_EQUATIONS = 16
MOST_PAIRS = 60
MOST_NESTED = 24


class TooLargeError(Exception):
    """The form is beyond what is worth the time."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`coefficient * leading` is `rest`: an equation, oriented."""

    leading: Monomial
    coefficient: int
    rest: Dim

    @property
    def equation(self) -> Dim:
        return Dim(((self.leading, self.coefficient),)) - self.rest


@dataclass(slots=True)
class NormalForms:
    """Brings sizes into normal form under a set of equations (`size == 0`)."""

    proved: Proved
    rules: tuple[Rule, ...] = ()
    _known: dict[Atom, Dim] = field(default_factory=dict[Atom, Dim])

    def of(self, size: Dim) -> tuple[Dim, int]:
        """The form, and the number (> 0) that it is a multiple of the size by; `TooLargeError` beyond the bounds."""
        return reduced(self.plain(size), self.rules)

    def plain(self, size: Dim, depth: int = 0) -> Dim:
        """The size over symbols, quotients and `max(_, 0)` of normal forms, before equations rewrite its terms."""
        if depth > MOST_NESTED or len(size.terms) > MOST_TERMS:
            raise TooLargeError
        total = ZERO
        for monomial, coefficient in size.terms:
            product = dim(coefficient)
            for atom in monomial:
                product = _bounded(product * self._atom(atom, depth))
            total = _bounded(total + product)
        return total

    # ---------------------------------------------------------- compounds --

    def _atom(self, atom: Atom, depth: int) -> Dim:
        if not isinstance(atom, Compound):
            return Dim((((atom,), 1),))
        known = self._known.get(atom)
        if known is None:
            a, b = self._operand(atom.left, depth), self._operand(atom.right, depth)
            known = self._known[atom] = self._compound(atom.function, a, b)
        return known

    def _operand(self, size: Dim, depth: int) -> Dim:
        """An operand of a function: equations apply as long as they leave whole numbers as they are."""
        size = self.plain(size, depth + 1)
        form, multiplier = reduced(size, tuple(rule for rule in self.rules if rule.coefficient == 1))
        return form if multiplier == 1 else size

    def _compound(self, function: str, a: Dim, b: Dim) -> Dim:
        match function:
            case "//":
                return self._quotient(a, b)
            case "ceil_div":
                return -self._quotient(-a, b)
            case "%":
                return a - _bounded(b * self._quotient(a, b))
            case "max":
                return b + self._excess(a - b)
            case _:
                return a - self._excess(a - b)

    def _excess(self, size: Dim) -> Dim:
        """`max(size, 0)`, of which `max(-size, 0)` differs by `size`."""
        if self.proved(size):
            return size
        if self.proved(-size):
            return ZERO
        content = gcd(*(coefficient for _, coefficient in size.terms))
        size = _scaled_down(size, content)
        if size.terms[0][1] < 0:
            return (_function("max", -size, ZERO) + size) * content
        return _function("max", size, ZERO) * content

    def _quotient(self, a: Dim, b: Dim) -> Dim:
        """`a // b`; a whole part is what is left when the rest is smaller than b in the order of monomials."""
        if not b.terms:
            return _function("//", a, b)
        if _leading(b)[1] < 0:
            a, b = -a, -b
        whole, rest = divided(a, b)
        if not rest.terms or (self.proved(rest) and self.proved(b - 1 - rest)):
            return whole
        if not self.proved(b):
            return whole + _function("//", rest, b)
        simpler = _flattened(rest, b, self.proved) or _cancelled(rest, b)
        if simpler is not None:
            return whole + self._quotient(*simpler)
        # (-x - 1) // b is -1 - x // b: one of the two stands for both
        other_whole, other = divided(-rest - 1, b)
        simpler = _flattened(other, b, self.proved) or _cancelled(other, b)
        if simpler is not None:
            return whole - 1 - other_whole - self._quotient(*simpler)
        if not other.terms:
            return whole - 1 - other_whole
        if _rank(other) < _rank(rest):
            return whole - 1 - other_whole - _function("//", other, b)
        return whole + _function("//", rest, b)


def normal_forms(equations: Sequence[Dim], proved: Proved) -> NormalForms:
    """The normal forms under equations; sizes inside of functions are rewritten with what the equations say of them."""
    rules: tuple[Rule, ...] = ()
    for _ in range(3):
        forms = basis(list(_each_plain(NormalForms(proved, rules), equations)), proved)
        if forms == rules:
            break
        rules = forms
    return NormalForms(proved, rules)


def _each_plain(forms: NormalForms, equations: Sequence[Dim]) -> Iterator[Dim]:
    for equation in equations:
        try:
            yield forms.plain(equation)
        except TooLargeError:
            continue


# --------------------------------------------------------------- quotients --


def divided(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Quotient and rest of polynomials over the whole numbers: a == quotient * b + rest."""
    leading, coefficient = _leading(b)
    quotient = ZERO
    for _ in range(MOST_STEPS):
        step = ZERO
        for monomial, factor in a.terms:
            left = _without(monomial, leading)
            if left is not None and factor // coefficient:
                step = Dim(((left, factor // coefficient),))
                break
        if not step.terms:
            return quotient, a
        quotient, a = quotient + step, _bounded(a - step * b)
    raise TooLargeError


def _flattened(rest: Dim, b: Dim, proved: Proved) -> tuple[Dim, Dim] | None:
    """`(x // a + y) // b` is `(x + a * y) // (a * b)`, for divisors above zero."""
    for monomial, coefficient in rest.terms:
        atom = monomial[0] if len(monomial) == 1 and coefficient == 1 else None
        if isinstance(atom, Compound) and atom.function == "//" and proved(atom.right):
            others = rest - Dim(((monomial, 1),))
            return _bounded(atom.left + atom.right * others), _bounded(atom.right * b)
    return None


def _cancelled(rest: Dim, b: Dim) -> tuple[Dim, Dim] | None:
    """Rest and divisor without their common factors: `(2 * N + 1) // 4` is `N // 2`, `N * K // (M * K)` is `N // M`."""
    number = next((coefficient for monomial, coefficient in rest.terms if not monomial), 0)
    plain = rest - number
    if not plain.terms:
        return None
    content = gcd(*(coefficient for _, coefficient in (*plain.terms, *b.terms)))
    if content > 1:
        return _scaled_down(plain, content) + number // content, _scaled_down(b, content)
    for atom in rest.terms[0][0]:
        over, under = _without_factor(rest, (atom,)), _without_factor(b, (atom,))
        if over is not None and under is not None:
            return over, under
    return None


def _function(name: str, a: Dim, b: Dim) -> Dim:
    return Dim((((Compound(name, a, b),), 1),))


# -------------------------------------------------------------- equations --


def reduced(size: Dim, rules: Sequence[Rule]) -> tuple[Dim, int]:
    """A positive multiple of the size that no rule rewrites, and which one it is."""
    multiplier, steps = 1, 0
    position = 0
    while position < len(size.terms):
        monomial, coefficient = size.terms[position]
        for rule in rules:
            left = _without(monomial, rule.leading)
            if left is None:
                continue
            common = gcd(coefficient, rule.coefficient)
            factor = rule.coefficient // common
            size = _bounded(size * factor - Dim(((left, coefficient // common),)) * rule.equation)
            multiplier *= factor
            steps += 1
            position = 0
            break
        else:
            position += 1
        if steps > MOST_STEPS or multiplier > 2**64:
            raise TooLargeError
    return size, multiplier


def basis(equations: Sequence[Dim], proved: Proved) -> tuple[Rule, ...]:
    """A Groebner basis of the equations, or what of it the bounds allow: every rule follows from the equations."""
    rules: list[Rule] = []
    for equation in equations:
        _add(rules, equation, proved)
    tried: set[tuple[Rule, Rule]] = set()
    while len(tried) < MOST_PAIRS:
        pair = next((each for each in combinations(rules, 2) if each not in tried and _meet(*each)), None)
        if pair is None:
            break
        tried.add(pair)
        _add(rules, _difference(*pair), proved)
    return tuple(rules)


def _add(rules: list[Rule], equation: Dim, proved: Proved) -> None:
    """Adds what an equation says beyond the rules; those that it makes simpler are added again."""
    waiting = [equation]
    for _ in range(MOST_PAIRS):
        if not waiting or len(rules) >= MOST_EQUATIONS:
            return
        try:
            rule = oriented(_simplified(reduced(_bounded(waiting.pop()), rules)[0], proved))
        except TooLargeError:
            continue
        if rule is None:
            continue
        rewritten = [each for each in rules if _without(each.leading, rule.leading) is not None]
        for each in rewritten:
            rules.remove(each)
        rules.append(rule)
        waiting += [each.equation for each in rewritten]


def oriented(equation: Dim) -> Rule | None:
    """The rule that replaces the leading monomial; None for what says nothing, or contradicts itself."""
    if equation.constant is not None:
        return None
    leading, coefficient = _leading(equation)
    if coefficient < 0:
        equation, coefficient = -equation, -coefficient
    return Rule(leading, coefficient, Dim(((leading, coefficient),)) - equation)


def _simplified(equation: Dim, proved: Proved) -> Dim:
    """Without common factors: numbers, and sizes that are known to be above zero."""
    if not equation.terms:
        return equation
    equation = _scaled_down(equation, gcd(*(coefficient for _, coefficient in equation.terms)))
    for atom in equation.terms[0][0]:
        left = _without_factor(equation, (atom,))
        if left is not None and proved(Dim((((atom,), 1),)) - 1):
            return _simplified(left, proved)
    return equation


def _meet(a: Rule, b: Rule) -> bool:
    return bool(set(a.leading) & set(b.leading))


def _difference(a: Rule, b: Rule) -> Dim:
    """Both rules applied to the least monomial that both rewrite, one from the other."""
    missing_of_a = _missing(a.leading, b.leading)
    missing_of_b = _missing(b.leading, a.leading)
    common = gcd(a.coefficient, b.coefficient)
    left = Dim(((missing_of_a, b.coefficient // common),)) * a.rest
    right = Dim(((missing_of_b, a.coefficient // common),)) * b.rest
    return left - right


def _missing(of: Monomial, to: Monomial) -> Monomial:
    """What `of` must be multiplied with to become the least common multiple of both."""
    left = list(to)
    for atom in of:
        if atom in left:
            left.remove(atom)
    return tuple(left)


# -------------------------------------------------------------- polynomials --


def _leading(size: Dim) -> tuple[Monomial, int]:
    """The first term by degree, then by name: the order of a form's terms."""
    return size.terms[0]


def _rank(size: Dim) -> tuple[int, str]:
    return len(size.terms), str(size)


def _scaled_down(size: Dim, by: int) -> Dim:
    return Dim(tuple((monomial, coefficient // by) for monomial, coefficient in size.terms))


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _without_factor(size: Dim, factor: Monomial) -> Dim | None:
    """The size divided by a monomial, if all terms have it."""
    total = ZERO
    for monomial, coefficient in size.terms:
        left = _without(monomial, factor)
        if left is None:
            return None
        total = total + Dim(((left, coefficient),))
    return total


def _bounded(size: Dim) -> Dim:
    if len(size.terms) > MOST_TERMS or any(len(monomial) > MOST_NESTED for monomial, _ in size.terms):
        raise TooLargeError
    return size
