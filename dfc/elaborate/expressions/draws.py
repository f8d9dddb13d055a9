"""Draws whose numbers are made of uniform ones: `dice.categorical(logits)`, `.log_uniform`, `.permutation` ..

Each call draws once. Whole numbers are computed from f64 draws, so that every one below 2^50 can come up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.expressions.makers import type_argument
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import operate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.state.randomness import call_rng_method as call_plain_method
from dfc.elaborate.state.randomness import draw
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.convert import element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.entities import Entity, RngMethod, Tensor, Unknown
from dfc.ir.dtypes import F32, F64, I32, DType
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import ArgAttributes, ArgSortAttributes
from dfc.ops.builder import Builder
from dfc.ops.gradients import add, mul, scaled, sub, widened

Arguments = Mapping[str, Argument]
Method = Callable[[Context, Variable, Arguments, Span], Value]
BOUND = 2.0  # deviations that `truncated_normal` keeps


def call_rng_method(context: Context, method: RngMethod, arguments: Sequence[Argument], span: Span) -> Entity:
    """Any method of an `rng`."""
    draw_method = _METHODS.get(method.name)
    if draw_method is None:
        return call_plain_method(context, method, arguments, span)
    signature, required, make = draw_method
    inside = signature[signature.index("(") + 1 : -1].split(", ")
    expected_parameters = [
        ExpectedArgument(part.split(":")[0].split(" =")[0], number < required) for number, part in enumerate(inside)
    ]
    by_name = assign_arguments(
        f"{method.variable.short_name}.{method.name}", expected_parameters, arguments, span, signature
    )
    return Tensor(make(context, method.variable, by_name, span))


def _operand(context: Context, argument: Argument, dtype: DType) -> Value:
    """An argument as a tensor; numbers become `dtype`."""
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, argument.span)
    return tensor(context, entity, argument.span, dtype if element_type(entity) is None else None)


def _type(context: Context, arguments: Arguments, function: str, kind: str) -> TensorType:
    type_ = type_argument(context, arguments["type"], function, None)
    fits = type_.dtype.is_float if kind == "floating-point" else type_.dtype.is_integer
    if not fits:
        raise mistake("E0302", f"`{function}` makes {kind} numbers", arguments["type"].span, str(type_))
    return type_


def _categorical(context: Context, dice: Variable, arguments: Arguments, span: Span) -> Value:
    """The largest of scores with Gumbel noise: class c with the chance softmax(logits)[c]."""
    argument = arguments["logits"]
    logits = _operand(context, argument, F32)
    if not logits.tensor.dtype.is_float or not logits.tensor.rank:
        title = "`categorical` needs one floating-point score per class"
        raise mistake("E0302", title, argument.span, str(logits.tensor))
    wide = widened(context.at(span), logits)
    chance = draw(context, dice, "uniform", wide.tensor, span)
    axis = wide.tensor.rank - 1

    def pick(b: Builder) -> Value:
        noise = b.apply("log", b.apply("neg", b.apply("log", chance)))
        return b.apply("argmax", sub(b, wide, noise), attributes=ArgAttributes(axis, I32))

    return operate(context, OperationSpans("categorical", span, (argument.span,)), pick)


def _log_uniform(context: Context, dice: Variable, arguments: Arguments, span: Span) -> Value:
    """k with the chance log((k + 2) / (k + 1)) / log(below + 1): the whole part of a power, less one."""
    type_ = _type(context, arguments, "log_uniform", "whole")
    below = _operand(context, arguments["below"], F64)
    if below.tensor.rank:
        raise mistake("E0313", "`below` is a single number", arguments["below"].span, str(below.tensor))
    chance = draw(context, dice, "uniform", type_.with_dtype(F64), span)

    def power(b: Builder) -> Value:
        limit, one = b.cast(below, F64), b.constant(1, F64)
        exponent = mul(b, chance, b.apply("log", add(b, limit, one)))
        whole = sub(b, b.apply("floor", b.apply("exp", exponent)), one)
        inside = b.apply("maximum", b.apply("minimum", whole, sub(b, limit, one)), b.constant(0, F64))
        return b.cast(inside, type_.dtype)

    return operate(context, OperationSpans("log_uniform", span), power)


def _truncated_normal(context: Context, dice: Variable, arguments: Arguments, span: Span) -> Value:
    """Normal numbers less than two deviations from the mean, through the inverse of their distribution."""
    type_ = _type(context, arguments, "truncated_normal", "floating-point")
    numbers = [_operand(context, arguments[name], F64) if name in arguments else None for name in ("mean", "deviation")]
    share = draw(context, dice, "uniform", _wide(type_), span)

    def invert(b: Builder) -> Value:
        inside = math.erf(BOUND / math.sqrt(2))
        position = scaled(b, sub(b, scaled(b, share, 2), b.scalar_like(1, share)), inside)
        x = b.cast(scaled(b, b.apply("erf_inverse", position), math.sqrt(2)), type_.dtype)
        mean, deviation = (None if v is None else b.cast(v, type_.dtype) for v in numbers)
        x = x if deviation is None else mul(b, x, deviation)
        return x if mean is None else add(b, x, mean)

    return operate(context, OperationSpans("truncated_normal", span), invert)


def _wide(type_: TensorType) -> TensorType:
    dtype = type_.dtype
    return type_.with_dtype(dtype.accumulator) if isinstance(dtype, DType) else type_


def _permutation(context: Context, dice: Variable, arguments: Arguments, span: Span) -> Value:
    """The order of random numbers: 0, 1, .. shuffled."""
    type_ = _type(context, arguments, "permutation", "whole")
    if type_.rank != 1 or not isinstance(type_.dtype, DType):
        raise mistake("E0313", "`permutation` makes a vector", arguments["type"].span, str(type_))
    keys = draw(context, dice, "uniform", type_.with_dtype(F64), span)
    attributes = ArgSortAttributes(0, False, type_.dtype)
    return operate(
        context, OperationSpans("permutation", span), lambda b: b.apply("argsort", keys, attributes=attributes)
    )


_METHODS: dict[str, tuple[str, int, Method]] = {
    "categorical": ("dice.categorical(logits)", 1, _categorical),
    "log_uniform": ("dice.log_uniform(type, below: int)", 2, _log_uniform),
    "truncated_normal": (
        "dice.truncated_normal(type, mean: float = 0, deviation: float = 1)",
        1,
        _truncated_normal,
    ),
    "permutation": ("dice.permutation(type)", 1, _permutation),
}
