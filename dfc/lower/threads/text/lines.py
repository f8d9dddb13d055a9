"""Text of device code in the making: lines with their depth, fresh names, and formulas of sizes.

Guarantees that equal calls in equal order give equal text, so that equal kernels are compiled once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from dfc.ir.dims import Atom, Compound, Dim, Symbol

_INDENT = "    "


class Lines:
    """Lines of a function's body. Names of variables come from one counter, so none is used twice."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    def add(self, line: str) -> None:
        self._lines.append(_INDENT * self._depth + line)

    def name(self, stem: str = "v") -> str:
        """A name that is not in use: stem and number."""
        self._names += 1
        return f"{stem}{self._names - 1}"

    def let(self, value: str, stem: str = "v") -> str:
        """Assigns to a fresh name."""
        name = self.name(stem)
        self.add(f"{name} = {value}")
        return name

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """`head:` with what is added inside below it; nothing at all where nothing is added."""
        self.add(f"{head}:")
        start = len(self._lines)
        self._depth += 1
        yield
        self._depth -= 1
        if len(self._lines) == start:
            del self._lines[start - 1 :]

    @contextmanager
    def guarded(self, condition: str) -> Generator[None]:
        """Under `if condition`, or as it is without a condition."""
        if not condition:
            yield
            return
        with self.block(f"if {condition}"):
            yield

    @contextmanager
    def counted(self, count: str, stem: str) -> Generator[str]:
        """So many times what is added inside, which the name counts from 0."""
        number = self.let("0", stem)
        with self.block(f"while {number} < {count}"):
            yield number
            self.add(f"{number} = {number} + 1")

    def text(self, head: str, first: Sequence[str] = ()) -> str:
        """The function, with some lines before all others."""
        return "\n".join([head, *(_INDENT + line for line in first), *self._lines]) + "\n"


class Sizes:
    """Dimension formulas as texts of type i64; what is not a number or a symbol is computed once, at the beginning."""

    def __init__(self) -> None:
        self._known: dict[Dim, str] = {}
        self._atoms: dict[Atom, str] = {}
        self.lines: list[str] = []

    def text(self, formula: Dim) -> str:
        """A number, or the name of a variable."""
        number = formula.constant
        if number is not None:
            return str(number)
        symbol = formula.symbol
        if symbol is not None:
            return str(symbol)
        known = self._known.get(formula)
        if known is None:
            known = self._known[formula] = self._let(self._polynomial(formula))
        return known

    def _let(self, value: str) -> str:
        """A variable; one that is there already stays what it is."""
        if value.isidentifier():
            return value
        name = f"s{len(self.lines)}"
        self.lines.append(f"{name} = {value}")
        return name

    def _polynomial(self, formula: Dim) -> str:
        text = ""
        for monomial, coefficient in formula.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            part = " * ".join(factors)
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {part}" if text else part if coefficient > 0 else f"0 - {part}"
        return text or "0"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return str(atom)
        known = self._atoms.get(atom)
        if known is None:
            left, right = self.text(atom.left), self.text(atom.right)
            known = self._atoms[atom] = self._let(_function(atom, left, right))
        return known


def _function(atom: Compound, left: str, right: str) -> str:
    """Divisions are rounded down, or up; by zero they give 0, and the whole of the left side as remainder."""
    if atom.function in ("min", "max"):
        return f"{atom.function}({left}, {right})"
    if atom.function == "%":
        rest = f"i64_mod({left}, {right})"
        return rest if atom.right.constant else f"i64_select({right} != 0, {rest}, {left})"
    return f"i64_floordiv({left}, {right})" if atom.function == "//" else f"0 - i64_floordiv(0 - {left}, {right})"


def total(parts: Sequence[tuple[str, str]]) -> str:
    """Sum of factor * term, for texts that are numbers or names; `0` for nothing."""
    text = ""
    for factor, term in parts:
        if factor == "0" or term == "0":
            continue
        negative = factor.startswith("-") and factor[1:].isdigit()
        size = factor[1:] if negative else factor
        part = term if size == "1" else size if term == "1" else f"{size} * {term}"
        sign = "-" if negative else "+"
        text = f"{text} {sign} {part}" if text else (f"0 - {part}" if negative else part)
    return text or "0"
