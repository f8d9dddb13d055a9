"""The scalar functions of kernel bodies that are a few primitives each: choices, signs, whole numbers, truth.

Guarantees NumPy's meaning as `dfc.kernels.body` states it; integer division does not trap (a zero divisor gives 0;
reporting it is the target's part), counts of shifts are taken modulo the width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dfc.ir.dtypes import ALL, I64, U64, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, function, repeat

Formula: TypeAlias = "Callable[[Term], Term] | Callable[[Term, Term], Term]"


# --- floats


def _float_minimum(a: Term, b: Term) -> Term:
    """NaN if either is. Written such that the second choice is one instruction of many machines, and the first does not
    wait for the last iteration of a reduction, whose value is `b`."""
    kept = a.is_nan().choose(a, b)
    return a.less(kept).choose(a, kept)


def _float_maximum(a: Term, b: Term) -> Term:
    kept = a.is_nan().choose(a, b)
    return a.greater(kept).choose(a, kept)


def _float_sign(a: Term) -> Term:
    """Zero and NaN stay."""
    return a.greater(0.0).choose(1.0, a.less(0.0).choose(-1.0, a))


FLOAT: dict[str, Formula] = {
    "minimum": _float_minimum,
    "maximum": _float_maximum,
    "sign": _float_sign,
    "is_finite": lambda a: abs(a).less(float("inf")),
}


# --- integers


def _is_signed(a: Term) -> bool:
    return a.dtype.kind == "signed"


def _negative(a: Term) -> Term:
    return 0 - a


def _absolute(a: Term) -> Term:
    return a.less(0).choose(_negative(a), a) if _is_signed(a) else a


def _sign(a: Term) -> Term:
    positive = a.greater(0).choose(a.like(1), 0)
    return a.less(0).choose(-1, positive) if _is_signed(a) else positive


def _count(a: Term, count: Term) -> Term:
    return count & (8 * a.dtype.size - 1)


def _safe_divisor(b: Term) -> Term:
    """1 for the divisors that the primitives are not for."""
    harmful = b.equals(0) | b.equals(-1) if _is_signed(b) else b.equals(0)
    return harmful.choose(1, b)


def _floor_divide(a: Term, b: Term) -> Term:
    """The smallest number / -1 wraps."""
    quotient = a.primitive("quotient", _safe_divisor(b))
    quotient = b.equals(-1).choose(_negative(a), quotient) if _is_signed(a) else quotient
    return b.equals(0).choose(0, quotient)


def _modulo(a: Term, b: Term) -> Term:
    """What is left by 1 is what is to be left by -1, and by 0: nothing."""
    return a.primitive("remainder", _safe_divisor(b))


def _power(base: Term, exponent: Term) -> Term:
    """By squares; wraps. A negative exponent is reported before this is run, and gives some number."""
    kind, bits = base.dtype, ALL[f"u{8 * base.dtype.size}"]
    left = exponent.to(bits)
    steps = (64 - left.to(U64).primitive("leading_zeros")).to(I64)
    return repeat(steps, _power_step(kind, bits), [base.like(1), base, left])[0]


def _power_step(kind: DType, bits: DType) -> Function:
    def step(product: Term, square: Term, left: Term) -> tuple[Term, Term, Term]:
        return (left & 1).differs(0).choose(product * square, product), square * square, left >> 1

    return function(f"{kind}_power_step", step, kind, kind, bits)


def _same(a: Term) -> Term:
    return a


INTEGER: dict[str, Formula] = {
    "neg": _negative,
    "abs": _absolute,
    "sign": _sign,
    "minimum": lambda a, b: a.less(b).choose(a, b),
    "maximum": lambda a, b: a.greater(b).choose(a, b),
    "shift_left": lambda a, count: a << _count(a, count),
    "shift_right": lambda a, count: a >> _count(a, count),
    "floordiv": _floor_divide,
    "mod": _modulo,
    "pow": _power,
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), _same),
}


# --- truth: sums are taken bit by bit

BOOL: dict[str, Formula] = {
    **dict.fromkeys(("neg", "abs", "sign", "floor", "ceil", "round", "trunc"), _same),
    **dict.fromkeys(("add", "sub"), lambda a, b: a ^ b),
    **dict.fromkeys(("mul", "minimum"), lambda a, b: a & b),
    "maximum": lambda a, b: a | b,
    "less": lambda a, b: ~a & b,
    "less_equal": lambda a, b: ~a | b,
    "greater": lambda a, b: a & ~b,
    "greater_equal": lambda a, b: a | ~b,
}


# --- searches


def above(x: Term, i: Term, y: Term, j: Term, *, largest: bool) -> Term:
    """Whether argmax (else argmin) keeps x at index i rather than y at index j: NaN before numbers, then the lower
    index of equal values."""
    beats, equal = _greater(x, y) if largest else _greater(y, x), x.equals(y)
    if x.dtype.is_float:
        beats, equal = beats | (x.is_nan() & ~y.is_nan()), equal | (x.is_nan() & y.is_nan())
    return beats | (equal & i.less(j))


def _greater(x: Term, y: Term) -> Term:
    return x & ~y if x.dtype.is_bool else x.greater(y)
