"""Element-wise elementary functions beyond those every target has: made of exp, log, sqrt, tanh and arithmetic.

Accuracy: the reference is NumPy's; the compiled formulas stay within about 8 units in the last place, except `log2`
and `log10` near 1 (absolute, not relative). `erf_inverse` stays within 4.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log as natural
from math import pi, sqrt

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.dtypes import F64
from dfc.ir.graph import Value
from dfc.ops import samples
from dfc.ops.builder import Builder
from dfc.ops.elementwise import erf_inverse_coefficients as coefficients
from dfc.ops.elementwise.special import erf_inverse
from dfc.ops.elementwise.terms import Formula1, Term, emit1
from dfc.ops.elementwise.unary import Row, unary
from dfc.ops.gradients import add, div, mul, scaled, sub
from dfc.ops.numeric import Numeric
from dfc.ops.record import OpRecord
from dfc.ops.samples import Samples

LARGE = 1e4  # beyond it x * x + 1 is not written out: it may overflow
INSIDE = samples.unary("float", scale=0.6)
ABOVE_ONE = samples.unary("float", positive=True, offset=1)
POSITIVE = samples.unary("float", positive=True)


def arctangent(x: Term) -> Term:
    """Two half-angle steps bring the tangent below tan(pi / 16), where eleven terms of the series do for f64."""
    size = abs(x)
    steep = size.greater(1)
    t = steep.choose(1 / size, size)
    for _ in range(2):
        t = t / ((t * t + 1).apply("sqrt") + 1)
    square = t * t
    series = square.like(-1 / 23)
    for order in range(21, 0, -2):
        series = series * square + (1 if order % 4 == 1 else -1) / order
    angle = t * series * 4
    return steep.choose(pi / 2 - angle, angle).with_sign_of(x)


def _arcsine(x: Term) -> Term:
    return arctangent(x / ((1 - x) * (x + 1)).apply("sqrt"))


def _arccosine(x: Term) -> Term:
    return arctangent(((1 - x) / (x + 1)).apply("sqrt")) * 2


def _expm1(x: Term) -> Term:
    """Through tanh where the exponential is near 1."""
    t = (x * 0.5).apply("tanh")
    return abs(x).less(0.5).choose(t * 2 / (1 - t), x.apply("exp") - 1)


def _sinh(x: Term) -> Term:
    """Near 0 through tanh; elsewhere the exponential of half the operand, squared, so that it overflows last."""
    t = (x * 0.5).apply("tanh")
    root = (abs(x) * 0.5).apply("exp")
    far = (root * 0.5 * root - 0.5 / root / root).with_sign_of(x)
    return abs(x).less(1).choose(t * 2 / ((1 - t) * (t + 1)), far)


def _cosh(x: Term) -> Term:
    root = (abs(x) * 0.5).apply("exp")
    return root * 0.5 * root + 0.5 / root / root


def _arsinh(x: Term) -> Term:
    size = abs(x)
    square = size * size
    near = (size + square / ((square + 1).apply("sqrt") + 1)).apply("log1p")
    far = size.apply("log") + natural(2) + 0.25 / size / size
    return size.less(LARGE).choose(near, far).with_sign_of(x)


def _arcosh(x: Term) -> Term:
    above = x - 1
    near = (above + above.apply("sqrt") * (above + 2).apply("sqrt")).apply("log1p")
    return x.greater(LARGE).choose(x.apply("log") + natural(2) - 0.25 / x / x, near)


def _artanh(x: Term) -> Term:
    size = abs(x)
    return ((size * 2 / (1 - size)).apply("log1p") * 0.5).with_sign_of(x)


def _erf_inverse(y: Term) -> Term:
    """y P(w), w = -log(1 - y^2): a polynomial in w where that is small, in its root beyond. 1 - |y| is exact near 1."""
    size = abs(y)
    w = -((1 - size) * (size + 1)).apply("log")
    near, *far = _ERF_INVERSE[2:] if y.dtype == F64 else _ERF_INVERSE[:2]
    factor, root = _piece(w, near), w.apply("sqrt")
    for piece in far:
        factor = root.less(piece[0]).choose(factor, _piece(root, piece))
    return size.equals(1).choose(y * float("inf"), y * factor)


Piece = tuple[float, float, list[float]]  # from where, the middle, coefficients
_ERF_INVERSE: tuple[Piece, ...] = (
    (0, 3.125, coefficients.NEAR_F32),
    (2.5, 3.3, coefficients.FAR_F32),
    (0, 3.125, coefficients.NEAR_F64),
    (2.5, 3.25, coefficients.FAR_F64),
    (4, 5.05, coefficients.FARTHEST_F64),
)


def _piece(x: Term, piece: Piece) -> Term:
    _, middle, terms = piece
    t = x - middle
    total = t.like(terms[-1])
    for term in reversed(terms[:-1]):
        total = total * t + term
    return total


def _below_one(x: Term) -> Term:
    return x.apply("minimum", 0) - (-abs(x)).apply("exp").apply("log1p")


def _silu(x: Term) -> Term:
    t = (-abs(x)).apply("exp")
    return x * x.less(0).choose(t, t.like(1)) / (t + 1)


def _one_plus_square(b: Builder, x: Value, sign: float = 1) -> Value:
    return add(b, scaled(b, b.apply("square", x), sign), b.scalar_like(1, x))


def _silu_row(b: Builder, x: Value, _y: Value, dy: Value) -> Value:
    """s (1 + x (1 - s)) with s = sigmoid(x)."""
    chance = b.apply("sigmoid", x)
    rest = mul(b, x, sub(b, b.scalar_like(1, x), chance))
    return mul(b, dy, mul(b, chance, add(b, b.scalar_like(1, x), rest)))


def _smooth(
    name: str,
    summary: str,
    meaning: Callable[[Numeric], object],
    formula: Formula1,
    row: Row,
    inputs: Samples | None = None,
) -> OpRecord:
    return unary(name, "float", summary, meaning, row, emit=emit1(formula), inputs=inputs)


_smooth(
    "expm1",
    "exp(x) - 1, exact for small x.",
    numpy_function("expm1"),
    _expm1,
    lambda b, x, y, dy: mul(b, dy, add(b, y, b.scalar_like(1, x))),
)
_smooth(
    "exp2",
    "2 to the power x.",
    numpy_function("exp2"),
    lambda x: x.like(2).apply("pow", x),
    lambda b, _x, y, dy: mul(b, dy, scaled(b, y, natural(2))),
)
_smooth(
    "log2",
    "The logarithm to base 2; -inf at 0, NaN below.",
    numpy_function("log2"),
    lambda x: x.apply("log") * (1 / natural(2)),
    lambda b, x, _y, dy: div(b, scaled(b, dy, 1 / natural(2)), x),
    POSITIVE,
)
_smooth(
    "log10",
    "The logarithm to base 10; -inf at 0, NaN below.",
    numpy_function("log10"),
    lambda x: x.apply("log") * (1 / natural(10)),
    lambda b, x, _y, dy: div(b, scaled(b, dy, 1 / natural(10)), x),
    POSITIVE,
)
_smooth(
    "tan",
    "The tangent (radians).",
    numpy_function("tan"),
    lambda x: x.apply("sin") / x.apply("cos"),
    lambda b, _x, y, dy: mul(b, dy, _one_plus_square(b, y)),
    INSIDE,
)
_smooth(
    "asin",
    "The angle from -pi/2 to pi/2 with this sine; NaN outside -1 .. 1.",
    numpy_function("arcsin"),
    _arcsine,
    lambda b, x, _y, dy: mul(b, dy, b.apply("rsqrt", _one_plus_square(b, x, -1))),
    INSIDE,
)
_smooth(
    "acos",
    "The angle from 0 to pi with this cosine; NaN outside -1 .. 1.",
    numpy_function("arccos"),
    _arccosine,
    lambda b, x, _y, dy: b.apply("neg", mul(b, dy, b.apply("rsqrt", _one_plus_square(b, x, -1)))),
    INSIDE,
)
_smooth(
    "atan",
    "The angle from -pi/2 to pi/2 with this tangent.",
    numpy_function("arctan"),
    arctangent,
    lambda b, x, _y, dy: div(b, dy, _one_plus_square(b, x)),
)
_smooth(
    "sinh", "The hyperbolic sine.", numpy_function("sinh"), _sinh, lambda b, x, _y, dy: mul(b, dy, b.apply("cosh", x))
)
_smooth(
    "cosh", "The hyperbolic cosine.", numpy_function("cosh"), _cosh, lambda b, x, _y, dy: mul(b, dy, b.apply("sinh", x))
)
_smooth(
    "asinh",
    "The inverse of `sinh`.",
    numpy_function("arcsinh"),
    _arsinh,
    lambda b, x, _y, dy: mul(b, dy, b.apply("rsqrt", _one_plus_square(b, x))),
)
_smooth(
    "acosh",
    "The inverse of `cosh`, from 0 up; NaN below 1.",
    numpy_function("arccosh"),
    _arcosh,
    lambda b, x, _y, dy: mul(b, dy, b.apply("rsqrt", sub(b, b.apply("square", x), b.scalar_like(1, x)))),
    ABOVE_ONE,
)
_smooth(
    "atanh",
    "The inverse of `tanh`; infinite at -1 and 1, NaN outside.",
    numpy_function("arctanh"),
    _artanh,
    lambda b, x, _y, dy: div(b, dy, _one_plus_square(b, x, -1)),
    INSIDE,
)
_smooth(
    "erf_inverse",
    "The x with erf(x) = y; infinite at -1 and 1, NaN outside.",
    erf_inverse,
    _erf_inverse,
    lambda b, _x, y, dy: mul(b, dy, scaled(b, b.apply("exp", b.apply("square", y)), sqrt(pi) / 2)),
    INSIDE,
)
_smooth(
    "log_sigmoid",
    "The logarithm of `sigmoid`, without overflow: -log(1 + exp(-x)).",
    lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    _below_one,
    lambda b, x, _y, dy: mul(b, dy, b.apply("sigmoid", b.apply("neg", x))),
)
_smooth(
    "silu",
    "x * sigmoid(x).",
    lambda x: x * np.where(x < 0, np.exp(-np.abs(x)), x.dtype.type(1)) / (1 + np.exp(-np.abs(x))),
    _silu,
    _silu_row,
)
