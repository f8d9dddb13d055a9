"""The floating-point formats by their numbers, and what all elementary functions begin with: polynomials, limits,
powers of two, the nearest integer.

Assumes IEEE single and double precision. Guarantees the same operations on every target, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import F32, F64, I32, I64, U32, U64, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, call, function, multiply_add


@dataclass(frozen=True, slots=True)
class Format:
    """`integer` and `word` are the types of its bits."""

    integer: DType
    word: DType
    bits: int
    mantissa: int
    bias: int

    @property
    def round_magic(self) -> float:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {F32: Format(I32, U32, 32, 23, 127), F64: Format(I64, U64, 64, 52, 1023)}


def is_single(x: Term) -> bool:
    return x.dtype == F32


def horner(x: Term, coefficients: Sequence[float]) -> Term:
    """The polynomial with these coefficients, constant term first."""
    total = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = multiply_add(total, x, coefficient)
    return total


def clamp(x: Term, low: float | None, high: float | None) -> Term:
    """NaN stays NaN."""
    if high is not None:
        x = x.greater(high).choose(high, x)
    if low is not None:
        x = x.less(low).choose(low, x)
    return x


def rounded(x: Term, factor: float, offset: int = 0) -> tuple[Term, Term]:
    """The integer n nearest to x * factor as a number, and a word that ends with the binary digits of n + `offset`,
    which must not be negative. Meaningless, but harmless, for NaN. An even offset leaves ties as they are."""
    magic = x.like(FORMATS[x.dtype].round_magic + offset)
    shifted = multiply_add(x, factor, magic)
    return shifted - magic, shifted.bits()


def nearest(x: Term, factor: float) -> tuple[Term, Term]:
    """The integer nearest to x * factor, as a number and as an integer. Meaningless, but harmless, for NaN."""
    whole, word = rounded(x, factor)
    return whole, word - x.like(FORMATS[x.dtype].round_magic).bits()


def number_of(integer: Term, dtype: DType) -> Term:
    """A small integer as a floating-point number, by way of the mantissa (there is no 64-bit conversion in AVX2)."""
    magic = integer.builder.number(FORMATS[dtype].round_magic, dtype)
    return (integer + magic.bits()).bits() - magic


def integer_of(number: Term) -> Term:
    """A small whole number as an integer."""
    magic = number.like(FORMATS[number.dtype].round_magic)
    return (number + magic).bits() - magic.bits()


def power_of_two(exponent: Term, dtype: DType) -> Term:
    """2 ** exponent for an integer in the range of normal numbers."""
    form = FORMATS[dtype]
    return ((exponent + form.bias) << form.mantissa).bits()


def power_of_word(word: Term, dtype: DType) -> Term:
    """2 ** n for a word of `rounded` that ends with n + bias: nothing is added to it, since what stands before those
    digits is shifted out."""
    return (word << FORMATS[dtype].mantissa).bits()


@cache
def scale_function(dtype: DType) -> Function:
    """x * 2 ** n, rounded once, so that results may be subnormal: in two steps of which the first is exact. `whole` is
    n, which some machines have an instruction for; `word` is one of `rounded` that ends with n + 2 * bias, so that half
    of it is an exponent, and so is the rest."""
    form = FORMATS[dtype]

    def scale(x: Term, whole: Term, word: Term) -> Term:
        half = (word << form.mantissa - 1) & -(1 << form.mantissa)
        return x * half.bits() * ((word << form.mantissa) - half).bits()

    return function(f"{dtype}_scale", scale, dtype, dtype, form.integer)


def scale(x: Term, whole: Term, word: Term) -> Term:
    return call(scale_function(x.dtype), x, whole, word)[0]


def rounded_to_scale(x: Term, factor: float) -> tuple[Term, Term]:
    """`rounded` as `scale` wants it."""
    return rounded(x, factor, 2 * FORMATS[x.dtype].bias)
