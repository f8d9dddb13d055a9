"""Conversions between element types.

Guarantees: float to integer truncates and saturates, NaN gives 0; anything to bool is "not zero"; to f16 and bf16
rounds once to nearest even from f64 and f32 (integers become f32 first); integers wrap.
"""

from __future__ import annotations

from dfc.ir.dtypes import F64, DType
from dfc.kernels.primitives import register_type
from dfc.kernels.terms import Term
from dfc.lower.legalise.halves import HALVES, rounded, single_rounded_to_odd


def cast(value: Term, source: DType, target: DType) -> Term:
    """A computed value of one element type as one of another, each in its register type."""
    kind = register_type(target)
    if source == target:
        return value
    if target.is_bool:
        return value.differs(0)
    if source.is_bool:
        return value.choose(value.builder.number(1, kind), 0)
    if source.is_float and not target.is_float:
        return _saturated(value, target)
    if target in HALVES and source == F64:
        return rounded(single_rounded_to_odd(value), target)
    return rounded(value.to(kind), target)


def _saturated(x: Term, target: DType) -> Term:
    """The limits are powers of two and so exact in both formats; what is between them and the largest number is cut."""
    width = 8 * target.size
    signed = target.kind == "signed"
    most = (1 << (width - 1 if signed else width)) - 1
    least = -most - 1 if signed else 0
    inside = x.greater(float(least)) & x.less(float(most + 1))
    number = inside.choose(x, 0.0).to(target)
    number = x.at_least(float(most + 1)).choose(most, number)
    return x.greater(float(least)).choose(number, x.is_nan().choose(number, least)) if signed else number
