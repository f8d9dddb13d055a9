"""Random numbers: initialisers, which depend on the seed and the variable's name only, and draws from an `rng`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected, Frame
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.expressions.makers import type_argument
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.convert import constant_of, element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.entities import Entity, LiteralTensor, RngMethod, Tensor, Unknown
from dfc.ir.attributes import Literal
from dfc.ir.dtypes import F32, U64
from dfc.ir.graph import Value
from dfc.ir.types import TensorType, TokenType
from dfc.ir.types import tensor as tensor_type
from dfc.ops.attributes import DrawAttributes, RandomAttributes
from dfc.ops.creation.philox import initial_state

RNG_TYPE = tensor_type(U64, 4)
Arguments = Mapping[str, Argument]


def number(context: Context, arguments: Arguments, name: str, default: float, function: str) -> float:
    argument = arguments.get(name)
    if argument is None:
        return default
    what = f"the argument `{name}` of `{function}`"
    value = constant_of(context, value_of(context, argument), argument.span, what)
    if isinstance(value, bool | str):
        raise mistake("E0315", f"{what} must be a number", argument.span)
    return float(value)


# ------------------------------------------------------------ initialisers --


def make_uniform(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    low = number(context, arguments, "low", 0.0, "uniform")
    high = number(context, arguments, "high", 1.0, "uniform")
    return Tensor(_between(context, "uniform", low, high, span, expected))


def make_normal(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    mean = number(context, arguments, "mean", 0.0, "normal")
    deviation = number(context, arguments, "deviation", 1.0, "normal")
    return Tensor(_scaled(context, _random(context, "normal", span, expected, "normal"), deviation, mean, span))


def make_glorot_uniform(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del arguments
    fan_in, fan_out = _fans(context, _declared(context, span, expected, "glorot_uniform"))
    limit = math.sqrt(6 / max(fan_in + fan_out, 1))
    return Tensor(_between(context, "glorot_uniform", -limit, limit, span, expected))


def make_he_normal(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del arguments
    fan_in, _ = _fans(context, _declared(context, span, expected, "he_normal"))
    deviation = math.sqrt(2 / max(fan_in, 1))
    return Tensor(_scaled(context, _random(context, "normal", span, expected, "he_normal"), deviation, 0.0, span))


def _declared(context: Context, span: Span, expected: Expected, function: str) -> TensorType:
    """The type a random initialiser fills: that of the variable."""
    variable = _filling(context).variable
    if variable is None and context.generic and context.frame.kind == "fn":
        raise Abandoned  # an initialiser may call it: then it is checked with the type of the variable
    type_ = expected if expected is not None else variable.type if variable is not None else None
    if variable is None or type_ is None:
        raise mistake(
            "E0407",
            f"`{function}` gives a variable its first value",
            span,
            "this is no initial value",
            helps=("to draw numbers while running, declare `var dice: rng = philox(seed = 1)`",),
        )
    if not type_.dtype.is_float:
        raise mistake("E0302", f"`{function}` makes floating-point numbers", span, f"the variable is {type_}")
    return type_


def _filling(context: Context) -> Frame:
    """The frame of the first value that is being elaborated, which may have called this function."""
    frame = context.frame
    while frame.variable is None and frame.routine is not None and frame.parent is not None:
        frame = frame.parent
    return frame


def _fans(context: Context, type_: TensorType) -> tuple[int, int]:
    """How many inputs and outputs an element takes part in: the last two axes, times the receptive field."""
    sizes = [context.facts.canonical(size).constant for size in type_.shape]
    if any(size is None for size in sizes):
        raise Abandoned
    known = [size for size in sizes if size is not None]
    if len(known) < 2:
        count = known[0] if known else 1
        return count, count
    field = math.prod(known[:-2])
    return known[-2] * field, known[-1] * field


def _random(context: Context, distribution: str, span: Span, expected: Expected, function: str) -> Value:
    type_ = _declared(context, span, expected, function)
    frame = _filling(context)
    assert frame.variable is not None
    stream = frame.variable.name if frame.draws == 0 else f"{frame.variable.name}#{frame.draws}"
    frame.draws += 1
    attributes = RandomAttributes(distribution, context.program.seed, stream, type_)
    return apply(context, "random", [], OperationSpans(function, span), attributes)


def _between(context: Context, function: str, low: float, high: float, span: Span, expected: Expected) -> Value:
    if low > high:
        raise mistake("E0315", f"`{function}` goes from low to high", span, f"{low} is above {high}")
    return _scaled(context, _random(context, "uniform", span, expected, function), high - low, low, span)


def _scaled(context: Context, x: Value, factor: float, offset: float, span: Span) -> Value:
    spans = OperationSpans("*", span, (span, span))
    if factor != 1.0:
        x = apply(context, "mul", [x, context.at(span).scalar_like(factor, x)], spans)
    if offset != 0.0:
        x = apply(context, "add", [x, context.at(span).scalar_like(offset, x)], spans)
    return x


# -------------------------------------------------------------------- draws --


def make_philox(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """The state of an rng before its first draw."""
    del expected
    variable = context.frame.variable
    if variable is None:
        raise mistake(
            "E0407",
            "`philox` makes the first state of an rng",
            span,
            helps=("declare `var dice: rng = philox(seed = 1)`",),
        )
    seed = 0
    if "seed" in arguments:
        value = constant_of(context, value_of(context, arguments["seed"]), arguments["seed"].span, "the seed")
        if isinstance(value, bool) or not isinstance(value, int):
            raise mistake("E0315", "a seed is a whole number", arguments["seed"].span)
        seed = value
    return LiteralTensor(Literal(np.asarray(initial_state(seed, variable.name))), RNG_TYPE)


_METHODS: dict[str, tuple[tuple[ExpectedArgument, ...], str]] = {
    "uniform": (
        (ExpectedArgument("type", True), ExpectedArgument("low", False), ExpectedArgument("high", False)),
        "dice.uniform(type, low: float = 0, high: float = 1)",
    ),
    "normal": (
        (ExpectedArgument("type", True), ExpectedArgument("mean", False), ExpectedArgument("deviation", False)),
        "dice.normal(type, mean: float = 0, deviation: float = 1)",
    ),
    "bernoulli": (
        (ExpectedArgument("type", True), ExpectedArgument("chance", True)),
        "dice.bernoulli(type, chance: float)",
    ),
}


def call_rng_method(context: Context, method: RngMethod, arguments: Sequence[Argument], span: Span) -> Entity:
    name = method.name
    if name not in _METHODS:
        raise unsupported(f"`{name}` is", span)
    expected_parameters, signature = _METHODS[name]
    by_name = assign_arguments(f"{method.variable.short_name}.{name}", expected_parameters, arguments, span, signature)
    type_ = type_argument(context, by_name["type"], name, None)
    if name == "bernoulli":
        return _bernoulli(context, method.variable, type_, by_name, span)
    if not type_.dtype.is_float:
        raise mistake("E0302", f"`{name}` makes floating-point numbers", by_name["type"].span, str(type_))
    first, second = ("low", "high") if name == "uniform" else ("mean", "deviation")
    offset, scale = _parameter(context, by_name, first, type_), _parameter(context, by_name, second, type_)
    x = draw(context, method.variable, name, type_, span)
    return Tensor(_shift_and_scale(context, x, name, offset, scale, span))


def _parameter(context: Context, arguments: Arguments, name: str, type_: TensorType) -> Value | None:
    argument = arguments.get(name)
    if argument is None:
        return None
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, argument.span)
    return tensor(context, entity, argument.span, type_.dtype if element_type(entity) is None else None)


def _shift_and_scale(
    context: Context, x: Value, name: str, offset: Value | None, scale: Value | None, span: Span
) -> Value:
    spans = OperationSpans(name, span, (span, span))
    if scale is not None:
        width = scale
        if name == "uniform" and offset is not None:
            width = apply(context, "sub", [scale, offset], spans)
        x = apply(context, "mul", [x, width], spans)
    elif name == "uniform" and offset is not None:
        one = context.at(span).scalar_like(1, x)
        x = apply(context, "mul", [x, apply(context, "sub", [one, offset], spans)], spans)
    return apply(context, "add", [x, offset], spans) if offset is not None else x


def _bernoulli(context: Context, variable: Variable, type_: TensorType, arguments: Arguments, span: Span) -> Entity:
    """True with the given chance, element by element."""
    if not type_.dtype.is_bool:
        title = "`bernoulli` makes truth values"
        raise mistake("E0302", title, arguments["type"].span, str(type_), helps=("write `bool[...]`",))
    entity = value_of(context, arguments["chance"])
    chance_type = element_type(entity) or F32
    chance = _parameter(context, arguments, "chance", type_.with_dtype(chance_type))
    assert chance is not None
    x = draw(context, variable, "uniform", type_.with_dtype(chance.tensor.dtype), span)
    return Tensor(
        apply(context, "less", [x, chance], OperationSpans("bernoulli", span, (span, arguments["chance"].span)))
    )


def draw(context: Context, variable: Variable, distribution: str, type_: TensorType, span: Span) -> Value:
    """The next numbers of an rng."""
    record_effect(context, "draws from", variable.name, span)
    region = context.region
    attributes = DrawAttributes(variable.name, distribution, type_)
    token = region.token(variable.name)
    node = context.at(span).add("draw", (token,), (type_, TokenType(variable.name)), attributes)
    region.advance(variable.name, node.results[1])
    region.written.add(variable.name)
    return node.result
