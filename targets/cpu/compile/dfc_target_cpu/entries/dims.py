"""Dimension formulas as machine code.

Assumes that sizes fit into 64 bits (the runtime refuses larger ones before a call). Guarantees that each formula is
computed once per function, in its first block, so that its value may be used anywhere; division by zero gives 0.
Formulas over sizes that the steps of the function find out are computed where they are used, each time.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from dfc.ir.dims import Atom, Compound, Dim, Symbol
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64


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

    def bound(self, bindings: Mapping[Symbol, Dim]) -> "DimCode":
        """The same code, for formulas whose symbols stand for formulas of this one."""
        inner = DimCode(self.f, self._load_symbol, bindings, self._measured)
        inner._known, inner._atoms = self._known, self._atoms
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
                known = self._known[formula] = self._polynomial(formula)
        return known

    def _polynomial(self, formula: Dim) -> Value:
        total = i64(0)
        for monomial, coefficient in formula.terms:
            term = i64(coefficient)
            for atom in monomial:
                term = self.f.mul(term, self._atom(atom))
            total = self.f.add(total, term)
        return total

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
