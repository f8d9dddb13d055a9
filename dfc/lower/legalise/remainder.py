"""Floor division and remainder of floats.

Guarantees NumPy's results: the remainder is exact, takes the sign of the divisor, and the quotient is the matching
whole number. They are rare in hot code, so what is not plain is a loop over bits rather than code for many lanes.
"""

from __future__ import annotations

from functools import cache

from dfc.ir.dtypes import I64, U64, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, function, repeat, where
from dfc.lower.legalise.formats import FORMATS


def modulo(a: Term, b: Term) -> Term:
    rest = _remainder(a, b)
    moved = _crosses(rest, b).choose(rest + b, rest)
    return rest.equals(0.0).choose(rest.like(0.0).with_sign_of(b), moved)


def floor_divide(a: Term, b: Term) -> Term:
    plain = a / b
    rest = _remainder(a, b)
    quotient = (a - rest) / b
    adjust = rest.differs(0.0) & _crosses(rest, b)
    quotient = adjust.choose(quotient - 1.0, quotient)
    down = quotient.primitive("floor")
    whole = (quotient - down).greater(0.5).choose(down + 1.0, down)
    whole = quotient.equals(0.0).choose(plain.like(0.0).with_sign_of(plain), whole)
    return b.equals(0.0).choose(plain, whole)


def _crosses(rest: Term, b: Term) -> Term:
    return b.less(0.0) ^ rest.less(0.0)


def _remainder(a: Term, b: Term) -> Term:
    """C's fmod: exact, with the sign of the dividend."""
    size_a, size_b = abs(a), abs(b)
    defined = size_a.less(float("inf")) & size_b.greater(0.0)
    plain = (defined & size_a.less(size_b)).choose(a, float("nan"))
    return where(defined & size_a.at_least(size_b), _long_division(a.dtype), [a, b], [plain])[0]


@cache
def _long_division(dtype: DType) -> Function:
    """Shift and subtract from the exponent of `a` down to that of `b`, on the significands."""
    form = FORMATS[dtype]

    def divide(a: Term, b: Term) -> Term:
        exponent_a, significand_a = _split(abs(a))
        exponent_b, significand_b = _split(abs(b))
        first = significand_a.primitive("remainder", significand_b)
        steps = exponent_a.to(I64) - exponent_b.to(I64)
        rest = repeat(steps, _division_step(dtype), [first], [significand_b])[0]
        return _joined(rest, exponent_b, dtype).with_sign_of(a)

    return function(f"{form.word}_long_division", divide, dtype, dtype)


@cache
def _division_step(dtype: DType) -> Function:
    def step(rest: Term, divisor: Term) -> Term:
        shifted = rest << 1
        return shifted.less(divisor).choose(shifted, shifted - divisor)

    word = FORMATS[dtype].word
    return function(f"{word}_division_step", step, word, word)


def _split(size: Term) -> tuple[Term, Term]:
    """Exponent and significand with its leading bit; subnormal numbers keep exponent 1 and no leading bit."""
    form = FORMATS[size.dtype]
    bits = size.bits().to(form.word)
    exponent, fraction = bits >> form.mantissa, bits & ((1 << form.mantissa) - 1)
    subnormal = exponent.equals(0)
    return subnormal.choose(1, exponent), subnormal.choose(fraction, fraction | (1 << form.mantissa))


def _joined(rest: Term, exponent: Term, dtype: DType) -> Term:
    """Normalised as far as the exponent allows."""
    form = FORMATS[dtype]
    missing = (rest.to(U64).primitive("leading_zeros") - (63 - form.mantissa)).to(form.word)
    allowed = exponent - 1
    shift = missing.less(allowed).choose(missing, allowed)
    moved = rest << shift
    fraction = moved & ((1 << form.mantissa) - 1)
    normal = fraction | ((exponent - shift) << form.mantissa)
    return moved.at_least(1 << form.mantissa).choose(normal, moved).to(form.integer).bits()
