"""What a program does with a queue: `pool.put(..)`, `pool.take()`, `pool.take(n)`, `pool.take_up_to(n)`,
`pool.size()`, `pool.close()`.

Each is an effect on the queue, in the order of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.shapes.obligations import require
from dfc.elaborate.shapes.size_inference import measure
from dfc.elaborate.state import buckets, mutexes
from dfc.elaborate.state.randomness import draw
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    Constant,
    Entity,
    QueueMethod,
    QueueValue,
    Size,
    Tensor,
    TupleValue,
    Unknown,
)
from dfc.elaborate.types.fitting import Complain, fit_tensor
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import F64, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, TokenType
from dfc.ops import registry
from dfc.ops.attributes import AxisAttributes
from dfc.ops.effects.queues import CLOSE, PUT, SIZE, TAKE, TAKE_UP_TO, QueueAttributes, TakeAttributes
from dfc_runtime.errors import counted


def call_queue_method(context: Context, method: QueueMethod, arguments: Sequence[Argument], span: Span) -> Entity:
    """Any method of a queue."""
    return _METHODS[method.name](context, method.queue, arguments, span)


def _put(context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """One argument for each field, or a whole element as one tuple."""
    form = queue.form
    signature = f"{queue.variable.short_name}.put({', '.join(form.fields[: form.declared])})"
    values = _elements(context, queue, arguments, span, signature)
    operands: list[Value] = []
    lengths: list[Value] = []
    for number, (entity, argument_span) in enumerate(values):
        complain = _complaint(queue, form.fields[number], argument_span)
        if number in form.varying:
            value, length = buckets.fitted(context, queue, entity, number, argument_span, complain)
            lengths.append(length)
        else:
            value = fit_tensor(context, entity, form.types[number], argument_span, complain)
        operands.append(value)
    operands += lengths
    record_effect(context, "puts into", queue.variable.name, span)
    _append(context, queue, PUT, operands, (), QueueAttributes(queue.variable.name), span)
    return NOTHING


def _elements(
    context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span, signature: str
) -> list[tuple[Entity, Span]]:
    fields = queue.form.fields[: queue.form.declared]
    if len(arguments) == 1 and not arguments[0].name and len(fields) > 1:
        entity = value_of(context, arguments[0])
        if isinstance(entity, TupleValue) and len(entity.items) == len(fields):
            return [(item, arguments[0].span) for item in entity.items]
    expected = [ExpectedArgument(name, True) for name in fields]
    by_name = assign_arguments(f"{queue.variable.short_name}.put", expected, arguments, span, signature)
    return [(value_of(context, by_name[name]), by_name[name].span) for name in fields]


def _complaint(queue: QueueValue, name: str, span: Span) -> Complain:
    def complain(expected: str, got: str) -> Exception:
        title = f"`{queue.variable.short_name}` holds {expected}, and this is {got}"
        secondary = [(queue.variable.span, f"the field `{name}` is declared here")]
        return mistake("E0316", title, span, secondary=secondary)

    return complain


def _take(context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """One element, or `n` of them stacked along a new first axis."""
    function = f"{queue.variable.short_name}.take"
    by_name = assign_arguments(function, [ExpectedArgument("n", False)], arguments, span, f"{function}(n: int)")
    count = _count(context, queue, by_name["n"]) if "n" in by_name else None
    values = _taken(context, queue, TAKE, count, span)[:-1]
    spans = OperationSpans(function, span, [span] * 2)
    return _element(queue, buckets.without_padding(context, queue.form, values, spans, is_batch=count is not None))


def _take_up_to(context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """`n` elements, or those that are left of a closed queue: their number is found out while the entry runs."""
    function = f"{queue.variable.short_name}.take_up_to"
    expected = [ExpectedArgument("n", True), ExpectedArgument("least", False, by_name_only=True)]
    by_name = assign_arguments(function, expected, arguments, span, f"{function}(n: int, least: int = 1)")
    count = _count(context, queue, by_name["n"])
    least = _least(context, by_name["least"]) if "least" in by_name else 1
    *values, taken, _ = _taken(context, queue, TAKE_UP_TO, count, span, least)
    spans = OperationSpans(function, span, [span] * 2)
    rows = measure(context, taken, count, spans)
    values = [apply(context, "gather", [value, rows], spans, AxisAttributes(0)) for value in values]
    return _element(queue, buckets.without_padding(context, queue.form, values, spans, is_batch=True))


def _least(context: Context, argument: Argument) -> int:
    """How few there may be behind the end of the data."""
    value = constant_of(context, value_of(context, argument), argument.span, "the argument `least`")
    if isinstance(value, bool) or not isinstance(value, int) or value not in (0, 1):
        helps = ("`least = 0`: behind the end of the data it gives no elements; `least = 1`: the data ends there",)
        raise mistake("E0315", "the argument `least` is 0 or 1", argument.span, helps=helps)
    return value


def _taken(
    context: Context, queue: QueueValue, op: str, count: Dim | None, span: Span, least: int = 1
) -> Sequence[Value]:
    """The results of a take, its token last."""
    record_effect(context, "takes from", queue.variable.name, span)
    draws: list[Value] = []
    if queue.order is not None:
        numbers = TensorType(F64, (dim(1) if count is None else count,))
        draws.append(draw(context, queue.order, "uniform", numbers, span))
    attributes = TakeAttributes(queue.variable.name, queue.form.types, count, least)
    types = registry.record(op).infer([value.tensor for value in draws], attributes)
    return _append(context, queue, op, draws, types, attributes, span).results


def _element(queue: QueueValue, values: Sequence[Value]) -> Entity:
    if not queue.is_tuple:
        return Tensor(values[0])
    return TupleValue(tuple(Tensor(value) for value in values), queue.form.fields)


def _count(context: Context, queue: QueueValue, argument: Argument) -> Dim:
    """How many elements: a size, which the queue must have room for."""
    entity = value_of(context, argument)
    match entity:
        case Constant(int() as number) if not isinstance(number, bool):
            count = dim(number)
        case Size(size):
            count = context.facts.canonical(size)
        case Unknown():
            raise Abandoned
        case _:
            title = "the number of elements to take is a size"
            raise mistake("E0309", title, argument.span, f"this is {describe(entity)}")
    if count.constant is not None and count.constant < 0:
        raise mistake("E0315", "the number of elements to take is not negative", argument.span)
    name, form = queue.variable.short_name, queue.form
    reason = f"`{name}` can give {counted(form.most_at_once, 'element')} at once"
    if require(context, dim(form.most_at_once), ">=", count, reason, argument.span) is False:
        room, helps = f"it has room for {form.capacity}", ()
        if form.bounds:
            needed = len(form.bounds) * (count - 1) + 1
            buckets = "1 bucket needs" if len(form.bounds) == 1 else f"{len(form.bounds)} buckets need"
            room += f"; {buckets} room for {needed} until one has {count} for certain"
            helps = (f"declare it with `capacity = {needed}` or more",)
        elif form.is_reordered:
            room += f", and takes only while {form.window} are ready"
        secondary = [(queue.variable.span, room)]
        title = f"`{name}` never has {counted(count, 'element')} to take at once"
        raise mistake("E0702", title, argument.span, "this would wait for ever", secondary=secondary, helps=helps)
    return count


def _size(context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    _no_arguments(queue, "size", arguments, span)
    record_effect(context, "reads", queue.variable.name, span)
    operands = list(context.after)
    node = _append(context, queue, SIZE, operands, (TensorType(I64),), QueueAttributes(queue.variable.name), span)
    return Tensor(node.result)


def _close(context: Context, queue: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    _no_arguments(queue, "close", arguments, span)
    record_effect(context, "closes", queue.variable.name, span)
    _append(context, queue, CLOSE, list(context.after), (), QueueAttributes(queue.variable.name), span)
    return NOTHING


def _no_arguments(queue: QueueValue, method: str, arguments: Sequence[Argument], span: Span) -> None:
    function = f"{queue.variable.short_name}.{method}"
    assign_arguments(function, [], arguments, span, f"{function}()")


def _append(
    context: Context,
    queue: QueueValue,
    op: str,
    operands: Sequence[Value],
    types: Sequence[TensorType],
    attributes: Attributes,
    span: Span,
) -> Node:
    """A node on the token of the queue."""
    name, region = queue.variable.name, context.region
    token = region.token(name)
    node = context.at(span).add(op, (*operands, token), (*types, TokenType(name)), attributes)
    region.advance(name, node.results[-1])
    region.written.add(name)
    return node


_METHODS: dict[str, Callable[[Context, QueueValue, Sequence[Argument], Span], Entity]] = {
    "put": _put,
    "take": _take,
    "take_up_to": _take_up_to,
    "size": _size,
    "close": _close,
    "acquire": mutexes.acquire,
    "release": mutexes.release,
}
