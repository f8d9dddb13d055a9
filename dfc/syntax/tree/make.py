"""Makes nodes that no author wrote, for programs that are printed."""

from __future__ import annotations

import math

from dfc.syntax.reader.literals import string_text
from dfc.syntax.tree.tree import (
    Argument,
    BooleanLiteral,
    Call,
    Dimension,
    Expression,
    FloatLiteral,
    Identifier,
    IntegerLiteral,
    Name,
    NamedArgument,
    Negate,
    Path,
    StringLiteral,
    TensorType,
)


def path(text: str) -> Path:
    return Path(tuple(Identifier(part) for part in text.split(".")))


def integer(value: int) -> Expression:
    return IntegerLiteral(str(value), value) if value >= 0 else Negate(IntegerLiteral(str(-value), -value))


def floating(value: float) -> Expression:
    """A literal with exactly this finite value."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no literal")
    literal = FloatLiteral(repr(abs(value)), abs(value))
    return Negate(literal) if math.copysign(1.0, value) < 0 else literal


def boolean(value: bool) -> BooleanLiteral:
    return BooleanLiteral(value)


def string(value: str) -> StringLiteral:
    return StringLiteral(string_text(value), value)


def call(function: str, *arguments: Argument, **named: Expression) -> Call:
    """`call("sum", x, axis=integer(1))`"""
    by_name = (NamedArgument(Identifier(name), value) for name, value in named.items())
    return Call(Name(function), (*arguments, *by_name))


def tensor_type(name: str, *dimensions: Dimension) -> TensorType:
    return TensorType(path(name), (), dimensions)
