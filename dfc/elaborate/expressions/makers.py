"""Prelude functions that make tensors or arrange them, and are more than one op record: `zeros full stack split` .."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply, operate
from dfc.elaborate.expressions.operators import as_size
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.shapes.obligations import require
from dfc.elaborate.types.convert import constant_of, default_type, element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    Constant,
    ElementType,
    Entity,
    ListValue,
    Size,
    Tensor,
    TupleValue,
    TypeValue,
    Unknown,
)
from dfc.elaborate.types.fitting import same_shape
from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, maximum, minimum
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, SliceAttributes

Arguments = Mapping[str, Argument]
MOST_PARTS = 4096


def type_argument(context: Context, argument: Argument, function: str, expected: Expected) -> TensorType:
    del expected
    entity = value_of(context, argument)
    match entity:
        case TypeValue(type_):
            return type_
        case ElementType(dtype):
            return TensorType(dtype)
        case Unknown():
            raise Abandoned
        case _:
            raise mistake(
                "E0315",
                f"`{function}` takes a type",
                argument.span,
                f"this is {describe(entity)}",
                helps=(f"write `{function}(f32[...])`",),
            )


def filled(context: Context, type_: TensorType, entity: Entity, span: Span) -> Value:
    """A tensor of one number."""
    value = tensor(context, entity, span, type_.dtype if element_type(entity) is None else None)
    if value.tensor.dtype != type_.dtype:
        raise mistake("E0302", f"{type_} cannot be filled with {value.tensor}", span)
    if value.tensor.shape:
        raise mistake("E0313", "`full` is filled with a single number", span, f"this is {value.tensor}")
    return context.at(span).broadcast(value, type_.shape)


def make_zeros(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    return Tensor(_constant_fill(context, type_argument(context, arguments["type"], "zeros", expected), 0, span))


def make_ones(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    return Tensor(_constant_fill(context, type_argument(context, arguments["type"], "ones", expected), 1, span))


def _constant_fill(context: Context, type_: TensorType, number: int, span: Span) -> Value:
    return filled(context, type_, Constant(bool(number) if type_.dtype.is_bool else number), span)


def make_full(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    type_ = type_argument(context, arguments["type"], "full", expected)
    return Tensor(filled(context, type_, value_of(context, arguments["value"]), arguments["value"].span))


def _like(context: Context, argument: Argument) -> TensorType:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, argument.span)
    return tensor(context, entity, argument.span).tensor


def make_zeros_like(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del expected
    return Tensor(_constant_fill(context, _like(context, arguments["x"]), 0, span))


def make_ones_like(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del expected
    return Tensor(_constant_fill(context, _like(context, arguments["x"]), 1, span))


# ------------------------------------------------------------ arrangements --


def axis_argument(context: Context, arguments: Arguments, function: str, rank: int, default: int) -> int:
    argument = arguments.get("axis")
    if argument is None:
        axis = default
    else:
        what = f"the argument `axis` of `{function}`"
        value = constant_of(context, value_of(context, argument), argument.span, what)
        if isinstance(value, bool) or not isinstance(value, int):
            raise mistake("E0315", f"{what} must be a whole number", argument.span)
        axis = value
    if not -rank <= axis < rank:
        span = argument.span if argument is not None else next(iter(arguments.values())).span
        raise mistake("E0312", f"there is no axis {axis}", span, notes=(f"axes count from 0 to {rank - 1}",))
    return axis % rank


def make_stack(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`stack([a, b])`: a new axis, along which the tensors stand side by side."""
    del expected
    argument = arguments["parts"]
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not isinstance(entity, ListValue | TupleValue) or not entity.items:
        raise mistake("E0316", "`stack` takes a list of tensors", argument.span, helps=("write `stack([a, b])`",))
    values = stacked_operands(context, entity.items, argument.span)
    shape = values[0].tensor.shape
    for value in values[1:]:
        if not same_shape(context, shape, value.tensor.shape):
            raise mistake(
                "E0305", "`stack` needs tensors of one shape", argument.span, f"{values[0].tensor} and {value.tensor}"
            )
    axis = axis_argument(context, arguments, "stack", len(shape) + 1, 0)
    builder = context.at(span)
    expanded = [builder.reshape(value, (*shape[:axis], ONE, *shape[axis:])) for value in values]
    spans = OperationSpans("stack", span, [argument.span] * len(values))
    return Tensor(apply(context, "concat", expanded, spans, AxisAttributes(axis)))


def stacked_operands(context: Context, items: Sequence[Entity], span: Span) -> list[Value]:
    """Tensors of one element type."""
    for item in items:
        if isinstance(item, Unknown):
            raise Abandoned
        if not is_operand(item):
            raise not_an_operand(item, span)
    dtype = next((d for item in items if (d := element_type(item)) is not None), None)
    expected = dtype or default_type(ListValue(tuple(items)))
    values = [tensor(context, item, span, expected) for item in items]
    different = next((v for v in values if v.tensor.dtype != values[0].tensor.dtype), None)
    if different is not None:
        types = f"{values[0].tensor} and {different.tensor}"
        raise mistake("E0302", "the tensors of a list must have one element type", span, types)
    return values


def make_split(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`split(x, n, axis = 0)`: n parts of one size."""
    del expected
    entity = value_of(context, arguments["x"])
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, arguments["x"].span)
    x = tensor(context, entity, arguments["x"].span)
    count = constant_of(context, value_of(context, arguments["parts"]), arguments["parts"].span, "the number of parts")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise mistake("E0315", "the number of parts is a whole number above 0", arguments["parts"].span)
    if count > MOST_PARTS:
        raise mistake("E1002", f"`split` makes at most {MOST_PARTS} parts", arguments["parts"].span)
    axis = axis_argument(context, arguments, "split", max(x.tensor.rank, 1), 0)
    if not x.tensor.rank:
        raise mistake("E0313", "a single number cannot be split", arguments["x"].span)
    size = x.tensor.shape[axis]
    reason = f"`split` into {count} parts needs a multiple of {count}"
    if require(context, size % dim(count), "==", ZERO, reason, span) is False:
        title = f"an axis of size {size} cannot be split into {count} equal parts"
        raise mistake("E0306", title, arguments["parts"].span, secondary=[(arguments["x"].span, str(x.tensor))])
    part = context.facts.canonical(size // dim(count))
    return ListValue(tuple(_part(context, x, axis, part, number, span) for number in range(count)))


def _part(context: Context, x: Value, axis: int, size: Dim, number: int, span: Span) -> Tensor:
    shape = x.tensor.shape
    starts = tuple(size * number if a == axis else ZERO for a in range(len(shape)))
    sizes = tuple(size if a == axis else d for a, d in enumerate(shape))
    attributes = SliceAttributes(starts, sizes, (1,) * len(shape))
    spans = OperationSpans("split", span, (span,))
    return Tensor(operate(context, spans, lambda b: b.apply("slice", x, attributes=attributes)))


def make_norm(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """The Euclidean length: the square root of the sum of squares, along all axes or those given."""
    del expected
    argument = arguments["x"]
    squared = context.engine.call_prelude(context, "square", [replace(argument, name="")], span, None)
    rest = [replace(each, name=name) for name, each in arguments.items() if name != "x"]
    total = context.engine.call_prelude(context, "sum", [replace(argument, name="", entity=squared), *rest], span, None)
    return context.engine.call_prelude(context, "sqrt", [replace(argument, name="", entity=total)], span, None)


# ------------------------------------------------------------------- sizes --


def size_function(name: str, arguments: Sequence[Entity]) -> Entity | None:
    """`min`, `max` and `ceil_div` of dimensions; None if an argument is none."""
    if len(arguments) != 2 or isinstance(arguments[0], ListValue):
        return None
    left, right = (as_size(entity) for entity in arguments)
    if left is None or right is None:
        return None
    if name == "ceil_div" and right == ZERO:
        return None
    function = {"min": minimum, "max": maximum, "ceil_div": ceil_divide}[name]
    result = function(left, right)
    if all(isinstance(entity, Constant) for entity in arguments):
        return Constant(result.constant if result.constant is not None else 0)
    adapts = all(not isinstance(e, Size) or e.adapts for e in arguments)
    return Size(result, adapts)
