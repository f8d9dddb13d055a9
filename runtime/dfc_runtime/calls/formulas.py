"""Sizes as formulas over the named dims of an entry, and their value for a call.

A formula is a sequence of tokens in postfix order: whole numbers, dims (`$B`) and functions (`+ - * // % min max
ceil_div`). In JSON it is a list of these, or just the number. Being flat, it can neither be nested too deeply nor
recursed over.

Assumes nothing of the JSON. Guarantees that a value is computed without overflow, that a division by zero is an
`ArithmeticError`, and that no intermediate value outgrows `MAXIMUM_BITS`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import fields

Token = int | str

MAXIMUM_BITS = 4096
MAXIMUM_TOKENS = 1_000_000
LONGEST_TEXT = 300


def _floor_div(a: int, b: int) -> int:
    return a // b


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": _floor_div,
    "%": operator.mod,
    "min": min,
    "max": max,
    "ceil_div": _ceil_div,
}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}
_ATOM = 3


@dataclass(frozen=True, slots=True)
class Formula:
    """A size. Two formulas are equal if they are written alike."""

    tokens: tuple[Token, ...]

    @property
    def constant(self) -> int | None:
        """Its value if it is a plain number."""
        first = self.tokens[0]
        return first if len(self.tokens) == 1 and isinstance(first, int) else None

    @property
    def symbol(self) -> str | None:
        """The dim, if it is nothing but one dim."""
        first = self.tokens[0]
        return first[1:] if len(self.tokens) == 1 and isinstance(first, str) else None

    def symbols(self) -> set[str]:
        return {token[1:] for token in self.tokens if isinstance(token, str) and token.startswith("$")}

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Its value; `ArithmeticError` if it has none, `KeyError` for a dim that is not given."""
        stack: list[int] = []
        for token in self.tokens:
            if isinstance(token, int):
                stack.append(token)
            elif token[0] == "$":
                stack.append(sizes[token[1:]])
            else:
                right = stack.pop()
                value = FUNCTIONS[token](stack.pop(), right)
                if value.bit_length() > MAXIMUM_BITS:
                    raise OverflowError("the value is too large")
                stack.append(value)
        return stack[0]

    def to_json(self) -> object:
        constant = self.constant
        return list(self.tokens) if constant is None else constant

    def __str__(self) -> str:
        stack: list[tuple[str, int]] = []
        for token in self.tokens:
            if isinstance(token, int):
                stack.append((str(token), _ATOM if token >= 0 else 0))
            elif token[0] == "$":
                stack.append((token[1:], _ATOM))
            else:
                right = stack.pop()
                stack.append(_applied(token, stack.pop(), right))
        return stack[0][0]


def _applied(function: str, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    left, right = _shortened(left), _shortened(right)
    strength = _STRENGTH.get(function)
    if strength is None:
        return f"{function}({left[0]}, {right[0]})", _ATOM
    a = left[0] if left[1] >= strength else f"({left[0]})"
    needs = strength if function == "+" else strength + 1  # `a * (b // c)` is another size than `a * b // c`
    b = right[0] if right[1] >= needs else f"({right[0]})"
    return f"{a} {function} {b}", strength


def _shortened(operand: tuple[str, int]) -> tuple[str, int]:
    return operand if len(operand[0]) <= LONGEST_TEXT else ("...", _ATOM)


def check_known(formula: Formula, names: Set[str], where: str) -> None:
    """`ValueError` if it mentions another size."""
    unknown = formula.symbols() - names
    if unknown:
        raise ValueError(f"{where} mentions the unknown size {fields.shown(min(unknown))}")


def constant(value: int) -> Formula:
    return Formula((value,))


def from_json(value: object, where: str) -> Formula:
    """The formula written in JSON; `ValueError` if it is none."""
    if type(value) is int:
        return Formula((value,))
    tokens = fields.items(value, where)
    if len(tokens) > MAXIMUM_TOKENS:
        raise ValueError(f"{where} is too long a formula")
    height = 0
    checked: list[Token] = []
    for token in tokens:
        height += _effect(token, where)
        if height < 1:
            raise ValueError(f"{where} is not a formula")
        checked.append(token if isinstance(token, int) else fields.text(token, where))
    if height != 1:
        raise ValueError(f"{where} is not a formula")
    return Formula(tuple(checked))


def _effect(token: object, where: str) -> int:
    """How much higher the stack is after the token. A function needs two operands: one would leave height 0."""
    if type(token) is int or (isinstance(token, str) and token.startswith("$") and len(token) > 1):
        return 1
    if isinstance(token, str) and token in FUNCTIONS:
        return -1
    raise ValueError(f"{where} is not a formula")
