"""Queues whose elements have fields of varying length: what their declarations say, and what is put in and taken out.

    queue pairs: (source: i32[?], target: i32[?], weight: f32) = bucket_queue(capacity = 128, bounds = [8, 16, 32])

has fields for the lengths, `source_length` and `target_length`, behind those that are declared. In memory a field has
room for the last bound, and the graph cuts off what is behind the longest element of a batch. Assumes types whose `?`
are symbols. Guarantees that a length never exceeds the last bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.shapes.obligations import require
from dfc.elaborate.shapes.size_inference import measure
from dfc.elaborate.types.convert import constant_of, is_operand, not_an_operand, tensor
from dfc.elaborate.types.declared import is_unknown
from dfc.elaborate.types.entities import Entity, ListValue, QueueValue, Unknown
from dfc.elaborate.types.fitting import Complain, fit_tensor
from dfc.ir.dims import dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Value
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType
from dfc.ops.attributes import ReduceAttributes, SliceAttributes
from dfc.syntax.tree import tree

LONGEST = 2**31
MOST_BUCKETS = 1_000
BOUNDS = "bounds"
HELP = "`bounds = [8, 16, 32]`: elements of up to 8 make one bucket, those from 9 to 16 the next one"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of an element as they lie in memory: `QueueForm` says what the last two mean."""

    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    bounds: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()


def fields_of(
    context: Context, item: tree.QueueItem, declared: Fields, arguments: Mapping[str, Argument], *, is_printed: bool
) -> Fields:
    """With buckets, where the declaration gives bounds; without, no size varies. A printed graph says neither."""
    varying = tuple(number for number, type_ in enumerate(declared.types) if any(map(is_unknown, type_.shape)))
    if BOUNDS not in arguments:
        if varying:
            helps = (
                "elements of varying length go into a queue that is made by `bucket_queue(capacity = .., bounds = ..)`",
            )
            raise mistake("E0320", "the elements of this queue have one size", item.type.span, helps=helps)
        return declared
    bounds = _bounds(context, arguments[BOUNDS])
    if not varying and not is_printed:
        helps = ("write `?` for the first size of a field that varies, as in `words: i32[?]`",)
        raise mistake("E0316", "no field of these elements varies in length", item.type.span, helps=helps)
    types = list(declared.types)
    for number in varying:
        first, *rest = types[number].shape
        if not is_unknown(first) or any(map(is_unknown, rest)):
            raise mistake("E0320", "only the first size of a field may vary", item.type.span)
        types[number] = types[number].with_shape((dim(bounds[-1]), *rest))
    lengths = tuple(f"{declared.names[number]}_length" for number in varying)
    for name in lengths:
        if name in declared.names:
            title = f"the field `{name}` is made by the queue itself"
            raise mistake("E0205", title, item.type.span, "it holds a length")
    return Fields((*declared.names, *lengths), (*types, *[TensorType(I64)] * len(lengths)), bounds, varying)


def _bounds(context: Context, argument: Argument) -> tuple[int, ...]:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not isinstance(entity, ListValue) or not entity.items:
        raise mistake("E0315", "the bounds of buckets are a list of lengths", argument.span, helps=(HELP,))
    if len(entity.items) > MOST_BUCKETS:
        raise mistake(
            "E0315", f"a queue has at most {MOST_BUCKETS} buckets", argument.span, f"{len(entity.items)} bounds"
        )
    bounds: list[int] = []
    for item in entity.items:
        bound = constant_of(context, item, argument.span, "the bound of a bucket")
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise mistake("E0315", "the bound of a bucket is a whole number", argument.span, str(bound))
        if not 1 <= bound <= LONGEST:
            raise mistake("E0315", f"the bound of a bucket is between 1 and {LONGEST}", argument.span, str(bound))
        if bounds and bound <= bounds[-1]:
            label = f"{bound} stands behind {bounds[-1]}"
            raise mistake("E0315", "the bounds of buckets ascend", argument.span, label)
        bounds.append(bound)
    return tuple(bounds)


# ---------------------------------------------------------- puts and takes --


def fitted(
    context: Context, queue: QueueValue, entity: Entity, number: int, span: Span, complain: Complain
) -> tuple[Value, Value]:
    """The value of a field that varies, and its length, which the last bucket has room for."""
    type_, most = queue.form.types[number], queue.form.bounds[-1]
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, span)
    value = tensor(context, entity, span, type_.dtype)
    name = queue.form.fields[number]
    if not value.tensor.shape:
        raise complain(_shown(queue.form, number), str(value.tensor))
    length = value.tensor.shape[0]
    fit_tensor(context, entity, type_.with_shape((length, *type_.shape[1:])), span, complain)
    reason = f"`{name}` of `{queue.variable.short_name}` is at most {most} long, the last of its bounds"
    if require(context, dim(most), ">=", length, reason, span) is False:
        secondary = [(queue.variable.span, f"its buckets end with {most}")]
        title = f"`{name}` is too long for the buckets of `{queue.variable.short_name}`"
        raise mistake("E0702", title, span, f"{length}, and at most {most}", secondary=secondary)
    return value, context.at(span).size(length)


def _shown(form: QueueForm, number: int) -> str:
    type_ = form.types[number]
    return f"{type_.dtype}[{', '.join(['?', *map(str, type_.shape[1:])])}]"


def without_padding(
    context: Context, form: QueueForm, values: Sequence[Value], spans: OperationSpans, *, is_batch: bool
) -> Sequence[Value]:
    """The values of a take, without what is behind the longest of those that vary."""
    result = list(values)
    for number, length in zip(form.varying, values[form.declared :], strict=True):
        longest = _longest(context, length, spans) if is_batch else length
        (size,) = measure(context, longest, dim(form.bounds[-1]), spans).tensor.shape
        shape = list(result[number].tensor.shape)
        shape[1 if is_batch else 0] = size
        first = SliceAttributes((dim(0),) * len(shape), tuple(shape), (1,) * len(shape))
        result[number] = apply(context, "slice", [result[number]], spans, first)
    return result


def _longest(context: Context, lengths: Value, spans: OperationSpans) -> Value:
    """0 of no elements."""
    longest = apply(context, "max", [lengths], spans, ReduceAttributes((0,)))
    return apply(context, "maximum", [longest, context.at(spans.span).size(dim(0))], spans)
