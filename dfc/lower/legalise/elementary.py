"""The elementary functions of f32 and f64 by name.

Guarantees IEEE special cases; at most 2 ULP (single: exp, exp2, log, log2, sigmoid, erf, sin, cos, pow and others) or
4 ULP, as the tests state for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from dfc.ir.dtypes import DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, function
from dfc.lower.legalise.error_function import erf
from dfc.lower.legalise.exponential import exp, exp2, expm1, sigmoid, tanh
from dfc.lower.legalise.logarithm import log, log1p, log2, log10
from dfc.lower.legalise.power import power
from dfc.lower.legalise.trigonometric import cos, sin


def rsqrt(x: Term) -> Term:
    return 1.0 / x.primitive("sqrt")


UNARY: dict[str, Callable[[Term], Term]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "rsqrt": rsqrt,
}
BINARY: dict[str, Callable[[Term, Term], Term]] = {"pow": power}
ELEMENTARY = (*UNARY, *BINARY)


@cache
def elementary(name: str, dtype: DType) -> Function:
    """The function of one of `ELEMENTARY` for f32 or f64."""
    if name in UNARY:
        return function(f"{dtype}_{name}", UNARY[name], dtype)
    return function(f"{dtype}_{name}", BINARY[name], dtype, dtype)
