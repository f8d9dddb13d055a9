"""Operations on the bits of whole numbers, and the exclusive or of truth values. Operands broadcast strictly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ops import samples
from dfc.ops.elementwise.arithmetic import WHOLE, binary
from dfc.ops.elementwise.terms import Formula2, Term, emit2
from dfc.ops.elementwise.unary import unary
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric
from dfc.ops.record import OpRecord


def _width(x: Numeric) -> int:
    return 8 * x.dtype.itemsize


def _left(x: Numeric, count: Numeric) -> object:
    inside = (count >= 0) & (count < _width(x))
    return np.where(inside, np.left_shift(x, np.where(inside, count, count.dtype.type(0))), x.dtype.type(0))


def _right(x: Numeric, count: Numeric) -> object:
    last = count.dtype.type(_width(x) - 1)
    shifted = np.right_shift(x, np.where((count < 0) | (count > last), last, count))
    if x.dtype.kind == "i":
        return shifted
    return np.where(count > last, x.dtype.type(0), shifted)


def _last(x: Term) -> int:
    return 8 * x.dtype.size - 1


def _emit_left(x: Term, count: Term) -> Term:
    """Counts beyond the width push every bit out."""
    outside = count.less(0).either(count.greater(_last(x)))
    return outside.choose(0, x.apply("shift_left", outside.choose(0, count)))


def _emit_right(x: Term, count: Term) -> Term:
    """Counts beyond the width leave the sign."""
    outside = count.less(0).either(count.greater(_last(x)))
    shifted = x.apply("shift_right", outside.choose(_last(x), count))
    return shifted if x.dtype.kind == "signed" else outside.choose(0, shifted)


def _bits(
    name: str,
    summary: str,
    meaning: Callable[[Numeric, Numeric], object],
    formula: Formula2,
    identities: tuple[str, ...] = (),
) -> OpRecord:
    emit = emit2(formula)
    return binary(
        name,
        "int",
        summary,
        meaning,
        no_gradient=WHOLE,
        identities=identities,
        smooth=False,
        lowering=Elementwise(lambda body, arguments, _node: emit(body, *arguments)),
        inputs=samples.binary("int"),
    )


_bits(
    "bit_and",
    "The bits that are set in both.",
    numpy_function("bitwise_and"),
    lambda x, y: x.apply("and", y),
    ("commutative", "idempotent"),
)
_bits(
    "bit_or",
    "The bits that are set in either.",
    numpy_function("bitwise_or"),
    lambda x, y: x.apply("or", y),
    ("commutative", "idempotent"),
)
_bits(
    "bit_xor", "The bits that differ.", numpy_function("bitwise_xor"), lambda x, y: x.apply("xor", y), ("commutative",)
)
_bits(
    "shift_left",
    "The bits of `a` moved `b` places up; 0 for a count outside 0 .. width - 1.",
    _left,
    _emit_left,
)
_bits(
    "shift_right",
    "The bits of `a` moved `b` places down, copies of the sign filling in: a // 2 ** b. A count outside 0 .. width - 1 "
    "leaves 0, or -1 of a negative number.",
    _right,
    _emit_right,
)
unary(
    "bit_not",
    "int",
    "Every bit flipped: -1 - x, and the largest number minus x for unsigned types.",
    numpy_function("invert"),
    emit="not",
    no_gradient=WHOLE,
    identities=("involution",),
    smooth=False,
)
binary(
    "xor",
    "bool",
    "True where exactly one is.",
    numpy_function("logical_xor"),
    no_gradient="`xor` returns truth values",
    identities=("commutative",),
    smooth=False,
    lowering=Elementwise(lambda body, arguments, _node: body.apply("xor", *arguments)),
    inputs=samples.binary("bool"),
)
