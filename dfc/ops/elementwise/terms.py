"""Scalar formulas in the notation of arithmetic: `(x * x + 1).apply("sqrt")` appends the instructions of a body.

A `Term` is an instruction of a `BodyBuilder`. Numbers adapt to the element type of the term they meet. Comparisons are
methods, because `==` of two terms must stay equality of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import DType
from dfc.kernels.body import BodyBuilder

TermLike: TypeAlias = "Term | float | int | bool"


@dataclass(frozen=True, slots=True)
class Term:
    body: BodyBuilder
    position: int

    @property
    def dtype(self) -> DType:
        return self.body.dtype(self.position)

    def like(self, other: TermLike) -> Term:
        """The other term, or a number in the element type of this one."""
        if isinstance(other, Term):
            return other
        return Term(self.body, self.body.number(other, self.dtype))

    def apply(self, function: str, *others: TermLike) -> Term:
        """`function(self, *others)`."""
        arguments = [self.like(other).position for other in others]
        return Term(self.body, self.body.apply(function, self.position, *arguments))

    def __add__(self, other: TermLike) -> Term:
        return self.apply("add", other)

    def __sub__(self, other: TermLike) -> Term:
        return self.apply("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __mul__(self, other: TermLike) -> Term:
        return self.apply("mul", other)

    def __truediv__(self, other: TermLike) -> Term:
        return self.apply("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __neg__(self) -> Term:
        return self.apply("neg")

    def __abs__(self) -> Term:
        return self.apply("abs")

    def less(self, other: TermLike) -> Term:
        return self.apply("less", other)

    def greater(self, other: TermLike) -> Term:
        return self.apply("greater", other)

    def equals(self, other: TermLike) -> Term:
        return self.apply("equal", other)

    def either(self, other: Term) -> Term:
        return self.apply("or", other)

    def both(self, other: Term) -> Term:
        return self.apply("and", other)

    def choose(self, yes: TermLike, no: Term) -> Term:
        """`yes` where this mask holds, else `no`."""
        return Term(self.body, self.body.apply("select", self.position, no.like(yes).position, no.position))

    def below_zero(self) -> Term:
        """Whether the sign bit of a float is set; false for NaN."""
        minus_zero = self.equals(0).both((1 / self).less(0))
        return self.less(0).either(minus_zero)

    def with_sign_of(self, other: Term) -> Term:
        """A magnitude with the sign of another number, which is positive if that is NaN."""
        return other.below_zero().choose(-self, self)


Formula1 = Callable[[Term], Term]
Formula2 = Callable[[Term, Term], Term]


def emit1(formula: Formula1) -> Callable[[BodyBuilder, int], int]:
    """The emitter of an op of one operand."""
    return lambda body, x: formula(Term(body, x)).position


def emit2(formula: Formula2) -> Callable[[BodyBuilder, int, int], int]:
    """The emitter of an op of two operands."""
    return lambda body, x, y: formula(Term(body, x), Term(body, y)).position
