"""Dimension formulas as machine code.

Assumes that sizes fit into 64 bits (the runtime refuses larger ones before a call). Guarantees that each formula is
computed once per function, in its first block, so that its value may be used anywhere; division by zero gives 0.
Formulas over sizes that the steps of the function find out are computed where they are used, each time.

Offsets in an arena are sums over all that lies before. Each is computed from the nearest one that is there already, so
that a plan of n buffers takes some n additions and not n squared:

    o1 = 64 * B + 64 * C + 128;  o2 = 64 * B + 64 * C + 256 * D + 128    ->    o2 = o1 + 256 * D
"""

from bisect import bisect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Atom, Compound, Dim, Symbol
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64, literal_int

ASSUMED = 61
"""What every size is taken to be where formulas are put into an order."""
FEW_TERMS = 3
"""Formulas with no more terms are written out."""


@dataclass(slots=True)
class Nearby:
    """Long formulas that are computed already, by their values at `ASSUMED`: neighbours differ by little."""

    _formulas: list[Dim] = field(default_factory=list[Dim])
    _values: list[int] = field(default_factory=list[int])
    _atoms: dict[Atom, int] = field(default_factory=dict[Atom, int])

    def add(self, formula: Dim) -> None:
        value = self._assumed(formula)
        position = bisect(self._values, value)
        self._formulas.insert(position, formula)
        self._values.insert(position, value)

    def nearest(self, formula: Dim) -> tuple[Dim, Dim] | None:
        """The neighbour that differs by the fewest terms, and the difference, if these are fewer than the formula's."""
        position = bisect(self._values, self._assumed(formula))
        pairs = [(each, formula - each) for each in self._formulas[max(position - 1, 0) : position + 1]]
        best = min(pairs, key=lambda pair: len(pair[1].terms), default=None)
        return best if best is not None and len(best[1].terms) < len(formula.terms) else None

    def _assumed(self, formula: Dim) -> int:
        total = 0
        for monomial, coefficient in formula.terms:
            for atom in monomial:
                coefficient *= self._atom(atom)
            total += coefficient
        return total

    def _atom(self, atom: Atom) -> int:
        if atom not in self._atoms:
            self._atoms[atom] = ASSUMED if isinstance(atom, Symbol) else self._compound(atom)
        return self._atoms[atom]

    def _compound(self, atom: Compound) -> int:
        left, right = self._assumed(atom.left), self._assumed(atom.right)
        return ZERO_SAFE[atom.function](left, right)


ZERO_SAFE: Mapping[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else a,
    "ceil_div": lambda a, b: -(-a // b) if b else 0,
}
"""The functions of compounds as the code computes them."""


class DimCode:
    """Formulas over symbols, written into the first block of a function, which is left open until `finish`."""

    def __init__(
        self,
        f: FunctionText,
        load_symbol: Callable[[Symbol], Value],
        bindings: Mapping[Symbol, Dim] | None = None,
        measured: frozenset[Symbol] = frozenset(),
    ) -> None:
        self.f = f
        self._prologue = f.blocks[0]
        self._load_symbol = load_symbol
        self._bindings = bindings
        self._measured = measured
        self._known: dict[Dim, Value] = {}
        self._atoms: dict[Atom, Value] = {}
        self._nearby = Nearby()

    def bound(self, bindings: Mapping[Symbol, Dim]) -> "DimCode":
        """The same code, for formulas whose symbols stand for formulas of this one."""
        inner = DimCode(self.f, self._load_symbol, bindings, self._measured)
        inner._known, inner._atoms, inner._nearby = self._known, self._atoms, self._nearby
        return inner

    @contextmanager
    def prologue(self) -> Generator[None]:
        """Instructions written inside go to the end of the first block."""
        if self.f.blocks[-1] is self._prologue:
            yield
            return
        self.f.blocks.append(self._prologue)
        try:
            yield
        finally:
            self.f.blocks.pop()

    def resolve(self, formula: Dim) -> Dim:
        return formula if self._bindings is None else formula.substitute(self._bindings)

    def value(self, formula: Dim) -> Value:
        formula = self.resolve(formula)
        number = formula.constant
        if number is not None:
            return i64(number)
        if self._measured and not self._measured.isdisjoint(formula.symbols()):
            return self._polynomial(formula)
        known = self._known.get(formula)
        if known is None:
            with self.prologue():
                known = self._known[formula] = self._from_nearest(formula)
        return known

    def _from_nearest(self, formula: Dim) -> Value:
        if len(formula.terms) <= FEW_TERMS:
            return self._polynomial(formula)
        near = self._nearby.nearest(formula)
        self._nearby.add(formula)
        if near is None:
            return self._polynomial(formula)
        base, difference = near
        return self.f.add(self._known[base], self._polynomial(difference))

    def _polynomial(self, formula: Dim) -> Value:
        total: Value | None = None
        for monomial, coefficient in formula.terms:
            term = i64(coefficient)
            for atom in monomial:
                term = self.f.mul(self._atom(atom), term)
            total = term if total is None else self.f.add(total, term)
        return i64(0) if total is None else total

    def _atom(self, atom: Atom) -> Value:
        if self._moves(atom):
            return self._atom_here(atom)
        if atom not in self._atoms:
            with self.prologue():
                self._atoms[atom] = self._atom_here(atom)
        return self._atoms[atom]

    def _atom_here(self, atom: Atom) -> Value:
        return self._load_symbol(atom) if isinstance(atom, Symbol) else self._compound(atom)

    def _moves(self, atom: Atom) -> bool:
        """Whether the value of an atom is another one from step to step."""
        if not self._measured:
            return False
        symbols = {atom} if isinstance(atom, Symbol) else atom.left.symbols() | atom.right.symbols()
        return not self._measured.isdisjoint(symbols)

    def _compound(self, atom: Compound) -> Value:
        f = self.f
        a, b = self._polynomial(atom.left), self._polynomial(atom.right)
        if atom.function == "min":
            return f.minimum(a, b)
        if atom.function == "max":
            return f.maximum(a, b)
        if atom.function == "ceil_div":
            return f.sub(i64(0), floor_divide(f, f.sub(i64(0), a), b))
        quotient = floor_divide(f, a, b)
        return quotient if atom.function == "//" else f.sub(a, f.mul(quotient, b))


def floor_divide(f: FunctionText, a: Value, b: Value) -> Value:
    """a // b rounded down; 0 where b is 0."""
    known = literal_int(b)
    if known is not None and known > 0 and known & (known - 1) == 0:
        return a if known == 1 else f.binary("ashr", a, i64(known.bit_length() - 1))
    zero = f.icmp("eq", b, i64(0))
    divisor = f.select(zero, i64(1), b)
    quotient = f.sdiv(a, divisor)
    rest = f.sub(a, f.mul(quotient, divisor))
    inexact = f.icmp("ne", rest, i64(0))
    opposite = f.icmp("slt", f.bit_xor(rest, divisor), i64(0))
    below = f.cast("zext", f.bit_and(inexact, opposite), "i64")
    return f.select(zero, i64(0), f.sub(quotient, below))


def finish_prologue(f: FunctionText, label: str) -> None:
    """Close the first block, once nothing more will be computed in it."""
    f.blocks[0].lines.append(f"  br label %{label}")
