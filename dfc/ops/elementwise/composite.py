"""Element-wise functions of two numbers made of others: atan2 hypot fmod logaddexp; and tests of single ones.

Operands broadcast strictly. Accuracy as in `dfc.ops.elementwise.transcendental`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.dtypes import BOOL
from dfc.ir.graph import Value
from dfc.ops import samples
from dfc.ops.builder import Builder
from dfc.ops.elementwise.arithmetic import Pair, Row, binary
from dfc.ops.elementwise.rules import ROUNDED
from dfc.ops.elementwise.terms import Formula2, Term, emit1, emit2
from dfc.ops.elementwise.transcendental import arctangent
from dfc.ops.elementwise.unary import STEPS, unary
from dfc.ops.gradients import add, div, mul, select, sub
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric
from dfc.ops.record import OpRecord

INFINITE = float("inf")


def _arctangent2(y: Term, x: Term) -> Term:
    """The angle of |y| / |x|, put into the right quadrant. Zeros and infinities have a side by their sign bits."""
    high, wide = abs(y), abs(x)
    same = high.equals(0).choose(0, high.like(1))
    angle = arctangent(high.equals(wide).choose(same, high / wide))
    return x.below_zero().choose(pi - angle, angle).with_sign_of(y)


def _hypotenuse(x: Term, y: Term) -> Term:
    a, b = abs(x), abs(y)
    longer, shorter = a.apply("maximum", b), a.apply("minimum", b)
    ratio = longer.equals(0).choose(0, shorter / longer)
    length = longer * (ratio * ratio + 1).apply("sqrt")
    return a.equals(INFINITE).either(b.equals(INFINITE)).choose(INFINITE, length)


def _log_add(x: Term, y: Term) -> Term:
    apart = (-abs(x - y)).apply("exp").apply("log1p")
    return x.equals(y).choose(x + log(2), x.apply("maximum", y) + apart)


def _remainder(x: Term, y: Term) -> Term:
    return abs(x).apply("mod", abs(y)).with_sign_of(x)


def _surprise(x: Term, truth: Term) -> Term:
    return x.apply("maximum", 0) - x * truth + (-abs(x)).apply("exp").apply("log1p")


def _surprise_row(b: Builder, x: Value, truth: Value, _result: Value, dy: Value) -> Pair:
    return mul(b, dy, sub(b, b.apply("sigmoid", x), truth)), b.apply("neg", mul(b, dy, x))


def _arctangent2_row(b: Builder, y: Value, x: Value, _result: Value, dy: Value) -> Pair:
    """The direction across (x, y), divided by the distance. Infinitely far away nothing turns: 0, not inf / inf."""
    is_far = b.apply("or", b.apply("is_infinite", x), b.apply("is_infinite", y))
    one = b.scalar_like(1, x)
    near_x, near_y = select(b, is_far, one, x), select(b, is_far, one, y)
    turned = select(b, is_far, b.scalar_like(0, dy), dy)
    share = div(b, turned, add(b, b.apply("square", near_x), b.apply("square", near_y)))
    return mul(b, share, near_x), b.apply("neg", mul(b, share, near_y))


def _hypotenuse_row(b: Builder, x: Value, y: Value, result: Value, dy: Value) -> Pair:
    """The direction of (x, y); 0 at the origin."""
    zero = b.scalar_like(0, result)
    safe = select(b, b.apply("equal", result, zero), b.scalar_like(1, result), result)
    share = div(b, dy, safe)
    return mul(b, share, x), mul(b, share, y)


def _log_add_row(b: Builder, x: Value, y: Value, _result: Value, dy: Value) -> Pair:
    """The share of each; halves where both are the same infinity."""
    zero = b.scalar_like(0, x)
    apart = select(b, b.apply("equal", x, y), zero, sub(b, x, y))
    return mul(b, dy, b.apply("sigmoid", apart)), mul(b, dy, b.apply("sigmoid", b.apply("neg", apart)))


def _remainder_row(b: Builder, x: Value, y: Value, _result: Value, dy: Value) -> Pair:
    return dy, b.apply("neg", mul(b, dy, b.apply("trunc", div(b, x, y))))


def _pair(
    name: str,
    summary: str,
    meaning: Callable[[Numeric, Numeric], object],
    formula: Formula2,
    row: Row,
    *,
    smooth: bool = True,
    safe_divisor: bool = False,
    identities: tuple[str, ...] = (),
) -> OpRecord:
    emit = emit2(formula)
    return binary(
        name,
        "float",
        summary,
        meaning,
        row,
        smooth=smooth,
        identities=identities,
        lowering=Elementwise(lambda body, arguments, _node: emit(body, *arguments)),
        inputs=samples.binary("float", safe_divisor=safe_divisor),
    )


_pair(
    "atan2",
    "The angle of the point (b, a), from -pi to pi: atan(a / b) in the right quadrant.",
    numpy_function("arctan2"),
    _arctangent2,
    _arctangent2_row,
)
_pair(
    "hypot",
    "sqrt(a * a + b * b) without overflow; its gradient at the origin is 0.",
    numpy_function("hypot"),
    _hypotenuse,
    _hypotenuse_row,
    identities=("commutative",),
)
_pair(
    "logaddexp",
    "log(exp(a) + exp(b)) without overflow.",
    numpy_function("logaddexp"),
    _log_add,
    _log_add_row,
    identities=("commutative",),
)
_pair(
    "fmod",
    "The remainder of a / b rounded towards 0: the sign is that of a.",
    numpy_function("fmod"),
    _remainder,
    _remainder_row,
    smooth=False,
    safe_divisor=True,
)
_pair(
    "sigmoid_cross_entropy",
    "The loss of the score `a` of something whose chance really is `b` (0 or 1, or between): "
    "max(a, 0) - a * b + log(1 + exp(-abs(a))).",
    lambda x, truth: np.maximum(x, 0) - x * truth + np.log1p(np.exp(-np.abs(x))),
    _surprise,
    _surprise_row,
)
unary(
    "trunc",
    "float",
    "The whole number next to x towards 0.",
    numpy_function("trunc"),
    no_gradient=STEPS.format("trunc"),
    identities=("idempotent",),
    smooth=False,
    rules=ROUNDED,
)
unary(
    "is_nan",
    "float",
    "True where x is no number.",
    numpy_function("isnan"),
    emit=lambda body, x: body.apply("not_equal", x, x),
    no_gradient="is_nan returns truth values",
    smooth=False,
    result=BOOL,
)
unary(
    "is_infinite",
    "float",
    "True where x is inf or -inf.",
    numpy_function("isinf"),
    emit=emit1(lambda x: abs(x).equals(INFINITE)),
    no_gradient="is_infinite returns truth values",
    smooth=False,
    result=BOOL,
)
unary(
    "sign_bit",
    "float",
    "True below 0 and for -0.0; false for NaN.",
    lambda x: np.signbit(x) & ~np.isnan(x),
    emit=emit1(lambda x: x.below_zero()),
    no_gradient="sign_bit returns truth values",
    smooth=False,
    result=BOOL,
)
