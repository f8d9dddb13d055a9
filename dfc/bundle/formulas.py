"""Dimensions of the compiler as formulas of the bundle format: postfix, dims by unique names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dfc.ir.dims import Compound, Dim, Symbol
from dfc.kernels.program import EntryProgram, EntrySignature
from dfc_runtime.calls.formulas import Formula

Names = Mapping[Symbol, str]
Token = int | str


def name_symbols(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A name for each symbol: its own where it can be, else with a number behind it."""
    chosen: dict[Symbol, str] = {}
    taken: set[str] = set()
    for symbol in sorted(set(symbols), key=lambda s: (s.unique, s.name)):
        name, number = str(symbol), 1
        while name in taken:
            number += 1
            name = f"{symbol}_{number}"
        taken.add(name)
        chosen[symbol] = name
    return chosen


def entry_names(entry: EntryProgram, signature: EntrySignature) -> dict[Symbol, str]:
    """Names for the dims of an entry and the sizes it finds out. That its memory is a matter of the dims alone is the
    promise of the schedule."""
    known = {*signature.dims}
    used = {*entry.dims, *entry.arena.symbols(), *entry.largest_live.symbols(), *signature.dim_feeds}
    assert used <= known, f"{entry.name} uses {', '.join(sorted(str(s) for s in used - known))}"
    return name_symbols([*signature.dims, *(symbol for symbol, _ in entry.measured)])


def formula(dim: Dim, names: Names) -> Formula:
    """The value of a dimension, as tokens. Iterative: memory plans nest deeply."""
    tokens: list[Token] = []
    pending: list[Dim | Compound | Token] = [dim]
    while pending:
        item = pending.pop()
        if isinstance(item, Dim):
            pending += reversed(_sum(item, names))
        elif isinstance(item, Compound):
            pending += (item.function, item.right, item.left)
        else:
            tokens.append(item)
    return Formula(tuple(tokens))


def _sum(dim: Dim, names: Names) -> list[Dim | Compound | Token]:
    if not dim.terms:
        return [0]
    parts: list[Dim | Compound | Token] = []
    for number, (monomial, coefficient) in enumerate(dim.terms):
        negative = coefficient < 0 and number > 0
        size = -coefficient if negative else coefficient
        factors: list[Dim | Compound | Token] = [a if isinstance(a, Compound) else f"${names[a]}" for a in monomial]
        if size != 1 or not factors:
            factors.insert(0, size)
        parts.append(factors[0])
        for factor in factors[1:]:
            parts += (factor, "*")
        if number:
            parts.append("-" if negative else "+")
    return parts
