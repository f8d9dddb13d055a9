"""What a program does with a reader and its records: `files.next()`, `files.skipped()`, `parse_example`, `decode_raw`,
`decode_image`.

    let record = files.next()
    let fields = parse_example(record, (image = string, label = i64))
    let [N] bytes: u8[N] = decode_raw(fields.image, u8)
    let pixels = decode_image(fields.image, height = 224, width = 224)

`next` moves the reader, which is an effect in the order of lines. A record is a string: its bytes are somewhere in a
buffer as long as the longest record, and the strings inside of it are in the same buffer. What is inside is a function
of the bytes, so the functions may stand where no effect may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import assign_arguments, value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply, operate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.shapes.size_inference import new_size
from dfc.elaborate.state.reader_fields import EXAMPLE, fields_of
from dfc.elaborate.statements.assignments import assign_whole
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    ElementType,
    Entity,
    ReaderMethod,
    ReaderValue,
    StringValue,
    Tensor,
    TupleValue,
    Unknown,
)
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, DType
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, TokenType
from dfc.ops import registry
from dfc.ops.attributes import SliceAttributes
from dfc.ops.effects.records import (
    DECODE,
    IMAGE,
    LOCATION,
    NEXT,
    PARSE,
    RECORDS,
    STRING,
    DecodeAttributes,
    ExampleAttributes,
    ImageAttributes,
)
from dfc.ops.operators import op_between
from dfc_runtime.records.fields import PACKED
from dfc_runtime.records.images.decoding import LARGEST_SIDE

Arguments = Mapping[str, Argument]
POSITION, SKIPPED = range(2)
"""In the state of a reader."""
LENGTH = 1
"""In the location of a string."""


def call_reader_method(context: Context, method: ReaderMethod, arguments: Sequence[Argument], span: Span) -> Entity:
    """Any method of a reader."""
    reader, name = method.reader, f"{method.reader.variable.short_name}.{method.name}"
    assign_arguments(name, [], arguments, span, f"{name}()")
    if method.name == "next":
        return _next(context, reader, span)
    context.at(span)
    number = POSITION if method.name == "position" else SKIPPED
    return Tensor(_element(context, context.region.read(reader.variable), number, OperationSpans(name, span)))


def _next(context: Context, reader: ReaderValue, span: Span) -> StringValue | TupleValue:
    """The next record, or its fields if the reader knows them; the reader is behind it then."""
    variable = reader.variable
    record_effect(context, "reads from", variable.name, span)
    context.at(span)
    position = context.region.read(variable)
    node = _append(context, NEXT, (position,), reader.attributes, OperationSpans(f"{variable.short_name}.next", span))
    data, location, moved = node.results[:3]
    assign_whole(context, variable, moved, span)
    record = StringValue(data, location, variable.name)
    if not reader.fields:
        return record
    spans = OperationSpans(f"{variable.short_name}.next", span)
    return _parsed(context, record, reader.attributes.field_names, reader.fields, PACKED, spans)


def _element(context: Context, x: Value, number: int, spans: OperationSpans) -> Value:
    """One number of a vector whose size is known."""
    attributes = SliceAttributes((dim(number),), (dim(1),), (1,))
    return operate(context, spans, lambda b: b.reshape(b.apply("slice", x, attributes=attributes), ()))


def _append(
    context: Context, op: str, operands: Sequence[Value], attributes: Attributes, spans: OperationSpans
) -> Node:
    """A node on the token of all that is about records."""
    record, region = registry.record(op), context.region
    types = operate(context, spans, lambda _: record.infer([each.tensor for each in operands], attributes), operands)
    token = region.token(RECORDS)
    node = context.at(spans.span).add(op, (*operands, token), (*types, TokenType(RECORDS)), attributes)
    region.advance(RECORDS, node.results[-1])
    return node


def _string(context: Context, argument: Argument, function: str) -> StringValue:
    entity = value_of(context, argument)
    match entity:
        case StringValue():
            return entity
        case Unknown():
            raise Abandoned
        case _:
            notes = ("strings are what `files.next()` gives, and the fields of `parse_example` that are `string`",)
            title = f"`{function}` takes a string"
            raise mistake("E0316", title, argument.span, f"this is {describe(entity)}", notes=notes)


# ---------------------------------------------------------------- examples --


def make_example(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`parse_example(record, (image = string, label = i64))`"""
    del expected
    record = _string(context, arguments["record"], PARSE)
    names, requested = fields_of(context, arguments["fields"], EXAMPLE)
    spans = OperationSpans(PARSE, span, (arguments["record"].span,) * 2)
    return _parsed(context, record, names, requested, "example", spans)


def _parsed(
    context: Context,
    record: StringValue,
    names: tuple[str, ...],
    requested: Sequence[TensorType | None],
    format_: str,
    spans: OperationSpans,
) -> TupleValue:
    """The fields of a record; one without a type is a string."""
    types = tuple(LOCATION if each is None else each for each in requested)
    kinds = tuple(STRING if each is None else "numbers" for each in requested)
    attributes = ExampleAttributes(record.reader, names, kinds, types, format_)
    values = _append(context, PARSE, (record.bytes, record.location), attributes, spans).results[:-1]
    items = [
        StringValue(record.bytes, value, record.reader) if type_ is None else Tensor(value)
        for type_, value in zip(requested, values, strict=True)
    ]
    return TupleValue(tuple(items), names)


# ------------------------------------------------------------------ numbers --


def make_decoded(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`decode_raw(fields.image, u8)`: as many numbers as the string has, a size that is found out."""
    del expected
    string, dtype = _string(context, arguments["bytes"], DECODE), _dtype(context, arguments["type"])
    spans = OperationSpans(DECODE, span, (arguments["bytes"].span,) * 2)
    length = _element(context, string.location, LENGTH, spans)
    room = string.bytes.tensor.shape[0].constant
    assert room is not None, "a reader says how long its records are"

    count = length
    if dtype.size > 1:
        count = apply(context, op_between("//"), [length, context.at(span).scalar_like(dtype.size, length)], spans)
    most = dim(room // dtype.size)
    size = new_size(context, most)
    apply(context, "range", [count], spans, MeasuredAttributes(size, most))
    attributes = DecodeAttributes(string.reader, dtype, size)
    return Tensor(_append(context, DECODE, (string.bytes, string.location), attributes, spans).results[0])


def _dtype(context: Context, argument: Argument) -> DType:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if isinstance(entity, ElementType) and isinstance(entity.dtype, DType):
        if entity.dtype != BOOL and not entity.dtype.is_complex:
            return entity.dtype
    elif context.generic:
        raise Abandoned
    title, helps = f"`{DECODE}` takes the type of numbers", (f"write `{DECODE}(fields.image, u8)`",)
    raise mistake("E0315", title, argument.span, f"this is {describe(entity)}", helps=helps)


# ------------------------------------------------------------------- images --


def make_image(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`decode_image(fields.image, height = 224, width = 224)`: pixels, and a flag where damaged ones are no errors."""
    del expected
    string = _string(context, arguments["bytes"], IMAGE)
    height, width = (_side(context, arguments[name], name) for name in ("height", "width"))
    flagged = _is_flagged(context, arguments.get("on_error"))
    spans = OperationSpans(IMAGE, span, (arguments["bytes"].span,) * 2)
    attributes = ImageAttributes(string.reader, height, width, flagged)
    values = _append(context, IMAGE, (string.bytes, string.location), attributes, spans).results[:-1]
    items = tuple(map(Tensor, values))
    return TupleValue(items, ("pixels", "intact")) if flagged else items[0]


def _side(context: Context, argument: Argument, name: str) -> int:
    value = _constant(context, argument, name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIDE:
        title = f"the argument `{name}` of `{IMAGE}` is a whole number from 1 to {LARGEST_SIDE}"
        notes = ("it is how many pixels the image is to have, whatever the file has",)
        raise mistake("E0315", title, argument.span, notes=notes)
    return value


def _is_flagged(context: Context, argument: Argument | None) -> bool:
    value = "fail" if argument is None else _constant(context, argument, "on_error")
    if argument is not None and value not in ("fail", "flag"):
        title = f'the argument `on_error` of `{IMAGE}` is `"fail"` or `"flag"`'
        notes = ("a damaged image is an error, or black, with `intact` false beside `pixels`",)
        helps = ('to leave it out, write `on_error = "flag"`, and put it into a queue in an `if image.intact { .. }`',)
        raise mistake("E0315", title, argument.span, notes=notes, helps=helps)
    return value == "flag"


def _constant(context: Context, argument: Argument, name: str) -> bool | int | float | str:
    return constant_of(context, value_of(context, argument), argument.span, f"the argument `{name}` of `{IMAGE}`")
