"""Element-wise ops of one operand. The result has the operand's element type and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import BOOL, F32, F64, DType
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder
from dfc.ops import samples
from dfc.ops.attributes import ReduceAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import elementwise
from dfc.ops.elementwise.rules import (
    ABS,
    COPY,
    ELEMENTWISE,
    FUNCTION,
    NEG,
    POSITIVE_FUNCTION,
    RELU,
    ROUNDED,
    RSQRT,
    SIGN,
    SQRT,
    SQUARE,
)
from dfc.ops.elementwise.special import erf
from dfc.ops.gradients import add, div, mul, scaled, select, sub
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric, pointwise
from dfc.ops.record import Gradient, InferTypes, OpRecord, Parameter, Sample, declared
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import OpRules

Row = Callable[[Builder, Value, Value, Value], Value]  # builder, x, y, cotangent of y -> cotangent of x
Emit = Callable[[BodyBuilder, int], int]
CLASS_WORDS = {
    "float": "floating-point",
    "int": "an integer type",
    "number": "a number type",
    "bool": "bool",
    "any": "any element type",
}


def _infer(bound: str, result: DType | None = None) -> InferTypes:
    def infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
        type_ = elementwise(types, bound)
        return (type_ if result is None else type_.with_dtype(result),)

    return infer


def _gradient(row: Row) -> Gradient:
    def gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        (dy,) = cotangents
        return (None if dy is None else row(b, node.operands[0], node.result, dy),)

    return gradient


def _emitter(emit: Emit | Elementwise | str) -> Elementwise:
    if isinstance(emit, Elementwise):
        return emit
    if isinstance(emit, str):
        return Elementwise(lambda body, arguments, _node: body.apply(emit, *arguments))
    return Elementwise(lambda body, arguments, _node: emit(body, arguments[0]))


def unary(
    name: str,
    bound: str,
    summary: str,
    meaning: Callable[[Numeric], object],
    row: Row | None = None,
    *,
    emit: Emit | Elementwise | str | None = None,
    no_gradient: str = "",
    identities: tuple[str, ...] = (),
    smooth: bool = True,
    operator: str = "",
    inputs: Callable[[], Sequence[Sample]] | None = None,
    result: DType | None = None,
    rules: OpRules = ELEMENTWISE,
) -> OpRecord:
    """Registers an element-wise op of one operand; its element type is that of the operand, or `result`."""
    generics = "..S" if bound == "bool" else f"T: {bound}, ..S"
    element = "bool" if bound == "bool" else "T"
    return register(
        OpRecord(
            name=name,
            family="element-wise",
            summary=summary,
            signature=f"fn {declared(name)}[{generics}](x: {element}[..S]) -> {result or element}[..S]",
            parameters=(Parameter("x"),),
            infer=_infer(bound, result),
            evaluate=pointwise(meaning, result),
            lowering=_emitter(emit or name),
            constraints=(f"the element type of `x` is {CLASS_WORDS[bound]}.",),
            gradient=_gradient(row) if row is not None else None,
            no_gradient=no_gradient,
            identities=identities,
            samples=inputs or samples.unary(bound),
            smooth=smooth,
            in_prelude=not operator,
            operator=operator,
            rules=rules,
        )
    )


def _emit_exp(body: BodyBuilder, arguments: Sequence[int], node: Node) -> int:
    """Exponents relative to the largest along some axes, as softmax has them, need fewer instructions."""
    return body.apply("exp_of_nonpositive" if _is_relative_to_largest(node.operands[0]) else "exp", *arguments)


def _is_relative_to_largest(value: Value) -> bool:
    """Whether it is `x - max(x)`, which is 0 at most, or NaN. What is stored narrower than it is computed may differ
    from the largest by more than its rounding here, and is left out."""
    node = value.node
    if node is None or node.op != "sub" or value.tensor.dtype not in (F32, F64):
        return False
    x, largest = node.operands
    source = largest.node
    if source is None or source.op != "max" or source.operands[0] != x:
        return False
    return isinstance(source.attributes, ReduceAttributes) and source.attributes.keep_dims


def _sign(x: Numeric) -> object:
    return np.where(x > 0, x.dtype.type(1), np.where(x < 0, -np.ones((), x.dtype) if x.dtype.kind != "u" else x, x))


def _sigmoid(x: Numeric) -> object:
    t = np.exp(-np.abs(x))
    return np.where(x >= 0, x.dtype.type(1), t) / (1 + t)


def _emit_gelu(body: BodyBuilder, x: int) -> int:
    dtype = body.dtype(x)
    inner = body.apply("erf", body.apply("mul", x, body.number(sqrt(0.5), dtype)))
    half = body.apply("mul", x, body.number(0.5, dtype))
    return body.apply("mul", half, body.apply("add", body.number(1, dtype), inner))


def _gelu_row(b: Builder, x: Value, _y: Value, dy: Value) -> Value:
    """Phi(x) + x phi(x)."""
    half = scaled(b, add(b, b.apply("erf", scaled(b, x, sqrt(0.5))), b.scalar_like(1, x)), 0.5)
    bell = scaled(b, b.apply("exp", scaled(b, b.apply("square", x), -0.5)), 1 / sqrt(2 * pi))
    return mul(b, dy, add(b, half, mul(b, x, bell)))


def _relu_row(b: Builder, _x: Value, y: Value, dy: Value) -> Value:
    """Looks at the result, which is positive where the operand is, so that the operand need not be kept."""
    return select(b, b.apply("greater", y, b.scalar_like(0, y)), dy, b.scalar_like(0, y))


def _one_minus(b: Builder, x: Value) -> Value:
    return sub(b, b.scalar_like(1, x), x)


STEPS = "{} is constant between its jumps"
POSITIVE = samples.unary("float", positive=True)

unary(
    "neg",
    "number",
    "The negative; unsigned numbers wrap.",
    numpy_function("negative"),
    lambda b, _x, _y, dy: b.apply("neg", dy),
    operator="-",
    identities=("involution",),
    rules=NEG,
)
unary(
    "abs",
    "number",
    "The absolute value; the gradient at 0 is 0.",
    numpy_function("abs"),
    lambda b, x, _y, dy: mul(b, dy, b.apply("sign", x)),
    identities=("idempotent",),
    smooth=False,
    rules=ABS,
)
unary(
    "sign",
    "number",
    "-1, 0 or 1; zeros and NaN stay what they are.",
    _sign,
    no_gradient=STEPS.format("sign"),
    identities=("idempotent",),
    smooth=False,
    rules=SIGN,
)
unary(
    "exp",
    "float",
    "The exponential function.",
    numpy_function("exp"),
    lambda b, _x, y, dy: mul(b, dy, y),
    emit=Elementwise(_emit_exp),
    rules=POSITIVE_FUNCTION,
)
unary(
    "log",
    "float",
    "The natural logarithm; -inf at 0, NaN below.",
    numpy_function("log"),
    lambda b, x, _y, dy: div(b, dy, x),
    inputs=POSITIVE,
    rules=FUNCTION,
)
unary(
    "log1p",
    "float",
    "log(1 + x), exact for small x.",
    numpy_function("log1p"),
    lambda b, x, _y, dy: div(b, dy, add(b, x, b.scalar_like(1, x))),
    inputs=POSITIVE,
    rules=FUNCTION,
)
unary(
    "sqrt",
    "float",
    "The square root; NaN below 0.",
    numpy_function("sqrt"),
    lambda b, _x, y, dy: div(b, scaled(b, dy, 0.5), y),
    inputs=POSITIVE,
    rules=SQRT,
)
unary(
    "rsqrt",
    "float",
    "1 / sqrt(x).",
    lambda x: 1 / np.sqrt(x),
    lambda b, x, y, dy: mul(b, dy, scaled(b, div(b, y, x), -0.5)),
    inputs=POSITIVE,
    rules=RSQRT,
)
unary(
    "square",
    "number",
    "x * x.",
    numpy_function("square"),
    lambda b, x, _y, dy: mul(b, dy, scaled(b, x, 2)),
    emit=lambda body, x: body.apply("mul", x, x),
    rules=SQUARE,
)
unary(
    "sin",
    "float",
    "The sine (radians).",
    numpy_function("sin"),
    lambda b, x, _y, dy: mul(b, dy, b.apply("cos", x)),
    rules=FUNCTION,
)
unary(
    "cos",
    "float",
    "The cosine (radians).",
    numpy_function("cos"),
    lambda b, x, _y, dy: b.apply("neg", mul(b, dy, b.apply("sin", x))),
    rules=FUNCTION,
)
unary(
    "tanh",
    "float",
    "The hyperbolic tangent.",
    numpy_function("tanh"),
    lambda b, _x, y, dy: mul(b, dy, _one_minus(b, b.apply("square", y))),
    rules=FUNCTION,
)
unary(
    "sigmoid",
    "float",
    "1 / (1 + exp(-x)), without overflow.",
    _sigmoid,
    lambda b, _x, y, dy: mul(b, dy, mul(b, y, _one_minus(b, y))),
    rules=POSITIVE_FUNCTION,
)
unary(
    "relu",
    "number",
    "max(x, 0); NaN stays NaN, the gradient at 0 is 0.",
    lambda x: np.maximum(x, x.dtype.type(0)),
    _relu_row,
    emit=lambda body, x: body.apply("maximum", x, body.number(0, body.dtype(x))),
    identities=("idempotent",),
    smooth=False,
    rules=RELU,
)
unary(
    "gelu",
    "float",
    "x * Phi(x) with the exact normal distribution: x (1 + erf(x / sqrt(2))) / 2.",
    lambda x: 0.5 * x * (1 + erf(x * x.dtype.type(sqrt(0.5)))),
    _gelu_row,
    emit=_emit_gelu,
    rules=FUNCTION,
)
unary(
    "erf",
    "float",
    "The error function.",
    erf,
    lambda b, x, _y, dy: mul(b, dy, scaled(b, b.apply("exp", b.apply("neg", b.apply("square", x))), 2 / sqrt(pi))),
    rules=FUNCTION,
)
unary(
    "floor",
    "float",
    "The largest whole number not above x.",
    numpy_function("floor"),
    no_gradient=STEPS.format("floor"),
    identities=("idempotent",),
    smooth=False,
    rules=ROUNDED,
)
unary(
    "ceil",
    "float",
    "The smallest whole number not below x.",
    numpy_function("ceil"),
    no_gradient=STEPS.format("ceil"),
    identities=("idempotent",),
    smooth=False,
    rules=ROUNDED,
)
unary(
    "round",
    "float",
    "The nearest whole number; halves go to the even one.",
    numpy_function("rint"),
    no_gradient=STEPS.format("round"),
    identities=("idempotent",),
    smooth=False,
    rules=ROUNDED,
)
unary(
    "not",
    "bool",
    "True where x is false.",
    numpy_function("logical_not"),
    no_gradient="`not` returns truth values",
    operator="not",
    identities=("involution",),
    smooth=False,
)
unary(
    "stop_gradient",
    "any",
    "x itself; gradients do not pass.",
    lambda x: x,
    emit=lambda _body, x: x,
    no_gradient="stop_gradient asks for that",
    smooth=False,
    rules=COPY,
)

unary(
    "is_finite",
    "float",
    "True where x is neither infinite nor NaN.",
    numpy_function("isfinite"),
    no_gradient="is_finite returns truth values",
    smooth=False,
    result=BOOL,
)
