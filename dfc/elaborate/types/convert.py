"""From entities to what the graph needs: tensors, plain constants, conditions.

A number without an element type takes the one it is asked for and must fit it (E0311); if nothing decides, whole
numbers are `i64` and others `f32`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.operations import operate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    Constant,
    Entity,
    ListValue,
    LiteralTensor,
    Opaque,
    Size,
    SizeCondition,
    Tensor,
    Text,
    TupleValue,
    Unknown,
    Untyped,
    VariableValue,
)
from dfc.ir.attributes import Literal
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, F32, F64, I64, DType, DTypeVariable
from dfc.ir.graph import ResourceKind, Value
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.operators import op_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

Element = DType | DTypeVariable
_FLOAT_LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}


def element_type(entity: Entity) -> Element | None:
    """The element type an entity insists on; None for numbers that adapt."""
    match entity:
        case Tensor(value):
            return value.tensor.dtype
        case VariableValue(variable):
            return variable.type.dtype
        case LiteralTensor(_, type_):
            return type_.dtype
        case Size(_, adapts):
            return None if adapts else I64
        case SizeCondition() | Constant(bool()) | Opaque("bool"):
            return BOOL
        case ListValue(items):
            return next((dtype for item in items if (dtype := element_type(item)) is not None), None)
        case _:
            return None


def default_type(entity: Entity) -> Element:
    """The element type of a number when nothing decides it."""
    match entity:
        case Constant(int()) | Size() | Untyped(whole=True):
            return I64
        case ListValue(items) if items and all(default_type(item) == I64 for item in items):
            return I64
        case _:
            return F32


def is_operand(entity: Entity) -> bool:
    """Whether an entity can become a tensor."""
    match entity:
        case Constant(str()) | Opaque("str"):
            return False
        case VariableValue(variable):
            return variable.kind is ResourceKind.VARIABLE
        case ListValue(items):
            return all(is_operand(item) for item in items)
        case Tensor() | Constant() | Size() | SizeCondition() | LiteralTensor() | Opaque() | Untyped():
            return True
        case _:
            return False


def tensor(context: Context, entity: Entity, span: Span, dtype: Element | None = None) -> Value:
    """An entity as a value of the graph; numbers take `dtype`."""
    match entity:
        case Tensor(value):
            return value
        case VariableValue(variable) if variable.kind is ResourceKind.VARIABLE:
            context.at(span)
            return context.region.read(variable)
        case Constant(bool() | int() | float() as value):
            return _number(context, value, dtype, span)
        case Size(size, adapts):
            size_value = context.at(span).size(context.facts.canonical(size))
            expected = dtype if adapts and dtype is not None else I64
            return size_value if expected == I64 else context.at(span).cast(size_value, expected)
        case SizeCondition(left, relation, right):
            builder = context.at(span)
            return builder.apply(op_between(relation), builder.size(left), builder.size(right))
        case LiteralTensor(literal, type_):
            return context.at(span).add("constant", (), (type_,), ConstantAttributes(literal)).result
        case ListValue():
            return _listed(context, entity, span, dtype)
        case Opaque(kind) if kind != "str":
            return Value(TensorType(BOOL if kind == "bool" else dtype or F32), "constant")
        case Untyped():
            return _computed(context, entity, default_type(entity) if dtype is None else dtype)
        case Unknown():
            raise Abandoned
        case _:
            raise not_an_operand(entity, span)


def _computed(context: Context, entity: Untyped, dtype: Element) -> Value:
    """The nodes of what is computed from numbers alone, in one element type; what is used twice in it is made once."""
    computed: dict[int, Value] = {}
    waiting = [entity]
    while waiting:
        current = waiting[-1]
        inner = [each for each in current.operands if isinstance(each, Untyped) and id(each) not in computed]
        if inner:
            waiting += inner
            continue
        waiting.pop()
        if id(current) not in computed:
            computed[id(current)] = _computed_one(context, current, dtype, computed)
    return computed[id(entity)]


def _computed_one(context: Context, entity: Untyped, dtype: Element, computed: Mapping[int, Value]) -> Value:
    spans = entity.spans
    if not (entity.whole or dtype.is_float):
        title = f"`{_short(spans.span)}` is a floating-point number, and {dtype} is needed"
        raise mistake("E0311", title, spans.span, helps=("convert the other operand: `... as f32`",))
    context.program.grow(1, spans.span)
    pairs = zip(entity.operands, spans.operands, strict=True)
    values = [computed[id(e)] if isinstance(e, Untyped) else tensor(context, e, s, dtype) for e, s in pairs]
    return operate(context, spans, lambda builder: entity.build(builder, values), values)


def array_of(context: Context, entity: Untyped, dtype: DType) -> NDArray[np.generic]:
    """What is computed from numbers alone, in an element type: by the reference evaluation of the ops."""
    if not entity.known:
        raise Abandoned
    scratch = context.changed(region=Region(), may_affect=False)
    result = tensor(scratch, entity, entity.spans.span, dtype)
    arrays: dict[Value, NDArray[np.generic]] = {}
    for node in scratch.region.block.nodes:
        array = registry.record(node.op).evaluate([arrays[value] for value in node.operands], node.attributes, {})
        arrays.update(zip(node.results, array, strict=True))
    return arrays[result]


def number_of(context: Context, entity: Untyped, what: str) -> Constant:
    """The value as a plain number, where a constant is needed, which `what` names."""
    if entity.shape:
        raise mistake("E0309", f"{what} must be a single number", entity.spans.span, f"this has shape {entity.shape}")
    array = array_of(context, entity, I64 if entity.whole else F64)
    return Constant(int(array) if entity.whole else float(array))


def snapshot(context: Context, entity: Entity, span: Span) -> Entity:
    """A variable becomes its value at this line; there are no aliases. What has none in it is not looked through:
    tuples may share parts, so that there are more ways into them than parts."""
    match entity:
        case VariableValue(variable):
            if variable.kind is ResourceKind.RNG:
                raise mistake("E0316", "an rng cannot have a second name", span)
            return Tensor(tensor(context, entity, span))
        case TupleValue(items, names) if entity.has_variables:
            return TupleValue(tuple(snapshot(context, item, span) for item in items), names)
        case _:
            return entity


def not_an_operand(entity: Entity, span: Span) -> Exception:
    """The message about an entity where a tensor is needed."""
    match entity:
        case TupleValue(items):
            helps = [f"take it apart first: `let {', '.join('abcdef'[: len(items)])} = {_short(span)}`"]
        case Text() | Constant():
            return mistake("E0316", "a string is not a number", span)
        case _:
            helps = list[str]()
    return mistake("E0316", f"a tensor is needed here, and this is {describe(entity)}", span, helps=helps)


def _short(span: Span) -> str:
    return span.text if len(span.text) <= 30 and "\n" not in span.text else "..."


def _number(context: Context, value: bool | int | float, dtype: Element | None, span: Span) -> Value:
    if isinstance(value, bool):
        return context.at(span).constant(value, BOOL)
    expected = dtype if dtype is not None else (I64 if isinstance(value, int) else F32)
    check_fits(value, expected, span)
    builder = context.at(span)
    if isinstance(expected, DTypeVariable):
        return builder.cast(builder.constant(value, F64), expected)
    return builder.constant(value, expected)


def check_fits(value: int | float, dtype: Element, span: Span) -> None:
    """E0311 for a number that an element type cannot hold."""
    text = _short(span)
    if dtype.is_bool:
        written = "true" if value else "false"
        title = f"`{text}` is a number, and a bool is needed"
        known = value in (0, 1)
        raise mistake("E0302", title, span, helps=(replacing(f"write `{written}`", span, written),) if known else ())
    if not isinstance(value, int) and not dtype.is_float:
        helps: list[Help] = []
        if value.is_integer():
            helps.append(replacing(f"write `{int(value)}`", span, str(int(value))))
        helps.append("convert the other operand: `... as f32`")
        raise mistake("E0311", f"`{text}` is not a whole number, but {dtype} is needed", span, helps=helps)
    if isinstance(dtype, DTypeVariable):
        return
    if dtype.is_integer:
        bits = 8 * dtype.size
        low, high = (0, 2**bits - 1) if dtype.kind == "unsigned" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= value <= high:
            raise mistake("E0311", f"`{text}` does not fit {dtype}", span, f"{dtype} goes from {low} to {high}")
        return
    largest = _FLOAT_LARGEST.get(dtype.name, 1.7976931348623157e308)
    if math.isfinite(value) and abs(value) > largest:
        raise mistake("E0311", f"`{text}` does not fit {dtype}", span, f"{dtype} goes up to {largest:.4g}")


def _listed(context: Context, entity: ListValue, span: Span, dtype: Element | None) -> Value:
    """A list of numbers as a constant array."""
    expected = dtype if dtype is not None else element_type(entity) or default_type(entity)
    nested = _numbers(context, entity, expected, span)
    if nested is None:
        raise mistake(
            "E0316",
            "a list of tensors is not a tensor",
            span,
            helps=(_stacking(span),),
        )
    try:
        array = np.array(nested, dtype=np.float64 if isinstance(expected, DTypeVariable) else expected.numpy)
    except ValueError:
        raise mistake("E0316", "the rows of this list have different lengths", span) from None
    builder = context.at(span)
    type_ = TensorType(expected if isinstance(expected, DType) else F64, tuple(dim(n) for n in array.shape))
    value = builder.add("constant", (), (type_,), ConstantAttributes(Literal(array))).result
    return builder.cast(value, expected)


def _stacking(span: Span) -> Help:
    words = "to put them side by side on a new axis, write `stack([...])`"
    return replacing(words, span, f"stack({span.text})") if span.text.startswith("[") else words


def _numbers(context: Context, entity: Entity, dtype: Element, span: Span) -> object:
    """The numbers of a list, rows as lists; None if some are known only when the program runs."""
    match entity:
        case ListValue(items):
            rows = [_numbers(context, item, dtype, span) for item in items]
            return None if any(row is None for row in rows) else rows
        case Constant(bool() as value):
            return value if dtype.is_bool else None
        case Constant(int() | float() as value):
            check_fits(value, dtype, span)
            return value
        case Size(size) if size.constant is not None:
            return size.constant
        case Untyped():
            return array_of(context, entity, dtype if isinstance(dtype, DType) else F64).tolist()
        case Opaque(kind) if kind != "str" and (kind == "bool") == dtype.is_bool:
            raise Abandoned
        case Unknown():
            raise Abandoned
        case _:
            return None


def constant_of(context: Context, entity: Entity, span: Span, what: str) -> bool | int | float | str:
    """An entity as a plain constant; `what` names what needs it."""
    match entity:
        case Constant(value):
            return value
        case Untyped():
            return number_of(context, entity, what).value
        case Size(size):
            known = context.facts.canonical(size).constant
            if known is not None:
                return known
            if context.generic:
                raise Abandoned
            raise mistake("E0309", f"{what} must be a constant", span, f"`{size}` is only known when the program runs")
        case Opaque() | Unknown():
            raise Abandoned
        case _:
            raise mistake("E0309", f"{what} must be a constant", span, "only known when the program runs")


def condition(context: Context, entity: Entity, span: Span, word: str) -> bool | Value | None:
    """A condition: its value if it is decided, None if only an unknown constant decides it, else a bool scalar."""
    match entity:
        case Constant(bool() as value):
            return value
        case Opaque():
            return None
        case _:
            pass
    if not is_operand(entity):
        if isinstance(entity, Unknown):
            raise Abandoned
        raise not_an_operand(entity, span)
    value = tensor(context, entity, span)
    if value.tensor.dtype != BOOL:
        written = f"{span.text} != 0"
        helps = (replacing(f"write `{word} {_short(span)} != 0`", span, written),) if not value.tensor.shape else ()
        raise mistake("E0308", f"`{word}` needs a bool", span, f"{value.tensor}", helps=helps)
    if value.tensor.shape:
        raise _many_conditions(span, word, value)
    return value


def _many_conditions(span: Span, word: str, value: Value) -> Exception:
    return mistake(
        "E0308",
        f"`{word}` needs a single bool, not one per element",
        span,
        str(value.tensor),
        helps=(
            replacing(
                f"to ask about all of them at once, write `{word} all({_short(span)})`", span, f"all({span.text})"
            ),
        ),
    )
