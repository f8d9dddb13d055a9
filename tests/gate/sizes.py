"""Sizes under facts: what follows is proved, and nothing is proved or refuted that small numbers contradict.

`python -m tests.gate.sizes [COUNT] [--seed N]`: each round makes facts and questions of random formulas. A formula is a
tuple (function, left, right), a symbol or a number; what it means is computed apart from `dfc.ir`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dfc.ir import dims
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.facts import NO_FACTS, OPPOSITE, RELATIONS, Facts

SYMBOLS = tuple(map(Symbol, "ABCDE"))
BUILDERS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": Dim.__add__,
    "-": Dim.__sub__,
    "*": Dim.__mul__,
    **dims.FUNCTIONS,
}
MEANING: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "min": min,
    "max": max,
    "ceil_div": lambda x, y: -(-x // y),
}
HOLDS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
Formula = tuple[str, "Formula", "Formula"] | Symbol | int
Comparison = tuple[Formula, str, Formula]
Numbers = dict[Symbol, int]


def size(formula: Formula) -> Dim:
    """The formula as dfc sees it."""
    return BUILDERS[formula[0]](size(formula[1]), size(formula[2])) if isinstance(formula, tuple) else dim(formula)


def value(formula: Formula, numbers: Numbers) -> int:
    """What the formula means; ZeroDivisionError where it means nothing."""
    if isinstance(formula, tuple):
        return MEANING[formula[0]](value(formula[1], numbers), value(formula[2], numbers))
    return numbers[formula] if isinstance(formula, Symbol) else formula


def truth(comparison: Comparison, numbers: Numbers) -> bool:
    left, relation, right = comparison
    return HOLDS[relation](value(left, numbers), value(right, numbers))


def text(formula: Formula) -> str:
    return f"({text(formula[1])} {formula[0]} {text(formula[2])})" if isinstance(formula, tuple) else str(formula)


# --------------------------------------------------------------- generators --


def polynomial(source: random.Random, depth: int = 2) -> Formula:
    if depth == 0 or source.random() < 0.3:
        return source.choice(SYMBOLS) if source.random() < 0.8 else source.randint(0, 4)
    return source.choice("+-**"), polynomial(source, depth - 1), polynomial(source, depth - 1)


def formula(source: random.Random, depth: int = 3) -> Formula:
    if depth == 0 or source.random() < 0.25:
        return source.choice(SYMBOLS[:3]) if source.random() < 0.75 else source.randint(0, 5)
    function = source.choice(("+", "-", "*", "//", "//", "%", "min", "max", "ceil_div"))
    return function, formula(source, depth - 1), formula(source, depth - 1)


def equations_of(source: random.Random) -> list[Comparison]:
    """One or two equalities of polynomials, which some numbers satisfy and some do not."""
    numbers = {symbol: source.randint(0, 7) for symbol in SYMBOLS}
    found: list[Comparison] = []
    for _ in range(source.randint(1, 2)):
        left, right = polynomial(source), polynomial(source, 1)
        right = ("+", right, value(left, numbers) - value(right, numbers))
        found += [(left, "==", right)] if (size(left) - size(right)).terms else []
    return found


def consequence(source: random.Random, equations: list[Comparison]) -> Comparison:
    """An equality that holds because of the equations: a multiple of one or of several added to something."""
    left: Formula = polynomial(source)
    right: Formula = left
    for a, _, b in equations:
        factor = polynomial(source, 1)
        left, right = ("+", left, ("*", factor, a)), ("+", right, ("*", factor, b))
    return left, "==", right


def shifted(source: random.Random) -> tuple[list[Comparison], Comparison]:
    """A quotient whose dividend is moved by a multiple of the divisor, which is known to be above zero."""
    x, shift = polynomial(source), polynomial(source, 1)
    divisor: Formula = ("+", source.choice(SYMBOLS), source.choice((0, 1, source.choice(SYMBOLS))))
    function = source.choice(("//", "ceil_div", "%"))
    moved: Formula = (function, ("+", x, ("*", shift, divisor)), divisor)
    plain: Formula = (function, x, divisor)
    return [(divisor, ">=", 1)], (moved, "==", plain if function == "%" else ("+", plain, shift))


# ------------------------------------------------------------------- rounds --


@dataclass
class Findings:
    """What a run of the gate has seen."""

    asked: int = 0
    decided: int = 0
    compared: int = 0
    wrong: list[str] = field(default_factory=list[str])


def assumed(facts: list[Comparison]) -> Facts:
    known = NO_FACTS
    for left, relation, right in facts:
        known = known.assume(size(left), relation, size(right))
    return known


def solutions(source: random.Random, facts: list[Comparison], most: int = 400) -> Iterator[Numbers]:
    """Random small numbers that satisfy the facts."""
    for _ in range(most):
        numbers = {symbol: source.randint(0, 7) for symbol in SYMBOLS}
        try:
            if all(truth(fact, numbers) for fact in facts):
                yield numbers
        except ZeroDivisionError:
            continue


def ask(
    source: random.Random, facts: list[Comparison], question: Comparison, findings: Findings, *, follows: bool
) -> None:
    left, relation, right = question
    answer = assumed(facts).holds(size(left), relation, size(right))
    findings.asked += 1
    shown = f"{text(left)} {relation} {text(right)} where {', '.join(f'{text(a)} {r} {text(b)}' for a, r, b in facts)}"
    if answer is None:
        if follows:
            findings.wrong.append(f"not proved: {shown}")
        return
    findings.decided += 1
    for numbers in solutions(source, facts):
        try:
            real = truth(question, numbers)
        except ZeroDivisionError:
            continue
        findings.compared += 1
        if real is not answer:
            known = ", ".join(f"{symbol} = {number}" for symbol, number in numbers.items())
            findings.wrong.append(f"{shown}: answered {answer}, but {known}")
            return


def check(count: int, seed: int) -> Findings:
    """`count` rounds of questions that follow, that follow by shifting a quotient, and that may or may not hold."""
    findings = Findings()
    for number in range(count):
        source = random.Random(f"{seed}/{number}")
        equations = equations_of(source)
        ask(source, equations, consequence(source, equations), findings, follows=True)
        facts, question = shifted(source)
        ask(source, facts, question, findings, follows=True)
        facts = [
            (formula(source, 2), source.choice(RELATIONS), formula(source, 1)) for _ in range(source.randint(0, 2))
        ]
        left = formula(source)
        right = ("+", left, formula(source, 1)) if source.random() < 0.3 else formula(source)
        relation = source.choice(("==", "==", *OPPOSITE))
        ask(source, facts, (left, relation, right), findings, follows=False)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = check(given.count, given.seed)
    for line in found.wrong[:20]:
        print(line)
    print(
        f"sizes: seed {given.seed}, {found.asked} questions, {found.decided} decided, "
        f"{found.compared} comparisons with numbers, {len(found.wrong)} wrong"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
