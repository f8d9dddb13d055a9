"""Element-wise arithmetic of two operands, and the ops that choose or limit elements. Operands broadcast strictly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.attributes import Attributes
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder
from dfc.ops import samples
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import elementwise
from dfc.ops.elementwise.rules import ADD, DIV, ELEMENTWISE, FUNCTION, MAXIMUM, MINIMUM, MUL, QUOTIENT, SUB
from dfc.ops.gradients import div, mul, scaled, select, sub, unbroadcast
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric, pointwise
from dfc.ops.record import EXPRESSION, OPERATOR, Gradient, OpError, OpRecord, Parameter, Sample
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import OpRules
from dfc_runtime.errors import RunError

Pair = tuple[Value | None, Value | None]
Row = Callable[[Builder, Value, Value, Value, Value], Pair]  # builder, x, y, result, cotangent -> cotangents
WHOLE = "whole numbers and truth values have no gradient"


def _gradient(row: Row) -> Gradient:
    def gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        (dy,) = cotangents
        if dy is None:
            return (None, None)
        x, y = node.operands
        pair = row(b, x, y, node.result, dy)
        return [
            None if g is None else unbroadcast(b, g, v.tensor.shape) for g, v in zip(pair, node.operands, strict=True)
        ]

    return gradient


def infer_binary(bound: str) -> Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]:
    return lambda types, _attributes: (elementwise(types, bound),)


def binary(
    name: str,
    bound: str,
    summary: str,
    meaning: Callable[[Numeric, Numeric], object],
    row: Row | None = None,
    *,
    operator: str = "",
    no_gradient: str = "",
    identities: tuple[str, ...] = (),
    smooth: bool = True,
    lowering: Elementwise | None = None,
    infer: Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]] | None = None,
    inputs: Callable[[], Sequence[Sample]] | None = None,
    rules: OpRules = ELEMENTWISE,
) -> OpRecord:
    """Registers an element-wise op of two operands of one type; the result has that type."""
    return register(
        OpRecord(
            name=name,
            family="element-wise",
            summary=summary,
            signature=f"fn {name}[T: {bound}, ..S](a: T[..S], b: T[..S]) -> T[..S]",
            parameters=(Parameter("a"), Parameter("b")),
            infer=infer or infer_binary(bound),
            evaluate=pointwise(meaning),
            lowering=lowering or Elementwise(lambda body, arguments, _node: body.apply(name, *arguments)),
            constraints=(
                f"the element types are equal and of class `{bound}`.",
                "the shapes broadcast: a literal 1 stretches, a symbol never.",
                "if one operand has fewer axes, the other has the shape of the result.",
            ),
            gradient=_gradient(row) if row is not None else None,
            no_gradient=no_gradient,
            identities=identities,
            samples=inputs or samples.binary(bound),
            smooth=smooth,
            in_prelude=not operator,
            operator=operator,
            rules=rules,
        )
    )


def _infer_div(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    a, b = types
    if a.dtype == b.dtype and a.dtype.is_integer:
        raise OpError(
            "E0303",
            "`/` is for floating-point numbers",
            blame=OPERATOR,
            label=f"{a.dtype} divided by {b.dtype}",
            helps=("write `{0} // {1}` for the whole part", "write `{0 as f32} / {1 as f32}` for the exact quotient"),
            replaces={0: EXPRESSION, 1: EXPRESSION},
        )
    return (elementwise(types, "float"),)


def _refuse_zero(x: Numeric, divisor: Numeric, what: str) -> None:
    if divisor.dtype.kind in "iu" and bool(np.any(np.broadcast_arrays(x, divisor)[1] == 0)):
        raise RunError(f"{what} by zero", code="E0903")


def _floordiv(x: Numeric, y: Numeric) -> object:
    _refuse_zero(x, y, "division")
    return np.floor_divide(x, y)


def _mod(x: Numeric, y: Numeric) -> object:
    _refuse_zero(x, y, "remainder of a division")
    return np.mod(x, y)


def _pow(x: Numeric, y: Numeric) -> object:
    if x.dtype.kind not in "iu":
        # Whole arrays of exponents: for a single 0.5 NumPy takes the square root, which gives NaN for -inf and not inf.
        base, exponent = (np.ascontiguousarray(each) for each in np.broadcast_arrays(x, y))
        return np.power(base, exponent).reshape(np.broadcast_shapes(x.shape, y.shape))
    if bool(np.any(np.broadcast_arrays(x, y)[1] < 0)):
        raise RunError("an integer to a negative power", code="E0903")
    return np.power(x, y)


def _emit_pow(body: BodyBuilder, arguments: Sequence[int], node: Node) -> int:
    """x ** 2 and x ** 3 are products; other powers take the general function."""
    x, y = arguments
    exponent = _constant_exponent(node)
    if exponent == 1:
        return x
    if exponent == 2:
        return body.apply("mul", x, x)
    if exponent == 3:
        return body.apply("mul", body.apply("mul", x, x), x)
    return body.apply("pow", x, y)


def _constant_exponent(node: Node) -> float | None:
    source = node.operands[1].node
    if source is None or not isinstance(source.attributes, ConstantAttributes):
        return None
    array = source.attributes.value.array
    return float(array.astype(np.float64)) if array.ndim == 0 else None


def _pow_row(b: Builder, x: Value, y: Value, result: Value, dy: Value) -> Pair:
    """y x^(y-1), which is 0 for y = 0 also at x = 0 and inf; log(x) x^y, which is 0 at x = 0. Where an infinite operand
    makes it 0, and all around it, the gradient is 0, not inf * 0 or log(-inf) * 0; so it is along infinite powers of
    -1, which are all 1."""
    zero, one = b.scalar_like(0, x), b.scalar_like(1, x)
    is_far = b.apply("or", b.apply("is_infinite", x), b.apply("is_infinite", y))
    is_gone = b.apply("and", is_far, b.apply("equal", result, zero))
    y, x, dy = select(b, is_gone, one, y), select(b, is_gone, one, x), select(b, is_gone, zero, dy)
    is_constant = b.apply("equal", y, zero)
    base, lower = select(b, is_constant, one, x), select(b, is_constant, one, sub(b, y, one))
    dx = mul(b, dy, mul(b, y, b.apply("pow", base, lower)))
    is_minus_one = b.apply("and", b.apply("is_infinite", y), b.apply("equal", x, b.scalar_like(-1, x)))
    is_still = b.apply("or", b.apply("equal", x, zero), is_minus_one)
    logarithm = b.apply("log", select(b, is_still, one, x))
    return dx, mul(b, dy, mul(b, logarithm, result))


def _choice_row(comparison: str) -> Row:
    """The chosen operand gets the gradient; at a tie each gets half."""

    def row(b: Builder, x: Value, y: Value, _result: Value, dy: Value) -> Pair:
        zero = b.scalar_like(0, dy)
        tie = select(b, b.apply("equal", x, y), scaled(b, dy, 0.5), zero)
        dx = select(b, b.apply(comparison, x, y), dy, tie)
        return dx, select(b, b.apply(comparison, y, x), dy, tie)

    return row


def _safe() -> Sequence[Sample]:
    return samples.binary("number", safe_divisor=True)()


binary(
    "add",
    "number",
    "The sum; integers wrap.",
    numpy_function("add"),
    lambda _b, _x, _y, _r, dy: (dy, dy),
    operator="+",
    identities=("commutative", "neutral 0"),
    rules=ADD,
)
binary(
    "sub",
    "number",
    "The difference; integers wrap.",
    numpy_function("subtract"),
    lambda b, _x, _y, _r, dy: (dy, b.apply("neg", dy)),
    operator="-",
    identities=("right neutral 0",),
    rules=SUB,
)
binary(
    "mul",
    "number",
    "The product; integers wrap.",
    numpy_function("multiply"),
    lambda b, x, y, _r, dy: (mul(b, dy, y), mul(b, dy, x)),
    operator="*",
    identities=("commutative", "neutral 1", "integer absorbing 0"),
    rules=MUL,
)
binary(
    "div",
    "float",
    "The quotient; x / 0 is infinite or NaN.",
    numpy_function("divide"),
    lambda b, _x, y, r, dy: (div(b, dy, y), b.apply("neg", div(b, mul(b, dy, r), y))),
    operator="/",
    identities=("right neutral 1",),
    infer=_infer_div,
    inputs=samples.binary("float", safe_divisor=True),
    rules=DIV,
)
binary(
    "floordiv",
    "number",
    "The quotient rounded down; an integer divided by 0 is an error when the program runs.",
    _floordiv,
    operator="//",
    no_gradient="`//` is constant between its jumps",
    smooth=False,
    inputs=_safe,
    identities=("integer right neutral 1",),
    rules=QUOTIENT,
)
binary(
    "mod",
    "number",
    "a - a // b * b: the sign is that of b; an integer modulo 0 is an error when the program runs.",
    _mod,
    lambda b, x, y, _r, dy: (dy, b.apply("neg", mul(b, dy, b.apply("floordiv", x, y)))),
    operator="%",
    smooth=False,
    inputs=_safe,
    rules=QUOTIENT,
)
binary(
    "pow",
    "number",
    "a to the power b. Integers wrap; an integer to a negative power is an error when the program runs.",
    _pow,
    _pow_row,
    operator="**",
    identities=("right neutral 1", "power 2 is square"),
    lowering=Elementwise(_emit_pow),
    inputs=samples.binary("number", positive=True),
    rules=FUNCTION,
)
binary(
    "minimum",
    "number",
    "The smaller one; NaN if one is NaN. At a tie each gets half of the gradient.",
    numpy_function("minimum"),
    _choice_row("less"),
    identities=("commutative", "idempotent"),
    smooth=False,
    rules=MINIMUM,
)
binary(
    "maximum",
    "number",
    "The larger one; NaN if one is NaN. At a tie each gets half of the gradient.",
    numpy_function("maximum"),
    _choice_row("greater"),
    identities=("commutative", "idempotent"),
    smooth=False,
    rules=MAXIMUM,
)
